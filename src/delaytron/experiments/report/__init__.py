"""What an experiment leaves behind for people: the report as a page, in Markdown and CSV, and its figures."""

from collections.abc import Sequence
from pathlib import Path

from delaytron.experiments.report.best import best_against_paper
from delaytron.experiments.report.charts import charts
from delaytron.experiments.report.claims import claims
from delaytron.experiments.report.figures import draw_figures
from delaytron.experiments.report.html import write_page
from delaytron.experiments.report.markdown import as_csv, as_markdown
from delaytron.experiments.report.model import Report
from delaytron.experiments.report.tables import facts, results_section, times_section
from delaytron.experiments.report.theory import theory_section
from delaytron.experiments.selection import Outcome
from delaytron.experiments.spec import Spec
from delaytron.experiments.store import Store
from delaytron.files.atomic import replace_file

THEORY_ROUNDS = 20_000  # some seconds


def write_report(spec: Spec, found: Sequence[Outcome], store: Store, folder: Path, theory: bool = False) -> Report:
    """Write report.html, report.md, results.csv and the figures; return what they say, if asked with some theory."""
    shown, results = charts(found, store), results_section(found)
    sections = [best_against_paper(found), results, times_section([outcome.condition for outcome in found], store)]
    if theory:
        names = list(dict.fromkeys(outcome.condition.data for outcome in found))
        sections.append(theory_section(names, spec.delays, rounds=min(spec.rounds, THEORY_ROUNDS)))
    judged = [claim for claim in claims(found) if claim.verdict != "not tested"]
    pictures = {chart.name: folder / "figures" / f"{chart.name}.svg" for chart in shown}
    told = [section for section in sections if section is not None]
    report = Report(spec.name, facts(spec, found, store), judged, told, shown, pictures)
    replace_file(folder / "results.csv", as_csv(results.table).encode())
    replace_file(folder / "report.md", as_markdown(report).encode())
    draw_figures(shown, folder / "figures")
    write_page(folder / "report.html", report)
    return report
