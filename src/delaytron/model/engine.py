"""The engine of a model: its State, its Store and its Writer, and every operation on them.

An operation runs in a transaction of the Writer. It is checked and applied by `State.apply`; its fact is appended, and
the status of its id is changed by compare-and-set, in the same transaction. If anything fails after the first change,
the Writer rolls back and has the State restored from its snapshot and facts.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from delaytron.answers import Known, Status, never_issued, read_value, reply, reply_to_cancel
from delaytron.checks import as_kind, check_choice, check_matrix, is_sparse, reason_of
from delaytron.errors import InvalidInput, shown
from delaytron.files.tensors import Tensors
from delaytron.journal.database import has_journal
from delaytron.journal.ids import check_id, issued_and_purged, issued_before, new_id, new_ids
from delaytron.journal.sqlite import SqliteStore
from delaytron.journal.store import MemoryStore, Store
from delaytron.journal.writer import DURABILITIES, Snapshots, Writer
from delaytron.learners import LEARNERS
from delaytron.learners.files import UNREADABLE
from delaytron.learners.predictions import look
from delaytron.model import facts
from delaytron.model.classes import Name
from delaytron.model.drift import log_changes
from delaytron.model.encoders import VectorEncoder
from delaytron.model.facts import (
    AddClass,
    Answer,
    AnswerLate,
    Cancel,
    Decide,
    Expire,
    Operation,
    Record,
    Release,
    RetireClass,
)
from delaytron.model.recipe import Recipe, check_same
from delaytron.model.snapshots import UPDATE, compress, pack_state, read_snapshot, state_of
from delaytron.model.state import State
from delaytron.records import NEVER, Array, Decision, Ints, Moment, Play, Row

T = TypeVar("T")

FACTS_A_SNAPSHOT = 50_000  # or as many as decisions are kept: their part of a snapshot then costs a constant per fact


class Request(NamedTuple):
    """A checked request for a decision. If the caller chose its id, `digest` is that of the input, for retries."""

    id: str
    row: Row
    allowed: Ints | None
    digest: bytes | None


class Elsewhere(NamedTuple):
    """A decision that was made elsewhere: the label, and its probability among the allowed ones (None: all).

    `greedy` is the label that looked best there, None if unknown; `extra` are the numbers that the learner keeps of a
    round for its update, empty if unknown.
    """

    row: Row
    label: int
    prob: float
    allowed: Ints | None = None
    greedy: int | None = None
    extra: Array = facts.NOTHING_NOTED


class Found(NamedTuple):
    """A decision by its id: its status and, unless it was purged, its round, label, probability, input and time."""

    known: Known
    round: int | None
    greedy: int | None
    prob: float | None
    allowed: Ints | None
    row: Row | None
    now: Moment | None


class Engine:
    """State, Store and Writer of one model. Methods that take `now` are operations: they run within `run`."""

    def __init__(
        self,
        store: Store,
        recipe: Recipe,
        state: State | None = None,
        durability: str = "full",
    ) -> None:
        self.store = store
        self.recipe = recipe
        self._since_snapshot = 0  # facts since the last snapshot, without those that are made in the background
        self._copied = 0  # how many of them are in the newest of those
        self._deciding: Request | None = None  # the last one that was not a retry, for `_reconcile`
        self._process = os.getpid()
        if state is None:
            self._read_state()
        else:
            self.state = state
        self.writer = Writer(
            store,
            catch_up=self._catch_up,
            restore=self._restore,
            durability=durability,
            snapshots=Snapshots(self._is_snapshot_due, self._copy, self._pack_copy),
        )
        self.run = self.writer.run  # runs an operation, and returns when it is on disk; see `Writer.run`

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child: the journal, if there is one, is its parent's."""
        return self._process != os.getpid()

    def read(self, look: Callable[[State], T]) -> T:
        """Return `look(state)`; nothing changes the state meanwhile."""
        with self.writer.reading():
            return look(self.state)

    # The Writer calls these.

    def _catch_up(self) -> Moment:
        """Take the answers that other processes gave, expire and release what is due; return the moment."""
        now = self.store.now()
        for arrival in self.store.take_inbox():
            # `dt.Journal` settled the id by compare-and-set when it took the answer; here it becomes a fact.
            self.writer.changing()
            late = arrival.reply == "late"
            operation: Operation = (AnswerLate if late else Answer)(arrival.id, arrival.value)
            self._append(operation, arrival.now)
        if self.state.learner.book.expires:
            self._expire_due(now, self.state.rounds)
        return now

    def _restore(self) -> None:
        if self.store.keeps_facts:
            self._read_state()
        else:
            self._reconcile()

    def _read_state(self) -> None:
        """Rebuild the state from the newest snapshot and the facts after it."""
        snapshot = self.store.snapshot()
        after = 0
        if snapshot is None:
            state = State.new(self.recipe)
        else:
            state, _, _ = read_snapshot(snapshot)
            after = snapshot.seq
        count = 0
        for fact in self.store.facts(after):
            state.replay(fact)
            count += 1
        self.state = state
        self._since_snapshot, self._copied = count, 0

    def _reconcile(self) -> None:
        """Make the Book and the id table agree after an interruption: without facts there is nothing to restore from.

        An interrupted operation has changed one of the two, or both. What only the id table has is applied to the
        Book; the id of a round that only the Book has is issued.
        """
        state = self.state
        del state.classes.names[state.learner.n_classes :]  # of an interrupted AddClass, see `State._add_class`
        state.classes.refresh()
        state.learner.flush()  # first completes what was interrupted within the learner
        state.find_ids()
        if state.recording is not None and (number := state.ids.get(state.recording[0].id)) is not None:
            state.complete_record(number)
        state.recording = None
        now = self.store.now()
        for issued, number in list(state.ids.items()):
            known = self.store.known(issued)
            if known is None:
                play = state.book.play(number)
                digest = self._deciding.digest if self._deciding is not None and self._deciding.id == issued else None
                self.store.issue(issued, play.label, digest, None, (number, play.greedy, play.prob))
            elif known.status == Status.CANCELLED:
                state.apply(Cancel(issued), now)
            elif known.status == Status.ANSWERED and known.value is not None:
                state.apply(Answer(issued, known.value), now)
            elif known.status == Status.EXPIRED and not state.correctable(issued):
                state.apply(Expire(issued), now)
        self._recount()

    def _recount(self) -> None:
        """Count by the id table what an interrupted operation may have counted twice, or not at all."""
        tally, learner = self.state.tally, self.state.learner
        n_classes = learner.n_classes
        tally.played, tally.answered, tally.reward = [0] * n_classes, [0] * n_classes, [0.0] * n_classes
        tally.late = tally.cancelled = 0
        tally.expired = tally.corrected
        for _, known in self.store.all_ids():
            label = known.label or 0
            tally.played[label] += 1
            tally.cancelled += known.status == Status.CANCELLED
            tally.expired += known.status == Status.EXPIRED
            tally.late += known.status == Status.EXPIRED and known.value is not None
            if known.status == Status.ANSWERED and known.value is not None:
                tally.answered[label] += 1
                is_label = learner.feedback_type == "label"
                tally.reward[label] += float(known.value == label) if is_label else known.value

    def _is_snapshot_due(self) -> bool:
        return self._since_snapshot - self._copied >= max(FACTS_A_SNAPSHOT, len(self.state.book.kept))

    def _copy(self) -> tuple[State, Any]:
        self._copied = self._since_snapshot
        return self.state.copy(), self.state.encoder.names()

    def _pack_copy(self, copied: tuple[State, Any]) -> bytes:
        state, names = copied
        return compress(pack_state(state, self.recipe, {"names": names}))

    # Operations.

    def _append(self, operation: Operation, now: Moment) -> Play | None:
        """Apply an operation and append its fact; the caller has said `changing`, and changes the id table."""
        play = self.state.apply(operation, now)
        changed = () if play is None else self.state.changed
        if play is not None and changed:
            log_changes(self.store.name, play.round, changed)
        if self.store.keeps_facts:
            names = self.state.encoder.new_names() if play is not None else ()
            body = facts.body_of(operation, play, names, changed)
            issued = None if isinstance(operation, AddClass | RetireClass) else operation.id
            self.store.append(facts.kind_of(operation), issued, body, now)
            self._since_snapshot += 1
        return play

    def _expire_due(self, now: Moment, round: int) -> None:
        """Expire and release what is due when a round begins: the Book says what is due, the id table decides."""
        for operation in self.state.due(now, round):
            self.writer.changing()
            if isinstance(operation, Release):  # it is expired already
                self.store.set_status(operation.id, Status.EXPIRED, expected=(Status.EXPIRED,))
            else:
                corrects = self.state.book.expiry.corrects
                if not self.store.set_status(operation.id, Status.EXPIRED, correctable=corrects):
                    continue  # answered by another process, which the lock of the transaction should not allow
            self._append(operation, now)

    def check(self, x: Any, id: Any, allowed: Any) -> Request:
        """Return a request for a decision, checked; raise InvalidInput."""
        row = self.state.encoder.encode(x)
        classes = self.state.classes
        if id is None:
            return Request(new_id(), row, None if allowed is None else classes.allowed(allowed), None)
        checked, labels = check_id(id), None
        if allowed is not None:
            # A retry gets the stored decision, also if one of its classes was retired meanwhile.
            is_retry = bool(classes.retired) and self.store.known(checked) is not None
            labels = classes.allowed(allowed, retired_too=is_retry)
        return Request(checked, row, labels, input_digest(row, labels))

    def decide(self, now: Moment, x: Any, id: Any, allowed: Any) -> Decision[str, Name]:
        """Choose a class. The same id with the same input again returns the stored decision.

        Raises ConflictingDecision if the id was issued for another input.
        """
        return self.decide_checked(now, self.check(x, id, allowed))

    def decide_checked(self, now: Moment, request: Request) -> Decision[str, Name]:
        """Choose a class for a request that was checked."""
        id_, row, allowed, digest = request
        if digest is not None and (known := self.store.known(id_)) is not None:
            return self._repeat(id_, known, digest)
        if self.state.learner.book.expiry.rounds < NEVER:
            self._expire_due(now, self.state.rounds + 1)
        self._deciding = request
        self.writer.changing()
        play = self._append(Decide(id_, row, allowed), now)
        assert play is not None  # noqa: S101 - a decision becomes a round
        self.store.issue(id_, play.label, digest, self.store.last_seq, (play.round, play.greedy, play.prob))
        names = self.state.classes.names
        return Decision(id_, play.round, names[play.label], names[play.greedy], play.prob)

    def _repeat(self, id: str, known: Known, digest: bytes) -> Decision[str, Name]:
        """Return the decision of an id that was issued before, if its input was the same."""
        if known.purged:
            raise issued_and_purged(id)
        if known.digest != digest:
            raise issued_before(id)
        found: Any = self.find(id)
        names = self.state.classes.names
        return Decision(id, found.round, names[known.label or 0], names[found.greedy], found.prob)

    def decide_many(self, xs: Any, ids: Any, allowed: Any) -> list[Decision[str, Name]]:
        """Choose a class for each of many, all of them or none; runs the operation itself.

        Raises InvalidInput for features, ids or classes that the model does not take, ConflictingDecision if an id was
        issued for another input.
        """
        allowed = list(allowed) if isinstance(allowed, Iterator) else allowed  # it is read once for each decision
        encoder = self.state.encoder
        chosen = None if ids is None else _listed("ids", ids)
        has_rows = is_sparse(xs) or (isinstance(xs, Sized) and getattr(xs, "ndim", 1) > 0 and len(xs) > 0)
        together = isinstance(encoder, VectorEncoder) and self.state.book.expiry.rounds == NEVER and has_rows
        # Rows of the encoder's kind: the learner takes its kind from its first one.
        rows: Any = as_kind(check_matrix(xs, encoder.n_features), encoder.sparse) if together else _listed("xs", xs)
        count = rows.shape[0] if together else len(rows)
        if chosen is not None and len(chosen) != count:
            raise InvalidInput.of("ids", f"one for each of the {count} xs", got=f"{len(chosen)}")
        if together and chosen is None:
            return self.run(lambda now: self._decide_together(now, rows, allowed))

        def operation(now: Moment) -> list[Decision[str, Name]]:
            for issued in chosen or ():
                check_id(issued)
            each = [rows[i : i + 1] if is_sparse(rows) else rows[i] for i in range(count)]
            requests = [self.check(x, None if chosen is None else chosen[i], allowed) for i, x in enumerate(each)]
            check_distinct_ids([request.id for request in requests])
            for request in requests:  # all are checked before the first changes anything
                self.is_retry(request)
            return [self.decide_checked(now, request) for request in requests]

        return self.run(operation)

    def is_retry(self, request: Request) -> bool:
        """Return whether the id was issued before for the same input; raise ConflictingDecision if for another one."""
        if request.digest is None or (known := self.store.known(request.id)) is None:
            return False
        self._repeat(request.id, known, request.digest)
        return True

    def _decide_together(self, now: Moment, vectors: Any, allowed: Any) -> list[Decision[str, Name]]:
        """Choose for all rows in one call of compiled code: nothing expires between them."""
        labels = None if allowed is None else self.state.classes.allowed(allowed)
        ids = new_ids(vectors.shape[0])
        self.writer.changing()
        first, columns, changed = self.state.apply_many(ids, vectors, labels, now)
        for number, happened in changed.items():
            log_changes(self.store.name, number, happened)
        chosen = (columns.label.tolist(), columns.greedy.tolist(), columns.prob.tolist())
        decided = list(zip(ids, range(first, first + len(ids)), *chosen, strict=True))
        for issued, number, label, greedy, prob in decided:
            if self.store.keeps_facts:
                body = facts.encode_decided(self.state.book.play(number), labels, changed=changed.get(number, ()))
                self.store.append(facts.DECIDED, issued, body, now)
                self._since_snapshot += 1
            self.store.issue(issued, label, None, self.store.last_seq, (number, greedy, prob))
        names = self.state.classes.names
        return [
            Decision(issued, number, names[label], names[greedy], prob)
            for issued, number, label, greedy, prob in decided
        ]

    def record(self, now: Moment, id: str, chosen: Elsewhere) -> Play:
        """Record a decision that was made elsewhere; its answer is learned from with its own probability.

        Raises InvalidInput if the id was issued before, or the probability is not in (0, 1].
        """
        if self.store.known(check_id(id)) is not None:
            raise InvalidInput(f"id {id!r} was issued before", "ids are never reused: give another one, or none")
        if not 0 < chosen.prob <= 1:
            raise InvalidInput(
                f"the probability of decision {id!r} must be above 0 and at most 1, got {shown(chosen.prob)}",
                "give the probability with which its label was chosen",
            )
        state = self.state
        labels = state.classes.allowed(None) if chosen.allowed is None else chosen.allowed
        greedy = look(state.learner, chosen.row, labels)[0] if chosen.greedy is None else chosen.greedy
        self._expire_due(now, state.rounds + 1)
        self.writer.changing()
        row, label, prob, allowed, _, extra = chosen
        play = self._append(Record(id, row, allowed, label, greedy, prob, extra), now)
        assert play is not None  # noqa: S101 - a decision becomes a round
        self.store.issue(id, play.label, None, self.store.last_seq, (play.round, play.greedy, play.prob))
        return play

    def answer(self, now: Moment, id: str, correct: Any, label: Any, reward: Any) -> str:
        """Take an answer; return "accepted", "duplicate", "corrected", "late" or "cancelled". See `answers.reply`."""
        known = self.store.known(id)
        answering = self.state.answering
        value = read_value(answering, correct, label, reward, None if known is None else known.label)
        said = reply(id, known, value, answering)
        if said in ("accepted", "corrected"):
            self.writer.changing()
            expected = (Status.OPEN,) if said == "accepted" else (Status.EXPIRED,)
            self.store.set_status(id, Status.ANSWERED, value, expected=expected)
            self._append(Answer(id, value), now)
        elif said == "late":
            self.writer.changing()
            self.store.set_status(id, Status.EXPIRED, value, expected=(Status.EXPIRED,))
            self._append(AnswerLate(id, value), now)
        return said

    def cancel(self, now: Moment, id: str) -> str:
        """Cancel an open decision; return "cancelled", or "duplicate" if it was cancelled before."""
        said = reply_to_cancel(id, self.store.known(id))
        if said == "cancelled":
            self.writer.changing()
            self.store.set_status(id, Status.CANCELLED)
            self._append(Cancel(id), now)
        return said

    def add_class(self, now: Moment, name: Any) -> None:
        """Add a class, or make a retired one active again; raise InvalidInput if the learner cannot take it."""
        checked = self.state.classes.check_new(name)
        if checked not in self.state.classes.names:
            self.state.learner.check_growth(len(self.state.classes.names) + 1)
        self.writer.changing()
        self._append(AddClass(checked), now)
        self.store.set_meta("classes", json.dumps(self.state.classes.names).encode())

    def retire_class(self, now: Moment, name: Any) -> None:
        """Retire a class: it is not chosen any more; raise InvalidInput if it is unknown, retired, or the last one."""
        checked = self.state.classes.check_retirable(name)
        self.writer.changing()
        self._append(RetireClass(checked), now)

    def find(self, id: str) -> Found:
        """Return a decision by its id; raise UnknownDecision if it was never issued."""
        known = self.store.known(id)
        if known is None:
            raise never_issued(id)
        fact = None if known.seq is None else self.store.fact(known.seq)
        if fact is not None:
            made = facts.decode_decided(fact.body)
            return Found(known, made.round, made.greedy, made.prob, made.allowed_labels, made.row, fact.now)
        if known.played is not None:
            return Found(known, *known.played, None, None, None)
        return Found(known, None, None, None, None, None, None)

    # Files.

    def put_snapshot(self) -> None:
        """Store a snapshot of this moment in the journal; an operation."""
        if self.store.keeps_facts:
            self.writer.changing()
            self.store.put_snapshot(self.store.last_seq, self._pack_copy((self.state, self.state.encoder.names())))
            self.store.drop_old_replies(self.store.now())
        self._since_snapshot = self._copied = 0

    def pack_with_ids(self) -> bytes:
        """Return the state and every id ever issued, for a file without a journal."""
        ids = {
            issued: [*known[:3], known.correctable, known.digest and known.digest.hex(), known.played]
            for issued, known in self._ids()
        }
        more = {"names": self.state.encoder.names(), "ids": ids, "clock": self.store.clock_state()}
        return pack_state(self.state, self.recipe, more)

    def _ids(self) -> Iterator[tuple[str, Known]]:
        """Iterate over all ids; what was played is added from the facts, which a saved file does not have."""
        for issued, known in self.store.all_ids():
            if known.seq is not None and known.played is None:
                found = self.find(issued)
                if found.round is not None and found.greedy is not None and found.prob is not None:
                    known = known._replace(played=(found.round, found.greedy, found.prob))  # noqa: PLW2901
            yield issued, known

    def close(self) -> None:
        """Store a snapshot if there is something new, and close the journal; a forked child does neither."""
        try:
            if self._since_snapshot and not self.writer.is_closed and not self.is_inherited:
                self.run(lambda _: self.put_snapshot())
        finally:
            self._since_snapshot = 0
            self.writer.close()


