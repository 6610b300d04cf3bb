"""The style of all figures, and saving them."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from delaytron.checks import check_path, reason_of
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.atomic import cannot, replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000")  # safe for the colour-blind
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # 8, coprime to the 7 colours: 56 lines differ

DATES = {"svg": "Date", "pdf": "CreationDate"}  # metadata with the time of saving, which is left out


class LineStyle(TypedDict, total=False):
    """Arguments of matplotlib for a line."""

    color: str
    marker: str
    markerfacecolor: str
    markersize: float
    linestyle: str | tuple[int, tuple[int, int]]
    linewidth: float
    label: str


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure in the format of the path's suffix, PNG without one; raise InvalidInput if that fails.

    The same figure always gives the same bytes.
    """
    target = check_path("path", path)
    needs("matplotlib")
    from matplotlib import rc_context  # noqa: PLC0415 - slow to import

    content = BytesIO()
    try:
        target = target if target.suffix else target.with_name(f"{target.name}.png")
        form = target.suffix[1:].lower()
        metadata: Any = {DATES[form]: None} if form in DATES else None
        with rc_context({"svg.hashsalt": "delaytron"}):  # else the ids of elements in an SVG are random
            figure.savefig(content, format=form, dpi=150, metadata=metadata)
        replace_file(target, content.getvalue())
    except OSError as problem:
        raise cannot("save the figure as", path, problem) from None
    except ValueError as problem:
        hint = "end it in .png, .pdf or .svg"
        raise InvalidInput(f"cannot save the figure as {str(path)!r}: {reason_of(problem)}", hint) from None


def draw_band(panel: "Axes", x: Any, y: Any, low: Any, high: Any, **style: Unpack[LineStyle]) -> "Line2D":
    """Draw a line with a band around it; return the line."""
    panel.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    drawn: LineStyle = {"linewidth": 1.6, **style}
    return panel.plot(x, y, **drawn)[0]


def draw_majority(panel: "Axes", error: float) -> "Line2D":
    """Draw a line at the error of always playing the most frequent class; return it."""
    return panel.axhline(error, color="0.4", linestyle=":", linewidth=1.4, zorder=1)


def style_of(place: int, hollow: bool = False) -> LineStyle:
    """Return the colour, marker and dashes of the line at a position in the legend."""
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
    """Label a logarithmic axis of errors with plain numbers, with more of them if it spans less than a decade."""
    needs("matplotlib")
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415 - slow to import

    low, high = panel.get_ylim()
    close = high / low < 10
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 7, 8) if close else (1, 2, 5)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
