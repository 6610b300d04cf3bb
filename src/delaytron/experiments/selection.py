"""What came out of an experiment: for every line the setting that was chosen, and its errors."""

from collections.abc import Iterable
from typing import NamedTuple

from delaytron.experiments.runs import Line, Run
from delaytron.experiments.store import Store
from delaytron.simulation.results import Result


class Outcome(NamedTuple):
    """A line with the run that stands for it, and the mean error by which that one was chosen."""

    line: Line
    run: Run
    result: Result
    chosen_by: float


def outcomes(lines: Iterable[Line], store: Store) -> list[Outcome]:
    """Return what came out of every line; the runs on other seeds choose, where there are any."""
    return [_outcome(line, store) for line in lines]


def missing_runs(line: Line, store: Store) -> list[Run]:
    """Return what is still to be played of a line; the setting that is reported shows only after the tuning."""
    tuning = [run for run in line.tuning if not store.has(run)]
    if line.all_reported:
        return tuning + [run for run in line.reported if not store.has(run)]
    return tuning or [run for run in [chosen(line, store)[0]] if not store.has(run)]


def missing_rounds(line: Line, store: Store) -> int:
    """Return how many rounds are still to be played of a line."""
    missing = missing_runs(line, store)
    waiting = not line.all_reported and any(run in line.tuning for run in missing)
    return sum(run.n_rounds for run in missing) + (line.reported[0].n_rounds if waiting else 0)


def chosen(line: Line, store: Store) -> tuple[Run, float]:
    """Return the reported run of the setting with the lowest mean error, and that error."""
    errors = [store.mean_error(run) for run in line.tuning or line.reported]
    return line.reported[errors.index(min(errors))], min(errors)


def _outcome(line: Line, store: Store) -> Outcome:
    run, error = chosen(line, store)
    return Outcome(line, run, store.read(run), error)
