"""SQLite connections of a journal: errors, retries, forked children, and which files are journals."""

import ctypes
import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar
from weakref import WeakSet

from delaytron.checks import reason_of
from delaytron.errors import DelaytronError, InvalidInput, JournalError, shown

FORMAT = 3
APPLICATION = 0x44744A72  # "DtJr": marks an SQLite file as a journal
PATIENCE = 30.0  # seconds to wait for another process that writes
RETRY = 0.0003  # seconds between two attempts
LONGEST_SETTING = 200  # characters of a setting in a message

# FULL: a commit returns after the log is synced. fullfsync is for macOS, whose fsync does not empty the disk's cache.
PRAGMAS = ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON", "cache_size = -16000")

T = TypeVar("T")


# Errors


def database_error(path: Path, problem: Exception, doing: str) -> DelaytronError:
    """Return InvalidInput or JournalError for an error of SQLite. `doing`: "opened", "written" or "read".

    Examples
    --------
    >>> str(database_error(Path("a.db"), sqlite3.OperationalError("disk I/O error"), "written"))
    'a.db could not be written: disk I/O error; check the disk, then try again'
    """
    code = error_code(problem)
    reason = " ".join(str(problem).split())  # a message may quote what is in a damaged file
    if doing == "opened" and code == sqlite3.SQLITE_NOTADB:
        return InvalidInput(f"{path} is not a journal: it is no SQLite file", "give another path")
    if doing == "opened" and code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return InvalidInput(
            f"{path} cannot be opened for writing ({reason})", "check its rights and those of its folder"
        )
    hint = {
        sqlite3.SQLITE_BUSY: "another process holds it; try again when that has ended",
        sqlite3.SQLITE_CORRUPT: "restore it from a backup",
        sqlite3.SQLITE_FULL: "free some space, then try again",
        sqlite3.SQLITE_NOTADB: "restore it from a backup",
    }.get(code, "check the disk, then try again")
    return JournalError(f"{path} could not be {doing}: {reason}", hint)


def error_code(problem: BaseException) -> int:
    """Return the primary result code of an error of SQLite; SQLITE_ERROR where Python's module found it by itself."""
    if isinstance(problem, UnicodeDecodeError):  # Python could not decode SQLite's message, which quotes a damaged file
        return sqlite3.SQLITE_CORRUPT
    return getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def forked(path: Path) -> JournalError:
    """Return the error for the use of a connection in a forked child."""
    return JournalError(f"{path.name} was opened before this process was forked", "open it again, or use dt.Journal")


class DamagedFact(JournalError):  # noqa: N818
    """A fact whose checksum is wrong; `value` is its number as it is stored."""


