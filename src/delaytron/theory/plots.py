"""Figures of studies: measured regret and bounds against rounds, on log-log axes."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.extras import needs
from delaytron.plotting import COLOURS, MARKERS, save_figure
from delaytron.records import Ints
from delaytron.simulation.results import mean_of
from delaytron.theory.statements import GATED, GREEDY, HINGE

if TYPE_CHECKING:
    from delaytron.theory.study import Measured, Study

PANELS = {
    ("delaytron", GATED): "Delaytron: regret in the gated hinge",
    ("delaytron", GREEDY): "Delaytron: greedy mistakes",
    ("hinge_delaytron", HINGE): "Hinge Delaytron: regret in the hinge",
    ("adaptive_delaytron", GATED): "Adaptive Delaytron with restart: gated hinge",
}
NOTE = (
    "Dashed: the bound. Solid: what was measured in runs with the step of that bound, mean and 95 % interval. A step "
    "that suits all rounds leaves the bound loose for the first ones. Dotted: hinge regret, for which the paper states "
    "Theorem 1; for that it is false in general. Grey: one mistake a round. Black: mistakes, with any step."
)
WIDTH = 9.6  # inches of a study
HEIGHT = 7.2
MARKS = 9  # markers on a line
HEADROOM = 12  # the end of the axis over the highest line, which leaves space for the legend


def plot_studies(studies: Sequence["Study"], path: str | Path) -> None:
    """Save a figure: for each study four panels, by learner and loss, every statement in a colour of its own."""
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    figure = Figure(figsize=(WIDTH, HEIGHT * len(studies)), layout="constrained")
    parts = figure.subfigures(len(studies), 1, squeeze=False)[:, 0]
    for part, study in zip(parts, studies, strict=True):
        panels = part.subplots(2, 2)
        for panel, (key, title) in zip(panels.flat, PANELS.items(), strict=True):
            shown = [one for one in study.measured if (one.statement.learner, one.statement.loss) == key]
            _draw_panel(panel, study, [one for one in shown if np.isfinite(one.bound).all()])
            panel.set_title(title, fontsize=10)
        terms = study.trial.terms
        runs = f"{terms.runs} runs, gamma = {terms.gamma:g}"
        part.suptitle(fill(f"{study.trial.data.name}, delay {study.delay}, {runs}", 90), fontsize=11)
        part.supxlabel(fill(NOTE, 132), fontsize=8.5, x=0.02, ha="left", linespacing=1.4)
    save_figure(figure, path)


def _draw_panel(panel: Any, study: "Study", found: Sequence["Measured"]) -> None:
    rounds = study.trial.rounds
    notes = []
    mistakes = bool(found) and found[0].statement.counts_mistakes
    for place, one in enumerate(found):
        colour = COLOURS[place % len(COLOURS)]
        if not mistakes:
            width = 1.4 + 1.6 * (len(found) - 1 - place)  # of lines that coincide, all are visible
            notes.append(_draw_measured(panel, rounds, one, colour, width))
        every = max(1, rounds.size // MARKS)
        marks = {"marker": MARKERS[place % len(MARKERS)], "markersize": 4.5, "markevery": (every * place // 3, every)}
        panel.plot(rounds, one.bound, linestyle="--", linewidth=1.4, label=one.statement.name, color=colour, **marks)
        if one.statement.name == "Theorem 1" and one.stated is not None:
            stated = one.stated.mean(axis=0)
            above = np.where(stated > 0, stated, np.nan)
            panel.plot(rounds, above, linestyle=":", linewidth=1.6, color=COLOURS[-1])
    if mistakes:  # these do not depend on the step
        notes.append(_draw_measured(panel, rounds, found[0], COLOURS[-1], 1.6))
        panel.plot(rounds, rounds, color="0.6", linewidth=1.0, zorder=0)
    panel.set(xscale="log", yscale="log", xlabel="rounds", ylabel="mistakes so far" if mistakes else "regret so far")
    low, high = panel.get_ylim()
    panel.set_ylim(low, high * HEADROOM)
    panel.grid(visible=True, which="major", alpha=0.3)
    panel.tick_params(labelsize=9)
    panel.legend(loc="upper left", fontsize=8.5, frameon=False, ncols=3, columnspacing=1.0, handlelength=2.8)
    hidden = "\n".join(filter(None, notes))
    panel.text(0.98, 0.03, hidden, transform=panel.transAxes, ha="right", va="bottom", fontsize=7.5)


def _draw_measured(panel: Any, rounds: Ints, one: "Measured", colour: str, width: float) -> str:
    """Draw the mean and its interval where it is above 0; return a note on how often it is not."""
    means = [mean_of(column) for column in one.values.T]
    mean = np.array([each.value for each in means])
    margin = np.nan_to_num([each.margin for each in means])
    shown = mean > 0
    low = np.maximum(mean - margin, mean / 10)[shown]  # a log axis has no 0
    panel.fill_between(rounds[shown], low, (mean + margin)[shown], color=colour, alpha=0.2, linewidth=0)
    panel.plot(rounds[shown], mean[shown], linestyle="-", color=colour, linewidth=width)
    hidden = int((~shown).sum())
    return f"{one.statement.name}: not above 0, so not shown, at {hidden} of {len(means)} points" if hidden else ""
