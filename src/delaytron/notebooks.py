"""How objects look in a notebook: small tables and one curve, as HTML without styles or scripts of its own.

Colours are those of the text around it or half transparent, so that it can be read on light and on dark pages. Every
text is escaped and shortened, and every table ends after some rows: nothing that users name things by can break a page
or fill it.
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
LEAST_TOP = 1e-9  # of an axis: what is less is nothing
LINE = "rgba(128,128,128,.35)"
BLUE = "#3a8fd0"  # on white and on black three times as light or dark as the ground
CELL = f"padding:2px 10px 2px 0;border:0;border-bottom:1px solid {LINE};background:none;vertical-align:top"
WIDTH, HEIGHT = 420, 190  # of a figure
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 8, 34  # its margins


class Curve(NamedTuple):
    """A share over rounds, and how far the truth may be off on either side (nothing where that is not known)."""

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
    """Return a title with what stands below it."""
    heading = f'<div style="font-weight:600;margin-bottom:4px">{text_of(title)}</div>'
    return f'<div style="font-size:13px;line-height:1.4;color:inherit">{heading}{"".join(parts)}</div>'


def facts(pairs: Mapping[str, Any]) -> str:
    """Return a table of names and values.

    Examples
    --------
    >>> facts({"rows": 150}).count("<td")
    1
    """
    rows = [_row((name, value), "th") for name, value in islice(pairs.items(), MOST_FACTS)]
    return _table("", rows, len(pairs), 2)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], n_rows: int) -> str:
    """Return a table of the first of so many rows, and how many there are more.

    Examples
    --------
    >>> table(["class", "rows"], ((k, 10) for k in range(1000)), 1000).count("<tr>")
    22
    """
    head = "".join(f'<th style="{CELL};text-align:{_side(i)}">{text_of(name)}</th>' for i, name in enumerate(columns))
    shown = [_row(row, "td") for row in islice(rows, MOST_ROWS)]
    return _table(f"<thead><tr>{head}</tr></thead>", shown, n_rows, len(columns))


def _side(column: int) -> str:
    return "right" if column else "left"


def _row(cells: Sequence[Any], first: str) -> str:
    """Return a row; of a table of facts the first cell is a heading."""
    sides = ["left" if first == "th" else _side(i) for i in range(len(cells))]
    kinds = [first] + ["td"] * (len(cells) - 1)
    return f"<tr>{''.join(map(_cell, kinds, sides, cells))}</tr>"


def _cell(kind: str, side: str, value: Any) -> str:
    shown = "-" if value is None else text_of(value)
    paler = ";opacity:.75" if kind == "th" else ""
    return f'<{kind} style="{CELL};text-align:{side};font-weight:400{paler}">{shown}</{kind}>'


def _table(head: str, rows: Sequence[str], n_rows: int, n_columns: int) -> str:
    left = n_rows - len(rows)
    more = f'<tr><td colspan="{n_columns}" style="{CELL};text-align:left;opacity:.75">… and {left} more</td></tr>'
    body = "".join(rows) + (more if left > 0 else "")
    style = "border-collapse:collapse;border:0;margin:0 0 8px 0;color:inherit;font-variant-numeric:tabular-nums"
    return f'<table style="{style}">{head}<tbody>{body}</tbody></table>'


def curve_figure(curve: Curve, level: float | None = None) -> str:
    """Return a figure of shares over rounds, which stand on a log axis, with a dashed line at a level.

    Examples
    --------
    >>> figure = curve_figure(Curve("error", [1, 10, 100], [0.9, 0.5, 0.25], [0.0, 0.1, 0.05]))
    >>> figure.startswith("<svg"), figure.count("<polyline"), figure.count("<polygon")
    (True, 1, 1)
    """
    points = _finite_points(curve)
    if not points:
        return ""
    top = min(1.0, _round_up(max(value + margin for _, value, margin in points)))
    x = _Axis(log10(max(1.0, points[0][0])), log10(max(10.0, points[-1][0])), LEFT, WIDTH - RIGHT)
    y = _Axis(0.0, top, HEIGHT - BOTTOM, TOP)
    end = f"{points[-1][1]:.4g} after {points[-1][0]:.6g} rounds"
    parts = [*_grid(x, y, curve.name), _band(points, x, y), _line(points, x, y), *_level(level, y)]
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    style = "max-width:100%;background:none;font:11px sans-serif"
    title = f"<title>{text_of(curve.name)}: {text_of(end)}</title>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} style="{style}">{title}{"".join(parts)}</svg>'


class _Axis(NamedTuple):
    """From values to places."""

    low: float
    high: float
    begin: float
    end: float

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 1.0
        return round(self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin), 1)


Points = list[tuple[float, float, float]]


def _finite_points(curve: Curve) -> Points:
    """Return (round, value, margin), at most so many of them, the last one always."""
    every = list(zip(curve.rounds, curve.values, curve.margins, strict=True))
    step = -(-len(every) // MOST_POINTS) or 1
    kept = every[(len(every) - 1) % step :: step] if every else []
    return [
        (float(t), float(value), float(margin) if isfinite(margin) else 0.0)
        for t, value, margin in kept
        if isfinite(value)
    ]


def _round_up(value: float) -> float:
    """Return the next number that an axis can end with.

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
    for value in (y.high * i / 4 for i in range(5)):
        height = y.place(value)
        yield _rule(LEFT, height, WIDTH - RIGHT, height)
        yield _label(LEFT - 6, height + 4, f"{value:.4g}", "end")
    for power in range(int(-(-x.low // 1)), int(x.high) + 1):
        yield _label(x.place(power), HEIGHT - BOTTOM + 16, f"{10**power:,}" if power < 4 else f"1e{power}", "middle")
    yield _label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, f"{name}, by rounds", "middle")


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}"/>'


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="currentColor" opacity=".75">{text_of(text)}</text>'


def _band(points: Points, x: _Axis, y: _Axis) -> str:
    above = [f"{x.place(log10(t))},{y.place(value + margin)}" for t, value, margin in points]
    below = [f"{x.place(log10(t))},{y.place(value - margin)}" for t, value, margin in points]
    return f'<polygon points="{" ".join(above + below[::-1])}" fill="{BLUE}" fill-opacity=".25"/>'


def _line(points: Points, x: _Axis, y: _Axis) -> str:
    places = " ".join(f"{x.place(log10(t))},{y.place(value)}" for t, value, _ in points)
    return f'<polyline points="{places}" fill="none" stroke="{BLUE}" stroke-width="1.8"/>'


def _level(level: float | None, y: _Axis) -> Iterator[str]:
    if level is not None and isfinite(level) and level <= y.high:
        ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.place(level)}" y2="{y.place(level)}"'
        yield f'<line {ends} stroke="currentColor" stroke-opacity=".6" stroke-dasharray="4 3"/>'
