"""A clock that never goes back, does not jump with the wall clock, and goes on after a restart."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Moment(NamedTuple):
    """A time in ns: what the wall clock showed, and the steady clock by which things expire."""

    wall: int
    clock: int


def uptime_ns() -> int:
    """Return the time since the machine was started, sleep included where the system tells it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return time.monotonic_ns()


def read_boot_id() -> str | None:
    """Return what distinguishes this start of the machine from all others; None where the system does not tell."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except OSError:
        return None


class Clock:
    """Moments whose `clock` never goes back.

    As long as the machine runs, `clock` follows the time since its start. When the machine was started anew since
    `previous` (the `state()` of an earlier clock), it goes on from there by the difference of the wall clocks, or stays
    if that is negative. The first clock of all starts at the time of the wall clock.

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
        self._offset = self._first_offset() if previous is None else self._continued(previous)
        self._last = Moment(wall(), uptime() + self._offset)

    def _first_offset(self) -> int:
        return self._wall() - self._uptime()

    def _continued(self, previous: Mapping[str, Any]) -> int:
        """Return what to add to the time since the start of the machine."""
        offset = int(previous["offset"])
        same_boot = self._boot is not None and previous["boot"] == self._boot
        if same_boot and self._uptime() + offset >= previous["clock"]:
            return offset
        passed = max(0, self._wall() - int(previous["wall"]))
        return int(previous["clock"]) + passed - self._uptime()

    def now(self) -> Moment:
        """Return the present moment."""
        self._last = Moment(self._wall(), max(self._last.clock, self._uptime() + self._offset))
        return self._last

    def state(self) -> dict[str, Any]:
        """Return what the next clock needs to go on from the last moment: plain values, for JSON."""
        return {"boot": self._boot, "offset": self._offset, "wall": self._last.wall, "clock": self._last.clock}
