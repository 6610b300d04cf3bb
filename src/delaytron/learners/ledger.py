"""The ledger of a learner: which decisions are open, what was answered, and what waits to be applied."""

from array import array
from operator import index
from typing import Any

from delaytron.errors import ConflictingFeedback, UnknownDecision
from delaytron.records import Play

OPEN = -1


class Ledger:
    """Decisions are numbered from 1 in the order of their rounds; an answer is a small whole number."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self.plays: dict[int, Play] = {}
        self.answers = array("i")
        self.arrived: set[int] = set()
        self.answered = 0
        self.words = words  # what the answers mean, for messages

    @property
    def rounds(self) -> int:
        """How many decisions were issued."""
        return len(self.answers)

    @property
    def pending(self) -> int:
        """How many decisions wait for an answer."""
        return len(self.answers) - self.answered

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
        if known != OPEN:
            was, now = self._word(known), self._word(answer)
            raise ConflictingFeedback(f"decision {id!r} was answered {was}, now {now} came; a second answer must agree")
        self.answers[number - 1] = answer
        self.arrived.add(number)
        self.answered += 1
        return "accepted"

    def close(self, number: int) -> None:
        """Forget a decision whose answer has been applied."""
        self.arrived.discard(number)
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
