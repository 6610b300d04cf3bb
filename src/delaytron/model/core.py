"""What a model knows, as a fold over facts: the same facts in the same order make the same state, to the bit."""

from itertools import repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np

from delaytron.errors import JournalError
from delaytron.journal.answers import Answering
from delaytron.journal.clock import Moment
from delaytron.journal.records import Fact
from delaytron.kernels import loop
from delaytron.learners.base import Learner
from delaytron.learners.ledger import CANCELLED, LAPSED
from delaytron.learners.many import play_many
from delaytron.model import facts
from delaytron.model.classes import Classes, Name
from delaytron.model.encoding import FeatureEncoder
from delaytron.model.tally import Tally
from delaytron.model.waiting import Wait
from delaytron.records import Ints, Play, Row


class Unanswered(NamedTuple):
    """A decision without an answer."""

    round: int
    label: int
    now: Moment


DAMAGED = (LookupError, TypeError, ValueError, ArithmeticError, msgspec.MsgspecError)


class Core:
    """A learner with names for its features and classes, and ids for its decisions.

    `open` has the decisions that wait for an answer, in the order of their rounds; `lapsed` those that expired as wrong
    and may be corrected.
    """

    def __init__(
        self, learner: Learner, encoder: FeatureEncoder, classes: Classes, wait: Wait | None, as_wrong: bool
    ) -> None:
        self.learner = learner
        self.encoder = encoder
        self.classes = classes
        self.wait = wait
        self.as_wrong = as_wrong
        self.open: dict[str, Unanswered] = {}
        self.lapsed: dict[str, Unanswered] = {}
        self.tally = Tally(len(classes.names))

    @property
    def rounds(self) -> int:
        """How many decisions were made."""
        return self.learner.ledger.rounds

    @property
    def answering(self) -> Answering:
        """Which answers are taken; noise flips right and wrong, and cannot flip a reward."""
        learner = self.learner
        rewards = learner.takes_rewards and not learner.feedback_model.flips
        return Answering(learner.feedback_type, rewards, tuple(self.classes.names), self.as_wrong)

    def decide(self, id: str, row: Row, labels: Ints, now: Moment) -> Play:
        """Play a round, under an id that is new."""
        play = self.learner._play_row(row, labels)
        self.open[id] = Unanswered(play.round, play.label, now)
        self.tally.played[play.label] += 1
        return play

    def decide_many(
        self, ids: list[str], rows: Any, labels: Ints, now: Moment
    ) -> tuple[list[int], list[int], list[float]]:
        """Play a round for each row; return the greedy labels, those played, and their probabilities."""
        first, (greedy, label, prob, _) = play_many(self.learner, rows, labels)
        played = label.tolist()
        self.open.update(zip(ids, map(Unanswered, range(first, first + len(ids)), played, repeat(now)), strict=True))
        for k, count in enumerate(np.bincount(label, minlength=len(self.tally.played)).tolist()):
            self.tally.played[k] += count
        return greedy.tolist(), played, prob.tolist()

    def answer(self, id: str, value: float, now: Moment) -> None:
        """Take the answer to a decision that is open, or lapsed."""
        decided = self.open.get(id) or self.lapsed[id]
        self.learner._take_answer(decided.round, value if self.learner.takes_rewards else int(value))
        self.tally.late += id in self.lapsed
        self.open.pop(id, None)
        self.lapsed.pop(id, None)
        self.tally.answer(decided.label, self._reward(decided, value), now.clock - decided.now.clock)

    def _reward(self, decided: Unanswered, value: float) -> float:
        """Return the reward that an answer means."""
        return float(value == decided.label) if self.learner.feedback_type == "label" else value

    def expire(self, id: str) -> None:
        """Wait no longer for the answer to a decision."""
        decided = self.open[id]
        self._end_wait(decided, loop.EXPIRED if self.as_wrong else loop.DROPPED, LAPSED)
        if self.as_wrong:
            self.lapsed[id] = decided
        del self.open[id]
        self.tally.expired += 1

    def cancel(self, id: str) -> None:
        """Want no answer to a decision."""
        self._end_wait(self.open[id], loop.DROPPED, CANCELLED)
        del self.open[id]
        self.tally.cancelled += 1

    def _end_wait(self, decided: Unanswered, kind: int, answer: int) -> None:
        if self.learner.ledger.waits(decided.round):  # unless an interruption came right after it
            self.learner._end_wait(decided.round, kind, answer)

    def due(self, now: Moment, round: int) -> list[str]:
        """Return the ids whose wait is over at a moment, when a round begins."""
        ids: list[str] = []
        if self.wait is not None:
            for waiting_id, decided in self.open.items():  # the first ones have waited longest
                if not self._is_due(decided, now, round):
                    break
                ids.append(waiting_id)
        return ids

    def _is_due(self, decided: Unanswered, now: Moment, round: int) -> bool:
        rounds, clock = self.wait or Wait()
        if rounds is not None:
            return round - decided.round >= rounds
        return clock is not None and now.clock - decided.now.clock >= clock

    def add_class(self, name: Name) -> None:
        """Add a class, or let a retired one come back."""
        if self.classes.check_new(name) in self.classes.names:
            self.classes.add(name)
            return
        if self.learner.n_classes == len(self.classes.names):  # unless an interruption came right after it
            self.learner.add_class()
        self.tally.make_room(self.learner.n_classes)
        self.classes.add(name)

    def retire_class(self, name: Name) -> None:
        """Let a class not be chosen any more."""
        self.classes.retire(self.classes.check_retirable(name))

    def apply(self, fact: Fact) -> None:
        """Do again what a fact tells; raise `JournalError` if that cannot be."""
        try:
            self._apply(fact)
        except DAMAGED as problem:
            raise JournalError(
                f"fact {fact.seq} is damaged: {problem!r}; restore the journal from a backup"
            ) from problem

    def _apply(self, fact: Fact) -> None:
        if fact.kind == facts.DECIDED:
            self._decide_again(fact)
        elif fact.kind == facts.ANSWERED:
            self.answer(_id_of(fact), facts.decode(fact.body), fact.now)
        elif fact.kind == facts.EXPIRED:
            self.expire(_id_of(fact))
        elif fact.kind == facts.CANCELLED:
            self.cancel(_id_of(fact))
        elif fact.kind == facts.CLASS_ADDED:
            self.add_class(facts.decode(fact.body))
        elif fact.kind == facts.CLASS_RETIRED:
            self.retire_class(facts.decode(fact.body))
        elif fact.kind != facts.CREATED:
            raise JournalError(f"fact {fact.seq} is of the unknown kind {fact.kind}; update delaytron")

    def _decide_again(self, fact: Fact) -> None:
        """Play a round again; what comes out must be what came out then."""
        told = facts.decode_decided(fact.body)
        labels = told.labels(self.classes.allowed(None))
        _check_indices("label", labels, self.learner.n_classes)
        self._check_row(told.row)
        play = self.decide(_id_of(fact), told.row, labels, fact.now)
        came = (play.round, play.greedy, play.label, play.prob, play.extra.astype("<f8").tobytes())
        if came != (told.round, told.greedy, told.label, told.prob, told.extra):
            raise JournalError(
                f"fact {fact.seq} tells of label {told.label} with probability {told.prob!r} in round {told.round}, "
                f"played again it is {play.label} with {play.prob!r}: use the version of delaytron that wrote it"
            )
        self.encoder.add_names(told.names)

    def _check_row(self, row: Row) -> None:
        """Raise if compiled code, which trusts its callers, cannot take a row."""
        size = self.learner.n_features if row.indices is None else row.indices.size
        if self.encoder.sparse is (row.indices is None) or row.values.size != size:
            raise ValueError(f"it has a row of {row.values.size} numbers")
        if row.indices is not None and row.indices.size:
            _check_indices("feature", row.indices, self.learner.n_features)


def _check_indices(what: str, indices: Ints, count: int) -> None:
    if not (indices.size and indices[-1] < count and np.all(indices[1:] > indices[:-1])):
        raise ValueError(f"a {what} is not in ascending order within 0..{count - 1}")


def _id_of(fact: Fact) -> str:
    if fact.id is None:
        raise JournalError(f"fact {fact.seq} is damaged: it names no decision")
    return fact.id
