"""Errors of SQLite as a user should read them: in one line, with what to do about it."""

import sqlite3
from pathlib import Path

from delaytron.errors import InvalidInput, JournalError

FOREIGN = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
RESTORE = "restore it from a backup"
STEPS = {
    sqlite3.SQLITE_BUSY: "another process holds it; try again when that has ended",
    sqlite3.SQLITE_CORRUPT: RESTORE,
    sqlite3.SQLITE_FULL: "make room, then try again",
    sqlite3.SQLITE_NOTADB: RESTORE,
}


def error_code(problem: sqlite3.Error) -> int:
    """Return the kind of an error; those that Python finds by itself have none."""
    return getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def one_line(problem: Exception) -> str:
    """Return the message of an error, which may quote what is in a file."""
    return " ".join(str(problem).split())


def with_step(problem: sqlite3.Error) -> str:
    """Return the message of an error, and what to do about it.

    Examples
    --------
    >>> with_step(sqlite3.OperationalError("disk I/O error"))
    'disk I/O error; check the disk, then try again'
    """
    return f"{one_line(problem)}; {STEPS.get(error_code(problem), 'check the disk, then try again')}"


def opening_error(path: Path, problem: sqlite3.Error) -> InvalidInput | JournalError:
    """Say why a file cannot be opened: it is the wrong one, or it could not be read just now."""
    code = error_code(problem)
    if code == sqlite3.SQLITE_NOTADB:
        return InvalidInput(f"{path} is not a journal: it is no SQLite file; give another path")
    if code in FOREIGN:
        return InvalidInput(
            f"{path} cannot be opened for writing ({one_line(problem)}); check its rights and those of its folder"
        )
    return JournalError(f"{path} could not be opened: {with_step(problem)}")
