"""The State of a model: everything that its decisions depend on. It changes only by `apply` (`apply_many` for a block).

Live decisions, replay, `verify` and the learner of PostgreSQL all call `apply`, so the same operations in the same
order give the same state, to the bit.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec
import numpy as np

from delaytron.answers import Answering
from delaytron.errors import JournalError
from delaytron.journal.store import Fact
from delaytron.learners.book import Book, Kept
from delaytron.learners.learner import CHANGES, Learner
from delaytron.model import facts
from delaytron.model.classes import Classes
from delaytron.model.encoders import FeatureEncoder
from delaytron.model.facts import (
    AddClass,
    Answer,
    AnswerLate,
    Cancel,
    Changed,
    Decide,
    Expire,
    Operation,
    Record,
    Release,
    RetireClass,
)
from delaytron.model.recipe import Recipe
from delaytron.records import Columns, Ints, Moment, Play

N_BUCKETS = 64  # of waits: bucket n has those of 2^(n-1) to 2^n nanoseconds


class ClassStats(NamedTuple):
    """Counts of one class: how often it was chosen and answered, and the mean reward of the answers."""

    played: int
    answered: int
    mean_reward: float | None


class Tally:
    """Counts of decisions by label and by how they ended, and of the times that answers took."""

    def __init__(self, n_classes: int) -> None:
        self.played = [0] * n_classes
        self.answered = [0] * n_classes
        self.reward = [0.0] * n_classes
        self.expired = 0
        self.cancelled = 0
        self.corrected = 0
        self.late = 0
        self.waits = [0] * N_BUCKETS
        self.changes: tuple[int, ...] = ()  # challengers that were born, won and were dropped; empty if none can be
        self.changed_at: int | None = None  # by the wall clock, in ns

    def grow(self, n_classes: int) -> None:
        """Add zeros for new classes, up to this number of classes."""
        self.played += [0] * (n_classes - len(self.played))
        self.answered += [0] * (n_classes - len(self.answered))
        self.reward += [0.0] * (n_classes - len(self.reward))

    def answer(self, label: int, reward: float, wait: int) -> None:
        """Count an answer to a decision for a label, which took `wait` nanoseconds."""
        self.answered[label] += 1
        self.reward[label] += reward
        self.waits[min(max(wait, 0).bit_length(), N_BUCKETS - 1)] += 1

    def change(self, counts: tuple[int, ...], now: Moment) -> Changed:
        """Take over the counts of challengers after a round; return what happened in it."""
        before = self.changes or (0,) * len(counts)
        self.changes = counts
        steps = zip(CHANGES, before, counts, strict=False)
        changed = tuple(name for name, old, new in steps for _ in range(new - old))
        if changed:
            self.changed_at = now.wall
        return changed

    def of_class(self, label: int) -> ClassStats:
        """Return the counts of a label."""
        count = self.answered[label]
        return ClassStats(self.played[label], count, self.reward[label] / count if count else None)

    def as_json(self) -> dict[str, Any]:
        """Return all counts, for JSON."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Tally":
        """Return the counts that `as_json` wrote; raise KeyError or TypeError if one is missing."""
        tally = cls(len(stored["played"]))
        for name in vars(tally):
            setattr(tally, name, stored[name])
        tally.changes = tuple(tally.changes)
        return tally


DAMAGED = (LookupError, TypeError, ValueError, ArithmeticError, msgspec.MsgspecError)


class Waiting(NamedTuple):
    """An open decision."""

    id: str
    round: int
    label: int
    now: Moment


