"""A connection to an SQLite file: patient with other processes, and made anew after an error."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from delaytron.errors import InvalidInput, JournalError
from delaytron.journal.forks import Connection
from delaytron.journal.problems import error_code, opening_error, with_step

PATIENCE = 30.0  # seconds that others may take with their writing
RETRY = 0.0003  # seconds between two tries
GAP, GAP_EVERY = 0.0005, 0.1  # seconds: the owner lets others write for so long, so often
PRAGMAS = ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON", "cache_size = -16000")

T = TypeVar("T")


class BusyError(JournalError):
    """Another process writes just now, and the caller did not want to wait for it."""


def patiently(action: Callable[[], T]) -> T:
    """Try again as long as another process holds the database, up to 30 s."""
    until = monotonic() + PATIENCE
    while True:
        try:
            return action()
        except sqlite3.OperationalError as problem:
            if error_code(problem) != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
        sleep(RETRY)


def connect(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """Open an SQLite file; raise InvalidInput if it is none or may not be written."""
    mode = "rwc" if create else "rw"
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
    except sqlite3.Error as problem:
        raise opening_error(path, problem) from problem
    with closed_after_error(path, connection):
        _prepare(connection)
    return connection


@contextmanager
def closed_after_error(path: Path, connection: sqlite3.Connection) -> Iterator[None]:
    """Close a connection if what is done with it as a file is opened fails; say why it cannot be opened."""
    try:
        yield
    except BaseException as problem:
        connection.close()
        if isinstance(problem, sqlite3.Error):
            raise opening_error(path, problem) from problem
        raise


def reconnect(path: Path) -> sqlite3.Connection:
    """Open a file that was open before: it is not the caller's mistake if that fails."""
    try:
        return connect(path)
    except InvalidInput as problem:
        raise JournalError(str(problem)) from problem


def _prepare(connection: sqlite3.Connection) -> None:
    for pragma in PRAGMAS:
        patiently(partial(connection.execute, f"PRAGMA {pragma}"))
    patiently(lambda: connection.execute("PRAGMA schema_version").fetchone())  # the first look at the file


def _begin_patiently(connection: sqlite3.Connection) -> None:
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"))


def _begin_at_once(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as problem:
        if error_code(problem) != sqlite3.SQLITE_BUSY:
            raise
        raise BusyError("another process writes to the journal; try again") from None


class Database:
    """The connection of the process that decides; one thread at a time.

    After an error of the database the connection is given up, and the next transaction opens a new one. One that
    `gathers` inserts many rows at once, which takes less time; where members of a batch do not wait for its commit, an
    interruption could cost what others were told is kept.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, gathers: bool = False) -> None:
        self._path = path
        self._gathers = gathers
        self._connection: sqlite3.Connection | None = connection
        self._failed = False  # in the present transaction
        self._marked = False
        self._inserts: dict[str, list[Sequence[Any]]] = {}  # what is still to be inserted, by its statement
        self._committed_at = self._gap_at = 0.0

    @property
    def has_committed(self) -> bool:
        """Whether the last transaction that began was committed."""
        return not self._failed and self._connection is not None and not self._connection.in_transaction

    def begin(self, *, wait: bool = True) -> None:
        """Begin a transaction in which no other process can write; if one does, wait, or raise `BusyError`."""
        self._leave_gap()
        if self._connection is None:
            self._connection = reconnect(self._path)
        self._failed = False
        self._marked = False
        self._inserts = {}
        connection = self._connection
        self._guarded(partial(_begin_patiently if wait else _begin_at_once, connection))

    def _leave_gap(self) -> None:
        """Now and then let other processes write, which can only try again and again."""
        idle = monotonic() - self._committed_at
        if idle < GAP and self._committed_at - self._gap_at > GAP_EVERY:
            sleep(GAP)
            idle = GAP
        if idle >= GAP:
            self._gap_at = monotonic()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds, with what the transaction has written."""
        cursor = self.execute(sql, values)
        return self._guarded(cursor.fetchall)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement within the transaction."""
        connection = self._in_transaction()
        if self._inserts:
            self._insert_all(connection)
        return self._guarded(lambda: connection.execute(sql, values))

    def insert(self, sql: str, values: Sequence[Any]) -> None:
        """Insert a row within the transaction; if it gathers them, before anything else is done in it."""
        if self._gathers:
            self._in_transaction()
            self._inserts.setdefault(sql, []).append(values)
        else:
            self.execute(sql, values)

    def _insert_all(self, connection: sqlite3.Connection) -> None:
        """Insert the rows that were gathered; if that is interrupted, the transaction has failed."""
        try:
            inserts, self._inserts = self._inserts, {}
            for sql, rows in inserts.items():
                self._guarded(partial(connection.executemany, sql, rows))
        except BaseException:
            self._failed = True
            raise

    def _in_transaction(self) -> sqlite3.Connection:
        connection = self._connection
        if self._failed or connection is None or not connection.in_transaction:
            raise JournalError(f"{self._path} could not be written: the transaction has ended; try again")
        return connection

    def commit(self) -> None:
        """Bring the transaction to disk."""
        self.execute("COMMIT")
        self._committed_at = monotonic()

    def rollback(self) -> None:
        """End the transaction without a trace, if there is one; raises no error of the database."""
        connection = self._connection
        self._inserts = {}
        try:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._failed = True
        if self._failed:
            self.close()

    def mark(self) -> None:
        """Remember this place in the transaction."""
        if self._marked:
            self._marked = False  # first: an interruption must not leave a mark that is not there
            self.execute("RELEASE member")
        self.execute("SAVEPOINT member")
        self._marked = True

    def rollback_to_mark(self) -> None:
        """Undo what came after the last mark."""
        self._inserts = {}
        self.execute("ROLLBACK TO member")

    def close(self) -> None:
        """Give the connection up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _guarded(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except sqlite3.Error as problem:
            self._failed = True
            raise JournalError(f"{self._path} could not be written: {with_step(problem)}") from problem
