"""Figures of an experiment for print: a panel for each data set, and one legend for all."""

from collections.abc import Iterable
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from delaytron.experiments.report.charts import Chart, Series
from delaytron.plotting import draw_band, look_of, name_errors, save_figure

ENDINGS = (".png", ".svg")
WIDTH, HEIGHT = 3.1, 2.5  # inches of a panel
MOST_COLUMNS = 4
LETTERS = 13  # of a legend that fit into an inch
TICK_LETTER = 0.065  # inches of a letter of a name below a panel


def draw_figures(shown: Iterable[Chart], folder: Path) -> list[Path]:
    """Draw charts, each as .png and .svg, in the place of what was drawn before; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.suffix in ENDINGS:
            old.unlink()
    written = []
    for chart in shown:
        figure = _figure(chart)
        for ending in ENDINGS:
            save_figure(figure, folder / f"{chart.name}{ending}")
            written.append(folder / f"{chart.name}{ending}")
    return written


def _figure(chart: Chart) -> Any:
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    columns = min(len(chart.panels), MOST_COLUMNS)
    rows = -(-len(chart.panels) // columns)
    below = TICK_LETTER * max(map(len, chart.ticks), default=0)
    width, height = WIDTH * columns + 0.4, (HEIGHT + below) * rows + 0.6
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    entries: dict[str, Any] = {}
    for panel, ax in zip(chart.panels, axes, strict=False):
        drawn = {series.label: _draw(ax, chart.kind, series) for series in panel.series}
        entries |= drawn
        ax.set_title(panel.data, parse_math=False)
        _style_axes(ax, chart)
    for ax in axes[len(chart.panels) :]:
        ax.set_axis_off()
    _add_legend(figure, entries, width, height)
    figure.suptitle(fill(chart.title, int(LETTERS * width)), parse_math=False)
    return figure


def _draw(ax: Any, kind: str, series: Series) -> Any:
    """Draw a series; return what stands for it in the legend."""
    look = look_of(series.look) | ({"linestyle": "--"} if series.dashed else {})
    if kind == "band":
        look = {"color": look["color"], "linestyle": look["linestyle"]}
        return draw_band(ax, series.x, series.y, series.low, series.high, **look)
    if kind == "dots":
        look |= {"linestyle": "none", "markersize": 4}
    around = np.array([series.y]) - np.array([series.low, series.high])
    return ax.errorbar(series.x, series.y, np.abs(around), capsize=2, **look)


def _style_axes(ax: Any, chart: Chart) -> None:
    """Name the axes, and write errors as plain numbers, never below 0."""
    drawn = [y for line in ax.lines for y in line.get_ydata() if y > 0]  # a log axis has no place for 0
    log_y = chart.log_y and bool(drawn)
    scales = ["log" if log else "linear" for log in (chart.log_x and bool(drawn), log_y)]
    ax.set(xlabel=chart.x, ylabel=chart.y, xscale=scales[0], yscale=scales[1])
    ax.grid(visible=True, which="major", alpha=0.3)
    if chart.ticks:
        ax.set_xticks(range(len(chart.ticks)), chart.ticks, rotation=90, fontsize=7, parse_math=False)
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, min(drawn) / 1.5) if log_y else max(0.0, low), high)  # bars may end below, lines not
    if log_y:
        name_errors(ax)


def _add_legend(figure: Any, entries: dict[str, Any], width: float, height: float) -> None:
    """Put the legend below, as high as it needs to be."""
    columns = max(1, min(len(entries), int(LETTERS * width) // (max(map(len, entries)) + 6)))
    figure.set_figheight(height + 0.2 * -(-len(entries) // columns))
    legend = figure.legend(entries.values(), entries, loc="outside lower center", ncols=columns, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
