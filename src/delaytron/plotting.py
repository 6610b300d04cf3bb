"""How all figures look, and how they are saved."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from delaytron.checks import check_path, reason_of
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.advice import with_advice
from delaytron.files.atomic import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000")  # safe for the colour-blind
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # with seven colours and four dashes: no two alike of many

DATES = {"svg": "Date", "pdf": "CreationDate"}  # what formats call the time of saving, which is left out


class LineStyle(TypedDict, total=False):
    """How a line is drawn, in the words of matplotlib."""

    color: str
    marker: str
    markerfacecolor: str
    markersize: float
    linestyle: str | tuple[int, tuple[int, int]]
    linewidth: float
    label: str


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure in the form that the ending of the path asks for; the same figure always gives the same bytes."""
    target = check_path("path", path)
    try:
        target = target if target.suffix else target.with_name(f"{target.name}.png")
        replace_file(target, _as_bytes(figure, target.suffix[1:].lower()))
    except OSError as problem:
        raise InvalidInput(f"cannot save the figure as {path}: {with_advice(problem)}") from None
    except ValueError as problem:
        raise InvalidInput(f"cannot save the figure as {path}: {reason_of(problem)}") from None


def _as_bytes(figure: "Figure", form: str) -> bytes:
    needs("matplotlib")
    from matplotlib import rc_context  # noqa: PLC0415 - slow to import

    content = BytesIO()
    metadata: Any = {DATES[form]: None} if form in DATES else None
    with rc_context({"svg.hashsalt": "delaytron"}):  # else the names of parts in an SVG are random
        figure.savefig(content, format=form, dpi=150, metadata=metadata)
    return content.getvalue()


def draw_band(panel: "Axes", x: Any, y: Any, low: Any, high: Any, **style: Unpack[LineStyle]) -> "Line2D":
    """Draw a line with a band around it; return the line."""
    panel.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    drawn: LineStyle = {"linewidth": 1.6, **style}
    return panel.plot(x, y, **drawn)[0]


def draw_majority(panel: "Axes", error: float) -> "Line2D":
    """Draw where the error of always playing the most frequent class is; return the line."""
    return panel.axhline(error, color="0.4", linestyle=":", linewidth=1.4, zorder=1)


def style_of(place: int, hollow: bool = False) -> LineStyle:
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


def name_errors(panel: "Axes") -> None:
    """Write the errors along a log axis as plain numbers, more of them where the axis is short."""
    needs("matplotlib")
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415 - slow to import

    low, high = panel.get_ylim()
    close = high / low < 10
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 7, 8) if close else (1, 2, 5)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
