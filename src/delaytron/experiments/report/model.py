"""The records of a report: tables, sections, charts; errors as text."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from delaytron.experiments.store import DataFacts
from delaytron.records import Array
from delaytron.simulation.results import Mean, mean_of

FEW_RUNS = 10  # below this an interval carries a dagger
DAGGER = "†"
# 64 %: as reported in issue 12, which does not name the runs. 57 %: delaytron on synsep without delay, gamma = 1/256,
# 120 runs of 100,000 rounds; intervals of 4, 5, 8, 10 and 20 of these, drawn with replacement, held the mean of all in
# 57, 67, 78, 83 and 89 %. Where no run stands out (ova_logistic on digits, delay 100) those of 4 held it in 95 %.
FEW_RUNS_NOTE = (
    f"{DAGGER} Read 95 % intervals of fewer than {FEW_RUNS} runs with care. Where now and then a run goes much worse "
    "than the others, they are too narrow: measured in two such cases, of 100 intervals of 4 runs only 57 and 64 held "
    "the true error, not 95."
)
UNTUNED = "untuned"  # instead of the setting of a learner with its defaults

Numbers = list[float]
Facts = Mapping[str, DataFacts]


class Estimate(NamedTuple):
    """An error: its mean over the runs, and the half width of its 95 % interval (NaN for a single run).

    Parameters
    ----------
    shows_runs : bool
        Whether the number of runs is shown, too.
    """

    value: float
    margin: float
    runs: int
    shows_runs: bool = False


def estimate(errors: Array) -> Estimate:
    """Return the mean of the errors of some runs, with its interval.

    Examples
    --------
    >>> import numpy as np
    >>> estimate(np.array([0.25, 0.5]))
    Estimate(value=0.375, margin=1.588..., runs=2, shows_runs=False)
    """
    return Estimate(*mean_of(errors), errors.size)


Cell = str | int | float | Mean | Estimate | None
Row = tuple[Cell, ...]


class Table(NamedTuple):
    """Column names, and rows of the same length."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def with_runs(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows; where their numbers of runs differ, every error shows its own.

    Examples
    --------
    >>> [shown(cell) for row in with_runs([(Estimate(0.5, 0.1, 20), Estimate(0.25, 0.1, 4))]) for cell in row]
    ['0.5000 ± 0.1000 (20 runs)', '0.2500 ± 0.1000† (4 runs)']
    """
    kept = tuple(rows)
    counts = {cell.runs for row in kept for cell in row if isinstance(cell, Estimate)}
    if len(counts) < 2:
        return kept
    return tuple(
        tuple(cell._replace(shows_runs=True) if isinstance(cell, Estimate) else cell for cell in row) for row in kept
    )


class Claim(NamedTuple):
    """A statement of the paper, and the verdict of the runs.

    Parameters
    ----------
    verdict : {"holds", "partly", "does not hold", "not tested"}
    """

    key: str
    statement: str
    verdict: str
    reason: str
    table: Table


class Section(NamedTuple):
    """A table with a title and a text."""

    title: str
    text: str
    table: Table


class Series(NamedTuple):
    """A line or a row of dots: means with their intervals; `style` is the same in all charts of a thing.

    Parameters
    ----------
    runs : list of int
        The number of runs of each mean.
    """

    label: str
    x: Numbers
    y: Numbers
    low: Numbers
    high: Numbers
    style: int
    dashed: bool = False
    runs: Sequence[int] = ()


class Panel(NamedTuple):
    """The series of one data set, and the error of always playing its most frequent class, if that is known."""

    data: str
    series: tuple[Series, ...]
    majority: float | None = None


class Chart(NamedTuple):
    """Panels of the same kind.

    Parameters
    ----------
    kind : {"band", "bars", "dots"}
        Lines with a band around them; with bars; or bars only, above the names `ticks` of x = 0, 1, 2, ...
    caption : str
        What is drawn, in a sentence.
    spread : str
        What low and high are.
    same : mapping
        Labels of series that are equal to another one wherever they were played, and the label of that one.
    leads : bool
        Whether it is shown at the beginning of the report.
    """

    name: str
    title: str
    x: str
    y: str
    log_x: bool
    log_y: bool
    kind: str
    ticks: tuple[str, ...]
    panels: tuple[Panel, ...]
    caption: str = ""
    spread: str = "95 % interval"
    same: Mapping[str, str] = {}
    leads: bool = False


class Report(NamedTuple):
    """A report.

    Parameters
    ----------
    facts : mapping
        What was played: term and text.
    figures : mapping
        The .svg file of each chart, by the chart's name, for print and where no script runs.
    headline : str
        The main result, in one sentence with its numbers.
    small_print : sequence of str
        Notes on the headline and the intervals.
    machine : mapping
        Machine, versions and cost: term and text.
    """

    title: str
    facts: Mapping[str, str]
    claims: Sequence[Claim]
    sections: Sequence[Section]
    charts: Sequence[Chart]
    figures: Mapping[str, Path]
    headline: str = ""
    small_print: Sequence[str] = ()
    machine: Mapping[str, str] = {}


def shown(cell: Cell) -> str:
    """Return a cell as text.

    Examples
    --------
    >>> shown(Mean(0.12341, 0.00119)), shown(Mean(0.000214, 0.00001)), shown(1000000), shown(0.03125)
    ('0.1234 ± 0.0012', '0.000214 ± 0.000010', '1,000,000', '0.03125')
    >>> shown(Estimate(0.12341, 0.00119, 20)), shown(Estimate(0.12341, 0.00119, 4))
    ('0.1234 ± 0.0012', '0.1234 ± 0.0012†')
    """
    if isinstance(cell, Estimate):
        text = _shown_mean(cell.value, cell.margin)
        if cell.runs == 1:
            return f"{text} (one run, no interval)"
        return text + (DAGGER if cell.runs < FEW_RUNS else "") + (f" ({cell.runs} runs)" if cell.shows_runs else "")
    if isinstance(cell, Mean):
        return _shown_mean(*cell)
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _shown_mean(value: float, margin: float) -> str:
    places = 6 if 0 < abs(value) < 0.001 else 4 if abs(value) < 100 else 1
    return f"{value:,.{places}f}" + (f" ± {margin:,.{places}f}" if isfinite(margin) else "")


def span(numbers: Iterable[int]) -> str:
    """Return the smallest and the largest of some numbers, as text.

    Examples
    --------
    >>> span([5, 20, 20]), span([3])
    ('5 to 20', '3')
    """
    kept = list(numbers)
    low, high = min(kept), max(kept)
    return str(low) if low == high else f"{low} to {high}"


def beside_majority(table: Table, facts: Facts) -> Table:
    """Return a table whose rows begin with a data set, with the error of its most frequent class as the last column."""
    if not facts:
        return table
    known: dict[Cell, float] = {name: one.majority_error for name, one in facts.items()}
    rows = tuple((*row, known.get(row[0])) for row in table.rows)
    return Table((*table.columns, "most frequent class"), rows)


def distinct(names: Iterable[str]) -> list[str]:
    """Return every name once, in order of first appearance.

    Examples
    --------
    >>> distinct(["b", "a", "b"])
    ['b', 'a']
    """
    return list(dict.fromkeys(names))
