"""The report of an experiment: one HTML file that needs nothing else, no network and, if need be, no JavaScript."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from math import isfinite
from pathlib import Path
from string import Template
from urllib.parse import quote

from delaytron.experiments.report.model import Cell, Chart, Claim, Estimate, Report, Section, Table, shown
from delaytron.experiments.report.page_data import page_data
from delaytron.files.atomic import replace_file
from delaytron.simulation.results import Mean

STYLES = ("uPlot.min.css", "report.css")
SCRIPTS = ("tables.js", "styles.js", "scales.js", "marks.js", "values.js", "panels.js", "charts.js")
VERDICTS = {"holds": "✓", "partly": "≈", "does not hold": "✗", "not tested": "?"}
MISSING = "-"
OTHER_CHARTS = "Learner by learner"
MACHINE = "How it was made"


def write_page(path: Path, report: Report) -> None:
    """Write the page in one piece: after a crash there is the old one or the new one."""
    leading = [chart for chart in report.charts if chart.leads]
    others = [chart for chart in report.charts if not chart.leads]
    page = Template(_part("report.html")).substitute(
        title=escape(report.title),
        style="\n".join(map(_part, STYLES)),
        facts=_terms(report.facts),
        headline=_headline(report),
        contents=_contents(report),
        leading="\n".join(_chart(chart, report, "h2") for chart in leading),
        claims=_claims(report.claims),
        sections="\n".join(map(_section, report.sections)),
        charts=_other_charts(others, report),
        machine=_machine(report.machine),
        data=page_data(report.charts),
        scripts=_scripts(),
    )
    replace_file(path, page.encode())


def _part(name: str) -> str:
    return files("delaytron.experiments.report").joinpath("page", name).read_text(encoding="utf-8")


def _scripts() -> str:
    """Return all scripts; the licence of the chart library travels with it."""
    library = f"/*\n{_part('uPlot.LICENSE')}\n*/\n{_part('uPlot.iife.min.js')}"
    return "\n".join(f"<script>\n{text}\n</script>" for text in (library, *map(_part, SCRIPTS)))


def _terms(terms: Mapping[str, str]) -> str:
    pairs = "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>\n" for term, text in terms.items())
    return f'<dl class="facts">\n{pairs}</dl>' if terms else ""


def _headline(report: Report) -> str:
    if not report.headline:
        return ""
    notes = f'<p class="note">{escape(" ".join(report.small_print))}</p>' if report.small_print else ""
    sentence = report.headline.replace(" ± ", "\u00a0±\u00a0")  # an error and its margin stay on one line
    return f'<p class="headline">{escape(sentence)}</p>\n{notes}'


def _contents(report: Report) -> str:
    """Return links to the parts of the page, in its order."""
    links = [(_id("chart", chart.name), escape(chart.title)) for chart in report.charts if chart.leads]
    links += [("claims", "The paper's claims: " + " ".join(map(_short_verdict, report.claims)))] * bool(report.claims)
    links += [(_id("table", section.title), escape(section.title)) for section in report.sections]
    links += [("charts", OTHER_CHARTS)] * any(not chart.leads for chart in report.charts)
    links += [("machine", MACHINE)] * bool(report.machine)
    return "\n".join(f'<a href="#{target}">{text}</a>' for target, text in links)


def _short_verdict(claim: Claim) -> str:
    kind = _id("is", claim.verdict)
    return f'<span class="{kind}" title="{claim.verdict}">{escape(claim.key)} {VERDICTS[claim.verdict]}</span>'


def _id(kind: str, name: str) -> str:
    """Return what a link within the page can point at.

    Examples
    --------
    >>> _id("table", "Times & rounds")
    'table-times-rounds'
    """
    return f"{kind}-" + re.sub(r"\W+", "-", name.lower()).strip("-")


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    cards = "\n".join(map(_card, claims))
    return f'<section class="claims" id="claims">\n<h2>The paper\'s claims</h2>\n{cards}\n</section>'


def _card(claim: Claim) -> str:
    head = f'<p><span class="key">{escape(claim.key)}</span> {_badge(claim.verdict)}</p>'
    text = f"{head}\n<h3>{escape(claim.statement)}</h3>\n{_paragraphs(claim.reason)}"
    table = _table(claim.table, f"Claim {claim.key}")
    return f'<article class="card" id="{_id("claim", claim.key)}">\n<div class="text">{text}</div>\n{table}\n</article>'


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
    value = cell.value if isinstance(cell, Mean | Estimate) else cell
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return f"<td{kind} data-missing>{MISSING}</td>"
    by = "" if isinstance(value, str) else f' data-value="{value!r}"'
    return f"<td{kind}{by}>{escape(shown(cell))}</td>"


def _other_charts(charts: Sequence[Chart], report: Report) -> str:
    if not charts:
        return ""
    articles = "\n".join(_chart(chart, report, "h3") for chart in charts)
    return f'<section id="charts">\n<h2>{OTHER_CHARTS}</h2>\n{articles}\n</section>'


def _chart(chart: Chart, report: Report, heading: str) -> str:
    """Return a chart's place: filled by the scripts, and by its figure where none run."""
    data = ", ".join(panel.data for panel in chart.panels)
    description = f"{chart.title}: {chart.y} against {chart.x or 'learners'}, for {data}"
    return (
        f'<article class="chart" id="{_id("chart", chart.name)}" data-place="{report.charts.index(chart)}">\n'
        f"<{heading}>{escape(chart.title)}</{heading}>\n"
        f'<p class="caption">{escape(chart.caption)}</p>\n'
        '<div class="live"></div>\n'
        '<div class="box figure">'
        f'<img loading="lazy" alt="{escape(description)}" src="{_embedded(report.figures[chart.name])}"></div>\n'
        "</article>"
    )


def _embedded(figure: Path) -> str:
    """Return an .svg file as an address that holds it; hundredths of a point are enough for its lines."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", figure.read_text(encoding="utf-8"), flags=re.DOTALL)
    svg = re.sub(r'(?<=\s[dxy]=")[^"]*', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    return "data:image/svg+xml," + quote(re.sub(r"\s+", " ", svg), safe=" !$()*+,-./;=?@_")


def _machine(machine: Mapping[str, str]) -> str:
    return f'<section id="machine">\n<h2>{MACHINE}</h2>\n{_terms(machine)}\n</section>' if machine else ""
