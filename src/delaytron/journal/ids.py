"""Ids of decisions, the steady clock of a journal, and the lock of the process that owns it."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from delaytron.errors import ConflictingDecision, InvalidInput, shown
from delaytron.files.atomic import lock_file, open_lock
from delaytron.records import Decision, Moment

if sys.platform != "win32":
    import fcntl

LONGEST_ID = 200  # bytes of UTF-8
RANDOM_BYTES = 10  # of a generated id
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def check_id(id: Any) -> str:
    """Return an id that a caller gave; raise InvalidInput unless it is text of 1 to 200 bytes without NUL.

    Examples
    --------
    >>> check_id("req-17")
    'req-17'
    """
    if isinstance(id, Decision):
        raise InvalidInput.of(
            "id", "that of a decision", got="the decision itself", hint=f"give its id, {shown(id.id)}"
        )
    if not isinstance(id, str):
        raise InvalidInput.of(
            "id",
            f"a string of 1 to {LONGEST_ID} bytes",
            got=f"{type(id).__name__} {str(id)[:40]!r}",
            hint="use str(id)",
        )
    try:
        size = len(id.encode())
    except UnicodeEncodeError:
        raise InvalidInput.of(
            "id", "text that UTF-8 can hold", got=f"{id[:40]!a}", hint="give it without surrogates"
        ) from None
    if not 1 <= size <= LONGEST_ID:
        raise InvalidInput.of("id", f"of 1 to {LONGEST_ID} bytes", got=str(size), hint="use a hash of longer ones")
    if "\0" in id:
        raise InvalidInput(f"id must not contain NUL, got {id[:40]!r}", "leave it out")
    return str(id)


def new_id() -> str:
    """Return the present millisecond and 80 random bits, as 32 hexadecimal digits.

    Random, so that it cannot be guessed. The time comes first so that new ids are neighbours in the index of the id
    table, and a commit changes few of its pages.

    Examples
    --------
    >>> len(new_id())
    32
    """
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(RANDOM_BYTES).hex()}"


def new_ids(count: int) -> list[str]:
    """Return several new ids.

    Examples
    --------
    >>> len(set(new_ids(3)))
    3
    """
    millisecond, size = f"{time.time_ns() // 1_000_000:012x}", 2 * RANDOM_BYTES
    digits = os.urandom(RANDOM_BYTES * count).hex()
    return [millisecond + digits[start : start + size] for start in range(0, size * count, size)]


def issued_before(id: str) -> ConflictingDecision:
    """Return the error for an id that was issued before, for another input."""
    return ConflictingDecision(
        f"id {id!r} was issued before, for other features or classes", "give another id, or the same input"
    )


def issued_and_purged(id: str) -> ConflictingDecision:
    """Return the error for an id that was issued before, and whose decision is not stored any more."""
    return ConflictingDecision(f"id {id!r} was issued before, and its decision was purged", "give another id")


# Nanoseconds since the machine was booted, including suspension where the system counts it.
uptime_ns: Callable[[], int] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns
)


def read_boot_id() -> str | None:
    """Return the id of this boot of the machine; None where the system has none."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except OSError:
        return None


class Clock:
    """Moments whose `clock` never goes back, whatever the wall clock does.

    As long as the machine runs, `clock` follows the time since its boot. If it was rebooted since `previous` (the
    `state()` of an earlier clock), `clock` continues from there by the difference of the wall clocks, or by nothing if
    that is negative. The very first clock starts at the time of the wall clock.

    Examples
    --------
    >>> clock = Clock()
    >>> before = clock.now()
    >>> Clock(clock.state()).now().clock >= before.clock
    True
    """

    def __init__(
        self,
        previous: Mapping[str, Any] | None = None,
        *,
        wall: Callable[[], int] = time.time_ns,
        uptime: Callable[[], int] = uptime_ns,
        boot_id: Callable[[], str | None] = read_boot_id,
    ) -> None:
        self._wall = wall
        self._uptime = uptime
        self._boot = boot_id()
        if previous is None:
            self._offset = wall() - uptime()
        else:
            self._offset = int(previous["offset"])
            same_boot = self._boot is not None and previous["boot"] == self._boot
            if not (same_boot and uptime() + self._offset >= previous["clock"]):
                passed = max(0, wall() - int(previous["wall"]))
                self._offset = int(previous["clock"]) + passed - uptime()
        self._last = Moment(wall(), uptime() + self._offset)

    def now(self) -> Moment:
        """Return the present moment."""
        self._last = Moment(self._wall(), max(self._last.clock, self._uptime() + self._offset))
        return self._last

    def state(self) -> dict[str, Any]:
        """Return what the next clock needs to continue from the last moment: plain values, for JSON."""
        return {"boot": self._boot, "offset": self._offset, "wall": self._last.wall, "clock": self._last.clock}


_held: "WeakSet[OwnerLock]" = WeakSet()


class OwnerLock:
    """An exclusive lock on a file beside the journal, held until `release` or the end of the process.

    Raises InvalidInput, with the number of the process that holds it, if it is taken. It has no effect on Windows and
    on file systems without locks. Forked children do not hold it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + "-lock")
        self._process = os.getpid()
        self._descriptor = -1
        while True:
            self._descriptor = open_lock(self._path)
            try:
                if lock_file(self._descriptor):
                    break
            except BlockingIOError:
                holder = ""
                with suppress(OSError, ValueError):
                    holder = str(int(os.read(self._descriptor, 32)))
                self.forget()
                if holder == str(self._process):
                    raise InvalidInput(
                        f"{path} is open in this process already", "use that one, or close it first"
                    ) from None
                who = f"process {holder}" if holder else "another process"
                raise InvalidInput(
                    f"{path} is in use by {who}", "close it there, or use dt.Journal to give feedback from here"
                ) from None
            # The holder removed the file between `open_lock` and `lock_file`: a lock on it would exclude no one.
            self.forget()
        with suppress(OSError):  # if the disk is full, messages cannot name the process
            os.write(self._descriptor, b"%-20d\n" % self._process)
        _held.add(self)

    def release(self) -> None:
        """Remove the file and unlock it; in a forked child, only close it."""
        if self._descriptor >= 0 and self._process == os.getpid():
            with suppress(OSError):
                os.unlink(self._path)  # before the unlock: after it, the file may be the lock of the next owner
            if sys.platform != "win32":
                with suppress(OSError):
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Close the file. The lock belongs to the open file description, which a forked child shares."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.forget()


def _forget_in_child() -> None:
    """Close inherited lock files: a child that outlives its parent must not keep the journal locked."""
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
