"""The ledger of a learner: which decisions are open, what was answered, and what waits to be applied."""

from array import array
from typing import Any

from delaytron.errors import ConflictingFeedback, UnknownDecision
from delaytron.records import Play

OPEN = -1


class Ledger:
    """Decisions are numbered from 1 in the order of their rounds; an answer is a small whole number."""

    def __init__(self) -> None:
        self.plays: dict[int, Play] = {}
        self.answers = array("i")
        self.arrived: list[int] = []
        self.answered = 0

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
        known = self.answers[self._number(id) - 1]
        if known == answer:
            return "duplicate"
        if known != OPEN:
            raise ConflictingFeedback(
                f"decision {id!r} was answered {known} before, now {answer} came; a second answer must agree"
            )
        self.answers[id - 1] = answer
        self.arrived.append(int(id))
        self.answered += 1
        return "accepted"

    def take_arrived(self) -> list[tuple[Play, int]]:
        """Return the answered decisions that were not applied yet, in the order of their rounds."""
        taken = [(self.plays.pop(number), self.answers[number - 1]) for number in sorted(self.arrived)]
        self.arrived.clear()
        return taken

    def _number(self, id: Any) -> int:
        try:
            if 1 <= id <= len(self.answers) and id == int(id):
                return int(id)
        except (TypeError, ValueError):
            pass
        raise UnknownDecision(f"decision {id!r} was never issued; {self._issued()}")

    def _issued(self) -> str:
        return f"known are 1 to {self.rounds}" if self.rounds else "none was issued yet"
