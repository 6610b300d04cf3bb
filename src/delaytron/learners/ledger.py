"""The ledger of a learner: which decisions are open, what was answered, and what waits to be applied."""

from array import array
from operator import index
from typing import Any

from delaytron.errors import ConflictingFeedback, UnknownDecision
from delaytron.kernels.loop import ANSWERED, DROPPED, EXPIRED, REVISED
from delaytron.records import Play

OPEN, LAPSED = -1, -2  # no answer yet; no answer in time


class Ledger:
    """Decisions are numbered from 1 in the order of their rounds; an answer is a small integer."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self.plays: dict[int, Play] = {}
        self.answers = array("i")
        self.arrived: dict[int, int] = {}  # what waits to be applied: decision -> kind of event
        self.settled = 0
        self.words = words  # what the answers mean, for messages

    @property
    def rounds(self) -> int:
        """How many decisions were issued."""
        return len(self.answers)

    @property
    def pending(self) -> int:
        """How many decisions wait for an answer."""
        return len(self.answers) - self.settled

    def open(self, play: Play) -> None:
        """File the decision of the next round."""
        self.plays[play.round] = play
        self.answers.append(OPEN)

    def answer(self, id: Any, answer: int) -> str:
        """Note an answer; the same one again changes nothing, another one is an error."""
        number = self._number(id)
        known = self.answers[number - 1]
        if known == answer:
            return "duplicate"
        if known == LAPSED:
            return self._answer_late(number, answer)
        if known != OPEN:
            was, now = self._word(known), self._word(answer)
            raise ConflictingFeedback(f"decision {id!r} was answered {was}, now {now} came; a second answer must agree")
        self.answers[number - 1] = answer
        self.arrived[number] = ANSWERED
        self.settled += 1
        return "accepted"

    def _answer_late(self, number: int, answer: int) -> str:
        """Note the answer to an expired decision: one that was dropped is gone, one counted as wrong may be right."""
        if number not in self.plays:
            return "expired"
        self.answers[number - 1] = answer
        self.arrived[number] = REVISED
        return "accepted"

    def waits(self, number: int) -> bool:
        """Whether there is such a decision and it waits for an answer."""
        return number >= 1 and self.answers[number - 1] == OPEN

    def expire(self, number: int, as_wrong: bool) -> None:
        """End the wait for the answer to a decision, if there is such a decision and it still waits."""
        if self.waits(number):
            self.answers[number - 1] = LAPSED
            self.arrived[number] = EXPIRED if as_wrong else DROPPED
            self.settled += 1

    def close(self, number: int) -> None:
        """Forget a decision after what came has been applied, unless an answer may come still."""
        if self.arrived.pop(number) != EXPIRED:
            del self.plays[number]

    def _number(self, id: Any) -> int:
        try:
            if not isinstance(id, bool) and 1 <= index(id) <= len(self.answers):
                return index(id)
        except TypeError:
            pass
        raise UnknownDecision(f"decision {id!r} was never issued; {self._issued()}")

    def _issued(self) -> str:
        return f"known are 1 to {self.rounds}" if self.rounds else "none was issued yet"

    def _word(self, answer: int) -> str:
        return repr(self.words[answer]) if self.words else f"label {answer}"
