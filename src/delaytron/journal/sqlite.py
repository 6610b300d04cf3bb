"""The store in an SQLite file: its tables, and `SqliteStore`, owned by the process that decides.

Other processes answer through the same file (`dt.Journal`), and read it (`JournalView`). SQLite's write-ahead log lets
readers continue while one process writes; `BEGIN IMMEDIATE` decides which process that is.
"""

import json
import os
import sqlite3
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from threading import Lock, get_ident
from time import monotonic, sleep
from typing import Any
from zlib import crc32

from delaytron.answers import Known, Status
from delaytron.checks import reason_of
from delaytron.errors import InvalidInput, JournalError, shown
from delaytron.journal.database import (
    APPLICATION,
    FORMAT,
    DamagedFact,
    Database,
    damaged,
    find_file,
    forked,
    is_empty,
    naming_damage,
    raise_if_different,
    read_meta,
)
from delaytron.journal.ids import Clock, OwnerLock
from delaytron.journal.store import (
    KEPT_SNAPSHOTS,
    OPEN_ONLY,
    REPLIES_KEPT,
    Arrival,
    Fact,
    Snapshot,
    Store,
    StoredReply,
)
from delaytron.records import Moment

# A busy owner would take SQLite's write lock again before others try: every 100 ms it leaves the lock free for a while.
# dt.Journal, which retries every 0.3 ms, needs little. After batched transactions, which hold the lock for 50 ms each,
# it is more, since tools with SQLite's own busy timeout retry every 100 ms only.
GAP_EVERY, GAP, GAP_IF_BATCHED = 0.1, 0.0005, 0.002
PAGE = 1000  # facts per query
MOST_CLASSES = 2**31  # an answer is 0 to 1, or the index of a class

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE facts (seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, id TEXT, wall INTEGER NOT NULL,"
    " clock INTEGER NOT NULL, body BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE ids (id TEXT PRIMARY KEY, status INTEGER NOT NULL, value REAL, label INTEGER,"
    " correctable INTEGER NOT NULL, purged INTEGER NOT NULL, seq INTEGER, digest BLOB) WITHOUT ROWID",
    "CREATE TABLE inbox (place INTEGER PRIMARY KEY, id TEXT NOT NULL, value REAL NOT NULL,"
    " wall INTEGER NOT NULL, clock INTEGER NOT NULL, reply TEXT NOT NULL)",
    "CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE replies (key TEXT PRIMARY KEY, fingerprint BLOB NOT NULL, reply BLOB NOT NULL,"
    " clock INTEGER NOT NULL) WITHOUT ROWID",
)

PUT_FACT = "INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?)"
PUT_ID = "INSERT INTO ids VALUES (?, 0, NULL, ?, 0, 0, ?, ?)"  # open
PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
KNOWN = "SELECT status, value, label, correctable, purged, seq, digest FROM ids WHERE id = ?"
ALL_IDS = "SELECT status, value, label, correctable, purged, seq, digest, id FROM ids"
# Compare-and-set between processes. Of the statuses, 0 is open and 2 is expired.
SETTLE = """
UPDATE ids SET status = ?1, value = ?2, correctable = ?3
WHERE id = ?4 AND status IN (?5, ?6) AND value IS NULL AND (status != 2 OR ?1 = 2 OR correctable)
"""
INBOX = """
SELECT inbox.id, inbox.value, wall, clock, reply, place, ids.value FROM inbox LEFT JOIN ids ON inbox.id = ids.id
ORDER BY place
"""
LAST_SEQ = "SELECT max(ifnull((SELECT max(seq) FROM facts), 0), ifnull((SELECT max(seq) FROM snapshots), 0))"
FACTS_AFTER = "SELECT seq, kind, id, wall, clock, body, checksum FROM facts WHERE seq > ? ORDER BY seq LIMIT ?"
FACT = "SELECT seq, kind, id, wall, clock, body, checksum FROM facts WHERE seq = ?"
DROP_SNAPSHOTS = "DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)"
# What a purge deletes. Only facts that the newest snapshot contains: replay begins there, and does not miss them.
PURGEABLE = """
CREATE TEMP TABLE purgeable AS
SELECT facts.id FROM facts JOIN ids ON facts.id = ids.id
WHERE ids.status != 0 AND NOT ids.correctable AND facts.id NOT IN (SELECT id FROM inbox)
GROUP BY facts.id
HAVING max(facts.seq) < ? AND max(facts.seq) <= (SELECT max(seq) FROM snapshots) AND max(facts.clock) < ?
"""

