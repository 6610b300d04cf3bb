"""The figure of a comparison: errors against delays with intervals."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.extras import needs
from delaytron.plotting import LineStyle, draw_majority, name_errors, save_figure, style_of
from delaytron.simulation.results import MAJORITY, mean_of

if TYPE_CHECKING:
    from delaytron.comparison.results import Comparison, Entry


LABEL_HEIGHT = 0.17  # inches of a name beside the lines


def plot_comparison(comparison: "Comparison", path: str | Path) -> None:
    """Save a figure: the final error against the delay, a line with 95 % bars and a name at its end per learner.

    Learners whose errors mean something else than those of most have hollow markers, and a footnote.
    """
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    learners = comparison.learners
    marks = comparison.marks
    tall = max(3.2, 1.7 * LABEL_HEIGHT * len(learners))  # room for names near their lines
    size = (3.0 + 1.5 * max(2, len(comparison.delays)), tall + 1.6 + 0.16 * len(marks))
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    low, high = _error_range(comparison)
    heights = spread([_height(entries[-1], low, high) for entries in learners.values()], LABEL_HEIGHT / tall)
    known = list(dict.fromkeys(entry.learner for entry in comparison.entries))  # not by rank: a style belongs to a name
    for (name, entries), height in zip(learners.items(), heights, strict=True):
        style = style_of(known.index(name), hollow=bool(entries[0].remark))
        aside = min(0.03, 0.24 / len(known)) * (known.index(name) - (len(known) - 1) / 2)
        ends = _draw_entries(panel, entries, aside, low, style)
        label = comparison.marked(name) + " (untuned)" * (not entries[0].setting)
        _draw_name(panel, label, ends, height, style)
    if comparison.majority_error is not None:
        _draw_majority(panel, comparison.majority_error)
    _style_comparison(panel, comparison, low, high)
    notes = [f"{mark} {remark}" for remark, mark in marks.items()]
    figure.supxlabel("\n".join(notes), fontsize=8, x=0.02, ha="left", linespacing=1.4)
    save_figure(figure, path)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Move ascending heights in [0, 1] apart by at least a gap, as little as possible, within [0, 1] if they fit.

    Examples
    --------
    >>> [round(height, 3) for height in spread([0.2, 0.5, 0.5, 1.0], 0.1)]
    [0.2, 0.45, 0.55, 1.0]
    """
    steps = gap * np.arange(len(wanted))
    rising = np.maximum.accumulate(np.asarray(wanted) - steps)
    falling = np.minimum.accumulate((np.asarray(wanted) - steps)[::-1])[::-1]
    room = max(0.0, 1.0 - gap * (len(wanted) - 1))
    return [float(height) for height in np.clip((rising + falling) / 2, 0.0, room) + steps]


def _error_range(comparison: "Comparison") -> tuple[float, float]:
    """Return the ends of the axis: all means and the most frequent class are inside and, up to 1, all bars."""
    means = [mean_of(entry.result.final_error) for entry in comparison.entries]
    tops = [value + np.nan_to_num(margin) for value, margin in means]
    tops.append(comparison.majority_error or 0.0)
    low = min((value for value, _ in means if value > 0), default=0.5)
    return low / 1.3, min(1.0, max(low, *tops)) * 1.15


def _height(entry: "Entry", low: float, high: float) -> float:
    value = max(low, entry.result.final_error.mean())
    return float(np.log(value / low) / np.log(high / low))


def _draw_entries(
    panel: Any, entries: Sequence["Entry"], aside: float, low: float, style: LineStyle
) -> tuple[float, float]:
    """Draw a learner's line, a little aside so that bars do not hide each other; return where it ends."""
    means = [mean_of(entry.result.final_error) for entry in entries]
    x = np.arange(len(entries)) + aside
    y = np.array([max(low, mean.value) for mean in means])  # a log axis has no place for 0
    margins = np.nan_to_num([mean.margin for mean in means])
    below = y - np.maximum(y - margins, low / 10)
    panel.errorbar(x, y, yerr=(below, margins), elinewidth=1.0, capsize=2.0, **style)
    return x[-1], y[-1]


def _draw_name(panel: Any, name: str, ends: tuple[float, float], height: float, style: LineStyle) -> None:
    line = {"arrowstyle": "-", "color": style["color"], "linewidth": 0.7, "alpha": 0.7, "shrinkA": 0, "shrinkB": 4}
    panel.annotate("", ends, (1.04, height), "data", "axes fraction", arrowprops=line, annotation_clip=False)
    panel.plot(1.04, height, transform=panel.transAxes, clip_on=False, **style)
    panel.text(1.065, height, name, transform=panel.transAxes, va="center", fontsize=9)


def _draw_majority(panel: Any, error: float) -> None:
    draw_majority(panel, error)
    panel.text(0.01, error, MAJORITY, transform=panel.get_yaxis_transform(), va="bottom", fontsize=8, color="0.3")


def _style_comparison(panel: Any, comparison: "Comparison", low: float, high: float) -> None:
    panel.set(yscale="log", ylim=(low, high), xlim=(-0.2, len(comparison.delays) - 0.8))
    name_errors(panel)
    panel.set_xticks(range(len(comparison.delays)), [fill(d.replace("+", " +"), 20) for d in comparison.delays])
    panel.grid(visible=True, which="major", alpha=0.3)
    panel.set_xlabel("delay in rounds (a number D: uniform on 1, ..., D)")
    panel.set_ylabel("error of the played labels")
    terms = comparison.terms
    what = f"{terms.runs} runs of {terms.rounds:,} rounds, mean and 95 % interval"
    if terms.runs == 1:
        what = f"a single run of {terms.rounds:,} rounds"
    panel.set_title(f"{comparison.dataset}: learners, each tuned if not said otherwise\n{what}", fontsize=10)
