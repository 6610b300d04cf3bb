"""The report for other readers: Markdown for a repository, CSV for a spreadsheet."""

import csv
from collections.abc import Iterator
from io import StringIO

from delaytron.experiments.report.model import Cell, Claim, Report, Section, Table, shown
from delaytron.simulation.results import Mean

MOST_ROWS = 100  # of a table in Markdown; a longer one is better looked at as CSV


def as_markdown(report: Report) -> str:
    """Return facts, claims and tables, and below them the pictures."""
    parts = [f"# {report.title}", *(f"* {term}: {text}" for term, text in report.facts.items())]
    parts += [line for claim in report.claims for line in _claim(claim)]
    parts += [line for section in report.sections for line in _section(section)]
    parts += [f"\n![{chart.title}](figures/{chart.name}.png)" for chart in report.charts]
    return "\n".join(parts) + "\n"


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
    with_margin = [any(isinstance(cell, Mean) for cell in column) for column in zip(*table.rows, strict=True)]
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
    return list(cell) if isinstance(cell, Mean) else [cell, None] if wide else [cell]
