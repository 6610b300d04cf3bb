"""Pictures of results: error against rounds, log-log, a panel per learner."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.results import Result

COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#000000",
)  # safe for the colour-blind
DASHES = ("-", "--", "-.", ":")


def plot_curves(results: Sequence[Result], path: str | Path) -> None:
    """Save a panel per learner, a curve per delay and setting, each with a band from its lowest to its highest run."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    learners = list(dict.fromkeys(result.learner for result in results))
    figure = Figure(figsize=(4.6 * len(learners) + 0.6, 4.2), layout="constrained")
    panels = figure.subplots(1, len(learners), sharey=True, squeeze=False)[0]
    for panel, learner in zip(panels, learners, strict=True):
        _draw_panel(panel, [result for result in results if result.learner == learner])
        panel.set_title(learner)
    panels[0].set_ylabel("error rate of the played labels")
    figure.suptitle(f"{results[0].dataset}: error so far against rounds")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"cannot save the picture as {path}: {problem}") from None


def _draw_panel(panel: Any, results: Iterable[Result]) -> None:
    curves = [(result, setting, part) for result in results for setting, part in result.groups()]
    several = len({str(setting) for _, setting, _ in curves}) > 1
    for number, (result, setting, part) in enumerate(curves):
        style = {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
        }
        name = ", ".join(
            [
                result.delay,
                *(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in setting.items()),
            ]
        )
        _draw_curve(panel, part, label=name if several else result.delay, **style)
    panel.set(xscale="log", yscale="log", xlabel="rounds")
    panel.grid(visible=True, which="major", alpha=0.3)
    panel.legend(fontsize=8, frameon=False)


def _draw_curve(panel: Any, part: Result, **style: Any) -> None:
    errors = np.where(part.error_rate > 0, part.error_rate, np.nan)  # a log axis has no place for 0
    shown = ~np.isnan(errors).any(axis=0)
    panel.plot(part.rounds[shown], errors[:, shown].mean(axis=0), linewidth=1.6, **style)
    panel.fill_between(
        part.rounds[shown],
        errors[:, shown].min(axis=0),
        errors[:, shown].max(axis=0),
        color=style["color"],
        alpha=0.15,
        linewidth=0,
    )
