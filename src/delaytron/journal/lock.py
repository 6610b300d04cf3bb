"""The owner's lock: one process decides, and it is known which."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from delaytron.errors import InvalidInput
from delaytron.files.locks import lock_file, open_lock

if sys.platform != "win32":
    import fcntl

_held: "WeakSet[OwnerLock]" = WeakSet()


class OwnerLock:
    """A lock beside a file, held as long as this process lives.

    It has no effect on Windows and on file systems without locks. Forked children do not hold it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + "-lock")
        self._owner = os.getpid()
        self._descriptor = -1
        self._descriptor = self._open()
        while not self._take(path):
            self.forget()
            self._descriptor = self._open()
        with suppress(OSError):  # no room: then it is not known which process holds it
            os.write(self._descriptor, b"%-20d\n" % self._owner)
        _held.add(self)

    def _open(self) -> int:
        return open_lock(self._path, 0o666)

    def _take(self, path: Path) -> bool:
        """Lock the file; False if it was removed meanwhile by the one who held it."""
        try:
            return lock_file(self._descriptor)
        except BlockingIOError:
            owner = self._read_owner()
            self.forget()
            raise InvalidInput(_in_use(path, owner)) from None

    def _read_owner(self) -> str:
        with suppress(OSError, ValueError):
            return str(int(os.read(self._descriptor, 32)))
        return ""

    def release(self) -> None:
        """Give the lock back, and remove its file."""
        if self._descriptor >= 0 and self._owner == os.getpid():
            with suppress(OSError):
                os.unlink(self._path)
            if sys.platform != "win32":
                with suppress(OSError):
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Close the file: in a forked child the parent still holds the lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.forget()


def _in_use(path: Path, owner: str) -> str:
    if owner == str(os.getpid()):
        return f"{path} is open in this process already; use that one, or close it first"
    who = f"process {owner}" if owner else "another process"
    return f"{path} is in use by {who}; close it there, or use dt.Journal to give feedback from here"


def _forget_in_child() -> None:
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
