"""The interface of stores, the records that pass through it, and the store in memory; the other one is sqlite.py.

A store keeps the facts of one model in their order, the id table with the status of every id ever issued, the inbox of
answers from other processes, snapshots of the state, a few named values, and the replies to idempotency keys. It knows
no learner: bodies are opaque bytes. The service on PostgreSQL is a backend of its own, see service/postgres/schema.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from itertools import count
from typing import Any, NamedTuple, Self

from delaytron.answers import Known, Status
from delaytron.errors import JournalError
from delaytron.journal.ids import Clock
from delaytron.records import Moment

KEPT_SNAPSHOTS = 2
REPLIES_KEPT = 24 * 3600 * 10**9  # ns
OPEN_ONLY = (Status.OPEN,)


class BusyError(JournalError):
    """Another process writes, or too many operations wait; try again later."""


class Fact(NamedTuple):
    """A change of the model; its state is rebuilt by replaying the facts in the order of their numbers."""

    seq: int
    kind: int
    id: str | None
    now: Moment
    body: bytes


class Arrival(NamedTuple):
    """An answer from another process, and the reply that it got: "accepted", "corrected" or "late"."""

    id: str
    value: float
    now: Moment
    reply: str


class Snapshot(NamedTuple):
    """The packed state of a model after the fact `seq`."""

    seq: int
    body: bytes


class StoredReply(NamedTuple):
    """The reply to a request with an idempotency key, and the fingerprint of that request."""

    fingerprint: bytes
    reply: bytes


class AtRisk(NamedTuple):
    """What a crash can lose of what was acknowledged: at most `facts` facts of the last `seconds` seconds."""

    seconds: float
    facts: int


class Store(ABC):
    """Facts, ids, inbox, snapshots, named values and stored replies of one model.

    Everything is changed within a transaction, of which there is one at a time: only a `Writer` begins and ends them.
    The thread that began a transaction (or set its last savepoint) reads what the transaction wrote; all other threads
    read what is committed. After `pause` that thread, too, reads what is committed, until the next savepoint.

    Attributes
    ----------
    name : str
        What messages call it.
    keeps_facts : bool
        Whether facts are kept, from which the state can be rebuilt.
    config : bytes
        The configuration with which the store was created: a JSON object.
    writes : int
        Grows with everything that is written; a caller compares two values of it.
    """

    name: str
    keeps_facts: bool
    config: bytes
    writes: int

    @abstractmethod
    def now(self) -> Moment:
        """Return the present moment by a clock that continues from the last fact and never goes back."""

    # Transactions

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction was begun, and neither committed nor rolled back."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction in which no other process can write; one that was left open is rolled back first.

        Waits for another process that writes. Raises JournalError if it cannot begin.
        """

    @abstractmethod
    def commit(self) -> None:
        """Return when everything is on disk; raise JournalError if that fails: then the caller must roll back."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll back the transaction, if there is one; raises no error of the database."""

    @abstractmethod
    def savepoint(self) -> None:
        """Set the savepoint of this transaction, and release the one before."""

    @abstractmethod
    def rollback_to_savepoint(self) -> None:
        """Undo what was written since the savepoint; raise JournalError if the whole transaction is lost."""

    @abstractmethod
    def pause(self) -> None:
        """Insert what was gathered; until the next savepoint no thread reads through the open transaction."""

    # Within a transaction

    @abstractmethod
    def append(self, kind: int, id: str | None, body: bytes, now: Moment) -> int:
        """Append a fact; return its number."""

    @abstractmethod
    def issue(
        self,
        id: str,
        label: int | None = None,
        digest: bytes | None = None,
        seq: int | None = None,
        played: tuple[int, int, float] | None = None,
    ) -> None:
        """Add a new id to the id table, as open; `played` (round, greedy label, probability) is kept without facts.

        Raises JournalError, here or at the commit, if the id is not new; then the transaction must be rolled back.
        """

    @abstractmethod
    def set_status(
        self,
        id: str,
        status: Status,
        value: float | None = None,
        *,
        correctable: bool = False,
        expected: Collection[Status] = OPEN_ONLY,
    ) -> bool:
        """Compare-and-set: change the status of a decision; return False, and change nothing, if it is not `expected`.

        A decision that has a value never changes again, and an expired one is answered only while it is correctable.
        At most two statuses are expected.
        """

    @abstractmethod
    def take_inbox(self) -> list[Arrival]:
        """Remove and return the answers that other processes gave, oldest first; the id table has their status."""

    @abstractmethod
    def put_snapshot(self, seq: int, body: bytes) -> None:
        """Store the packed state after the fact `seq`; the newest two snapshots are kept."""

    @abstractmethod
    def set_meta(self, name: str, body: bytes) -> None:
        """Store a named value, such as the present classes (`classes`, a JSON list, which dt.Journal reads)."""

    @abstractmethod
    def keep_reply(self, key: str, fingerprint: bytes, reply: bytes, now: Moment) -> None:
        """Store the reply to a request with a new idempotency key."""

    @abstractmethod
    def drop_old_replies(self, now: Moment) -> None:
        """Delete the replies that are older than 24 hours."""

    @abstractmethod
    def purge(self, before_seq: int, older_than: int) -> int:
        """Delete the facts of settled decisions, and return how many; the ids and their statuses stay.

        A decision is purged if it is not open or correctable, has no answer in the inbox, and all of its facts are in
        the newest snapshot, below `before_seq` and older than `older_than` (a `Moment.clock`).
        """

    # Anywhere

    @property
    @abstractmethod
    def last_seq(self) -> int:
        """The number of the last fact; 0 if there is none. Numbers of purged facts are not used again."""

    @abstractmethod
    def known(self, id: str) -> Known | None:
        """Return what is known of an id; None if it was never issued."""

    @abstractmethod
    def all_ids(self) -> Iterator[tuple[str, Known]]:
        """Iterate over all ids ever issued."""

    @abstractmethod
    def facts(self, after: int = 0) -> Iterator[Fact]:
        """Iterate over the facts with a number above `after`, in order; raise JournalError at a damaged one."""

    @abstractmethod
    def fact(self, seq: int) -> Fact | None:
        """Return one fact; None if there is none with this number, or it was purged."""

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, if there is one."""

    @abstractmethod
    def meta(self, name: str) -> bytes | None:
        """Return a named value; None if it was never set."""

    @abstractmethod
    def stored_reply(self, key: str) -> StoredReply | None:
        """Return the reply that is stored under an idempotency key, if there is one."""

    @abstractmethod
    def clock_state(self) -> dict[str, Any]:
        """Return what a later clock needs to continue from this one: plain values, for JSON."""

    @abstractmethod
    def close(self) -> None:
        """Roll back what is open, and release files and locks; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryStore(Store):
    """A store in memory. Without facts (the default) it is that of a model without a journal.

    With facts it behaves like one on disk, for tests, and has transactions. A model without a journal begins none: its
    state could not be rebuilt after a rollback.
    """

    def __init__(
        self,
        ids: dict[str, Known] | None = None,
        clock: dict[str, Any] | None = None,
        *,
        config: bytes = b"{}",
        keeps_facts: bool = False,
    ) -> None:
        self.name = "a store in memory"
        self.keeps_facts = keeps_facts
        self.config = config
        self.writes = 0
        self._ids = {} if ids is None else ids
        self._clock = Clock(clock)
        self._facts: dict[int, Fact] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self._meta: dict[str, bytes] = {}
        self._replies: dict[str, tuple[StoredReply, int]] = {}
        self._seq = self._seq_before = self._seq_at_savepoint = 0
        # What a rollback restores: (table, key, value before), newest last; None where there is no transaction.
        self._undo: list[tuple[dict[Any, Any], Any, Any]] | None = None
        self._savepoint = 0

    def now(self) -> Moment:
        return self._clock.now()

    @property
    def in_transaction(self) -> bool:
        return self._undo is not None

    def begin(self) -> None:
        self.rollback()
        self._undo = []
        self._savepoint = 0
        self._seq_before = self._seq_at_savepoint = self._seq

    def commit(self) -> None:
        self._undo = None

    def rollback(self) -> None:
        if self._undo is not None:
            self._undo_from(0)
            self._undo = None
            self._seq = self._seq_before

    def savepoint(self) -> None:
        self._savepoint = len(self._undo or ())
        self._seq_at_savepoint = self._seq

    def rollback_to_savepoint(self) -> None:
        self._undo_from(self._savepoint)
        self._seq = self._seq_at_savepoint

    def pause(self) -> None:
        """Do nothing: all threads read the same."""

    def _undo_from(self, place: int) -> None:
        undo = self._undo or []
        while len(undo) > place:
            table, key, before = undo.pop()
            if before is None:
                table.pop(key, None)
            else:
                table[key] = before

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an entry of a table, or delete it if the value is None."""
        self.writes += 1
        if self._undo is not None:
            self._undo.append((table, key, table.get(key)))
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def append(self, kind: int, id: str | None, body: bytes, now: Moment) -> int:
        if not self.keeps_facts:
            return 0
        self._seq += 1
        self._put(self._facts, self._seq, Fact(self._seq, kind, id, now, body))
        return self._seq

    def issue(
        self,
        id: str,
        label: int | None = None,
        digest: bytes | None = None,
        seq: int | None = None,
        played: tuple[int, int, float] | None = None,
    ) -> None:
        if id in self._ids:
            raise JournalError(f"id {id!r} is in the id table already", "try again with another one")
        self._put(self._ids, id, Known(Status.OPEN, None, label, False, False, seq, digest, played))

    def set_status(
        self,
        id: str,
        status: Status,
        value: float | None = None,
        *,
        correctable: bool = False,
        expected: Collection[Status] = OPEN_ONLY,
    ) -> bool:
        row = self._ids.get(id)
        if row is None or row.value is not None or row.status not in expected:
            return False
        if row.status == Status.EXPIRED and status != Status.EXPIRED and not row.correctable:
            return False
        _, _, label, _, purged, seq, digest, played = row  # `_replace` takes five times as long
        self._put(self._ids, id, Known(status, value, label, correctable, purged, seq, digest, played))
        return True

    def take_inbox(self) -> list[Arrival]:
        """Return nothing: no other process can reach it."""
        return []

    def put_snapshot(self, seq: int, body: bytes) -> None:
        self._put(self._snapshots, seq, Snapshot(seq, body))
        for old in sorted(self._snapshots)[:-KEPT_SNAPSHOTS]:
            self._put(self._snapshots, old, None)
        self._seq = max(self._seq, *self._snapshots)

    def set_meta(self, name: str, body: bytes) -> None:
        self._put(self._meta, name, body)

    def keep_reply(self, key: str, fingerprint: bytes, reply: bytes, now: Moment) -> None:
        if key in self._replies:
            raise JournalError(f"a reply to the key {key!r} is stored already", "try again")
        self._put(self._replies, key, (StoredReply(fingerprint, reply), now.clock))

    def drop_old_replies(self, now: Moment) -> None:
        for key, (_, clock) in list(self._replies.items()):
            if clock < now.clock - REPLIES_KEPT:
                self._put(self._replies, key, None)

    def purge(self, before_seq: int, older_than: int) -> int:
        newest = max(self._snapshots, default=0)
        by_id: dict[str, list[Fact]] = {}
        for fact in self._facts.values():
            if fact.id is not None:
                by_id.setdefault(fact.id, []).append(fact)
        deleted = 0
        for issued, facts in by_id.items():
            row = self._ids.get(issued)
            if row is None or row.status == Status.OPEN or row.correctable:
                continue
            if all(f.seq < before_seq and f.seq <= newest and f.now.clock < older_than for f in facts):
                self._put(self._ids, issued, row._replace(purged=True, seq=None, digest=None))
                for fact in facts:
                    self._put(self._facts, fact.seq, None)
                deleted += len(facts)
        return deleted

    @property
    def last_seq(self) -> int:
        return self._seq

    def known(self, id: str) -> Known | None:
        return self._ids.get(id)

    def all_ids(self) -> Iterator[tuple[str, Known]]:
        return iter(self._ids.items())

    def facts(self, after: int = 0) -> Iterator[Fact]:
        for seq in count(after + 1):
            if seq > self._seq:
                return
            if seq in self._facts:
                yield self._facts[seq]

    def fact(self, seq: int) -> Fact | None:
        return self._facts.get(seq)

    def snapshot(self) -> Snapshot | None:
        return self._snapshots[max(self._snapshots)] if self._snapshots else None

    def meta(self, name: str) -> bytes | None:
        return self._meta.get(name)

    def stored_reply(self, key: str) -> StoredReply | None:
        found = self._replies.get(key)
        return None if found is None else found[0]

    def clock_state(self) -> dict[str, Any]:
        return self._clock.state()

    def close(self) -> None:
        self.rollback()
