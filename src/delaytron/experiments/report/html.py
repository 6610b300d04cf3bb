"""The report as one HTML file without external resources; where scripts do not run, figures replace the charts."""

import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from math import isfinite
from pathlib import Path
from string import Template
from urllib.parse import quote

from delaytron.experiments.report.model import Cell, Chart, Claim, Estimate, Report, Section, Table, shown
from delaytron.files.atomic import replace_file
from delaytron.plotting import COLOURS, DASHES, MARKERS
from delaytron.simulation.results import MAJORITY, Mean

X_DIGITS = 7  # significant digits, so that rounds are exact
Y_DIGITS = 5  # so that the file stays small

Value = float | None


def page_data(charts: Iterable[Chart]) -> str:
    """Return the charts as JSON that can be embedded in a script: `<` is escaped.

    Keys are the fields of `Chart`, `Panel` and `Series`. To keep the file small, `x` of a series is an index into
    `grids`, the distinct x of its chart, and `runs` has one number if all are equal.
    """
    plain = []
    for chart in charts:
        grids: dict[tuple[Value, ...], int] = {}
        panels = [
            {
                "data": panel.data,
                "series": [
                    {
                        "label": series.label,
                        "x": grids.setdefault(tuple(_rounded(series.x, X_DIGITS)), len(grids)),
                        "y": _rounded(series.y, Y_DIGITS),
                        "low": _rounded(series.low, Y_DIGITS),
                        "high": _rounded(series.high, Y_DIGITS),
                        "style": series.style,
                        "dashed": series.dashed,
                        "runs": series.runs[:1] if len(set(series.runs)) == 1 else series.runs,
                    }
                    for series in panel.series
                ],
                "majority": None if panel.majority is None else _rounded([panel.majority], Y_DIGITS)[0],
            }
            for panel in chart.panels
        ]
        plain.append(
            {
                "name": chart.name,
                "title": chart.title,
                "x": chart.x,
                "y": chart.y,
                "log_x": chart.log_x,
                "log_y": chart.log_y,
                "kind": chart.kind,
                "ticks": chart.ticks,
                "spread": chart.spread,
                "same": dict(chart.same),
                "panels": panels,
                "grids": list(grids),
            }
        )
    shared = {"colours": COLOURS, "markers": MARKERS, "dashes": DASHES, "majority": MAJORITY}
    text = json.dumps(shared | {"charts": plain}, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c")


def _rounded(values: Iterable[float], digits: int) -> list[Value]:
    """Return numbers rounded to significant digits; None where they are not finite.

    Examples
    --------
    >>> _rounded([1234567.0, 0.000123456, float("nan")], 5)
    [1234600, 0.00012346, None]
    """
    short = (float(f"{value:.{digits}g}") if isfinite(value) else None for value in values)
    return [int(value) if value is not None and value.is_integer() else value for value in short]


STYLES = ("uPlot.min.css", "report.css")
SCRIPTS = ("tables.js", "styles.js", "scales.js", "marks.js", "values.js", "panels.js", "charts.js")
VERDICTS = {"holds": "✓", "partly": "≈", "does not hold": "✗", "not tested": "?"}
MISSING = "-"
OTHER_CHARTS = "Learner by learner"
MACHINE = "How it was made"


def write_page(path: Path, report: Report) -> None:
    """Write the page atomically."""
    leading = [chart for chart in report.charts if chart.leads]
    others = [chart for chart in report.charts if not chart.leads]
    library = f"/*\n{_part('uPlot.LICENSE')}\n*/\n{_part('uPlot.iife.min.js')}"

    headline = ""
    if report.headline:
        notes = f'<p class="note">{escape(" ".join(report.small_print))}</p>' if report.small_print else ""
        sentence = report.headline.replace(" ± ", "\u00a0±\u00a0")  # an error and its margin stay on one line
        headline = f'<p class="headline">{escape(sentence)}</p>\n{notes}'

    verdicts = " ".join(
        f'<span class="{_id("is", claim.verdict)}" title="{claim.verdict}">'
        f"{escape(claim.key)} {VERDICTS[claim.verdict]}</span>"
        for claim in report.claims
    )
    links = [(_id("chart", chart.name), escape(chart.title)) for chart in leading]
    links += [("claims", f"The paper's claims: {verdicts}")] * bool(report.claims)
    links += [(_id("table", section.title), escape(section.title)) for section in report.sections]
    links += [("charts", OTHER_CHARTS)] * bool(others)
    links += [("machine", MACHINE)] * bool(report.machine)

    claims = other_charts = machine = ""
    if report.claims:
        cards = "\n".join(map(_card, report.claims))
        claims = f'<section class="claims" id="claims">\n<h2>The paper\'s claims</h2>\n{cards}\n</section>'
    if others:
        articles = "\n".join(_chart(chart, report, "h3") for chart in others)
        other_charts = f'<section id="charts">\n<h2>{OTHER_CHARTS}</h2>\n{articles}\n</section>'
    if report.machine:
        machine = f'<section id="machine">\n<h2>{MACHINE}</h2>\n{_terms(report.machine)}\n</section>'

    page = Template(_part("report.html")).substitute(
        title=escape(report.title),
        style="\n".join(map(_part, STYLES)),
        facts=_terms(report.facts),
        headline=headline,
        contents="\n".join(f'<a href="#{target}">{text}</a>' for target, text in links),
        leading="\n".join(_chart(chart, report, "h2") for chart in leading),
        claims=claims,
        sections="\n".join(map(_section, report.sections)),
        charts=other_charts,
        machine=machine,
        data=page_data(report.charts),
        scripts="\n".join(f"<script>\n{text}\n</script>" for text in (library, *map(_part, SCRIPTS))),
    )
    replace_file(path, page.encode())


def _part(name: str) -> str:
    return files("delaytron.experiments.report").joinpath("page", name).read_text(encoding="utf-8")


def _terms(terms: Mapping[str, str]) -> str:
    pairs = "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>\n" for term, text in terms.items())
    return f'<dl class="facts">\n{pairs}</dl>' if terms else ""


