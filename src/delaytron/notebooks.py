"""HTML of objects in a notebook: small tables and one curve, without style sheets or scripts.

Colours are inherited or half transparent, so that they can be read on light and on dark pages. All text is escaped and
shortened, and tables have a limited number of rows: the names that users give cannot break a page or fill it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from math import floor, isfinite, log10
from typing import Any, NamedTuple

LONGEST = 80  # characters of a text
MOST_ROWS = 20  # of a table
MOST_FACTS = 30
MOST_POINTS = 200  # of a curve
LEAST_TOP = 1e-9  # values below it count as 0 when the end of an axis is chosen
LINE = "rgba(128,128,128,.35)"
BLUE = "#3a8fd0"  # a contrast of at least 3 on white and on black
CELL = f"padding:2px 10px 2px 0;border:0;border-bottom:1px solid {LINE};background:none;vertical-align:top"
WIDTH, HEIGHT = 420, 190  # of a figure
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 8, 34  # its margins


class Curve(NamedTuple):
    """A share over rounds, with half the widths of its intervals (NaN where they are not known)."""

    name: str
    rounds: Sequence[float]
    values: Sequence[float]
    margins: Sequence[float]


def text_of(value: Any) -> str:
    """Return a value as escaped text of bounded length, without characters that cannot be printed.

    Examples
    --------
    >>> text_of("<b>"), text_of(0.25), text_of("x" * 1000)[-4:]
    ('&lt;b&gt;', '0.25', 'xxx…')
    """
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    shown = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown))


def page(title: Any, *parts: str) -> str:
    """Return a title with parts below it."""
    heading = f'<div style="font-weight:600;margin-bottom:4px">{text_of(title)}</div>'
    return f'<div style="font-size:13px;line-height:1.4;color:inherit">{heading}{"".join(parts)}</div>'


def facts(pairs: Mapping[str, Any]) -> str:
    """Return a table of names and values.

    Examples
    --------
    >>> facts({"rows": 150}).count("<td")
    1
    """
    rows = [_row((name, value), ("left", "left"), "th") for name, value in islice(pairs.items(), MOST_FACTS)]
    return _table("", rows, len(pairs), 2)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], n_rows: int) -> str:
    """Return a table of the first rows, with the number of the others below.

    Examples
    --------
    >>> table(["class", "rows"], ((k, 10) for k in range(1000)), 1000).count("<tr>")
    22
    """
    sides = ["left", *["right"] * (len(columns) - 1)]
    titles = zip(columns, sides, strict=True)
    head = "".join(f'<th style="{CELL};text-align:{side}">{text_of(name)}</th>' for name, side in titles)
    shown = [_row(row, sides) for row in islice(rows, MOST_ROWS)]
    return _table(f"<thead><tr>{head}</tr></thead>", shown, n_rows, len(columns))


def _row(cells: Sequence[Any], sides: Sequence[str], first: str = "td") -> str:
    """Return a row with its cells on the left or the right; in a table of facts the first one is a heading."""
    shown = []
    for place, (side, value) in enumerate(zip(sides, cells, strict=True)):
        kind = "td" if place else first
        style = f"{CELL};text-align:{side};font-weight:400{';opacity:.75' if kind == 'th' else ''}"
        shown.append(f'<{kind} style="{style}">{"-" if value is None else text_of(value)}</{kind}>')
    return f"<tr>{''.join(shown)}</tr>"


def _table(head: str, rows: Sequence[str], n_rows: int, n_columns: int) -> str:
    left = n_rows - len(rows)
    more = f'<tr><td colspan="{n_columns}" style="{CELL};text-align:left;opacity:.75">… and {left} more</td></tr>'
    body = "".join(rows) + (more if left > 0 else "")
    style = "border-collapse:collapse;border:0;margin:0 0 8px 0;color:inherit;font-variant-numeric:tabular-nums"
    return f'<table style="{style}">{head}<tbody>{body}</tbody></table>'


def curve_figure(curve: Curve, level: float | None = None) -> str:
    """Return an SVG figure of shares against rounds on a log axis, with a dashed line at a level.

    Examples
    --------
    >>> figure = curve_figure(Curve("error", [1, 10, 100], [0.9, 0.5, 0.25], [0.0, 0.1, 0.05]))
    >>> figure.startswith("<svg"), figure.count("<polyline"), figure.count("<polygon")
    (True, 1, 1)
    """
    every = list(zip(curve.rounds, curve.values, curve.margins, strict=True))
    step = -(-len(every) // MOST_POINTS) or 1
    kept = every[(len(every) - 1) % step :: step] if every else []  # the last one always
    points = [
        (float(t), float(value), float(margin) if isfinite(margin) else 0.0)
        for t, value, margin in kept
        if isfinite(value)
    ]
    if not points:
        return ""
    top = min(1.0, _round_up(max(value + margin for _, value, margin in points)))
    x = _Axis(log10(max(1.0, points[0][0])), log10(max(10.0, points[-1][0])), LEFT, WIDTH - RIGHT)
    y = _Axis(0.0, top, HEIGHT - BOTTOM, TOP)
    end = f"{points[-1][1]:.4g} after {points[-1][0]:.6g} rounds"
    line = [f"{x.place(log10(t))},{y.place(value)}" for t, value, _ in points]
    above = [f"{x.place(log10(t))},{y.place(value + margin)}" for t, value, margin in points]
    below = [f"{x.place(log10(t))},{y.place(value - margin)}" for t, value, margin in points]
    parts = [
        *_grid(x, y, curve.name),
        f'<polygon points="{" ".join(above + below[::-1])}" fill="{BLUE}" fill-opacity=".25"/>',
        f'<polyline points="{" ".join(line)}" fill="none" stroke="{BLUE}" stroke-width="1.8"/>',
    ]
    if level is not None and isfinite(level) and level <= y.high:
        ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.place(level)}" y2="{y.place(level)}"'
        parts.append(f'<line {ends} stroke="currentColor" stroke-opacity=".6" stroke-dasharray="4 3"/>')
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    style = "max-width:100%;background:none;font:11px sans-serif"
    title = f"<title>{text_of(curve.name)}: {text_of(end)}</title>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} style="{style}">{title}{"".join(parts)}</svg>'


class _Axis(NamedTuple):
    """A scale from values to pixels."""

    low: float
    high: float
    begin: float
    end: float

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 1.0
        return round(self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin), 1)


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, ... times a power of ten: where an axis ends.

    Examples
    --------
    >>> _round_up(0.13), _round_up(0.9), _round_up(0.0)
    (0.2, 1.0, 1.0)
    """
    if value <= LEAST_TOP:
        return 1.0
    unit = 10.0 ** floor(log10(value))
    return next(round(unit * step, 12) for step in (1, 2, 5, 10) if unit * step >= value * (1 - 1e-9))


def _grid(x: _Axis, y: _Axis, name: str) -> Iterator[str]:
    """Iterate over the horizontal lines and the labels of the axes."""

    def label(across: float, down: float, text: str, anchor: str) -> str:
        place = f'x="{across}" y="{down}" text-anchor="{anchor}"'
        return f'<text {place} fill="currentColor" opacity=".75">{text_of(text)}</text>'

    for value in (y.high * i / 4 for i in range(5)):
        height = y.place(value)
        yield f'<line x1="{LEFT}" y1="{height}" x2="{WIDTH - RIGHT}" y2="{height}" stroke="{LINE}"/>'
        yield label(LEFT - 6, height + 4, f"{value:.4g}", "end")
    for power in range(int(-(-x.low // 1)), int(x.high) + 1):
        yield label(x.place(power), HEIGHT - BOTTOM + 16, f"{10**power:,}" if power < 4 else f"1e{power}", "middle")
    yield label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, f"{name}, by rounds", "middle")