class State:
    """Encoder, classes, learner with its Book, the ids of what the Book keeps, and counts.

    `ids` has the round of every id that is open, or that can still be corrected. Settled ids are only in the id table
    of the Store. `changed` is what happened to challengers in the last decision of `apply`.
    """

    def __init__(self, learner: Learner, encoder: FeatureEncoder, classes: Classes, tally: Tally) -> None:
        self.learner = learner
        self.encoder = encoder
        self.classes = classes
        self.tally = tally
        self.ids: dict[str, int] = {}
        self.changed: Changed = ()
        self.recording: tuple[Record, Moment] | None = None  # what `_record` has not completed, after an interruption
        self._answering: Answering | None = None
        self.find_ids()

    @classmethod
    def new(cls, recipe: Recipe) -> "State":
        """Return an untrained state."""
        encoder = recipe.new_encoder()
        learner = recipe.new_learner()
        learner.book = Book(recipe.expiry(), remembers=False)
        learner._reset_state(encoder.sparse)
        names = recipe.asked["classes"]
        return cls(learner, encoder, Classes(names), Tally(len(names)))

    def find_ids(self) -> None:
        """Rebuild `ids` from the Book: the decisions that are open or can be corrected."""
        book = self.book
        numbers = (number for number in sorted(book.kept) if book.is_open(number) or book.is_correctable(number))
        kept = ((book.entry(number).id, number) for number in numbers)
        self.ids = {issued: number for issued, number in kept if issued is not None}

    @property
    def book(self) -> Book:
        """The Book of the learner."""
        return self.learner.book

    @property
    def rounds(self) -> int:
        """The number of decisions."""
        return self.learner.book.rounds

    @property
    def pending(self) -> int:
        """The number of open decisions."""
        return self.learner.book.pending

    @property
    def answering(self) -> Answering:
        """The answers that the model takes."""
        if self._answering is None or len(self._answering.classes) != len(self.classes.names):  # one was added
            names = tuple(self.classes.names)
            self._answering = Answering(self.learner.feedback_type, self.learner.takes_rewards, names)
        return self._answering

    def waiting(self) -> Iterator[Waiting]:
        """Iterate over the open decisions, the oldest first."""
        book = self.book
        for issued, number in self.ids.items():
            if number not in book.ended:
                play, _, now = book.entry(number)
                yield Waiting(issued, number, play.label, now or Moment(0, 0))

    def correctable(self, id: str) -> bool:
        """Whether a decision expired as wrong and can still be corrected."""
        number = self.ids.get(id)
        return number is not None and number in self.book.ended

    def due(self, now: Moment, round: int) -> Iterator[Expire | Release]:
        """Iterate over what must be expired and released at a moment, when a round begins.

        If each is applied before the next one is asked for, what expires too late to be corrected is released at once.
        """
        book = self.learner.book
        if book.expires:
            for number in book.due(round, now.clock):
                yield Expire(book.entry(number).id or "")
            for number in book.releasable(round, now.clock):
                yield Release(book.entry(number).id or "")

    def apply(self, operation: Operation, now: Moment) -> Play | None:
        """Change the state by a checked operation; return the round of a decision, None for other operations.

        A checked operation does not fail here. If it is interrupted, the owner restores the state from its snapshot
        and facts.
        """
        if isinstance(operation, Decide):
            labels = self.classes.allowed(None) if operation.allowed is None else operation.allowed
            play = self.learner.play_round(operation.row, labels, operation.id, now)
            self.ids[operation.id] = play.round
            self.tally.played[play.label] += 1
            self._see_changes(now)
            return play
        if isinstance(operation, Answer):
            self._answer(operation, now)
        elif isinstance(operation, Record):
            return self._record(operation, now)
        elif isinstance(operation, Expire):
            number = self.ids[operation.id]
            self.learner.end(Book.expire, number)
            if not self.book.expiry.as_wrong:
                del self.ids[operation.id]
            self.tally.expired += 1
        elif isinstance(operation, Release):
            self.learner.end(Book.release, self.ids.pop(operation.id))
        elif isinstance(operation, Cancel):
            self.learner.end(Book.cancel, self.ids.pop(operation.id))
            self.tally.cancelled += 1
        elif isinstance(operation, AddClass):
            self._add_class(operation.name)
        elif isinstance(operation, RetireClass):
            self.classes.retire(self.classes.check_retirable(operation.name))
        elif isinstance(operation, AnswerLate):  # the value is kept by the id table; nothing is learned from it
            self.tally.late += 1
        else:
            raise TypeError(f"{operation!r} is no operation")
        return None

    def apply_many(
        self, ids: list[str], rows: Any, allowed: Ints | None, now: Moment
    ) -> tuple[int, Columns, dict[int, Changed]]:
        """Apply a Decide for each row of a matrix, to the same bits as one by one; nothing may be due by rounds.

        Returns the first round, the labels and probabilities of all of them, and the rounds in which something happened
        to challengers.
        """
        labels = self.classes.allowed(None) if allowed is None else allowed
        found: dict[int, Changed] = {}
        if self.learner.count_changes():
            first, columns = self._play_watched(ids, rows, labels, now, found)
        else:
            first, columns = self.learner.play_rounds(rows, labels, ids, now)
        self.ids.update(zip(ids, range(first, first + len(ids)), strict=True))
        for label, count in enumerate(np.bincount(columns.label, minlength=len(self.tally.played)).tolist()):
            self.tally.played[label] += count
        return first, columns, found

    def _play_watched(
        self, ids: list[str], rows: Any, labels: Ints, now: Moment, found: dict[int, Changed]
    ) -> tuple[int, Columns]:
        """Play a block of rounds; add to `found` what happened to challengers, by rounds.

        The first round applies the answers that came: it is played alone. The others apply none, so nothing can happen
        in them but in the second, when its clock hears the alarm that these answers raised.
        """
        first, n_rounds = self.rounds + 1, rows.shape[0]
        parts = []
        for begin, end in ((0, 1), (1, n_rounds))[: min(2, n_rounds)]:
            number, columns = self.learner.play_rounds(rows[begin:end], labels, ids[begin:end], now)
            self._see_changes(now)
            if self.changed:
                found[number] = self.changed
            parts.append(columns)
        joined: Any = map(np.concatenate, zip(*parts, strict=True))
        return first, Columns(*joined)

    def _see_changes(self, now: Moment) -> None:
        """Note what happened to challengers in the round that was played."""
        counts = self.learner.count_changes()
        self.changed = () if counts == self.tally.changes else self.tally.change(counts, now)

    def _record(self, operation: Record, now: Moment) -> Play:
        # The learner plays a round with the label, so that row, clock and draws advance as in any round. What was
        # chosen elsewhere then replaces label, greedy label and probability.
        self.recording = operation, now
        id_, row, allowed, label, *_, extra = operation
        if extra.size:
            number = self.learner.play_round(row, np.array([label]), id_, now).round
        else:
            labels = self.classes.allowed(None) if allowed is None else allowed
            number = self.learner.play_chosen(row, labels, label, id_, now).round
        play = self.complete_record(number)
        self.ids[operation.id] = number
        self.tally.played[operation.label] += 1
        self._see_changes(now)
        return play

    def complete_record(self, number: int) -> Play:
        """Keep what was chosen elsewhere as the values of the round that was played for it; return the round."""
        assert self.recording is not None  # noqa: S101 - the caller looked
        (id_, _, _, label, greedy, prob, extra), now = self.recording
        played = self.book.play(number)
        play = played._replace(label=label, greedy=greedy, prob=prob, extra=extra if extra.size else played.extra)
        self.book.replace(Kept(play, id_, now))
        self.recording = None
        return play

    def _answer(self, operation: Answer, now: Moment) -> None:
        learner = self.learner
        number = self.ids[operation.id]
        play, _, decided = learner.book.entry(number)
        corrects = number in learner.book.ended
        learner.take(number, operation.value)
        del self.ids[operation.id]
        reward = float(operation.value == play.label) if learner.feedback_type == "label" else operation.value
        self.tally.corrected += corrects
        self.tally.answer(play.label, reward, now.clock - (decided or now).clock)

    def _add_class(self, name: Any) -> None:
        # The name first: after an interruption `Engine._reconcile` drops a name that the learner does not have yet.
        if self.classes.add(self.classes.check_new(name)):
            self.learner.add_class()
            self.tally.grow(self.learner.n_classes)

    def replay(self, fact: Fact) -> None:
        """Apply the operation of a fact; raise JournalError if it cannot be applied, or the result differs."""
        if fact.kind == facts.CREATED:
            return
        try:
            operation = facts.operation_of(fact.seq, fact.kind, fact.id, fact.body)
            if not isinstance(operation, Decide | Record):
                if isinstance(operation, Answer | AnswerLate):
                    self._check_answer(operation.value)
                self.apply(operation, fact.now)
                return
            stored = facts.decode_decided(fact.body)
            self._check_decision(operation)
            play = self.apply(operation, fact.now)
            self.encoder.add_names(stored.names)
        except DAMAGED as problem:
            raise JournalError(
                f"fact {fact.seq} is damaged: {problem!r}", "restore the journal from a backup"
            ) from problem
        assert play is not None  # noqa: S101 - a decision becomes a round
        result = (play.round, play.greedy, play.label, play.prob, play.extra.astype("<f8").tobytes())
        hint = "use the version of delaytron that wrote it"
        if result != (stored.round, stored.greedy, stored.label, stored.prob, stored.extra):
            raise JournalError(
                f"fact {fact.seq} has label {stored.label} with probability {stored.prob!r} in round {stored.round}, "
                f"replayed it is {play.label} with {play.prob!r}",
                hint,
            )
        if stored.changed not in (None, self.changed):
            raise JournalError(
                f"fact {fact.seq} says of challengers {_listed(stored.changed)} in round {stored.round}, "
                f"replayed it is {_listed(self.changed)}",
                hint,
            )

    def _check_decision(self, operation: Decide | Record) -> None:
        """Raise ValueError if a decision of a fact is not fit for compiled code, which does not check its arguments."""
        n_classes, n_features = self.learner.n_classes, self.learner.n_features
        row = operation.row
        size = n_features if row.indices is None else row.indices.size
        if self.encoder.sparse is (row.indices is None) or row.values.size != size:
            raise ValueError(f"it has a row of {row.values.size} numbers")
        if row.indices is not None and row.indices.size:
            _check_indices("feature", row.indices, n_features)
        if operation.allowed is not None:
            _check_indices("label", operation.allowed, n_classes)
        if isinstance(operation, Record):
            labels = (operation.label, operation.greedy)
            if not (0 <= min(labels) <= max(labels) < n_classes and 0 < operation.prob <= 1):
                raise ValueError(f"it has label {operation.label} with probability {operation.prob}")
            kinds = self.learner.rule.extras
            if operation.extra.size not in (0, len(kinds)):
                raise ValueError(f"it has {operation.extra.size} extra numbers")
            for kind, note in zip(kinds, operation.extra.tolist(), strict=False):
                if kind == "label" and note not in range(n_classes):  # it becomes an index
                    raise ValueError(f"it has the label {note} among its extra numbers")

    def _check_answer(self, value: Any) -> None:
        """Raise ValueError if an answer of a fact is not fit for the learner: a label becomes an index in a kernel."""
        if self.learner.feedback_type == "label":
            good = isinstance(value, float) and value in range(self.learner.n_classes)
        else:
            good = isinstance(value, float) and 0 <= value <= 1 and (self.learner.takes_rewards or value in (0.0, 1.0))
        if not good:
            raise ValueError(f"it has the answer {value!r}")

    def copy(self) -> "State":
        """Return a copy for a snapshot, within milliseconds; parts that never change are shared."""
        twin: Any = object.__new__(type(self.learner))
        state = type(self.learner.state)(*map(np.array, self.learner.state))
        vars(twin).update(vars(self.learner), state=state, book=self.book.copy())
        classes = Classes(list(self.classes.names), list(self.classes.retired))
        copied = object.__new__(State)
        vars(copied).update(
            _answering=None,
            recording=None,
            changed=(),
            learner=twin,
            encoder=self.encoder,
            classes=classes,
            tally=deepcopy(self.tally),
            ids=dict(self.ids),
        )
        return copied


def _listed(changed: Changed | None) -> str:
    return ", ".join(changed or ("nothing",))


def _check_indices(what: str, indices: Any, count: int) -> None:
    if not (indices.size and indices[0] >= 0 and indices[-1] < count and np.all(indices[1:] > indices[:-1])):
        raise ValueError(f"a {what} is not in ascending order within 0..{count - 1}")