def damaged(path: Path, what: str) -> JournalError:
    """Return the error for content that this package cannot have written."""
    return JournalError(f"{path} is damaged ({what})", "restore it from a backup")


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Turn an exception in parsing stored values into a JournalError: the file is damaged."""
    try:
        yield
    except DelaytronError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError) as problem:
        raise damaged(path, f"{type(problem).__name__} {' '.join(str(problem).split())}") from problem


# Connections


class Connection(sqlite3.Connection):
    """A connection that a forked child cannot close: that would change the locks and the log of its parent."""

    inherited = False

    def close(self) -> None:
        """Close it; in a forked child, do nothing."""
        if not self.inherited:
            super().close()


_connections: "WeakSet[Connection]" = WeakSet()


def _keep_in_child() -> None:
    """Keep the connections that a forked child inherited from being closed by it.

    Closing the last connection of a process checkpoints and deletes the log that the parent still writes, and
    deallocation closes. A reference that is never released prevents the deallocation, also when the child exits.
    """
    for connection in list(_connections):
        connection.inherited = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_in_child)


class Database:
    """SQLite connection that retries on SQLITE_BUSY and reconnects after errors; for one thread at a time.

    Its methods raise JournalError (InvalidInput while it is opened). After an error a transaction can only be rolled
    back, and the next statement uses a new connection. In a forked child it raises, and cannot harm the parent's.
    """

    def __init__(self, path: Path, mode: str, doing: str = "opened") -> None:
        self.path = path
        self.doing = doing  # for the messages of errors
        self.mode = mode  # of SQLite: "ro", "rw", or "rwc" to create the file
        self._process = os.getpid()
        self._open = False  # a transaction was begun; SQLite may have ended it since, after an error
        self._failed = False  # after an error: the transaction can only be rolled back
        self._refused = False  # that error was a violated constraint, such as a second row with the same key
        self._connection: Connection | None = None
        try:
            self.rows("PRAGMA schema_version")  # SQLite opens the file at the first statement
        except BaseException:
            self.close()
            raise

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun, and neither committed nor rolled back."""
        return self._open or (self._connection is not None and self._connection.in_transaction)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement; return its cursor."""
        return self._attempt(lambda connection: connection.execute(sql, values))

    def execute_many(self, sql: str, rows: Collection[Sequence[Any]]) -> None:
        """Execute a statement once per row of values."""
        self._attempt(lambda connection: connection.executemany(sql, rows))

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a query; return all rows."""
        return self._attempt(lambda connection: connection.execute(sql, values).fetchall())

    def begin(self) -> None:
        """Begin a transaction with SQLite's write lock; if another process has it, wait up to 30 seconds for it."""
        self.rollback()
        self.execute("BEGIN IMMEDIATE")
        self._open = True

    def begin_reading(self) -> None:
        """Begin a transaction that reads what is committed now, whatever is committed later."""
        self.execute("BEGIN")
        self.rows("SELECT count(*) FROM sqlite_schema")  # SQLite takes its snapshot at the first read
        self._open = True

    def commit(self) -> None:
        """Commit; when this returns, the transaction is on disk."""
        try:
            self.execute("COMMIT")
        finally:
            # After an interruption, too: SQLite may have committed before it.
            if not self._failed and (self._connection is None or not self._connection.in_transaction):
                self._open = False

    def rollback(self) -> None:
        """Roll back the transaction, if there is one; raises no error of the database."""
        connection = self._connection
        if self._process != os.getpid() or connection is None:
            return
        try:
            # SQLite's flag, not `_open`: an interruption may have come between BEGIN and the assignment.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._failed = True
        self._open = False
        if self._failed:
            self._disconnect()

    def rollback_to(self, savepoint: str) -> None:
        """Undo what came after a savepoint; raise JournalError if the transaction is lost."""
        if self._failed and self._refused:
            # SQLite has undone that statement only, so the transaction is intact. After any other error, such as one
            # of the disk, the connection is not trusted, and `execute` raises.
            self._failed = False
        self.execute(f"ROLLBACK TO {savepoint}")

    def close(self) -> None:
        """Close the connection; in a forked child, do nothing."""
        self._open = False
        self._disconnect()

    def _attempt(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Call `action` with the connection, again and again while another process has the write lock."""
        if self._process != os.getpid():
            raise forked(self.path)
        if self._open:
            if self._failed or self._connection is None or not self._connection.in_transaction:
                raise JournalError(f"{self.path} could not be written: the transaction has ended", "try again")
        elif self._failed:
            self._disconnect()
        until = monotonic() + PATIENCE
        while True:
            try:
                return action(self._connection or self._connect())
            except (sqlite3.Error, UnicodeDecodeError) as problem:
                # Within a transaction this connection has the write lock: what is busy then does not pass by waiting.
                code = error_code(problem)
                if code != sqlite3.SQLITE_BUSY or self._open or monotonic() >= until:
                    self._refused = code == sqlite3.SQLITE_CONSTRAINT
                    self._failed = self.mode != "ro"  # a reader keeps its connection, and so its snapshot
                    raise database_error(self.path, problem, self.doing) from problem
            sleep(RETRY)  # not SQLite's busy timeout: its retries are up to 100 ms apart

    def _connect(self) -> Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={self.mode}",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        _connections.add(connection)
        try:
            if self.mode != "ro":
                for pragma in PRAGMAS:
                    connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._failed = False
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._failed = False
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


# Files


def find_file(path: str | Path) -> Path:
    """Return an absolute path without links; raise InvalidInput if no journal can be there."""
    try:
        target = Path(path).resolve()
        folder = target.parent
        exists, is_file, has_folder = target.exists(), target.is_file(), folder.is_dir()
    except (OSError, RuntimeError, ValueError, TypeError) as problem:
        raise InvalidInput(
            f"{shown(path)} cannot be the path of a journal: {reason_of(problem)}", "give the path of a file"
        ) from None
    if not has_folder:
        raise InvalidInput(f"cannot open {path}: there is no folder {folder}", "create it first")
    if exists and not is_file:
        raise InvalidInput(f"cannot open {path}: it is a folder or a device", "give the path of a file")
    for place in (folder, target) if exists else (folder,):  # SQLite would open a read-only file without an error
        if not os.access(place, os.W_OK):
            raise InvalidInput(f"cannot open {path}: no permission to write {place}", "use another path")
    return target


def has_journal(path: str | Path) -> bool:
    """Return whether a file exists and is not empty; a crash at its creation may leave an empty one."""
    target = find_file(path)
    if not target.exists():
        return False
    with closing(Database(target, "rw")) as database:
        return not is_empty(database)


def open_existing(path: Path, mode: str = "rw") -> Database:
    """Open a journal that another process may own; raise InvalidInput if there is none."""
    if not path.exists():
        raise InvalidInput(f"there is no journal {path}", "give the path of one that dt.Model has created")
    database = Database(path, mode)
    try:
        read_meta(database)
    except BaseException:
        database.close()
        raise
    database.doing = "read"
    return database


def read_meta(database: Database) -> dict[str, Any]:
    """Return the named values of a journal; raise InvalidInput if the file is no journal, or of another format."""
    path = database.path
    if database.rows("PRAGMA application_id")[0][0] != APPLICATION:
        raise InvalidInput(f"{path} is not a journal, but another SQLite file", "give another path")
    with naming_damage(path):
        meta = dict(database.rows("SELECT name, value FROM meta"))
        found = int(meta["format"])
        if not isinstance(json.loads(meta["config"]), dict):
            raise TypeError("the configuration is no object")
    if found != FORMAT:
        hint = "update delaytron" if found > FORMAT else "make a new journal"
        raise InvalidInput(f"{path} is of format {found}, this version reads {FORMAT}", hint)
    return meta


def is_empty(database: Database) -> bool:
    """Return whether nothing was ever written to the file."""
    return not database.rows("PRAGMA application_id")[0][0] and not database.rows("PRAGMA schema_version")[0][0]


def raise_if_different(path: Path, stored: bytes, given: bytes) -> None:
    """Raise InvalidInput, with what differs, if a journal was created with another configuration.

    Examples
    --------
    >>> raise_if_different(Path("a.db"), b'{"gamma": 0.1}', b'{"gamma": 0.2}')
    Traceback (most recent call last):
    delaytron.errors.InvalidInput: a.db has another configuration: gamma is 0.1 there, 0.2 here; give the same one
    """
    there, here = (
        {name: json.dumps(value, sort_keys=True) for name, value in json.loads(config).items()}
        for config in (stored, given)
    )
    both = ", ".join(
        f"{name} is {there.get(name, 'not given')[:LONGEST_SETTING]} there, "
        f"{here.get(name, 'not given')[:LONGEST_SETTING]} here"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name)
    )
    if both:
        raise InvalidInput(f"{path} has another configuration: {both}", "give the same one")
