"""The figure of results: error against rounds with a band over the runs."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.extras import needs
from delaytron.plotting import COLOURS, DASHES, draw_band, draw_majority, save_figure
from delaytron.simulation.results import MAJORITY, Result

if TYPE_CHECKING:
    from matplotlib.artist import Artist

WIDEST = 44  # characters of a title or a label that fit into one panel


def plot_curves(results: Sequence[Result], path: str | Path) -> None:
    """Save a figure: a column of panels per learner, each curve with a band from its lowest to its highest run.

    Where settings are compared, every delay has a row of panels and every setting a colour; else the delays
    have the colours.
    """
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    varying = _varying(results)
    learners = list(dict.fromkeys(result.learner for result in results))
    rows = list(dict.fromkeys(result.delay if varying else "" for result in results))
    width = 4.2 * len(learners) + 0.6
    height = 3.0 * len(rows) + 0.8
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(len(rows), len(learners), sharex=True, sharey=True, squeeze=False)
    lines: dict[str, Artist] = {}
    for result in results:
        panel = panels[rows.index(result.delay if varying else ""), learners.index(result.learner)]
        _draw_result(panel, result, varying, lines)
    if (majority := results[0].majority_error) is not None:
        lines[MAJORITY], *_ = [draw_majority(panel, majority) for panel in panels.flat]
    _style_axes(panels, learners, rows, "log" if any((result.error_rate > 0).any() for result in results) else "linear")
    columns = max(1, int(11 * width) // (max(map(len, lines)) + 7))
    figure.set_figheight(height + 0.2 * -(-sum(1 + label.count("\n") for label in lines) // columns))
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)
    figure.suptitle(f"{results[0].dataset}: error so far against rounds")
    save_figure(figure, path)


def _varying(results: Sequence[Result]) -> list[str]:
    """Return the names of the parameters that have more than one value."""
    settings = [setting for result in results for setting in result.parameters]
    names = dict.fromkeys(name for setting in settings for name in setting)
    return [name for name in names if len({setting[name] for setting in settings if name in setting}) > 1]


def _draw_result(panel: Any, result: Result, varying: Sequence[str], lines: "dict[str, Artist]") -> None:
    for setting, part in result.groups():
        label = fill(result.delay, WIDEST)
        if varying:
            label = ", ".join(f"{name}={setting[name]}" for name in varying if name in setting) or result.learner
        place = [*lines, label].index(label)  # the same label has the same style in every panel
        line = _draw_curve(panel, part, COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)])
        lines.setdefault(label, line)


def _draw_curve(panel: Any, part: Result, colour: str, dashes: str) -> Any:
    """Draw the mean error of runs against rounds, with a band from the lowest to the highest; return the line."""
    errors = np.where(part.error_rate > 0, part.error_rate, np.nan)  # a log axis has no place for 0
    shown = ~np.isnan(errors).any(axis=0)
    errors = errors[:, shown]
    low = errors.min(axis=0)
    high = errors.max(axis=0)
    return draw_band(panel, part.rounds[shown], errors.mean(axis=0), low, high, color=colour, linestyle=dashes)


def _style_axes(panels: Any, learners: Sequence[str], rows: Sequence[str], scale: str) -> None:
    for (row, column), panel in np.ndenumerate(panels):
        panel.set(xscale=scale, yscale=scale)
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.set_title("\n".join(filter(None, [learners[column], fill(rows[row], WIDEST)])), fontsize=9)
        if row == len(rows) - 1:
            panel.set_xlabel("rounds")
        if column == 0:
            panel.set_ylabel("error of the played labels")
