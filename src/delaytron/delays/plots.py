"""A figure of recorded delays: how long they are, and how many rounds wait."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.extras import needs
from delaytron.plotting import COLOURS, DASHES, save_figure
from delaytron.records import Array

if TYPE_CHECKING:
    from delaytron.delays.summary import DelaySummary

POINTS = 1000  # of a curve, at most; more would only make large files


def plot_delays(summary: "DelaySummary", path: str | Path) -> None:
    """Save a figure: the share of delays longer than k, recorded and fitted, and the rounds that wait over time."""
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_survival(left, summary)
    _draw_pending(right, summary)
    for panel in (left, right):
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.legend(fontsize=8, frameon=False)
    late = f", {summary.late:.1%} after the last" if summary.late else ""
    figure.suptitle(f"{summary.name}: {summary.n_rounds:,} rounds, {summary.never:.1%} never answered{late}")
    save_figure(figure, path)


def _draw_survival(panel: Any, summary: "DelaySummary") -> None:
    longest = max(2, summary.quantiles.get(1.0, 2))
    lowest = 0.5 / max(1, summary.counts.sum())  # a log axis has no place for 0, the share beyond the longest delay
    recorded = np.concatenate([[1.0], summary.delays]), np.concatenate([[1.0], np.maximum(summary.longer, lowest)])
    panel.plot(*_thinned(*recorded), color=COLOURS[-1], linewidth=1.8, drawstyle="steps-post", label="recorded")
    grid = np.unique(np.geomspace(1, longest, POINTS).round())
    for fit, colour, dash in zip(summary.fits, COLOURS, DASHES[1:], strict=False):
        label = f"{fit.text}  (KS {fit.distance:.3f})"
        panel.plot(grid, fit.survival(grid), color=colour, linestyle=dash, linewidth=1.6, label=label)
    panel.set(xscale="log", yscale="log", ylim=(lowest, 1.5), xlim=(1, 1.15 * longest))
    panel.set(
        xlabel="k, in rounds",
        ylabel="share of delays longer than k",
        title=f"the {1 - summary.never:.1%} of delays that come",
    )


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """Keep points that a reader can tell apart on a log axis."""
    kept = np.unique(np.searchsorted(x, np.geomspace(1, x[-1], POINTS), side="right") - 1)
    return x[kept], y[kept]


def _draw_pending(panel: Any, summary: "DelaySummary") -> None:
    needs("matplotlib")
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - slow to import

    kinds = [("all rounds that wait", summary.pending, COLOURS[0], "-")]
    if summary.never:
        kinds.append(("those whose answer comes", summary.coming, COLOURS[1], "--"))
    for label, pending, colour, dash in kinds:
        rounds = np.linspace(1, summary.n_rounds, len(pending.stretches))
        text = f"{label}: mean {pending.mean:,.0f}, highest {pending.highest:,}"
        panel.plot(rounds, pending.stretches, color=colour, linestyle=dash, linewidth=1.4, label=text)
    panel.set(xlabel="round", title="rounds that wait for an answer")
    panel.set_ylim(0, 1.25 * summary.pending.highest)  # room for the legend
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(7, integer=True))
        axis.set_major_formatter("{x:,.0f}")