def _id(kind: str, name: str) -> str:
    """Return the id of an element.

    Examples
    --------
    >>> _id("table", "Times & rounds")
    'table-times-rounds'
    """
    return f"{kind}-" + re.sub(r"\W+", "-", name.lower()).strip("-")


def _card(claim: Claim) -> str:
    mark = f'<span aria-hidden="true">{VERDICTS[claim.verdict]}</span>'
    badge = f'<span class="badge {_id("is", claim.verdict)}">{mark} {claim.verdict}</span>'
    head = f'<p><span class="key">{escape(claim.key)}</span> {badge}</p>'
    text = f"{head}\n<h3>{escape(claim.statement)}</h3>\n{_paragraphs(claim.reason)}"
    table = _table(claim.table, f"Claim {claim.key}")
    return f'<article class="card" id="{_id("claim", claim.key)}">\n<div class="text">{text}</div>\n{table}\n</article>'


def _paragraphs(text: str) -> str:
    return "\n".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip())


def _section(section: Section) -> str:
    head = f"<h2>{escape(section.title)}</h2>\n{_paragraphs(section.text)}"
    return f'<section id="{_id("table", section.title)}">\n{head}\n{_table(section.table, section.title)}\n</section>'


def _table(table: Table, name: str) -> str:
    """Return a table in a box that scrolls by itself on narrow screens."""
    if not table.rows:
        return ""
    classes = []
    for column in zip(*table.rows, strict=True):
        present = [cell for cell in column if cell is not None]
        numeric = bool(present) and not any(isinstance(cell, str) for cell in present)
        classes.append(' class="number"' if numeric else "")
    head = "".join(
        f'<th scope="col"{kind}>{escape(title)}</th>' for title, kind in zip(table.columns, classes, strict=True)
    )
    rows = "\n".join("<tr>" + "".join(map(_cell, row, classes)) + "</tr>" for row in table.rows)
    box = f'<div class="tabled"><div class="box" role="region" tabindex="0" aria-label="{escape(name)}">'
    return f"{box}<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div></div>"


def _cell(cell: Cell, kind: str) -> str:
    """Return a cell; `data-value` is the number by which it is sorted."""
    value = cell.value if isinstance(cell, Mean | Estimate) else cell
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return f"<td{kind} data-missing>{MISSING}</td>"
    by = "" if isinstance(value, str) else f' data-value="{value!r}"'
    return f"<td{kind}{by}>{escape(shown(cell))}</td>"


def _chart(chart: Chart, report: Report, heading: str) -> str:
    """Return the element of a chart, which the scripts draw; without scripts its figure is shown."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", report.figures[chart.name].read_text("utf-8"), flags=re.DOTALL)
    # Coordinates are rounded to hundredths of a point.
    svg = re.sub(r'(?<=\s[dxy]=")[^"]*', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    figure = "data:image/svg+xml," + quote(re.sub(r"\s+", " ", svg), safe=" !$()*+,-./;=?@_")
    data = ", ".join(panel.data for panel in chart.panels)
    description = f"{chart.title}: {chart.y} against {chart.x or 'learners'}, for {data}"
    return (
        f'<article class="chart" id="{_id("chart", chart.name)}" data-place="{report.charts.index(chart)}">\n'
        f"<{heading}>{escape(chart.title)}</{heading}>\n"
        f'<p class="caption">{escape(chart.caption)}</p>\n'
        '<div class="live"></div>\n'
        '<div class="box figure">'
        f'<img loading="lazy" alt="{escape(description)}" src="{figure}"></div>\n'
        "</article>"
    )
