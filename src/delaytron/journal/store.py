"""The store of the one process that decides: facts in order, what became of every id, snapshots of the state."""

import atexit
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, TypeVar
from weakref import ref

from delaytron.checks import check_choice
from delaytron.errors import JournalError, UnknownDecision
from delaytron.journal import queries
from delaytron.journal.background import BackgroundCommit
from delaytron.journal.clock import Moment
from delaytron.journal.compaction import delete_settled
from delaytron.journal.configuration import check_config
from delaytron.journal.database import Database
from delaytron.journal.group import FACTS, SECONDS, GroupCommit
from delaytron.journal.lock import OwnerLock
from delaytron.journal.opening import clock_state, open_file
from delaytron.journal.reader import Reader
from delaytron.journal.records import EXPIRED, OPEN, Arrival, AtRisk, Fact, Snapshot, Status
from delaytron.journal.requests import Requests
from delaytron.journal.tables import find_file

T = TypeVar("T")

DURABILITIES = ("full", "batched")
KEPT_SNAPSHOTS = 2


class FactStore:
    """An SQLite file of facts, owned by one process.

    Parameters
    ----------
    config : bytes, optional
        A JSON object. A new file is made with it; an existing one must have been made with the same. None opens any.
    durability : str
        "full": a batch is on disk when its members return. "batched": they return before; `at_risk` says what may go.

    Notes
    -----
    Everything is changed within `with store.batch():`, by any thread; threads share a transaction (see group.py). If
    it fails, every member gets a `JournalError`, and `generation` grows: what was made of facts in memory must be made
    anew. Within a batch one reads what it wrote; elsewhere, what is committed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, FactStore(Path(folder, "a.db"), config=b"{}") as store:
    ...     with store.batch():
    ...         store.open_id("req-17", label=0)
    ...         seq = store.append(1, "req-17", b"...", store.now())
    ...     [(fact.seq, fact.id) for fact in store.facts()], store.status("req-17").status == OPEN
    ([(1, 'req-17')], True)
    """

    def __init__(self, path: str | Path, *, config: bytes | None = None, durability: str = "full") -> None:
        lazy = check_choice("durability", durability, DURABILITIES) == "batched"
        given = None if config is None else check_config(config)
        self.path = find_file(path)
        self._process = os.getpid()
        self._lock = OwnerLock(self.path)
        try:
            opened = open_file(self.path, given)
        except BaseException:
            self._lock.release()
            raise
        self.at_risk = AtRisk(SECONDS, FACTS) if lazy else AtRisk(0.0, 0)
        self.config = opened.config
        self._clock = opened.clock
        self.now = opened.clock.now  # by a clock that goes on where the last fact was
        self._database = Database(self.path, opened.connection, gathers=not lazy)
        self._reader = Reader(self.path)
        name = self.path.name
        self._group = BackgroundCommit(self._database, name) if lazy else GroupCommit(self._database, name)
        self.requests = Requests(self._rows, self._change)
        self._last = -1, 0  # the generation in which the number of the last fact was known, and this number
        if lazy:
            atexit.register(_close_at_exit, ref(self))

    @property
    def generation(self) -> int:
        """How often something was rolled back that members of a batch had done."""
        return self._group.generation

    def batch(self, *, wait: bool = True) -> AbstractContextManager[None]:
        """Write within it; it returns when all is on disk, or raises and nothing was acknowledged (see group.py)."""
        self._raise_if_forked()
        return self._group.batch(wait=wait)

    def append(self, kind: int, id: str | None, body: bytes, now: Moment) -> int:
        """Write a fact; return its number. Within a batch."""
        batch = self._group.current()
        seq = self.last_seq + 1
        self._insert(queries.PUT_FACT, (seq, kind, id, now.wall, now.clock, body))
        self._last = self._group.generation, seq
        batch.facts += 1
        return seq

    @property
    def last_seq(self) -> int:
        """The number of the last fact; 0 if there is none."""
        generation, seq = self._last
        if generation != self._group.generation or not self._group.is_inside:
            ((seq,),) = self._rows(queries.LAST_SEQ)
        return int(seq)

    def open_id(self, id: str, label: int | None = None, seq: int | None = None) -> None:
        """Register an id, the index of the class that was played, and the number of its fact. Within a batch.

        The id must be new, as `status` says, or random. If it is not, the whole batch fails.
        """
        self._insert(queries.PUT_ID, (id, OPEN, label, seq))

    def open_ids(self, ids: Sequence[str], labels: Sequence[int]) -> None:
        """Register several new ids, whose decisions the next facts tell, in this order. Within a batch."""
        first = self.last_seq + 1
        for issued, label, seq in zip(ids, labels, range(first, first + len(ids)), strict=True):
            self.open_id(issued, label, seq)

    def status(self, id: str) -> Status | None:
        """Return what is known of an id; None if it was never issued."""
        rows = self._rows(queries.STATUS, (id,))
        return queries.as_status(rows[0]) if rows else None

    def all_ids(self) -> Iterator[tuple[str, Status]]:
        """Iterate over all ids ever issued, and what is known of them."""
        return ((row[0], queries.as_status(row[1:])) for row in self._rows(queries.ALL_IDS))

    def clock_state(self) -> dict[str, Any]:
        """Return what the next clock needs to go on."""
        return self._clock.state()

    def settle(self, id: str, status: int, value: float | None = None) -> None:
        """Write what became of a decision; only one that is open or expired can change. Within a batch."""
        if not self._change(queries.SETTLE, (status, value, id, OPEN, EXPIRED)).rowcount:
            raise UnknownDecision(f"decision {id!r} is not open: never issued, or settled before; check the id")

    def inbox(self) -> list[Arrival]:
        """Take the answers that other processes gave, oldest first. Within a batch."""
        batch = self._group.current()
        if batch.inbox_read:  # no other process can write during a batch
            return []
        rows = self._rows(queries.ARRIVALS)
        if rows:
            self._change("DELETE FROM inbox WHERE place <= ?", (rows[-1][-1],))
        batch.inbox_read = True
        return [queries.as_arrival(row) for row in rows]

    def facts(self, after: int = 0) -> Iterator[Fact]:
        """Iterate over the facts after a number, in order."""
        for fact in queries.facts_after(self._rows, after):
            if fact.seq <= after:
                raise JournalError(f"{self.path} is damaged: its facts are not in order; restore it from a backup")
            yield fact
            after = fact.seq

    def fact(self, seq: int) -> Fact | None:
        """Return one fact; None if there is none of this number, or none any more."""
        rows = self._rows(queries.FACT, (seq,))
        return queries.as_fact(rows[0]) if rows else None

    def snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, if there is one."""
        rows = self._rows(queries.NEWEST_SNAPSHOT)
        return Snapshot(*rows[0]) if rows else None

    def put_snapshot(self, seq: int, body: bytes) -> None:
        """Keep the state after a fact; the newest two are kept. Within a batch."""
        self._change("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (seq, body))
        self._change(queries.DROP_OLD_SNAPSHOTS, (KEPT_SNAPSHOTS,))

    def set_classes(self, classes: Sequence[Any]) -> None:
        """Let other processes know the present classes, in the order of their indices. Within a batch."""
        self._change(queries.PUT_META, ("classes", json.dumps(list(classes)).encode()))

    def compact(self, before_seq: int, older_than: int) -> int:
        """Delete the facts of settled decisions that are in the newest snapshot; return how many. Not within a batch.

        All facts of a decision must be below `before_seq`, and older than `older_than`, a `Moment.clock`. Its id stays.
        """
        with self.batch():
            self._clock.now()
            self._change(queries.PUT_META, ("clock", clock_state(self._clock)))
            return delete_settled(self._change, before_seq, older_than)

    def close(self) -> None:
        """Commit what is open, close the file and give the owner's lock back."""
        if self._group.closed is not None or self._process != os.getpid():
            return
        try:
            self._group.close(f"{self.path.name} is closed; open it again")
        finally:
            if self._group.closed is not None:
                self._database.close()
                self._reader.close()
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raise_if_forked(self) -> None:
        if self._process != os.getpid():
            name = self.path.name
            raise JournalError(f"{name} was opened before this process was forked; open it again, or use dt.Journal")

    def _insert(self, sql: str, values: Sequence[Any]) -> None:
        """Insert a row."""
        self._group.current(change=True)
        self._attempt(self._database.insert, sql, values)

    def _change(self, sql: str, values: Sequence[Any]) -> sqlite3.Cursor:
        """Execute a statement that can be undone."""
        self._group.current(change=True)
        return self._attempt(self._database.execute, sql, values)

    def _attempt(self, action: Callable[[str, Sequence[Any]], T], sql: str, values: Sequence[Any]) -> T:
        """Do something in the present batch; if that fails, the batch has failed."""
        batch = self._group.current()
        try:
            return action(sql, values)
        except JournalError as problem:
            batch.spoiled = problem
            raise

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds: within a batch with what was written in it."""
        self._raise_if_forked()
        if self._group.is_inside:
            return self._attempt(self._database.rows, sql, values)
        return self._committed_rows(sql, values)

    def _committed_rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self._group.closed is not None:
            raise JournalError(self._group.closed)
        return self._reader.rows(sql, values)


def _close_at_exit(store: "ref[FactStore]") -> None:
    found = store()
    if found is not None:
        found.close()
