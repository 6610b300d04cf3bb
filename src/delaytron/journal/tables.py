"""The tables of a journal, and how a file with them is made, recognised and brought up to date."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from delaytron.checks import reason_of, shown
from delaytron.errors import DelaytronError, InvalidInput, JournalError
from delaytron.journal.database import closed_after_error, connect, patiently
from delaytron.journal.problems import one_line
from delaytron.journal.queries import PUT_META

FORMAT = 2
MAKE = "check the path, or make a new one by dt.Model(classes, journal=path)"
APPLICATION = 0x44744A72  # "DtJr": marks an SQLite file as ours
REQUESTS = (
    "CREATE TABLE requests (key TEXT PRIMARY KEY, fingerprint BLOB NOT NULL, reply BLOB NOT NULL,"
    " clock INTEGER NOT NULL) WITHOUT ROWID"
)
TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE facts (seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, id TEXT,"
    " wall INTEGER NOT NULL, clock INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE ids (id TEXT PRIMARY KEY, status INTEGER NOT NULL, value REAL, label INTEGER,"
    " purged INTEGER NOT NULL, seq INTEGER) WITHOUT ROWID",
    "CREATE TABLE inbox (place INTEGER PRIMARY KEY, id TEXT NOT NULL, value REAL NOT NULL,"
    " wall INTEGER NOT NULL, clock INTEGER NOT NULL, revises INTEGER NOT NULL)",
    "CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    REQUESTS,
)


def find_file(path: str | Path) -> Path:
    """Return the file that a path means, through all links; raise if no file can be there."""
    try:
        target = Path(path).resolve()
        folder = target.parent
        found = target.exists(), target.is_file(), folder.is_dir()
    except (OSError, RuntimeError, ValueError, TypeError) as problem:
        raise InvalidInput(
            f"{shown(path)} cannot be the path of a journal: {reason_of(problem)}; give the path of a file"
        ) from None
    there, is_file, has_folder = found
    if not has_folder:
        raise InvalidInput(f"cannot open {path}: there is no folder {folder}; make it first")
    if there and not is_file:
        raise InvalidInput(f"cannot open {path}: it is a folder or a device; give the path of a file")
    for place in (folder, target) if there else (folder,):  # SQLite would open what it may only read
        if not os.access(place, os.W_OK):
            raise InvalidInput(f"cannot open {path}: there is no right to write {place}; use another path")
    return target


def has_journal(path: str | Path) -> bool:
    """Whether there is something in a file; a crash as it was made may leave one in which there is nothing."""
    target = find_file(path)
    if not target.exists():
        return False
    with closing(connect(target)) as connection:
        return not _is_empty(connection)


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Let what cannot be understood in a file be an error that says so."""
    try:
        yield
    except DelaytronError:
        raise
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        what = f"{type(problem).__name__} {one_line(problem)}"
        raise JournalError(f"{path} is damaged ({what}); restore it from a backup") from problem


def open_tables(path: Path, config: bytes | None) -> sqlite3.Connection:
    """Open the journal of the process that decides; with a configuration, make it if there is none."""
    if config is None and not path.exists():
        raise InvalidInput(f"there is no journal {path}; {MAKE}")
    connection = connect(path, create=config is not None)
    with closed_after_error(path, connection):
        _use_wal(path, connection)
        _create_or_migrate(path, connection, config)
    return connection


def open_existing(path: Path) -> sqlite3.Connection:
    """Open a journal that another process owns: nothing is made or changed."""
    if not path.exists():
        raise InvalidInput(f"there is no journal {path}; check the path: the process that decides makes it")
    connection = connect(path)
    with closed_after_error(path, connection):
        _raise_if_older(path, read_format(path, connection))
    return connection


def read_format(path: Path, connection: sqlite3.Connection) -> int:
    """Return the format of a file; raise if it is not ours or of a newer format."""
    if _pragma(connection, "application_id") != APPLICATION:
        raise InvalidInput(f"{path} is not a journal, but another SQLite file; give another path")
    with naming_damage(path):
        found = int(read_meta(connection)["format"])
    if found > FORMAT:
        raise InvalidInput(f"{path} is of format {found}, this version reads up to {FORMAT}; update delaytron")
    return found


def read_meta(connection: sqlite3.Connection) -> dict[str, bytes]:
    """Return what is known of the journal as a whole."""
    return dict(patiently(lambda: connection.execute("SELECT name, value FROM meta").fetchall()))


def put_meta(connection: sqlite3.Connection, name: str, value: bytes) -> None:
    """Write one of these."""
    connection.execute(PUT_META, (name, value))


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(patiently(lambda: connection.execute(f"PRAGMA {name}").fetchone())[0])


def _raise_if_older(path: Path, found: int) -> None:
    if found < FORMAT:
        raise InvalidInput(
            f"{path} is of format {found}, this version writes {FORMAT}; open it with dt.Model.open once"
        )


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not _pragma(connection, "application_id") and not _pragma(connection, "schema_version")


def _use_wal(path: Path, connection: sqlite3.Connection) -> None:
    """Let commits be written to a log beside the file; a file that is not ours stays as it is."""
    if not _is_empty(connection):
        read_format(path, connection)
    patiently(lambda: connection.execute("PRAGMA auto_vacuum = INCREMENTAL"))  # so that `compact` can give pages back
    (mode,) = patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
    if mode != "wal":
        raise InvalidInput(f"{path} is on a file system that cannot hold a journal; put it on a local disk")


def _create_or_migrate(path: Path, connection: sqlite3.Connection, config: bytes | None) -> None:
    """Make what is missing in one transaction: after a crash it is all there, or nothing."""
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    try:
        if _is_empty(connection):
            _create(path, connection, config)
        else:
            _migrate(connection, read_format(path, connection))
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _create(path: Path, connection: sqlite3.Connection, config: bytes | None) -> None:
    if config is None:
        raise InvalidInput(f"{path} is empty, and no journal; {MAKE}")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    for table in TABLES:
        connection.execute(table)
    put_meta(connection, "format", b"%d" % FORMAT)
    put_meta(connection, "config", config)


def _find_decisions(connection: sqlite3.Connection) -> None:
    """Let every id tell where its decision is among the facts; keep requests that may be repeated."""
    connection.execute("ALTER TABLE ids ADD COLUMN seq INTEGER")
    connection.execute("CREATE TEMP TABLE first (id TEXT PRIMARY KEY, seq INTEGER) WITHOUT ROWID")
    connection.execute("INSERT INTO first SELECT id, min(seq) FROM facts WHERE id IS NOT NULL GROUP BY id")
    connection.execute("UPDATE ids SET seq = (SELECT seq FROM first WHERE first.id = ids.id)")
    connection.execute("DROP TABLE temp.first")
    connection.execute(REQUESTS)


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _find_decisions}  # what makes the next format of one


def _migrate(connection: sqlite3.Connection, found: int) -> None:
    for old in range(found, FORMAT):
        MIGRATIONS[old](connection)
    if found < FORMAT:
        put_meta(connection, "format", b"%d" % FORMAT)
