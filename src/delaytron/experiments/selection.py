"""What came out of an experiment: for every condition the setting that was chosen, and its errors."""

from collections.abc import Iterable
from typing import NamedTuple

from delaytron.experiments.runs import Condition, RunSpec
from delaytron.experiments.store import Store
from delaytron.simulation.results import Result


class Outcome(NamedTuple):
    """A condition with the run that stands for it, and the mean error by which that one was chosen."""

    condition: Condition
    run: RunSpec
    result: Result
    chosen_by: float


def outcomes(conditions: Iterable[Condition], store: Store) -> list[Outcome]:
    """Return what came out of every condition; the runs on other seeds choose, where there are any."""
    return [_outcome(condition, store) for condition in conditions]


def missing_runs(condition: Condition, store: Store) -> list[RunSpec]:
    """Return what is still to be played of a condition; the setting that is reported shows only after the tuning."""
    tuning = [run for run in condition.tuning if not store.has(run)]
    if condition.all_reported:
        return tuning + [run for run in condition.reported if not store.has(run)]
    return tuning or [run for run in [chosen(condition, store)[0]] if not store.has(run)]


def missing_rounds(condition: Condition, store: Store) -> int:
    """Return how many rounds are still to be played of a condition."""
    missing = missing_runs(condition, store)
    waiting = not condition.all_reported and any(run in condition.tuning for run in missing)
    return sum(run.n_rounds for run in missing) + (condition.reported[0].n_rounds if waiting else 0)


def chosen(condition: Condition, store: Store) -> tuple[RunSpec, float]:
    """Return the reported run of the setting with the lowest mean error, and that error."""
    errors = [store.mean_error(run) for run in condition.tuning or condition.reported]
    lowest = min(errors)
    return condition.reported[errors.index(lowest)], lowest


def _outcome(condition: Condition, store: Store) -> Outcome:
    run, error = chosen(condition, store)
    return Outcome(condition, run, store.read(run), error)
