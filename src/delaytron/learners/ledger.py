"""The ledger of a learner: which decisions are open, what was answered, and what waits to be applied."""

from array import array
from operator import index
from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import shown
from delaytron.compiler.kernel import interpreted
from delaytron.errors import ConflictingFeedback, DelaytronError, UnknownDecision
from delaytron.kernels.linear import row_of
from delaytron.kernels.loop import ANSWERED, DROPPED, EXPIRED, REVISED
from delaytron.records import Columns, Decision, Ints, Play, Stream

_row_of = interpreted(row_of)
OPEN, LAPSED, CANCELLED = -1, -2, -3  # no answer yet; no answer in time; no answer wanted
RELEASED = -4  # whoever brings the answer brings the decision, too


class RoundBlock(NamedTuple):
    """Rounds that stand together, in ascending order; each of them is made a `Play` when it is needed."""

    rounds: Ints
    stream: Stream
    columns: Columns

    def play(self, number: int) -> Play:
        """Return one of the rounds."""
        i = int(np.searchsorted(self.rounds, number))
        row = _row_of(self.stream.indptr, self.stream.indices, self.stream.values, i)
        greedy, label, prob, extra = self.columns
        return Play(number, row, int(greedy[i]), int(label[i]), float(prob[i]), extra[i])


class Ledger:
    """Decisions are numbered from 1 in the order of their rounds; an answer is a small integer, or a reward.

    Every change can be interrupted between any two lines: `repair` takes back what was not finished.
    """

    def __init__(self, words: tuple[str, ...] = (), rewards: bool = False) -> None:
        self.plays: dict[int, Play | RoundBlock] = {}
        self.answers: array[Any] = array("d" if rewards else "i")
        self.arrived: dict[int, int] = {}  # what waits to be applied: decision -> kind of event
        self.ended: dict[int, int] = {}  # whose wait the caller ended, and how: that is not taken back
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

    def open_block(self, block: RoundBlock) -> None:
        """File the decisions of the next rounds; those that were filed before stay."""
        numbers = range(self.rounds + 1, int(block.rounds[-1]) + 1)
        self.plays.update(dict.fromkeys(numbers, block))
        self.answers.extend([OPEN] * len(numbers))

    def play(self, number: int) -> Play:
        """Return a decision that is kept."""
        kept = self.plays[number]
        return kept.play(number) if isinstance(kept, RoundBlock) else kept

    def answer(self, id: Any, answer: float) -> str | DelaytronError:
        """Let an answer wait to be applied; the same one again is nothing new, for another one return the error."""
        number = self._number(id)
        if number is None:
            return UnknownDecision(f"decision {shown(id)} was never issued; {_meant(id) or self._issued()}")
        known = self.answers[number - 1]
        if known == answer:
            return "duplicate"
        if known == CANCELLED:
            return "cancelled"
        if known == LAPSED and self._is_dropped(number):
            return "expired"
        if known not in (OPEN, LAPSED):
            both = f"{self._word(known)}, now {self._word(answer)} came"
            return ConflictingFeedback(f"decision {shown(id)} was answered {both}; a second answer must agree")
        self._note(number, ANSWERED if known == OPEN else REVISED, answer)
        return "accepted"

    def _is_dropped(self, number: int) -> bool:
        """Whether no answer is wanted any more; after a decision was counted as wrong, "right" is."""
        return number not in self.plays or self.arrived.get(number) == DROPPED

    def _note(self, number: int, kind: int, answer: float) -> None:
        if self.arrived.get(number) == EXPIRED:  # nothing was made of it yet: the answer came in time
            kind = ANSWERED
            self.settled -= 1
        self.arrived[number] = kind
        self.answers[number - 1] = answer
        self.settled += kind == ANSWERED
        self.ended.pop(number, None)

    def waits(self, number: int) -> bool:
        """Whether there is such a decision and it waits for an answer."""
        return number >= 1 and self.answers[number - 1] == OPEN

    def expire(self, number: int, kind: int) -> None:
        """End the wait for the answer to a decision, if there is such a decision and it still waits."""
        if self.waits(number):
            self._end(number, kind, LAPSED)

    def end(self, number: int, kind: int, answer: int) -> None:
        """End a wait for good, as LAPSED or CANCELLED; what it means is applied when the next round begins."""
        if self.waits(number):
            self.ended[number] = answer
            self._end(number, kind, answer)

    def _end(self, number: int, kind: int, answer: int) -> None:
        self.arrived[number] = kind
        self.answers[number - 1] = answer
        self.settled += 1

    def release(self, number: int) -> None:
        """Keep an open decision no longer, though its answer may come."""
        self.answers[number - 1] = RELEASED
        self.settled += 1
        del self.plays[number]

    def take_back(self, play: Play) -> None:
        """Keep a decision again that was released: its answer is here."""
        self.plays[play.round] = play
        self.answers[play.round - 1] = OPEN
        self.settled -= 1

    def close(self, number: int) -> None:
        """Forget a decision after what came has been applied, unless an answer may come still."""
        if self.arrived[number] != EXPIRED:
            self.plays.pop(number, None)
        del self.arrived[number]
        self.ended.pop(number, None)

    def repair(self) -> None:
        """Take back what was not finished: answers half noted, and expiry in a round that was not played."""
        self.ended = {number: answer for number, answer in self.ended.items() if number in self.arrived}
        for number, kind in list(self.arrived.items()):
            if number in self.ended:
                self._repair_ended(number, kind)
                continue
            if kind in (EXPIRED, DROPPED):
                self.answers[number - 1] = OPEN
            if self.answers[number - 1] < 0:
                del self.arrived[number]
        self.settled = int(np.count_nonzero(np.array(self.answers) != OPEN))

    def _repair_ended(self, number: int, kind: int) -> None:
        """Let the wait be ended as the caller wanted it, unless an answer was noted after all."""
        if kind in (EXPIRED, DROPPED):
            self.answers[number - 1] = self.ended[number]
        elif self.answers[number - 1] < 0:
            self.arrived[number] = EXPIRED  # else no answer would have been taken

    def _number(self, id: Any) -> int | None:
        try:
            if not isinstance(id, bool) and 1 <= index(id) <= len(self.answers):
                return index(id)
        except TypeError:
            pass
        return None

    def _issued(self) -> str:
        return f"known are 1 to {self.rounds}" if self.rounds else "none was issued yet, call decide first"

    def _word(self, answer: float) -> str:
        if not float(answer).is_integer():
            return f"reward {answer}"
        return repr(self.words[int(answer)]) if self.words else f"label {answer}"


def _meant(id: Any) -> str:
    """Return what may have been meant by something that is no number of a decision; empty if nobody knows."""
    if isinstance(id, Decision):
        return f"give its id, {shown(id.id)}"
    if isinstance(id, str) and id.isdecimal():
        return "ids of a learner are integers: give int(id)"
    return ""
