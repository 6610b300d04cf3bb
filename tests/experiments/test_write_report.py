"""What an experiment writes: the same numbers as page, Markdown, CSV and figures; the section on theory."""

import csv
from functools import partial

import pytest

import delaytron as dt
from delaytron.experiments.execute import execute
from delaytron.experiments.report import charts as figures
from delaytron.experiments.report.model import shown
from delaytron.experiments.report.report import as_markdown, compose_report, write_report
from delaytron.experiments.report.sections import THEORY_COLUMNS, theory_section, times_section
from delaytron.experiments.spec import parse_spec
from delaytron.experiments.store import RunStore, Timing, outcomes, write_facts
from delaytron.experiments.theory import TheorySpec, theory_specs
from delaytron.simulation.results import MAJORITY, mean_of
from delaytron.theory.study import TrialTerms, play, prepare

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
    {name = "bandit_logit", report = "chosen"},
]
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The folder of a small experiment, its outcomes and its report; its figures are all the same one."""
    folder = tmp_path_factory.mktemp("left")
    spec = parse_spec(TOML.encode())
    store = RunStore(folder)
    execute(spec.conditions(), store)
    write_facts(spec.conditions(), folder)
    found = outcomes(spec.conditions(), store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "save_figure", lambda _, path: path.write_text("<svg></svg>"))
        return folder, found, write_report(spec, found, store, folder), store


def test_every_result_is_in_the_csv_file(left):
    folder, found, _, _ = left
    rows = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    assert len(rows) == len(found) == 7
    for row, outcome in zip(rows, found, strict=True):
        mean, margin = mean_of(outcome.result.final_error)
        assert (float(row["error"]), float(row["error margin"])) == (mean, margin)
        assert (row["learner"], row["delay"], row["runs"]) == (outcome.condition.title, outcome.condition.delay, "3")
        greedy = mean_of(outcome.result.greedy_error)
        assert (float(row["greedy error"]), float(row["greedy error margin"])) == greedy
        assert float(row["majority error"]) == 1 - 183 / 1797


def test_page_and_markdown_hold_the_same_numbers(left):
    folder, _, report, _ = left
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    assert "a &lt;small&gt; one" in page
    cells = [cell for section in report.sections for row in section.table.rows for cell in row]
    assert len(cells) > 40
    for cell in filter(None, cells):
        assert f">{shown(cell)}<" in page
        assert f"| {shown(cell)} |" in text
    assert report.headline in text
    assert report.headline.replace(" ± ", "\u00a0±\u00a0") in page
    for chart in report.charts:
        assert f"![{chart.title}](figures/{chart.name}.png)" in text


def test_only_the_report_of_the_papers_experiments_has_its_claims(left):
    folder, found, own, store = left
    spec = parse_spec(TOML.encode())
    paper = compose_report(spec, found, store, folder, {}, paper=True)
    assert [claim.key for claim in paper.claims] == ["a", "b", "d", "e"]  # Adaptive Delaytron was not played
    text = as_markdown(paper)
    for claim in paper.claims:
        assert f"## Claim ({claim.key}): {claim.verdict}\n{claim.statement}" in text
    assert own.claims == []
    assert "paper" not in (folder / "report.md").read_text()
    assert "the paper" not in (folder / "report.html").read_text().split("</style>")[1].split("<script")[0].lower()


def test_every_error_has_its_interval_and_runs(left):
    _, _, report, _ = left
    results = next(section for section in report.sections if section.title == "Results").table
    first, *others = results.rows
    assert first == ("digits", MAJORITY, "any", "-", 1 - 183 / 1797, None, None)
    assert all(row[4].runs == row[5].runs == row[6] == 3 for row in others)
    assert "57 and 64 held the true error" in " ".join(report.small_print)


def test_a_learner_without_any_parameter_is_labelled_untuned(left):
    folder, found, report, store = left
    results = next(section for section in report.sections if section.title == "Results").table
    assert [row[3] for row in results.rows if row[1] == "bandit_logit"] == ["untuned"] * 2
    assert {row["setting"] for row in csv.DictReader((folder / "results.csv").read_text().splitlines())} >= {"untuned"}
    assert "judged by the reported runs: bandit_logit" in report.sections[0].text  # at the largest delay
    paper = compose_report(parse_spec(TOML.encode()), found, store, folder, {}, paper=True)
    best = next(section for section in paper.sections if section.title == "The best against the paper's")
    assert best.table.rows[0][3] == "bandit_logit (untuned)"
    assert "chosen on other seeds than those reported. Untuned, and judged by the reported runs: " in best.text
    labels = {series.label for chart in report.charts for panel in chart.panels for series in panel.series}
    assert "bandit_logit" in labels
    assert not [chart.name for chart in report.charts if "bandit_logit" in chart.name]  # no gamma, not reported in full


def test_facts_count_what_was_played(left):
    _, _, report, store = left
    kept = (
        4 * 2 * 2 + 4 * 3 + 1 * 3 + 4 * 3
    )  # tuning; delaytron, all of it; banditron; the chosen pab, and bandit_logit
    assert report.machine["rounds in all"] == f"8.60k ({200 * kept:,})"
    assert [report.facts[name] for name in ("rounds", "runs", "settings")] == [
        "200",
        "3 of each, seed 0",
        "chosen on 2 other runs; untuned: banditron, bandit_logit",
    ]
    assert (
        report.machine["peak memory of a process"] == f"{max(timing.memory for timing in store.timings()) / 1e9:.2f} GB"
    )


def test_times_are_those_that_were_noted(left, tmp_path):
    _, found, _, _ = left
    conditions = [outcome.condition for outcome in found]
    store = RunStore(tmp_path)
    assert times_section(conditions, store) is None
    one = conditions[0].reported[0].key
    other = conditions[3].tuning[0].key
    store.note(Timing((one, other), 120.0, 1, 10))  # a minute each
    store.note(Timing((other,), 360.0, 2, 10))  # of two at a time
    store.note(Timing(("another experiment's",), 60.0, 1, 10))
    section = times_section(conditions, store)
    assert section.table.columns == ("learner", "digits", "all")
    assert section.table.rows == (
        ("delaytron", 1.0, 1.0),
        ("banditron", 0.0, 0.0),
        ("pab", 4.0, 4.0),
        ("bandit_logit", 0.0, 0.0),
    )
    assert "5.0 in all" in section.text


def redrawn(folder, spec, found, store, monkeypatch):
    """Return the names of the figures that are drawn when the report is written again."""
    drawn = []

    def draw(_, path):
        drawn.append(path.name)
        path.write_text("<svg></svg>")

    monkeypatch.setattr(figures, "save_figure", draw)
    write_report(spec, found, store, folder)
    return sorted(drawn)


def test_figures_are_drawn_again_only_where_something_is_new(left, tmp_path, monkeypatch):
    _, found, report, store = left
    spec = parse_spec(TOML.encode())
    names = sorted(f"{chart.name}{ending}" for chart in report.charts for ending in figures.ENDINGS)
    again = partial(redrawn, tmp_path, spec, store=store, monkeypatch=monkeypatch)
    assert again(found) == names
    assert again(found) == []
    (tmp_path / "figures" / names[0]).write_text("<svg>")
    assert again(found) == names
    (tmp_path / "figures" / names[1]).unlink()
    assert again(found) == names
    assert again(found[:-1]) != []
    assert again(found) == names
    monkeypatch.setattr("delaytron.experiments.report.charts.version", lambda _: "99")
    assert again(found) == names


def test_the_report_reads_files_and_plays_nothing(left, tmp_path, monkeypatch):
    _, found, _, store = left
    spec = parse_spec(TOML.encode())
    theory = theory_specs(["digits"], [1, 3], rounds=100)
    execute([], store, theory=theory)
    monkeypatch.setattr(figures, "save_figure", lambda _, path: path.write_text("<svg></svg>"))
    for name in ("delaytron.theory.study.simulate_settings", "delaytron.experiments.execute.simulate_settings"):
        monkeypatch.setattr(name, None)
    sections = write_report(spec, found, RunStore(store.folder), tmp_path, theory).sections
    section = next(section for section in sections if section.title == "Theory")
    assert [row[:3] for row in section.table.rows[:2]] == [("digits", "1", "Theorem 1"), ("digits", "1", "Theorem 3")]
    assert len(section.table.rows) == 12


# The section of a report that holds measured regret against bounds


def test_the_report_holds_regret_beside_bounds(tmp_path):
    specs = [TheorySpec(dataset="digits", delay=delay, rounds=200, gamma=0.2, runs=2) for delay in ("1", "fixed:7")]
    store = RunStore(tmp_path)
    execute([], store, theory=specs)
    section = theory_section(specs, store)
    assert section.table.columns == THEORY_COLUMNS
    assert len(section.table.rows) == 2 * 6
    assert [row[1] for row in section.table.rows[::6]] == ["1", "fixed:7"]
    row = dict(zip(THEORY_COLUMNS, section.table.rows[2], strict=True))
    assert row["statement"] == "Theorem R1"
    found = play(prepare(dt.datasets.load("digits"), TrialTerms(gamma=0.2, delay=1, rounds=200, runs=2)))
    one = next(one for one in found.measured if one.statement.name == "Theorem R1")
    assert (row["bound"], row["measured"]) == (one.bound[-1], one.at_end)
    assert row["share"] == one.at_end.value / one.bound[-1]
    assert row["hinge regret"] is None
    published = next(one for one in found.measured if one.statement.name == "Theorem 1")
    assert section.table.rows[0][7] == published.stated_at_end
    assert all(shown(cell) for row in section.table.rows for cell in row)
    assert "2 runs of 200 rounds" in section.text


def test_data_sets_that_need_a_download_have_none(tmp_path):
    specs = theory_specs(["usps", "cifar10"], [1], rounds=100)
    assert theory_section(specs, RunStore(tmp_path)) is None