def input_digest(row: Row, allowed: Ints | None) -> bytes:
    """Return a digest of the input of a decision, by which a retry is recognised."""
    hashed = blake2b(row.values.tobytes(), digest_size=16)
    if row.indices is not None:
        hashed.update(row.indices.tobytes())
    hashed.update(b"" if allowed is None else b"among" + allowed.tobytes())
    return hashed.digest()


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise InvalidInput.of(name, "a list, one for each decision", given)
    return list(given)


def check_distinct_ids(ids: list[str]) -> None:
    """Raise InvalidInput if one request has the same id twice."""
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise InvalidInput(f"ids must all be different, got {twice!r} twice", "give each its own id", parameter="ids")


def open_engine(
    recipe: Recipe, journal: str | Path | None, durability: str, more: Mapping[str, Any] | None = None
) -> Engine:
    """Return the engine of a model: in memory, in a new journal, or from an existing one.

    `more` is stored in the configuration of a new journal. Raises InvalidInput if the journal is of another model.
    """
    check_choice("durability", durability, DURABILITIES)  # before a file is created
    if journal is None:
        return Engine(MemoryStore(), recipe, State.new(recipe))
    config = None if has_journal(journal) else _config(recipe, more)
    return _continue(SqliteStore(journal, config=config), recipe, journal, durability)


