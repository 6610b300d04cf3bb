"""The report of an experiment: one HTML file that needs nothing else, no network and, if need be, no JavaScript."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from math import isfinite
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from delaytron.experiments.report.charts import Chart, Series
from delaytron.experiments.report.model import Cell, Claim, Report, Section, Table, shown
from delaytron.files.atomic import replace_file
from delaytron.plotting import COLOURS, DASHES, MARKERS
from delaytron.simulation.results import Mean

STYLES = ("uPlot.min.css", "report.css")
SCRIPTS = ("tables.js", "looks.js", "scales.js", "marks.js", "values.js", "panels.js", "charts.js")
VERDICTS = {"holds": "✓", "partly": "≈", "does not hold": "✗", "not tested": "?"}
MISSING = "-"
X_DIGITS, Y_DIGITS = 7, 5  # significant ones in the page's data: rounds are exact, and the file stays small


def write_page(path: Path, report: Report) -> None:
    """Write the page in one piece: after a crash there is the old one or the new one."""
    page = Template(_part("report.html")).substitute(
        title=escape(report.title),
        style="\n".join(map(_part, STYLES)),
        facts=_facts(report.facts),
        contents=_contents(report),
        claims=_claims(report.claims),
        sections="\n".join(map(_section, report.sections)),
        charts=_charts(report),
        data=_data(report.charts),
        scripts=_scripts(),
    )
    replace_file(path, page.encode())


def _part(name: str) -> str:
    return files("delaytron.experiments.report").joinpath("page", name).read_text(encoding="utf-8")


def _scripts() -> str:
    """Return all scripts; the licence of the chart library travels with it."""
    library = f"/*\n{_part('uPlot.LICENSE')}\n*/\n{_part('uPlot.iife.min.js')}"
    return "\n".join(f"<script>\n{text}\n</script>" for text in (library, *map(_part, SCRIPTS)))


def _facts(facts: Mapping[str, str]) -> str:
    pairs = "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>\n" for term, text in facts.items())
    return f'<dl class="facts">\n{pairs}</dl>' if facts else ""


def _contents(report: Report) -> str:
    groups = {
        "The paper's claims": [(_claim_id(c), f"{c.key} {_badge(c.verdict)}") for c in report.claims],
        "Tables": [(_id("table", section.title), escape(section.title)) for section in report.sections],
        "Charts": [(_id("chart", chart.name), escape(chart.title)) for chart in report.charts],
    }
    return "\n".join(_group(title, links) for title, links in groups.items() if links)


def _group(title: str, links: Iterable[tuple[str, str]]) -> str:
    items = "".join(f'<li><a href="#{target}">{text}</a></li>\n' for target, text in links)
    return f"<section><h2>{title}</h2>\n<ul>\n{items}</ul></section>"


def _id(kind: str, name: str) -> str:
    """Return what a link within the page can point at.

    Examples
    --------
    >>> _id("table", "Times & rounds")
    'table-times-rounds'
    """
    return f"{kind}-" + re.sub(r"\W+", "-", name.lower()).strip("-")


def _claim_id(claim: Claim) -> str:
    return _id("claim", claim.key)


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    cards = "\n".join(map(_card, claims))
    return f'<section class="claims" id="claims">\n<h2>The paper\'s claims</h2>\n{cards}\n</section>'


def _card(claim: Claim) -> str:
    head = f'<p><span class="key">{escape(claim.key)}</span> {_badge(claim.verdict)}</p>'
    text = f"{head}\n<h3>{escape(claim.statement)}</h3>\n{_paragraphs(claim.reason)}"
    table = _table(claim.table, f"Claim {claim.key}")
    return f'<article class="card" id="{_claim_id(claim)}">\n<div class="told">{text}</div>\n{table}\n</article>'


def _badge(verdict: str) -> str:
    kind = _id("is", verdict)
    return f'<span class="badge {kind}"><span aria-hidden="true">{VERDICTS[verdict]}</span> {verdict}</span>'


def _paragraphs(text: str) -> str:
    return "\n".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip())


def _section(section: Section) -> str:
    head = f"<h2>{escape(section.title)}</h2>\n{_paragraphs(section.text)}"
    return f'<section id="{_id("table", section.title)}">\n{head}\n{_table(section.table, section.title)}\n</section>'


def _table(table: Table, name: str) -> str:
    """Return a table in a box of its own, which alone scrolls where the screen is narrow."""
    if not table.rows:
        return ""
    classes = [' class="number"' if _is_numeric(column) else "" for column in zip(*table.rows, strict=True)]
    head = "".join(
        f'<th scope="col"{kind}>{escape(title)}</th>' for title, kind in zip(table.columns, classes, strict=True)
    )
    rows = "\n".join("<tr>" + "".join(map(_cell, row, classes)) + "</tr>" for row in table.rows)
    box = f'<div class="tabled"><div class="box" role="region" tabindex="0" aria-label="{escape(name)}">'
    return f"{box}<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div></div>"


def _is_numeric(column: Iterable[Cell]) -> bool:
    present = [cell for cell in column if cell is not None]
    return bool(present) and not any(isinstance(cell, str) for cell in present)


def _cell(cell: Cell, kind: str) -> str:
    """Return a cell; numbers carry the value by which they are sorted."""
    value = cell.value if isinstance(cell, Mean) else cell
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return f"<td{kind} data-missing>{MISSING}</td>"
    by = "" if isinstance(value, str) else f' data-value="{value!r}"'
    return f"<td{kind}{by}>{escape(shown(cell))}</td>"


def _charts(report: Report) -> str:
    if not report.charts:
        return ""
    figures = "\n".join(_figure(chart, place, report.pictures[chart.name]) for place, chart in enumerate(report.charts))
    return f'<section id="charts">\n<h2>Charts</h2>\n{figures}\n</section>'


def _figure(chart: Chart, place: int, picture: Path) -> str:
    data = ", ".join(panel.data for panel in chart.panels)
    described = f"{chart.title}: {chart.y} against {chart.x or 'learners'}, for {data}"
    return (
        f'<article class="chart" id="{_id("chart", chart.name)}" data-place="{place}">\n'
        f"<h3>{escape(chart.title)}</h3>\n"
        '<div class="live"></div>\n'
        '<div class="box picture">'
        f'<img loading="lazy" alt="{escape(described)}" src="{_embedded(picture)}"></div>\n</article>'
    )


def _embedded(picture: Path) -> str:
    """Return an .svg file as an address that holds it; hundredths of a point are enough for its lines."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", picture.read_text(encoding="utf-8"), flags=re.DOTALL)
    svg = re.sub(r'(?<=\s[dxy]=")[^"]*', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    return "data:image/svg+xml," + quote(re.sub(r"\s+", " ", svg), safe=" !$()*+,-./;=?@_")


def _data(charts: Sequence[Chart]) -> str:
    """Return the charts as JSON that cannot end the script in which it stands."""
    values = {"colours": COLOURS, "markers": MARKERS, "dashes": DASHES, "charts": [_plain(chart) for chart in charts]}
    return json.dumps(values, separators=(",", ":"), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")


def _plain(chart: Chart) -> dict[str, Any]:
    """Return a chart as plain values; what is the same x in many series stands there once."""
    grids: dict[tuple[float | None, ...], int] = {}

    def plain_series(series: Series) -> dict[str, Any]:
        x = tuple(_rounded(series.x, X_DIGITS))
        values = {name: _rounded(getattr(series, name), Y_DIGITS) for name in ("y", "low", "high")}
        return {**series._asdict(), **values, "x": grids.setdefault(x, len(grids))}

    panels = [{"data": panel.data, "series": list(map(plain_series, panel.series))} for panel in chart.panels]
    return {**chart._asdict(), "panels": panels, "grids": list(grids)}


def _rounded(values: Iterable[float], digits: int) -> list[float | None]:
    """Return numbers with so many significant digits; what is not finite is missing.

    Examples
    --------
    >>> _rounded([1234567.0, 0.000123456, float("nan")], 5)
    [1234600, 0.00012346, None]
    """
    return [_short(float(f"{value:.{digits}g}")) if isfinite(value) else None for value in values]


def _short(value: float) -> float:
    return int(value) if value.is_integer() else value
