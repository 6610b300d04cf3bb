"""The charts of a report as the JSON that the scripts of its page read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import TypedDict

from delaytron.experiments.report.model import Chart, Series
from delaytron.plotting import COLOURS, DASHES, MARKERS
from delaytron.simulation.results import MAJORITY

X_DIGITS = 7  # significant ones: rounds are exact
Y_DIGITS = 5  # and the file stays small

Value = float | None


class PlainSeries(TypedDict):
    """A series whose x is the number of a grid of its chart; one number of runs stands for all that are equal."""

    label: str
    x: int
    y: list[Value]
    low: list[Value]
    high: list[Value]
    style: int
    dashed: bool
    runs: Sequence[int]


class PlainPanel(TypedDict):
    """A panel."""

    data: str
    series: list[PlainSeries]
    majority: Value


class PlainChart(TypedDict):
    """A chart; what is the same x in many series stands in `grids` once."""

    name: str
    title: str
    x: str
    y: str
    log_x: bool
    log_y: bool
    kind: str
    ticks: Sequence[str]
    spread: str
    same: Mapping[str, str]
    panels: list[PlainPanel]
    grids: list[tuple[Value, ...]]


class PageData(TypedDict):
    """All that the scripts read."""

    colours: Sequence[str]
    markers: Sequence[str]
    dashes: Sequence[str]
    majority: str
    charts: list[PlainChart]


Grids = dict[tuple[Value, ...], int]


def page_data(charts: Iterable[Chart]) -> str:
    """Return the charts as JSON that cannot end the script in which it stands."""
    values = PageData(
        colours=COLOURS,
        markers=MARKERS,
        dashes=DASHES,
        majority=MAJORITY,
        charts=[_plain_chart(chart) for chart in charts],
    )
    return json.dumps(values, separators=(",", ":"), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")


def _plain_chart(chart: Chart) -> PlainChart:
    grids: Grids = {}
    panels = [
        PlainPanel(
            data=panel.data,
            series=[_plain_series(series, grids) for series in panel.series],
            majority=None if panel.majority is None else _rounded([panel.majority], Y_DIGITS)[0],
        )
        for panel in chart.panels
    ]
    return PlainChart(
        name=chart.name,
        title=chart.title,
        x=chart.x,
        y=chart.y,
        log_x=chart.log_x,
        log_y=chart.log_y,
        kind=chart.kind,
        ticks=chart.ticks,
        spread=chart.spread,
        same=dict(chart.same),
        panels=panels,
        grids=list(grids),
    )


def _plain_series(series: Series, grids: Grids) -> PlainSeries:
    x = tuple(_rounded(series.x, X_DIGITS))
    return PlainSeries(
        label=series.label,
        x=grids.setdefault(x, len(grids)),
        y=_rounded(series.y, Y_DIGITS),
        low=_rounded(series.low, Y_DIGITS),
        high=_rounded(series.high, Y_DIGITS),
        style=series.style,
        dashed=series.dashed,
        runs=series.runs[:1] if len(set(series.runs)) == 1 else series.runs,
    )


def _rounded(values: Iterable[float], digits: int) -> list[Value]:
    """Return numbers with so many significant digits; what is not finite is missing.

    Examples
    --------
    >>> _rounded([1234567.0, 0.000123456, float("nan")], 5)
    [1234600, 0.00012346, None]
    """
    return [_short(float(f"{value:.{digits}g}")) if isfinite(value) else None for value in values]


def _short(value: float) -> float:
    return int(value) if value.is_integer() else value
