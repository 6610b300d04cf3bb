"""How all figures look, and how they are saved."""

from pathlib import Path
from typing import Any

from delaytron.errors import InvalidInput

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000")  # safe for the colour-blind
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # with seven colours and four dashes: no two alike of many


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure in the form that the ending of the path asks for."""
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"cannot save the picture as {path}: {problem}") from None


def draw_band(panel: Any, x: Any, y: Any, low: Any, high: Any, **look: Any) -> Any:
    """Draw a line with a band around it; return the line."""
    panel.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
    return panel.plot(x, y, linewidth=1.6, **look)[0]


def look_of(place: int, hollow: bool = False) -> dict[str, Any]:
    """Return colour, marker and dashes of a line: no two alike of many."""
    colour = COLOURS[place % len(COLOURS)]
    return {
        "color": colour,
        "marker": MARKERS[place % len(MARKERS)],
        "markerfacecolor": "white" if hollow else colour,
        "linestyle": DASHES[place // len(COLOURS) % len(DASHES)],
        "linewidth": 1.4,
        "markersize": 5.5,
    }


def name_errors(panel: Any) -> None:
    """Write the errors along a log axis as plain numbers, more of them where the axis is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415 - slow to import

    low, high = panel.get_ylim()
    close = high / low < 10
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 7, 8) if close else (1, 2, 5)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