CREATE = "check the path, or create a journal by dt.Model(classes, journal=path)"  # hint
STATUSES = {int(status): status for status in Status}
NUMBERS = struct.Struct("<qqqqi")


# Rows


def checksum(seq: int, kind: int, id: str | None, wall: int, clock: int, body: bytes) -> int:
    """Return the CRC-32 of all fields of a fact."""
    name = b"" if id is None else id.encode()
    return crc32(body, crc32(name, crc32(NUMBERS.pack(seq, kind, wall, clock, len(name)))))


def as_fact(path: Path, row: tuple[Any, ...]) -> Fact:
    """Return a row of the table of facts; raise JournalError if its checksum is wrong."""
    seq, kind, name, wall, clock, body, stored = row
    try:
        intact = checksum(seq, kind, name, wall, clock, body) == stored
    except (TypeError, AttributeError, struct.error):  # a value of another type
        intact = False
    if not intact:
        problem = f"{path} is damaged (the checksum of fact {shown(seq)} is wrong)"
        raise DamagedFact(problem, "restore it from a backup", value=seq)
    return Fact(seq, kind, name, Moment(wall, clock), body)


def as_known(path: Path, row: tuple[Any, ...]) -> Known:
    """Return a row of the id table; raise JournalError if its status or its answer cannot be one."""
    status, value, label, correctable, purged, seq, digest = row
    if value is not None and not (isinstance(value, float) and 0 <= value <= MOST_CLASSES):  # false for NaN, too
        raise damaged(path, f"a decision has the answer {shown(value)}")
    try:
        return Known(STATUSES[status], value, label, bool(correctable), bool(purged), seq, digest)
    except KeyError:
        raise damaged(path, f"a decision has the status {shown(status)}") from None


def read_known(database: Database, id: str | None) -> Known | None:
    """Return what is known of an id; None if it was never issued."""
    rows = database.rows(KNOWN, (id,))
    return as_known(database.path, rows[0]) if rows else None


def read_facts(path: Path, rows: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]], after: int) -> Iterator[Fact]:
    """Iterate over the facts with a number above `after`, page by page; `rows` runs a query."""
    while found := rows(FACTS_AFTER, (after, PAGE)):
        for row in found:
            fact = as_fact(path, row)
            if fact.seq <= after:  # in a damaged tree this loop could go on forever
                raise damaged(path, "its facts are not in order")
            yield fact
            after = fact.seq


# The store


