"""Figures of an experiment for print: a panel for each data set, and one legend for all."""

from collections.abc import Iterable
from pathlib import Path
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np

from delaytron.experiments.report.model import Chart, Panel, Series
from delaytron.extras import needs
from delaytron.plotting import LineStyle, draw_band, draw_majority, name_errors, save_figure, style_of
from delaytron.simulation.results import MAJORITY

ENDINGS = (".png", ".svg")
WIDTH = 3.1  # inches of a panel
HEIGHT = 2.5
MOST_COLUMNS = 4
LETTERS = 13  # of a legend that fit into an inch
TICK_LETTER = 0.065  # inches of a letter of a name below a panel
POINTS = 72  # of an inch
LINE_STEP = 3.0  # points between lines that share their x, so that none hides another
LINES_SPREAD = 15.0  # points between the first and the last of them, at most
NAME_SHARE = 0.6  # of the room between two names is for the dots of all series side by side
MARKER = 4.0  # points
SMALLEST_MARKER = 2.0
DASHES = (0, (4, 4))  # gaps as long as dashes: the line below is seen
SIDE_MARGIN = 0.09  # of a panel's width is free on either side, for lines that stand aside
DEEPEST_BAR = 4  # a bar may reach a quarter of the lowest mean on a log axis, then it is cut

Handle: TypeAlias = Any  # what stands in a legend: an artist or a container of them


def draw_figures(charts: Iterable[Chart], folder: Path) -> list[Path]:
    """Draw charts, each as .png and .svg, in the place of what was drawn before; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.suffix in ENDINGS:
            old.unlink()
    written = []
    for chart in charts:
        figure = _figure(chart)
        for ending in ENDINGS:
            save_figure(figure, folder / f"{chart.name}{ending}")
            written.append(folder / f"{chart.name}{ending}")
    return written


def _figure(chart: Chart) -> Any:
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    columns = min(len(chart.panels), MOST_COLUMNS)
    rows = -(-len(chart.panels) // columns)
    below = TICK_LETTER * max(map(len, chart.ticks), default=0)
    width = WIDTH * columns + 0.4
    height = (HEIGHT + below) * rows + 0.8
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    entries: dict[str, Handle] = {}
    for panel, ax in zip(chart.panels, axes, strict=False):
        entries |= _draw_panel(ax, chart, panel)
    for ax in axes[len(chart.panels) :]:
        ax.set_axis_off()
    _add_legend(figure, chart, entries)
    figure.suptitle(fill(f"{chart.title}. {chart.caption}", int(LETTERS * width)), fontsize=11, parse_math=False)
    return figure


def _draw_panel(ax: Any, chart: Chart, panel: Panel) -> dict[str, Handle]:
    """Draw a data set; return what stands for each series in the legend."""
    step = _step(chart, len(panel.series))
    middle = (len(panel.series) - 1) / 2
    drawn = {
        series.label: _draw(ax, chart.kind, series, step, place - middle) for place, series in enumerate(panel.series)
    }
    baseline = {}
    if panel.majority is not None:
        baseline[MAJORITY] = draw_majority(ax, panel.majority)
    ax.set_title(panel.data, parse_math=False)
    _style_axes(ax, chart, panel)
    return drawn | baseline


def _step(chart: Chart, count: int) -> float:
    """Return how many points lie between two series that share their x."""
    if chart.kind == "dots":
        return NAME_SHARE * POINTS * (WIDTH - 0.7) / max(1, len(chart.ticks)) / max(1, count)
    return min(LINE_STEP, LINES_SPREAD / max(1, count))


def _draw(ax: Any, kind: str, series: Series, step: float, place: float) -> Handle:
    """Draw a series, so many steps aside; return what stands for it in the legend."""
    style = style_of(series.style)
    if series.dashed:
        style["linestyle"] = DASHES
    if kind == "band":
        colour_and_dashes: LineStyle = {"color": style["color"], "linestyle": style["linestyle"]}
        return draw_band(ax, series.x, series.y, series.low, series.high, **colour_and_dashes)
    style["markersize"] = MARKER
    if kind == "dots":
        style |= {"linestyle": "none", "markersize": min(MARKER, max(SMALLEST_MARKER, step))}
    around = np.abs(np.array([series.y]) - np.array([series.low, series.high]))
    bars = ax.errorbar(series.x, series.y, around, capsize=2, **style)
    _move_aside(ax, bars, step * place)
    return bars


def _move_aside(ax: Any, bars: Handle, points: float) -> None:
    """Move what is drawn to the side; its numbers, and the ends of the axes, stay what they are."""
    needs("matplotlib")
    from matplotlib.transforms import ScaledTranslation  # noqa: PLC0415 - slow to import

    aside = ax.transData + ScaledTranslation(points / POINTS, 0, ax.figure.dpi_scale_trans)
    for artist in bars.get_children():
        artist.set_transform(aside)


def _style_axes(ax: Any, chart: Chart, panel: Panel) -> None:
    """Name the axes, and write errors as plain numbers, never below 0."""
    means = [y for series in panel.series for y in series.y if y > 0]  # a log axis has no place for 0
    log_x = chart.log_x and bool(means)
    log_y = chart.log_y and bool(means)
    ax.set(xlabel=chart.x, ylabel=chart.y, xscale=_scale(log_x), yscale=_scale(log_y))
    ax.grid(visible=True, which="major", alpha=0.3)
    if chart.ticks:
        ax.set_xticks(range(len(chart.ticks)), chart.ticks, rotation=90, fontsize=7, parse_math=False)
        ax.set_xlim(-0.5, len(chart.ticks) - 0.5)
    elif chart.kind == "bars":
        ax.margins(x=SIDE_MARGIN)
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, min(means) / DEEPEST_BAR) if log_y else max(0.0, low), high)
    if log_y:
        name_errors(ax)


def _scale(log: bool) -> str:
    return "log" if log else "linear"


def _add_legend(figure: Any, chart: Chart, entries: dict[str, Handle]) -> None:
    """Put the legend below, as high as it needs to be; a line that lies on another says so."""
    names = [f"{label} (same as {chart.same[label]})" if label in chart.same else label for label in entries]
    if not names:
        return
    width, height = figure.get_size_inches()
    columns = max(1, min(len(names), int(LETTERS * width) // (max(map(len, names)) + 6)))
    figure.set_figheight(height + 0.2 * -(-len(names) // columns))
    legend = figure.legend(entries.values(), names, loc="outside lower center", ncols=columns, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
