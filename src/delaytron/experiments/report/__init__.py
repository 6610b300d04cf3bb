"""What an experiment leaves behind for people: the report as a page, in Markdown and CSV, and its figures."""

from collections.abc import Sequence
from pathlib import Path

from delaytron.experiments.facts import read_facts
from delaytron.experiments.report.html import write_page
from delaytron.experiments.report.markdown import as_csv, as_markdown
from delaytron.experiments.report.model import Report
from delaytron.experiments.report.redraw import draw_if_changed
from delaytron.experiments.report.story import tell_story
from delaytron.experiments.report.tables import results_file
from delaytron.experiments.report.theory import theory_section
from delaytron.experiments.selection import Outcome
from delaytron.experiments.spec import Spec
from delaytron.experiments.store import Store
from delaytron.experiments.theory import TheorySpec
from delaytron.files.atomic import replace_file


def write_report(
    spec: Spec, outcomes: Sequence[Outcome], store: Store, folder: Path, theory: Sequence[TheorySpec] = ()
) -> Report:
    """Write report.html, report.md, results.csv and the figures; return what they say, for the paper with theory."""
    facts = read_facts([outcome.condition for outcome in outcomes], folder)
    report = tell_story(spec, outcomes, store, folder, facts, theory_section(theory, store), paper=bool(theory))
    replace_file(folder / "results.csv", as_csv(results_file(outcomes, facts)).encode())
    replace_file(folder / "report.md", as_markdown(report).encode())
    draw_if_changed(report.charts, folder)
    write_page(folder / "report.html", report)
    return report
