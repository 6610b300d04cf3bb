"""What a report says, as plain values: tables, claims with their verdicts, sections, charts."""

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from delaytron.experiments.report.charts import Chart
from delaytron.simulation.results import Mean

Cell = str | int | float | Mean | None


class Table(NamedTuple):
    """Named columns, and rows as long as there are names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


class Claim(NamedTuple):
    """A statement of the paper, and what the runs say to it.

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
    """A table with a heading and a few words."""

    title: str
    text: str
    table: Table


class Report(NamedTuple):
    """What a report tells.

    Parameters
    ----------
    facts : mapping
        What was run, on what, for how long: term and text.
    pictures : mapping
        The .svg file of each chart, by the chart's name: shown on paper and where no script runs.
    """

    title: str
    facts: Mapping[str, str]
    claims: Sequence[Claim]
    sections: Sequence[Section]
    charts: Sequence[Chart]
    pictures: Mapping[str, Path]


def shown(cell: Cell) -> str:
    """Return what a reader sees of a cell.

    Examples
    --------
    >>> shown(Mean(0.12341, 0.00119)), shown(Mean(0.000214, 0.00001)), shown(1000000), shown(0.03125)
    ('0.1234 ± 0.0012', '0.000214 ± 0.000010', '1,000,000', '0.03125')
    """
    if isinstance(cell, Mean):
        places = 6 if 0 < abs(cell.value) < 0.001 else 4 if abs(cell.value) < 100 else 1
        margin = f" ± {cell.margin:,.{places}f}" if isfinite(cell.margin) else ""
        return f"{cell.value:,.{places}f}{margin}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