class SqliteStore(Store):
    """An SQLite file of facts, owned by one process.

    Parameters
    ----------
    path : str or Path
    config : bytes, optional
        A JSON object. A new file is created with it; an existing one must have been created with the same. None opens
        any existing one.

    Raises InvalidInput if the file cannot be a journal or is open elsewhere, and JournalError if it is damaged.

    Notes
    -----
    The methods are described by `Store`. Facts and new ids are gathered in memory and inserted together before the
    commit, since `executemany` costs half as much per row; `known` and `set_status` look at them there. A commit is
    synced (`PRAGMAS` in database.py); SQLite's write-ahead log makes it atomic. Reads outside of the transaction have
    their own connection and do not wait for it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, SqliteStore(Path(folder, "a.db"), config=b"{}") as store:
    ...     store.begin()
    ...     seq = store.append(1, "req-17", b"...", store.now())
    ...     store.issue("req-17", label=0, seq=seq)
    ...     store.commit()
    ...     [(fact.seq, fact.id) for fact in store.facts()], store.known("req-17").status.name
    ([(1, 'req-17')], 'OPEN')
    """

    keeps_facts = True

    def __init__(self, path: str | Path, *, config: bytes | None = None) -> None:
        if config is not None:
            try:
                is_object = isinstance(config, bytes) and isinstance(json.loads(config), dict)
            except ValueError:
                is_object = False
            if not is_object:
                raise InvalidInput.of("config", "a JSON object as bytes", config)
        self.path = find_file(path)
        self.name = self.path.name
        self.writes = 0
        self._process = os.getpid()
        self._closed = False
        if config is None and not self.path.exists():
            raise InvalidInput(f"there is no journal {self.path}", CREATE)
        self._lock = OwnerLock(self.path)
        try:
            self._database = Database(self.path, "rw" if config is None else "rwc")
            try:
                self._open_tables(config)
            except BaseException:
                self._database.close()
                raise
        except BaseException:
            self._lock.release()
            raise
        self._database.doing = "written"
        self._database.mode = "rw"  # a new connection must not create the file again after it was removed
        self._reader: Database | None = None
        self._reader_lock = Lock()
        self._thread = 0  # the thread that reads and writes through the transaction
        self._seq: int | None = None  # of the last fact, as the transaction sees it; None if it must be read
        self._new_facts: list[tuple[Any, ...]] = []  # rows of the transaction that are not inserted yet
        self._new_ids: dict[str, tuple[Any, ...]] = {}
        self._spoiled = False  # what was gathered is incomplete: only a rollback can follow
        self._has_savepoint = False
        self._seq_at_savepoint: int | None = None
        self._inbox_taken = False
        self._committed_at = self._gap_at = 0.0

    def _open_tables(self, config: bytes | None) -> None:
        """Create the tables of a new file; compare the configuration of an existing one; let its clock continue."""
        database, path = self._database, self.path
        if not is_empty(database):
            read_meta(database)  # raises before anything is changed in a file that is no journal
        database.rows("PRAGMA auto_vacuum = INCREMENTAL")  # so that a purge can give pages back
        if database.rows("PRAGMA journal_mode = WAL") != [("wal",)]:
            raise InvalidInput(f"{path} is on a file system that cannot hold a journal", "put it on a local disk")
        database.begin()  # one transaction: after a crash the file has all tables, or is empty
        try:
            if is_empty(database):
                if config is None:
                    raise InvalidInput(f"{path} is empty, and no journal", CREATE)
                database.execute(f"PRAGMA application_id = {APPLICATION}")
                for table in TABLES:
                    database.execute(table)
                database.execute(PUT_META, ("format", b"%d" % FORMAT))
                database.execute(PUT_META, ("config", config))
            meta = read_meta(database)
            with naming_damage(path):
                if config is not None:
                    raise_if_different(path, meta["config"], config)
                self.config = bytes(meta["config"])
                # Facts are newer than the stored state of the clock, which is written at opening and at a purge only.
                previous = json.loads(meta["clock"]) if "clock" in meta else None
                last = database.rows("SELECT wall, clock FROM facts ORDER BY seq DESC LIMIT 1")
                if previous is not None and last and last[0][1] > previous["clock"]:
                    previous["wall"], previous["clock"] = last[0]
                self._clock = Clock(previous)
            database.execute(PUT_META, ("clock", json.dumps(self._clock.state()).encode()))
            database.commit()
        finally:
            database.rollback()

    def now(self) -> Moment:
        return self._clock.now()

    # Transactions

    @property
    def in_transaction(self) -> bool:
        return self._database.in_transaction

    def begin(self) -> None:
        self._raise_if_closed()
        if self._database.in_transaction:
            self.rollback()
        # Other processes cannot queue for SQLite's write lock, only retry: see `GAP`.
        gap = GAP_IF_BATCHED if self._has_savepoint else GAP
        idle = monotonic() - self._committed_at
        if idle < gap and self._committed_at - self._gap_at > GAP_EVERY:
            sleep(gap)
            idle = gap
        if idle >= gap:
            self._gap_at = monotonic()
        self._database.begin()
        self._forget_gathered()
        self._has_savepoint = self._inbox_taken = False
        self._thread = get_ident()
        if self._seq is None:
            self._seq = int(self._database.rows(LAST_SEQ)[0][0])

    def commit(self) -> None:
        self._insert_gathered()
        self._database.commit()
        self._thread = 0
        self._committed_at = monotonic()

    def rollback(self) -> None:
        self._thread = 0
        self._seq = None
        self._forget_gathered()
        self._database.rollback()

    def savepoint(self) -> None:
        self._insert_gathered()
        if self._has_savepoint:
            self._has_savepoint = False  # first: after an interruption it must not name one that SQLite has released
            self._database.execute("RELEASE operation")
        self._database.execute("SAVEPOINT operation")
        self._has_savepoint = True
        self._seq_at_savepoint = self._seq
        self._thread = get_ident()

    def rollback_to_savepoint(self) -> None:
        if not self._has_savepoint:
            raise JournalError(f"{self.name}: there is no savepoint", "the transaction must be rolled back")
        self._forget_gathered()
        self._inbox_taken = False  # what was taken since the savepoint is in the inbox again
        self._database.rollback_to("operation")
        self._seq = self._seq_at_savepoint

    def pause(self) -> None:
        self._insert_gathered()
        self._thread = 0

    def _insert_gathered(self) -> None:
        if self._spoiled:
            raise JournalError(f"{self.name}: a change failed before", "the transaction must be rolled back")
        if self._new_facts or self._new_ids:
            self._spoiled = True  # stays after an interruption: it is not known what was inserted
            if self._new_facts:
                self._database.execute_many(PUT_FACT, self._new_facts)
            if self._new_ids:
                self._database.execute_many(PUT_ID, self._new_ids.values())
            self._forget_gathered()

    def _forget_gathered(self) -> None:
        self._new_facts = []
        self._new_ids = {}
        self._spoiled = False

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement that writes."""
        self._raise_if_outside()
        self.writes += 1
        return self._database.execute(sql, values)

    def _raise_if_outside(self) -> None:
        if self._thread != get_ident():
            raise JournalError(f"{self.name} is changed within a transaction only", "use Writer.run")

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise JournalError(f"{self.name} is closed", "open it again")

    # Within a transaction

    def append(self, kind: int, id: str | None, body: bytes, now: Moment) -> int:
        self._raise_if_outside()
        wall, clock = now
        seq = self.last_seq + 1
        try:
            self._new_facts.append((seq, kind, id, wall, clock, body, checksum(seq, kind, id, wall, clock, body)))
        except (TypeError, ValueError, AttributeError, struct.error) as problem:
            self._spoiled = True
            raise JournalError(
                f"{self.name}: a fact cannot be stored: {reason_of(problem)}",
                "the transaction must be rolled back",
            ) from problem
        self._seq = seq
        self.writes += 1
        return seq

    def issue(
        self,
        id: str,
        label: int | None = None,
        digest: bytes | None = None,
        seq: int | None = None,
        played: tuple[int, int, float] | None = None,  # noqa: ARG002 - the fact has it
    ) -> None:
        self._raise_if_outside()
        if id in self._new_ids:
            self._spoiled = True
            raise JournalError(f"id {id!r} is in the id table already", "try again with another one")
        self._new_ids[id] = (id, label, seq, digest)
        self.writes += 1

    def set_status(
        self,
        id: str,
        status: Status,
        value: float | None = None,
        *,
        correctable: bool = False,
        expected: Collection[Status] = OPEN_ONLY,
    ) -> bool:
        self._raise_if_outside()
        if id in self._new_ids:
            self._insert_gathered()
        # The statement has two places: a single status fills both.
        one, other = (*expected, *expected)[:2]
        values = (int(status), value, correctable, id, int(one), int(other))
        changed = self._database.execute(SETTLE, values).rowcount > 0
        self.writes += changed
        return changed

    def take_inbox(self) -> list[Arrival]:
        self._raise_if_outside()
        if self._inbox_taken:  # no other process can write during the transaction
            return []
        rows = self._database.rows(INBOX)
        for name, value, _, _, _, _, settled in rows:
            # Both were written in one transaction. The value may become an index in compiled code, which is unchecked.
            if not isinstance(value, float) or value != settled:
                raise damaged(self.path, f"the answer to {shown(name)} in the inbox is not that of the id table")
        if rows:
            self._execute("DELETE FROM inbox WHERE place <= ?", (rows[-1][5],))
        self._inbox_taken = True
        return [Arrival(name, value, Moment(wall, clock), reply) for name, value, wall, clock, reply, _, _ in rows]

    def put_snapshot(self, seq: int, body: bytes) -> None:
        self._execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (seq, body))
        self._execute(DROP_SNAPSHOTS, (KEPT_SNAPSHOTS,))
        self._seq = max(self.last_seq, seq)

    def set_meta(self, name: str, body: bytes) -> None:
        self._execute(PUT_META, (name, body))

    def keep_reply(self, key: str, fingerprint: bytes, reply: bytes, now: Moment) -> None:
        self._execute("INSERT INTO replies VALUES (?, ?, ?, ?)", (key, fingerprint, reply, now.clock))

    def drop_old_replies(self, now: Moment) -> None:
        self._execute("DELETE FROM replies WHERE clock < ?", (now.clock - REPLIES_KEPT,))

    def purge(self, before_seq: int, older_than: int) -> int:
        self._insert_gathered()
        self._clock.now()  # the last fact, from which the next clock would continue, may be deleted
        self.set_meta("clock", json.dumps(self._clock.state()).encode())
        self._execute("DROP TABLE IF EXISTS temp.purgeable")
        self._execute(PURGEABLE, (before_seq, older_than))
        deleted = self._execute("DELETE FROM facts WHERE id IN (SELECT id FROM temp.purgeable)").rowcount
        self._execute(
            "UPDATE ids SET purged = 1, seq = NULL, digest = NULL WHERE id IN (SELECT id FROM temp.purgeable)"
        )
        self._execute("DROP TABLE temp.purgeable")
        if deleted:
            self.set_meta("compacted", b"1")
        ((free,),) = self._database.rows("PRAGMA freelist_count")
        for _ in range(free):  # Python's sqlite3 runs only one step of this pragma, which frees one page
            self._execute("PRAGMA incremental_vacuum(1)")
        return deleted

    # Anywhere

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a query: in the transaction for its own thread, on what is committed for all others."""
        if self._thread == get_ident():
            return self._database.rows(sql, values)
        if self._process != os.getpid():  # before the lock: another thread may have held it at the fork
            raise forked(self.path)
        with self._reader_lock:
            self._raise_if_closed()
            if self._reader is None:
                self._reader = Database(self.path, "rw", "read")
            return self._reader.rows(sql, values)

    def _gathered_rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a query that concerns gathered rows, too."""
        if self._thread == get_ident():
            self._insert_gathered()
        return self._rows(sql, values)

    @property
    def last_seq(self) -> int:
        if self._thread == get_ident() and self._seq is not None:
            return self._seq
        return int(self._gathered_rows(LAST_SEQ)[0][0])

    def known(self, id: str) -> Known | None:
        if self._thread == get_ident():
            row = self._new_ids.get(id)
            if row is not None:
                return Known(Status.OPEN, None, row[1], False, False, row[2], row[3])
        rows = self._rows(KNOWN, (id,))
        return as_known(self.path, rows[0]) if rows else None

    def all_ids(self) -> Iterator[tuple[str, Known]]:
        return ((row[-1], as_known(self.path, row[:-1])) for row in self._gathered_rows(ALL_IDS))

    def facts(self, after: int = 0) -> Iterator[Fact]:
        return read_facts(self.path, self._gathered_rows, after)

    def fact(self, seq: int) -> Fact | None:
        rows = self._gathered_rows(FACT, (seq,))
        return as_fact(self.path, rows[0]) if rows else None

    def snapshot(self) -> Snapshot | None:
        rows = self._rows("SELECT seq, body FROM snapshots ORDER BY seq DESC LIMIT 1")
        if rows and not isinstance(rows[0][1], bytes):
            raise damaged(self.path, f"the snapshot after fact {shown(rows[0][0])} is of another type")
        return Snapshot(*rows[0]) if rows else None

    def meta(self, name: str) -> bytes | None:
        rows = self._rows("SELECT value FROM meta WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def stored_reply(self, key: str) -> StoredReply | None:
        rows = self._rows("SELECT fingerprint, reply FROM replies WHERE key = ?", (key,))
        return StoredReply(*rows[0]) if rows else None

    def clock_state(self) -> dict[str, Any]:
        return self._clock.state()

    def close(self) -> None:
        if self._process != os.getpid():
            return
        if not self._closed:
            self.rollback()
            self._closed = True
        # Again at a second call: the first one may have been interrupted.
        self._database.close()
        with self._reader_lock:
            if self._reader is not None:
                self._reader.close()
        self._lock.release()
