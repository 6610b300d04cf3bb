"""Maintenance of the journal of a model: verify it by replaying every fact, and compact it by dropping old facts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from delaytron.answers import Known, Status
from delaytron.checks import reason_of
from delaytron.errors import DelaytronError, InvalidInput, JournalError
from delaytron.journal.database import DamagedFact, find_file
from delaytron.journal.store import Fact
from delaytron.journal.view import JournalView
from delaytron.learners.files import UNREADABLE
from delaytron.model import facts
from delaytron.model.drift import Drift, drift_of
from delaytron.model.engine import reopen_engine
from delaytron.model.inspection import AccuracyBounds, accuracy_of
from delaytron.model.recipe import Recipe, read_wait
from delaytron.model.snapshots import decompress, digest, unpack_state
from delaytron.model.state import State
from delaytron.records import Moment

# What can be raised by content that is not as it was written.
DAMAGED = (DelaytronError, msgspec.MsgspecError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

DECISIONS = "SELECT (SELECT count(*) FROM facts WHERE kind IN (?, ?)), (SELECT count(*) FROM ids WHERE NOT purged)"
SETTLED = """
SELECT (SELECT count(DISTINCT id) FROM facts WHERE kind IN (?, ?, ?) AND id NOT IN (SELECT id FROM inbox)),
(SELECT count(*) FROM ids WHERE status != ? AND NOT purged AND id NOT IN (SELECT id FROM inbox))
"""
COUNTS = {  # of facts and of ids, which must be equal; an answer in the inbox has no fact yet
    "decisions": (DECISIONS, facts.DECISIONS),
    "settled decisions": (SETTLED, (facts.ANSWERED, facts.EXPIRED, facts.CANCELLED, Status.OPEN)),
}
STEP = 500  # facts between two reports of progress

Advance = Callable[[int], object]


class Mismatch(NamedTuple):
    """What does not agree: the number of a fact, where it is about one, and why."""

    fact: int | None
    reason: str


class Verification(NamedTuple):
    """Contents of a journal, and whether it agrees with itself.

    `facts` counts the stored facts by kind; `replayed` of them came `after` the snapshot from which the replay began, 0
    for the first fact. The other counts are of all decisions ever made; `purged` ones have no facts any more.
    `accuracy` and `drift` are those of `Stats`. `hash` is that of the last state, as `Model.digest` returns it; None
    after a mismatch.
    """

    facts: dict[str, int]
    after: int
    replayed: int
    snapshots: int
    decided: int
    answered: int
    expired: int
    cancelled: int
    open: int
    purged: int
    accuracy: AccuracyBounds
    drift: Drift | None
    hash: str | None
    mismatch: Mismatch | None


class _MismatchFoundError(Exception):
    """Ends the replay."""

    def __init__(self, fact: int | None, reason: str) -> None:
        super().__init__(reason)
        self.mismatch = Mismatch(fact, reason)


def verify_journal(path: str | Path, started: Callable[[int], Advance] | None = None) -> Verification:
    """Replay all facts of a journal and compare the results; the journal is only read, and its owner may write.

    Parameters
    ----------
    path
        The journal; what was committed when this began is verified.
    started
        Called with the number of facts to replay; returns a function that is called with the number of facts replayed
        since its last call.

    Raises InvalidInput if there is no journal, JournalError if it has no configuration that can be read; everything
    else is a `mismatch`.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with dt.Model(classes=["a", "b"], features=2, journal=f"{folder}/a.db", seed=1) as model:
    ...         reply = model.feedback(model.decide([1.0, 0.5]).id, correct=True)
    ...         found = verify_journal(f"{folder}/a.db")
    ...         found.mismatch, found.decided, found.hash == model.digest()
    (None, 1, True)
    """
    with JournalView(path) as view:
        replay = _Replay(view)
        try:
            replay.run(started)
        except _MismatchFoundError as found:
            return replay.summary(None, found.mismatch)
        return replay.summary(digest(replay.state, replay.recipe), None)


def begin(view: JournalView) -> tuple[Recipe, State]:
    """Return the recipe of a journal and an untrained state; raise JournalError if its configuration is damaged."""
    try:
        recipe = Recipe.of_config(view.config)
        return recipe, State.new(recipe)
    except UNREADABLE as problem:
        raise JournalError(
            f"{view.path} has no configuration that this version can read: {reason_of(problem)}",
            "update delaytron, or restore it from a backup",
        ) from None


class _Replay:
    """The state of a model, rebuilt from the facts of its journal."""

    def __init__(self, view: JournalView) -> None:
        self.view = view
        self.recipe, self.state = begin(view)
        self.facts: dict[str, int] = {}
        self.snapshots: list[int] = []
        self.purged = 0
        self.after = 0
        self.seq = 0
        self.checked = 0

    def run(self, started: Callable[[int], Advance] | None) -> None:
        """Replay everything; raise _MismatchFoundError at the first mismatch."""
        damage = self.view.damage()
        if damage is not None:
            raise _MismatchFoundError(None, f"SQLite finds the file damaged: {damage}")
        self.facts = {_name_of_kind(kind): count for kind, count in self.view.count_by_kind().items()}
        self.purged = self.view.purged()
        self.snapshots = self.view.snapshot_seqs()
        self._start()
        last = self.view.last_seq
        advance = None if started is None else started(last - self.after)
        try:
            for count, fact in enumerate(self.view.facts(self.after), start=1):
                self._replay(fact)
                if advance is not None and (count % STEP == 0 or fact.seq == last):
                    advance(count % STEP or STEP)
        except DamagedFact as problem:
            raise _MismatchFoundError(problem.value, f"the checksum of fact {problem.value} is wrong") from None
        if self.seq != last:
            raise _MismatchFoundError(self.seq + 1, f"fact {self.seq + 1} is missing, the last one is {last}")
        if self.snapshots and self.snapshots[-1] != self.after:
            self._compare_reopened(self.snapshots[-1])
        self._compare_ids()
        listed = None if self.view.classes is None else json.loads(self.view.classes)
        names = self.state.classes.names
        if listed not in (None, names):
            raise _MismatchFoundError(None, f"the journal lists the classes {listed}, by the facts they are {names}")

    def _start(self) -> None:
        """Begin before the first fact; after a purge, at the oldest snapshot after which no fact is missing."""

        def has_all_after(seq: int) -> bool:
            ((count,),) = self.view.rows("SELECT count(*) FROM facts WHERE seq > ?", (seq,))
            return bool(count == self.view.last_seq - seq)

        if (self.purged or self.view.is_compacted) and self.snapshots and not has_all_after(0):
            # The oldest complete one; if there is none, the newest, and the replay then reports what is missing.
            complete = [seq for seq in self.snapshots if has_all_after(seq)]
            self.after = self.seq = [*complete, self.snapshots[-1]][0]
            self.state = self._state_of_snapshot(self.after)
            self.checked = 1

    def _state_of_snapshot(self, seq: int) -> State:
        source = f"the snapshot after fact {seq}"
        try:
            state, recipe, _ = unpack_state(decompress(self.view.snapshot(seq).body, source), source)
        except DAMAGED as problem:
            raise _MismatchFoundError(seq, str(problem)) from None
        if recipe != self.recipe:
            raise _MismatchFoundError(seq, f"{source} is of another model than the journal")
        return state

    def _replay(self, fact: Fact) -> None:
        """Replay one fact, compare it with the id table, and the state with the snapshot after it."""
        if fact.seq != self.seq + 1:
            raise _MismatchFoundError(
                self.seq + 1, f"fact {self.seq + 1} is missing, {fact.seq} comes after {self.seq}"
            )
        if fact.kind == facts.CREATED and fact.body != self.view.config:
            raise _MismatchFoundError(fact.seq, f"fact {fact.seq} has another configuration than the journal")
        self.seq = fact.seq
        try:
            reason = _contradiction(fact, self.view.known(fact.id), self.state.book.expiry.as_wrong)
            if reason is None:
                self.state.replay(fact)
        except JournalError as problem:  # it names the fact
            raise _MismatchFoundError(fact.seq, str(problem)) from None
        except DAMAGED as problem:
            reason = str(problem) or type(problem).__name__
        if reason is not None:
            about = "" if fact.id is None else f" of decision {fact.id!r}"
            raise _MismatchFoundError(
                fact.seq, f"fact {fact.seq} ({_name_of_kind(fact.kind)}{about}) does not agree: {reason}"
            )
        if fact.seq in self.snapshots:
            stored = digest(self._state_of_snapshot(fact.seq), self.recipe)
            replayed = digest(self.state, self.recipe)
            if stored != replayed:
                both = f"has the hash {stored[:16]}..., replayed it is {replayed[:16]}..."
                raise _MismatchFoundError(fact.seq, f"the snapshot after fact {fact.seq} {both}")
            self.checked += 1

    def _compare_reopened(self, seq: int) -> None:
        """Compare with the state that the model would have if it were opened now: by the newest snapshot."""
        state = self._state_of_snapshot(seq)
        for fact in self.view.facts(seq):
            state.replay(fact)
        if digest(state, self.recipe) != digest(self.state, self.recipe):
            raise _MismatchFoundError(None, f"opened from the snapshot after fact {seq}, the model has another state")

    def _compare_ids(self) -> None:
        """Compare the open decisions with those of the id table, and the numbers of all and of settled ones."""
        listed = {issued for (issued,) in self.view.rows("SELECT id FROM ids WHERE status = ?", (Status.OPEN,))}
        others = listed ^ ({one.id for one in self.state.waiting()} - self.view.waiting_in_inbox())
        if others:
            where = "by the table of ids" if others & listed else "by the facts"
            raise _MismatchFoundError(None, f"decision {min(others)!r} is open {where} only")
        for what, (sql, values) in COUNTS.items():
            ((in_facts, in_ids),) = self.view.rows(sql, values)
            if in_facts != in_ids:
                raise _MismatchFoundError(None, f"there are facts of {in_facts} {what}, the table of ids has {in_ids}")

    def summary(self, state: str | None, mismatch: Mismatch | None) -> Verification:
        """Return what was found; `state` is the hash of the last state."""
        tally = self.state.tally
        return Verification(
            self.facts,
            self.after,
            self.seq - self.after,
            self.checked,
            self.state.rounds,
            sum(tally.answered),
            tally.expired,
            tally.cancelled,
            self.state.pending,
            self.purged,
            accuracy_of(self.state),
            drift_of(self.state),
            state,
            mismatch,
        )


def _name_of_kind(kind: int) -> str:
    return facts.KINDS[kind] if 0 <= kind < len(facts.KINDS) else f"kind {kind}"


def _contradiction(fact: Fact, known: Known | None, as_wrong: bool) -> str | None:
    """Return in what the id table contradicts a fact, None if it agrees; it has the last status of each decision.

    Where decisions expire `as_wrong`, an expired one may have been answered later.
    """
    if fact.id is None:
        return None
    if known is None:
        return "the table of ids has nothing"
    agrees = True
    if fact.kind in facts.DECISIONS:
        agrees = facts.decode_decided(fact.body).label == known.label
    elif fact.kind == facts.ANSWERED:
        value = facts.decode(fact.body)
        agrees = known.status == Status.ANSWERED and isinstance(value, float) and value == known.value
    elif fact.kind == facts.ANSWERED_LATE:
        agrees = known.status == Status.EXPIRED and facts.decode(fact.body) == known.value
    elif fact.kind == facts.EXPIRED:
        agrees = known.status == Status.EXPIRED or (as_wrong and known.status == Status.ANSWERED)
    elif fact.kind == facts.RELEASED:
        agrees = known.status == Status.EXPIRED and not known.correctable
    elif fact.kind == facts.CANCELLED:
        agrees = known.status == Status.CANCELLED
    answer = "" if known.value is None else f" {known.value!r}"
    return None if agrees else f"the table of ids has label {known.label}, {Status(known.status).name.lower()}{answer}"


# Compaction


class Compaction(NamedTuple):
    """Numbers of facts and bytes of a journal, before and after."""

    facts_before: int
    facts_after: int
    bytes_before: int
    bytes_after: int


def compact_journal(path: str | Path, older_than: str) -> Compaction:
    """Drop the facts of decisions that were settled longer ago than a time such as "30d".

    A snapshot of the state is kept, and the status of every id: a second answer is a "duplicate", one after an expiry
    is "late", and no id becomes unknown. Raises InvalidInput if there is no such journal, or another process owns it.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with dt.Model(classes=["a", "b"], features=2, journal=f"{folder}/a.db", seed=1) as model:
    ...         reply = model.feedback(model.decide([1.0, 0.5], id="req-1").id, correct=True)
    ...     compact_journal(f"{folder}/a.db", "0.000001s")[:2]
    ...     with dt.Model.open(f"{folder}/a.db") as model:
    ...         model.feedback("req-1", correct=True)
    (3, 1)
    'duplicate'
    """
    age = read_age(older_than)
    target = find_file(path)
    if not target.exists():
        raise InvalidInput(f"there is no journal {target}", "give the path of one that dt.Model has made")

    def size() -> int:
        files = (target, target.with_name(target.name + "-wal"))  # what is not in the main file yet
        return sum(file.stat().st_size for file in files if file.exists())

    def purge(now: Moment) -> int:
        engine.writer.changing()
        return engine.store.purge(engine.store.last_seq + 1, now.clock - age)

    bytes_before = size()
    engine = reopen_engine(target)
    try:
        # First the snapshot, in a transaction of its own: only facts that are in it may be dropped.
        engine.run(lambda _: engine.put_snapshot())
        dropped = engine.run(purge)
    finally:
        engine.close()
    with JournalView(target) as view:
        left = sum(view.count_by_kind().values())
    return Compaction(left + dropped, left, bytes_before, size())


def read_age(older_than: str) -> int:
    """Return how old something must be, in ns; raise InvalidInput if it is no time.

    Examples
    --------
    >>> read_age("30d") == 30 * 24 * 3600 * 10**9
    True
    """
    try:
        wait = read_wait("older_than", str(older_than))
    except InvalidInput:
        wait = None
    if wait is None or wait.clock is None:
        raise InvalidInput.of("older_than", "a time above 0 such as '12h', '30d' or '8w'", older_than)
    return wait.clock
