"""Results of a simulation: errors of every run at every checkpoint, as numbers, table or figure."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from delaytron.extras import needs
from delaytron.formats import assignments, with_margin
from delaytron.notebooks import Curve, curve_figure, facts, page, table
from delaytron.plotting import COLOURS, DASHES, draw_band, draw_majority, save_figure
from delaytron.records import Array, Ints

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.artist import Artist

    from delaytron.simulation.scenarios import SimulationConfig


MAJORITY = "always the most frequent class"  # the baseline beside the errors of learners

Setting = dict[str, Any]  # parameters of a learner by name, as its constructor takes them


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
        """The margin, None for a single run."""
        return None if np.isnan(self.margin) else self.margin


def mean_of(values: Array) -> Mean:
    """Return the mean with its 95 % interval by Student's t.

    Examples
    --------
    >>> mean_of(np.array([1.0, 2.0, 3.0]))
    Mean(value=2.0, margin=2.484...)
    """
    return Mean(float(values.mean()), float(half_widths(values)))


def index_from_which_below(errors: Array, target: float | Array) -> int | None:
    """Return the index from which on errors are at most a target; None if they are above it at the end.

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
        From which rows and delays can be drawn again.
    form : {"dense", "sparse"}, optional
        How the rows were stored, on which last digits depend; None for the stored runs of an experiment.
    majority_error : float, optional
        The error of always playing the most frequent class of all rows; None for the stored runs of an experiment.
    lost : (runs, checkpoints) array, optional
        Where labels have rewards: the expected reward so far that the best labels would have earned beyond it.
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
    lost: Array | None = None

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
        """The average error of the greedy labels over all rounds, per run: the error without exploration."""
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
            part = part if self.lost is None else replace(part, lost=self.lost[rows])
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
        plot_curves([self], path)

    def _repr_html_(self) -> str:
        """Return the errors of the best setting, its curve with a 95 % interval, and the errors of all settings."""
        parts = sorted((part for _, part in self.groups()), key=lambda part: part.final_error.mean())
        best = parts[0]
        error, greedy = _error_cells(best)
        about: dict[str, Any] = {
            "delay": self.delay,
            "runs": f"{len(best.run)} of {self.rounds[-1]} rounds",
            "error": error,
            "greedy error": greedy,
            "most frequent class (dashed)": self.majority_error,
        }
        if best.parameters[0]:
            about = {"best setting" if len(parts) > 1 else "setting": assignments(best.parameters[0])} | about
        rates = best.error_rate
        margins = half_widths(rates).tolist()
        curve = Curve("error so far", self.rounds.tolist(), rates.mean(axis=0).tolist(), margins)
        rows = ((assignments(part.parameters[0]), *_error_cells(part)) for part in parts)
        settings = table(("setting", "error", "greedy error"), rows, len(parts)) if len(parts) > 1 else ""
        title = f"{self.learner} on {self.dataset}"
        return page(title, facts(about), curve_figure(curve, self.majority_error), settings)

    def __repr__(self) -> str:
        what = f"{self.learner} on {self.dataset}, {self.delay}, {len(self.run)} runs of {self.rounds[-1]} rounds"
        return f"Result({what}, final error {self.final_error.mean():.4f})"


def _key(value: Any) -> Hashable:
    """Return a key of a setting for a dict: equal for equal settings, also where a value is a list."""
    if isinstance(value, dict):
        return frozenset((name, _key(inner)) for name, inner in value.items())
    return ("list", *map(_key, value)) if isinstance(value, list) else value


def _error_cells(part: Result) -> tuple[str, str]:
    errors = part.errors()
    played = with_margin(errors["error"], errors["error_margin"])
    return played, with_margin(errors["greedy_error"], errors["greedy_error_margin"])


def half_widths(values: Array) -> Array:
    """Return the half widths of the 95 % intervals of means over the first axis, the runs; NaN for a single run.

    Examples
    --------
    >>> half_widths(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])).round(3).tolist()
    [2.484, 0.0]
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.nan)
    return np.asarray(stdtrit(n - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(n))


WIDEST = 44  # characters of a title or a label in one panel


def plot_curves(results: Sequence[Result], path: str | Path) -> None:
    """Save a figure: a column of panels per learner, each curve with a band from its lowest to its highest run.

    Where settings are compared, every delay has a row of panels and every setting a colour; else the delays
    have the colours.
    """
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    settings = [setting for result in results for setting in result.parameters]
    names = dict.fromkeys(name for setting in settings for name in setting)
    varying = [name for name in names if len({setting[name] for setting in settings if name in setting}) > 1]
    learners = list(dict.fromkeys(result.learner for result in results))
    rows = list(dict.fromkeys(result.delay if varying else "" for result in results))
    width = 4.2 * len(learners) + 0.6
    height = 3.0 * len(rows) + 0.8
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(len(rows), len(learners), sharex=True, sharey=True, squeeze=False)
    lines: dict[str, Artist] = {}
    for result in results:
        panel = panels[rows.index(result.delay if varying else ""), learners.index(result.learner)]
        _draw_result(panel, result, varying, lines)
    if (majority := results[0].majority_error) is not None:
        lines[MAJORITY], *_ = [draw_majority(panel, majority) for panel in panels.flat]
    scale = "log" if any((result.error_rate > 0).any() for result in results) else "linear"
    for (row, column), panel in np.ndenumerate(panels):
        panel.set(xscale=scale, yscale=scale)
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.set_title("\n".join(filter(None, [learners[column], fill(rows[row], WIDEST)])), fontsize=9)
        if row == len(rows) - 1:
            panel.set_xlabel("rounds")
        if column == 0:
            panel.set_ylabel("error of the played labels")
    columns = max(1, int(11 * width) // (max(map(len, lines)) + 7))
    figure.set_figheight(height + 0.2 * -(-sum(1 + label.count("\n") for label in lines) // columns))
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)
    figure.suptitle(f"{results[0].dataset}: error so far against rounds")
    save_figure(figure, path)


def _draw_result(panel: Any, result: Result, varying: Sequence[str], lines: "dict[str, Artist]") -> None:
    """Draw the mean error of every setting with a band over its runs; add the lines by their labels."""
    for setting, part in result.groups():
        label = fill(result.delay, WIDEST)
        if varying:
            label = ", ".join(f"{name}={setting[name]}" for name in varying if name in setting) or result.learner
        place = [*lines, label].index(label)  # the same label has the same style in every panel
        errors = np.where(part.error_rate > 0, part.error_rate, np.nan)  # a log axis has no 0
        shown = ~np.isnan(errors).any(axis=0)
        errors = errors[:, shown]
        line = draw_band(
            panel,
            part.rounds[shown],
            errors.mean(axis=0),
            errors.min(axis=0),
            errors.max(axis=0),
            color=COLOURS[place % len(COLOURS)],
            linestyle=DASHES[place // len(COLOURS) % len(DASHES)],
        )
        lines.setdefault(label, line)
