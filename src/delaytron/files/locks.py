"""Locks of open files, which the system gives back when a process dies."""

import os
import sys
from pathlib import Path

from delaytron.errors import InvalidInput
from delaytron.files.advice import with_advice

if sys.platform != "win32":
    import fcntl


def open_lock(path: Path, mode: int) -> int:
    """Open a file that is there to be locked; make it if there is none."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), mode)
    except OSError as problem:
        raise InvalidInput(f"cannot write {path}: {with_advice(problem)}") from None


def lock_file(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file; False if it was removed meanwhile by the one who held it.

    Raises BlockingIOError if another process holds it, unless it is to `wait`. It has no effect on Windows and on file
    systems without locks.

    Examples
    --------
    >>> from tempfile import TemporaryFile
    >>> with TemporaryFile() as removed:
    ...     lock_file(removed.fileno())
    False
    """
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # no locks here
        return True
    return os.fstat(descriptor).st_nlink > 0
