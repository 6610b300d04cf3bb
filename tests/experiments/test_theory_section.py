"""The section of a report that holds measured regret against bounds."""

import delaytron as dt
from delaytron.experiments.execute import execute
from delaytron.experiments.report.model import shown
from delaytron.experiments.report.theory import COLUMNS, theory_section
from delaytron.experiments.store import Store
from delaytron.experiments.theory import TheorySpec, theory_specs
from delaytron.theory.study import study
from delaytron.theory.trials import TrialTerms


def test_the_report_holds_regret_beside_bounds(tmp_path):
    specs = [TheorySpec(dataset="digits", delay=delay, rounds=200, gamma=0.2, runs=2) for delay in ("1", "fixed:7")]
    store = Store(tmp_path)
    execute([], store, theory=specs)
    section = theory_section(specs, store)
    assert section.table.columns == COLUMNS
    assert len(section.table.rows) == 2 * 6
    assert [row[1] for row in section.table.rows[::6]] == ["1", "fixed:7"]
    row = dict(zip(COLUMNS, section.table.rows[2], strict=True))
    assert row["statement"] == "Theorem R1"
    found = study(dt.datasets.load("digits"), TrialTerms(gamma=0.2, delay=1, rounds=200, runs=2))
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
    assert theory_section(specs, Store(tmp_path)) is None