def reopen_engine(journal: str | Path, durability: str = "full") -> Engine:
    """Return the engine of the model of an existing journal; raise InvalidInput if there is none."""
    return _continue(SqliteStore(journal), None, journal, durability)


def _config(recipe: Recipe, more: Mapping[str, Any] | None) -> bytes:
    """Return the configuration of a new journal: what other processes need to give answers, and the recipe."""
    learner = LEARNERS[recipe.learner["learner"]]
    known = {
        "classes": recipe.asked["classes"],
        "feedback_type": learner.feedback_type,
        "rewards": learner.takes_rewards,
    }
    return json.dumps({**known, **(more or {}), "recipe": recipe._asdict()}).encode()


def _continue(store: Store, asked: Recipe | None, journal: Any, durability: str) -> Engine:
    try:
        stored = recipe_in(store.config, journal)
        if asked is not None:
            check_same(stored, asked, journal)
        if store.last_seq == 0:
            store.begin()
            store.append(facts.CREATED, None, store.config, store.now())
            store.commit()
        return Engine(store, stored, None, durability)
    except BaseException:
        store.close()
        raise


def recipe_in(config: bytes, journal: Any) -> Recipe:
    """Return the recipe in the configuration of a journal; raise InvalidInput if this version cannot read it."""
    try:
        recipe = Recipe.of_config(config)
        recipe.check()
    except UNREADABLE as problem:
        raise InvalidInput(
            f"{journal} is not the journal of a model that this version can read: {reason_of(problem)}",
            "update delaytron",
        ) from None
    return recipe


def load_engine(texts: dict[str, str], tensors: Tensors, source: str) -> Engine:
    """Return the engine of a model that was saved to a file; raise InvalidInput if the file is damaged."""
    state, recipe, more = state_of(texts, tensors, source)
    try:
        ids = {issued: _known(*row) for issued, row in more["ids"].items()}
        engine = Engine(MemoryStore(ids, more["clock"]), recipe, state)
        state.encoder.take_names(more["names"])
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidInput(
            f"{source} is not a model that this version can read: {reason_of(problem)}", UPDATE
        ) from None
    if not state.ids.keys() <= ids.keys():
        raise InvalidInput(f"{source} is damaged: it has open decisions without an id", "restore it from a backup")
    return engine


def _known(
    status: int, value: float | None, label: int | None, correctable: bool, digest: str | None, played: Any
) -> Known:
    """Return an entry of the id table of a file; what was played is missing only if its facts were purged."""
    hashed = None if digest is None else bytes.fromhex(digest)
    purged = played is None
    return Known(Status(status), value, label, bool(correctable), purged, None, hashed, played and tuple(played))
