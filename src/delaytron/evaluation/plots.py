"""The figure of an evaluation: a line per policy with its interval."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from delaytron.extras import needs
from delaytron.plotting import COLOURS, save_figure

if TYPE_CHECKING:
    from delaytron.evaluation.results import Evaluations

HOLLOW = "white"


def plot_evaluations(found: "Evaluations", path: str | Path) -> None:
    """Save a figure: a value with its 95 % interval for each policy; hollow where there is a warning."""
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    figure = Figure(figsize=(7.0, 1.4 + 0.4 * len(found.entries)), layout="constrained")
    panel = figure.subplots()
    for place, entry in enumerate(found.entries):
        margin = np.nan_to_num(entry.high - entry.value)
        fill = HOLLOW if entry.warnings else COLOURS[0]
        panel.errorbar(
            entry.value, place, xerr=margin, fmt="o", color=COLOURS[0], markerfacecolor=fill, capsize=3.0, markersize=6
        )
    panel.set_yticks(range(len(found.entries)), [entry.policy for entry in found.entries])
    panel.set_ylim(len(found.entries) - 0.5, -0.5)
    panel.grid(visible=True, axis="x", alpha=0.3)
    first = found.entries[0]
    panel.set_xlabel(f"mean {first.quantity} of a decision, {first.method}, with its 95 % interval")
    panel.set_title(f"{found.log}: what other policies would have done", fontsize=10)
    if any(entry.warnings for entry in found.entries):
        figure.supxlabel("hollow: with a warning", fontsize=8, x=0.02, ha="left")
    save_figure(figure, path)
