"""The report for other readers: Markdown for a repository, CSV for a spreadsheet."""

import csv
from collections.abc import Iterator, Mapping
from io import StringIO

from delaytron.experiments.report.model import Cell, Chart, Claim, Estimate, Report, Section, Table, shown
from delaytron.simulation.results import Mean

MOST_ROWS = 100  # of a table in Markdown; a longer one is better looked at as CSV


def as_markdown(report: Report) -> str:
    """Return what was played, the headline, the leading figures, claims, tables and the other figures."""
    leading = [chart for chart in report.charts if chart.leads]
    others = [chart for chart in report.charts if not chart.leads]
    parts = [f"# {report.title}", *_terms(report.facts)]
    parts += [f"\n**{report.headline}**"] if report.headline else []
    parts += [f"\n{note}" for note in report.small_print]
    parts += [line for chart in leading for line in _figure(chart)]
    parts += [line for claim in report.claims for line in _claim(claim)]
    parts += [line for section in report.sections for line in _section(section)]
    parts += ["\n## Learner by learner"] if others else []
    parts += [line for chart in others for line in _figure(chart, level="###")]
    parts += ["\n## How it was made", *_terms(report.machine)] if report.machine else []
    return "\n".join(parts) + "\n"


def _terms(terms: Mapping[str, str]) -> Iterator[str]:
    return (f"* {term}: {text}" for term, text in terms.items())


def _figure(chart: Chart, level: str = "##") -> Iterator[str]:
    yield f"\n{level} {chart.title}\n{chart.caption}\n"
    yield f"![{chart.title}](figures/{chart.name}.png)"


def _claim(claim: Claim) -> Iterator[str]:
    yield f"\n## Claim ({claim.key}): {claim.verdict}\n{claim.statement}\n\n{claim.reason}\n"
    yield from _table(claim.table)


def _section(section: Section) -> Iterator[str]:
    yield f"\n## {section.title}\n{section.text}\n"
    if len(section.table.rows) <= MOST_ROWS:
        yield from _table(section.table)
    else:
        yield f"The table has {len(section.table.rows)} rows: see the CSV file or the page."


def _table(table: Table) -> Iterator[str]:
    for row in (table.columns, tuple("---" for _ in table.columns), *table.rows):
        yield "| " + " | ".join("" if cell is None else shown(cell).replace("|", "\\|") for cell in row) + " |"


def as_csv(table: Table) -> str:
    r"""Return a table; a mean has a column for its margin, too.

    Examples
    --------
    >>> as_csv(Table(("data", "error"), (("digits", Mean(0.5, 0.01)),)))
    'data,error,error margin\ndigits,0.5,0.01\n'
    """
    with_margin = [any(map(_has_margin, column)) for column in zip(*table.rows, strict=True)]
    content = StringIO()
    writer = csv.writer(content, lineterminator="\n")
    names = [
        [name, f"{name} margin"] if wide else [name] for name, wide in zip(table.columns, with_margin, strict=True)
    ]
    writer.writerow(name for group in names for name in group)
    for row in table.rows:
        writer.writerow([value for pair in zip(row, with_margin, strict=True) for value in _values(*pair)])
    return content.getvalue()


def _values(cell: Cell, wide: bool) -> list[Cell]:
    if isinstance(cell, Mean | Estimate):
        return [cell.value, cell.margin]
    return [cell, None] if wide else [cell]


def _has_margin(cell: Cell) -> bool:
    return isinstance(cell, Mean | Estimate)
