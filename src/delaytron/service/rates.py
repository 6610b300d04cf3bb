"""How often something happened in the last minute, second by second."""

from collections.abc import Callable
from time import monotonic

SECONDS = 60


class Rates:
    """Counts decisions, and those of them that explored.

    Examples
    --------
    >>> rates = Rates(clock=lambda: 100.5)
    >>> rates.count(decisions=3, explored=1)
    >>> rates.of_last_minute()
    (0.05, 0.3333333333333333)
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._counts: dict[int, tuple[int, int]] = {}  # second -> decisions, explored

    def count(self, decisions: int, explored: int) -> None:
        """Count what has just been decided."""
        second = int(self._clock())
        before = self._counts.get(second, (0, 0))
        self._counts[second] = (before[0] + decisions, before[1] + explored)
        for old in [known for known in self._counts if known < second - SECONDS]:
            del self._counts[old]

    def of_last_minute(self) -> tuple[float, float | None]:
        """Return decisions per second, and the share of them that explored; None if there were none."""
        second = int(self._clock())
        recent = [counts for known, counts in self._counts.items() if second - SECONDS <= known]
        decisions = sum(counts[0] for counts in recent)
        explored = sum(counts[1] for counts in recent)
        return decisions / SECONDS, explored / decisions if decisions else None
