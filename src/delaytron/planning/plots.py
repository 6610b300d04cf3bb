"""The figure of a plan: the way down to the target, and what gamma does to the error."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.extras import needs
from delaytron.planning.simulation import Simulated
from delaytron.plotting import COLOURS, DASHES, MARKERS, LineStyle, draw_band, draw_majority, name_errors, save_figure
from delaytron.simulation.results import MAJORITY

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from delaytron.planning import Plan
    from delaytron.records import Array

DELAYS = ("this delay", "twice the delay")


def plot_plan(plan: "Plan", path: str | Path) -> None:
    """Save a figure: error against rounds with the chosen gammas, and error against gamma, at both delays.

    A learner that takes no gamma has a level line beside those that do.
    """
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    figure = Figure(figsize=(10.4, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    lines: dict[str, Artist] = {}
    for place, forecast in enumerate(plan.forecasts):
        for number, one in enumerate(forecast.learners):
            lines[f"{one.learner}, {DELAYS[place]}"] = _draw_rounds(left, one, COLOURS[place], DASHES[number])
            style: LineStyle = {"color": COLOURS[place], "linestyle": DASHES[number], "marker": MARKERS[place]}
            _draw_gammas(right, one, style)
    lines["exploring alone, exact"] = _draw_exploring(right, plan)
    for panel in (left, right):
        lines[MAJORITY] = draw_majority(panel, plan.setup.data.majority_error)
        lines["target"] = panel.axhline(plan.target, color=COLOURS[2], linewidth=1.2)
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.set(xscale="log", yscale="log", ylabel="error of the played labels")
    _style_axes(left, right, plan)
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    figure.suptitle(f"{plan.n_classes} classes, {plan.setup.data.name}, delay {plan.delay}: simulations", fontsize=11)
    save_figure(figure, path)


def _draw_rounds(panel: Any, one: Simulated, colour: str, dashes: str) -> Any:
    errors = np.where(one.result.error_rate > 0, one.result.error_rate, np.nan)  # a log axis has no place for 0
    shown = ~np.isnan(errors).any(axis=0)
    errors = errors[:, shown]
    low = errors.min(axis=0)
    high = errors.max(axis=0)
    return draw_band(panel, one.result.rounds[shown], errors.mean(axis=0), low, high, color=colour, linestyle=dashes)


def _draw_gammas(panel: Any, one: Simulated, style: LineStyle) -> None:
    if one.gamma is None:
        panel.axhline(one.result.final_error.mean(), color=style["color"], linestyle=style["linestyle"], linewidth=1.6)
        return
    gammas = np.array([gamma for gamma, _ in one.gammas])
    errors = np.array([errors for _, errors in one.gammas])
    lowest = errors[errors > 0].min(initial=1.0)
    errors = np.maximum(errors, lowest)
    style["markersize"] = 4
    draw_band(panel, gammas, errors.mean(axis=1), errors.min(axis=1), errors.max(axis=1), **style)
    chosen = np.flatnonzero(gammas == one.gamma)
    panel.plot(gammas[chosen], errors.mean(axis=1)[chosen], "o", ms=11, mfc="none", mec=style["color"], mew=1.4)


def _drawn(one: Simulated) -> "list[Array]":
    """Return the errors of each gamma, or those of the learner as it is."""
    return [errors for _, errors in one.gammas] or [one.result.final_error]


def _draw_exploring(panel: Any, plan: "Plan") -> Any:
    gammas = np.array([gamma for one in plan.forecasts[0].learners for gamma, _ in one.gammas])
    share = gammas * (plan.n_classes - 1) / plan.n_classes
    return panel.plot(gammas, share, color="#777777", linestyle="-.", linewidth=1.4)[0]


def _style_axes(left: Any, right: Any, plan: "Plan") -> None:
    terms = plan.setup.terms
    left.set(xlabel="rounds", ylim=(None, 1.05), xlim=(min(10, terms.rounds / 2), None))
    left.set_title(f"{terms.runs} runs, lowest to highest; with the gamma chosen", fontsize=10)
    lowest = min(errors.mean() for f in plan.forecasts for one in f.learners for errors in _drawn(one))
    right.set(xlabel="gamma", ylim=(max(1e-6, min(lowest, plan.target) / 1.5), 1.05))
    right.set_title(f"tuning: {terms.tuning_runs} runs of {terms.rounds:,} rounds; ring: chosen", fontsize=10)
    for panel in (left, right):
        name_errors(panel)
