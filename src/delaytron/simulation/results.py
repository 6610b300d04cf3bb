"""What came out of a simulation: errors of every run at every checkpoint, as numbers, table or figure."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from delaytron.extras import needs
from delaytron.records import Array, Ints

if TYPE_CHECKING:
    import pyarrow as pa

    from delaytron.simulation.scenarios import SimulationConfig

MAJORITY = "always the most frequent class"  # beside the errors of learners: what each has to beat

Setting = dict[str, Any]  # parameters of a learner, by name: whatever its constructor takes


class Errors(TypedDict):
    """Mean errors of some runs, each with the half width of its 95 % interval (none for a single run)."""

    error: float
    error_margin: float | None
    greedy_error: float
    greedy_error_margin: float | None


class Mean(NamedTuple):
    """A mean over runs and the half width of its 95 % interval (NaN for a single run)."""

    value: float
    margin: float

    @property
    def known_margin(self) -> float | None:
        """The margin as JSON has it: none for a single run."""
        return None if np.isnan(self.margin) else self.margin


def mean_of(values: Array) -> Mean:
    """Return the mean with its 95 % interval by Student's t.

    Examples
    --------
    >>> mean_of(np.array([1.0, 2.0, 3.0]))
    Mean(value=2.0, margin=2.484...)
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

    n = values.size
    if n < 2:
        return Mean(float(values.mean()), float("nan"))
    return Mean(float(values.mean()), float(stdtrit(n - 1, 0.975) * values.std(ddof=1) / np.sqrt(n)))


def index_from_which_below(errors: Array, target: float | Array) -> int | None:
    """Return the index from which on errors stay at or below a target; None if they are above it at the end.

    Examples
    --------
    >>> index_from_which_below(np.array([0.0, 0.5, 0.2, 0.1]), 0.2)
    2
    >>> index_from_which_below(np.array([0.1, 0.3]), 0.2) is None
    True
    """
    above = np.flatnonzero(errors > target)
    index = int(above[-1]) + 1 if above.size else 0
    return index if index < errors.size else None


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The runs of one simulation, grouped by parameters and within a group by run.

    Parameters
    ----------
    rounds : (checkpoints,) array
        Where errors were noted; the last one is the number of rounds.
    parameters : list of dict
        The parameters that were given, one entry per run; the others have the learner's defaults.
    run : (runs,) array
        The number of each run: runs of the same number share rows, delays and draws.
    mistakes : (runs, checkpoints, 2) array
        Wrong labels so far: the played ones, and the greedy ones.
    losses : (runs, checkpoints, 2) array, optional
        Losses of the scores so far: the hinge, and the hinge where the greedy label is wrong.
    config : SimulationConfig, optional
        What rows and delays can be drawn from again.
    form : {"dense", "sparse"}, optional
        How the rows were stored, on which last digits depend; not known of runs that an experiment has kept.
    majority_error : float, optional
        The error of always playing the most frequent class of all rows; not known of runs that an experiment has kept.
    """

    learner: str
    dataset: str
    delay: str
    rounds: Ints
    parameters: list[Setting]
    run: Ints
    mistakes: Ints
    losses: Array | None = None
    config: "SimulationConfig | None" = None
    form: str | None = None
    majority_error: float | None = None

    @property
    def error_rate(self) -> Array:
        """(runs, checkpoints): the average error of the played labels so far."""
        return np.asarray(self.mistakes[:, :, 0] / self.rounds)

    @property
    def final_error(self) -> Array:
        """The average error of the played labels over all rounds, per run."""
        return self.error_rate[:, -1]

    @property
    def greedy_error(self) -> Array:
        """The average error of the greedy labels over all rounds, per run: what it would be without exploring."""
        return np.asarray(self.mistakes[:, -1, 1] / self.rounds[-1])

    def errors(self) -> Errors:
        """Return the mean errors of all runs as plain values, each with its margin (none for a single run)."""
        played = mean_of(self.final_error)
        greedy = mean_of(self.greedy_error)
        return {
            "error": played.value,
            "error_margin": played.known_margin,
            "greedy_error": greedy.value,
            "greedy_error_margin": greedy.known_margin,
        }

    def groups(self) -> Iterator[tuple[Setting, "Result"]]:
        """Iterate over the parameter settings, each with its own runs."""
        rows_of: dict[Hashable, list[int]] = {}
        for row, setting in enumerate(self.parameters):
            rows_of.setdefault(_key(setting), []).append(row)
        for rows in rows_of.values():
            setting = self.parameters[rows[0]]
            part = replace(self, parameters=[setting] * len(rows), run=self.run[rows], mistakes=self.mistakes[rows])
            yield setting, part if self.losses is None else replace(part, losses=self.losses[rows])

    def best(self) -> "Result":
        """Return the runs of the parameter setting with the lowest mean final error."""
        return min((part for _, part in self.groups()), key=lambda part: part.final_error.mean())

    def to_table(self) -> "pa.Table":
        """Return one row per run and checkpoint, as a pyarrow table."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        n_runs, n_checkpoints = self.error_rate.shape
        columns: dict[str, list[Any] | Array | Ints] = {
            name: [value] * (n_runs * n_checkpoints)
            for name, value in (
                ("learner", self.learner),
                ("dataset", self.dataset),
                ("form", self.form),
                ("delay", self.delay),
            )
        }
        for name in self.parameters[0]:
            values = [v if not isinstance(v := s[name], tuple) else ",".join(map(str, v)) for s in self.parameters]
            columns[name] = [value for value in values for _ in range(n_checkpoints)]
        columns["run"] = np.repeat(self.run, n_checkpoints)
        columns["round"] = np.tile(self.rounds, n_runs)
        columns["error_rate"] = self.error_rate.ravel()
        columns["greedy_error_rate"] = (self.mistakes[:, :, 1] / self.rounds).ravel()
        columns["majority_error"] = [self.majority_error] * (n_runs * n_checkpoints)
        return pa.table(columns)

    def plot(self, path: str | Path) -> None:
        """Save the error curves on log-log axes, with a band over the runs, as a figure."""
        from delaytron.simulation.plots import plot_curves  # noqa: PLC0415 - needs matplotlib

        plot_curves([self], path)

    def _repr_html_(self) -> str:
        from delaytron.simulation.notebook import show  # noqa: PLC0415 - for notebooks only

        return show(self)

    def __repr__(self) -> str:
        what = f"{self.learner} on {self.dataset}, {self.delay}, {len(self.run)} runs of {self.rounds[-1]} rounds"
        return f"Result({what}, final error {self.final_error.mean():.4f})"


def _key(value: Any) -> Hashable:
    """Return something to look a setting up by: equal for equal settings, also where a value is a list."""
    if isinstance(value, dict):
        return frozenset((name, _key(inner)) for name, inner in value.items())
    return ("list", *map(_key, value)) if isinstance(value, list) else value
