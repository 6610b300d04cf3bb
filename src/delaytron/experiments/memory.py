"""Memory: what there is, what was taken, and whether an experiment can fit."""

import os
import sys
from collections.abc import Iterable

from delaytron.errors import InvalidInput
from delaytron.experiments.runs import RunSpec
from delaytron.simulation.scenarios import BYTES_PER_EXPIRING_ROUND, BYTES_PER_ROUND

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]


def peak_memory() -> int:
    """Return the most memory that this process has had so far, in bytes; 0 where that is not known."""
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def installed_memory() -> int | None:
    """Return the memory of this machine in bytes; None where that is not known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(runs: Iterable[RunSpec], workers: int | None = None) -> None:
    """Raise if the longest of these runs, on all workers at a time, need more memory than there is."""
    installed = installed_memory()
    needed = max((_run_bytes(run) * _at_a_time(run, workers) for run in runs), default=0)
    if installed is not None and needed > installed:
        raise InvalidInput(
            f"so many rounds take {needed / 1e9:.1f} GB, and this machine has {installed / 1e9:.1f} GB; "
            "take fewer rounds or workers"
        )


def _run_bytes(run: RunSpec) -> int:
    return run.rounds * (BYTES_PER_EXPIRING_ROUND if "expire_after" in run.parameters else BYTES_PER_ROUND)


def _at_a_time(run: RunSpec, workers: int | None) -> int:
    return min(run.runs, workers or os.cpu_count() or 1)
