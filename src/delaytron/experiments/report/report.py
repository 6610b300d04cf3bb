"""The report of an experiment: its sections, written as a page, Markdown, CSV and figures."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

from delaytron.experiments.report.charts import charts, draw_if_changed
from delaytron.experiments.report.claims import claims
from delaytron.experiments.report.headline import best_against_paper, headline, rank, ranking_section, small_print
from delaytron.experiments.report.html import write_page
from delaytron.experiments.report.model import Cell, Chart, Estimate, Facts, Report, Section, Table, shown
from delaytron.experiments.report.sections import (
    data_section,
    how_it_was_made,
    results_file,
    results_section,
    theory_section,
    times_section,
    what_was_played,
)
from delaytron.experiments.spec import Spec
from delaytron.experiments.store import Outcome, RunStore, read_facts
from delaytron.experiments.theory import TheorySpec
from delaytron.files.atomic import replace_file
from delaytron.simulation.results import Mean

MOST_ROWS = 100  # of a table in Markdown; longer ones are left out


def compose_report(
    spec: Spec,
    outcomes: Sequence[Outcome],
    store: RunStore,
    folder: Path,
    facts: Facts,
    theory: Section | None = None,
    paper: bool = False,
) -> Report:
    """Return the report; only with `paper` it judges the paper's claims and compares its learners with others."""
    ranking = rank(outcomes, paper)
    drawn = charts(outcomes, store, facts)
    sections = [
        ranking_section(ranking, facts),
        best_against_paper(outcomes, facts) if paper else None,
        results_section(outcomes, facts),
        theory,
        data_section(facts),
        times_section([outcome.condition for outcome in outcomes], store),
    ]
    return Report(
        title=spec.name,
        facts=what_was_played(spec, outcomes),
        claims=[claim for claim in claims(outcomes, facts) if claim.verdict != "not tested"] if paper else [],
        sections=[section for section in sections if section is not None],
        charts=drawn,
        figures={chart.name: folder / "figures" / f"{chart.name}.svg" for chart in drawn},
        headline=headline(ranking, facts),
        small_print=small_print(ranking, outcomes),
        machine=how_it_was_made(outcomes, store),
    )


def write_report(
    spec: Spec, outcomes: Sequence[Outcome], store: RunStore, folder: Path, theory: Sequence[TheorySpec] = ()
) -> Report:
    """Write report.html, report.md, results.csv and the figures; return the report, with claims if there is theory."""
    facts = read_facts([outcome.condition for outcome in outcomes], folder)
    report = compose_report(spec, outcomes, store, folder, facts, theory_section(theory, store), paper=bool(theory))
    replace_file(folder / "results.csv", as_csv(results_file(outcomes, facts)).encode())
    replace_file(folder / "report.md", as_markdown(report).encode())
    draw_if_changed(report.charts, folder)
    write_page(folder / "report.html", report)
    return report


# Markdown for a repository, CSV for a spreadsheet


def as_markdown(report: Report) -> str:
    """Return the report as Markdown: facts, headline, leading figures, claims, tables and the other figures."""
    leading = [chart for chart in report.charts if chart.leads]
    others = [chart for chart in report.charts if not chart.leads]
    parts = [f"# {report.title}", *_terms(report.facts)]
    parts += [f"\n**{report.headline}**"] if report.headline else []
    parts += [f"\n{note}" for note in report.small_print]
    parts += [line for chart in leading for line in _markdown_figure(chart)]
    for claim in report.claims:
        parts.append(f"\n## Claim ({claim.key}): {claim.verdict}\n{claim.statement}\n\n{claim.reason}\n")
        parts += markdown_table(claim.table)
    for section in report.sections:
        parts.append(f"\n## {section.title}\n{section.text}\n")
        if len(section.table.rows) <= MOST_ROWS:
            parts += markdown_table(section.table)
        else:
            parts.append(f"The table has {len(section.table.rows)} rows: see the CSV file or the page.")
    parts += ["\n## Learner by learner"] if others else []
    parts += [line for chart in others for line in _markdown_figure(chart, level="###")]
    parts += ["\n## How it was made", *_terms(report.machine)] if report.machine else []
    return "\n".join(parts) + "\n"


def _terms(terms: Mapping[str, str]) -> Iterator[str]:
    return (f"* {term}: {text}" for term, text in terms.items())


def _markdown_figure(chart: Chart, level: str = "##") -> Iterator[str]:
    yield f"\n{level} {chart.title}\n{chart.caption}\n"
    yield f"![{chart.title}](figures/{chart.name}.png)"


def markdown_table(table: Table) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    for row in (table.columns, tuple("---" for _ in table.columns), *table.rows):
        yield "| " + " | ".join("" if cell is None else shown(cell).replace("|", "\\|") for cell in row) + " |"


def as_csv(table: Table) -> str:
    r"""Return a table as CSV; a mean has another column for its margin.

    Examples
    --------
    >>> as_csv(Table(("data", "error"), (("digits", Mean(0.5, 0.01)),)))
    'data,error,error margin\ndigits,0.5,0.01\n'
    """
    with_margin = [
        any(isinstance(cell, Mean | Estimate) for cell in column) for column in zip(*table.rows, strict=True)
    ]
    content = StringIO()
    writer = csv.writer(content, lineterminator="\n")
    names = [
        [name, f"{name} margin"] if wide else [name] for name, wide in zip(table.columns, with_margin, strict=True)
    ]
    writer.writerow(name for group in names for name in group)
    for row in table.rows:
        values: list[Cell] = []
        for cell, wide in zip(row, with_margin, strict=True):
            if isinstance(cell, Mean | Estimate):
                values += [cell.value, cell.margin]
            else:
                values += [cell, None] if wide else [cell]
        writer.writerow(values)
    return content.getvalue()
