"""What came out of an experiment: for every line the setting that was chosen, and its errors."""

from collections.abc import Iterable
from typing import NamedTuple

from delaytron.experiments.runs import Line, Run
from delaytron.experiments.store import Store
from delaytron.results import Result


class Outcome(NamedTuple):
    """A line with the run that stands for it."""

    line: Line
    run: Run
    result: Result


def outcomes(lines: Iterable[Line], store: Store) -> list[Outcome]:
    """Return what came out of every line; the runs on other seeds choose, where there are any."""
    return [_outcome(line, store) for line in lines]


def _outcome(line: Line, store: Store) -> Outcome:
    judged = line.tuning or line.reported
    errors = [store.read(run).final_error.mean() for run in judged]
    chosen = line.reported[errors.index(min(errors))]
    return Outcome(line, chosen, store.read(chosen))
