"""What an experiment leaves behind for people: the report as a page, in Markdown and CSV, and its figures."""

from collections.abc import Sequence
from pathlib import Path

from delaytron.experiments.report.best import best_against_paper
from delaytron.experiments.report.charts import charts
from delaytron.experiments.report.claims import claims
from delaytron.experiments.report.html import write_page
from delaytron.experiments.report.markdown import as_csv, as_markdown
from delaytron.experiments.report.model import Report
from delaytron.experiments.report.redraw import draw_if_changed
from delaytron.experiments.report.tables import facts, results_section, times_section
from delaytron.experiments.report.theory import theory_section
from delaytron.experiments.selection import Outcome
from delaytron.experiments.spec import Spec
from delaytron.experiments.store import Store
from delaytron.experiments.theory import TheorySpec
from delaytron.files.atomic import replace_file


def write_report(
    spec: Spec, found: Sequence[Outcome], store: Store, folder: Path, theory: Sequence[TheorySpec] = ()
) -> Report:
    """Write report.html, report.md, results.csv and the figures of what was played; return what they say."""
    shown = charts(found, store)
    results = results_section(found)
    sections = [
        best_against_paper(found),
        results,
        times_section([outcome.condition for outcome in found], store),
        theory_section(theory, store),
    ]
    report = Report(
        title=spec.name,
        facts=facts(spec, found, store),
        claims=[claim for claim in claims(found) if claim.verdict != "not tested"],
        sections=[section for section in sections if section is not None],
        charts=shown,
        pictures={chart.name: folder / "figures" / f"{chart.name}.svg" for chart in shown},
    )
    replace_file(folder / "results.csv", as_csv(results.table).encode())
    replace_file(folder / "report.md", as_markdown(report).encode())
    draw_if_changed(shown, folder)
    write_page(folder / "report.html", report)
    return report
