"""What an experiment leaves behind: the same numbers as page, Markdown, CSV and pictures."""

import csv

import pytest

from delaytron.experiments.execute import execute
from delaytron.experiments.report import figures, write_report
from delaytron.experiments.report.model import shown
from delaytron.experiments.report.tables import times_section
from delaytron.experiments.selection import outcomes
from delaytron.experiments.spec import parse_spec
from delaytron.experiments.store import Store, Timing
from delaytron.simulation.results import mean_of

TOML = """
name = "a <small> one"
data = ["digits"]
delays = [1, 20]
rounds = 200
runs = 3
tuning_runs = 2
learners = [
    {name = "delaytron", gamma = [0.2, 0.05]},
    {name = "banditron", gamma = 0.1, delays = [1]},
    {name = "pab", gamma = [0.2, 0.05], report = "chosen"},
]
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The folder of a small experiment, its outcomes and its report; its pictures are all the same one."""
    folder, spec = tmp_path_factory.mktemp("left"), parse_spec(TOML.encode())
    store = Store(folder)
    execute(spec.conditions(), store)
    found = outcomes(spec.conditions(), store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "save_figure", lambda _, path: path.write_text("<svg></svg>"))
        return folder, found, write_report(spec, found, store, folder), store


def test_every_result_stands_in_the_csv_file(left):
    folder, found, _, _ = left
    rows = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    assert len(rows) == len(found) == 5
    for row, outcome in zip(rows, found, strict=True):
        mean, margin = mean_of(outcome.result.final_error)
        assert (float(row["error"]), float(row["error margin"])) == (mean, margin)
        assert (row["learner"], row["delay"], row["runs"]) == (outcome.condition.title, outcome.condition.delay, "3")


def test_page_and_markdown_hold_the_same_numbers(left):
    folder, _, report, _ = left
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    assert "a &lt;small&gt; one" in page
    cells = [cell for section in report.sections for row in section.table.rows for cell in row]
    assert len(cells) > 40
    for cell in cells:
        assert f">{shown(cell)}<" in page
        assert f"| {shown(cell)} |" in text
    for claim in report.claims:
        assert f"## Claim ({claim.key}): {claim.verdict}\n{claim.statement}" in text
    assert [claim.key for claim in report.claims] == ["a", "b", "d", "e"]  # nobody played Adaptive Delaytron
    for chart in report.charts:
        assert f"![{chart.title}](figures/{chart.name}.png)" in text


def test_facts_count_what_was_played(left):
    _, _, report, store = left
    kept = 4 * 2 * 2 + 4 * 3 + 1 * 3 + 2 * 3  # tuning; delaytron, all of it; banditron; the chosen pab
    assert report.facts["rounds in all"] == f"7.40k ({200 * kept:,})"
    assert report.facts["runs"] == "3 of 200 rounds, seed 0, settings chosen by 2 others"
    assert report.facts["peak memory of a process"] == f"{max(spent.memory for spent in store.spent()) / 1e9:.2f} GB"


def test_times_are_those_that_were_noted(left, tmp_path):
    _, found, _, _ = left
    lines, store = [outcome.condition for outcome in found], Store(tmp_path)
    assert times_section(lines, store) is None
    one, other = lines[0].reported[0].key, lines[3].tuning[0].key
    store.note(Timing((one, other), 120.0, 1, 10))  # a minute each
    store.note(Timing((other,), 360.0, 2, 10))  # of two at a time
    store.note(Timing(("another experiment's",), 60.0, 1, 10))
    section = times_section(lines, store)
    assert section.table.columns == ("learner", "digits", "all")
    assert section.table.rows == (("delaytron", 1.0, 1.0), ("banditron", 0.0, 0.0), ("pab", 4.0, 4.0))
    assert "5.0 in all" in section.text
