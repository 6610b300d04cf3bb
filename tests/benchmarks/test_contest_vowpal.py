"""The contest of Vowpal Wabbit, as far as it goes without Vowpal Wabbit."""

import csv
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from delaytron.delays import Uniform
from delaytron.learners.book import Expiry
from delaytron.simulation.scenarios import SimulationConfig, make_scenarios

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import contest_vowpal as contest
import vowpal_runs as runs
import vowpal_settings as settings
from vowpal_runs import Outcome, Run, Store
from vowpal_settings import AS_IT_COMES, QUICK, UNTOUCHED, Form, Setting

BETTER = Setting(Form("unit", "--adaptive --invariant"), "--first 200", 2.0)


def test_the_grid_tries_every_form_and_every_explorer_at_every_rate():
    tried = settings.form_settings()
    assert len({setting.form for setting in tried}) == len(settings.SCALINGS) * len(settings.UPDATES)
    grid = settings.grid_settings([AS_IT_COMES, BETTER.form])
    assert len(set(grid)) == 2 * len(settings.EXPLORERS) * len(settings.RATES)


def test_the_least_mean_error_is_chosen():
    errors = {UNTOUCHED: [0.1, 0.5], BETTER: [0.3, 0.2]}
    assert settings.best_settings(errors, 1) == [BETTER]
    assert settings.best_settings(errors, 5) == [BETTER, UNTOUCHED]


def test_the_default_form_stays_in_the_grid_however_bad_it_is():
    errors = {setting: [0.9 if setting.form == AS_IT_COMES else 0.1] for setting in settings.form_settings()}
    forms = settings.forms_for_grid(errors)
    assert len(forms) == settings.BEST_FORMS + 1
    assert forms[-1] == AS_IT_COMES


def test_a_form_is_judged_by_its_best_setting():
    tried = settings.form_settings()
    errors = {setting: [0.5] for setting in tried}
    errors[tried[-1]] = [0.1]
    assert settings.forms_for_grid(errors)[0] == tried[-1].form


@pytest.mark.parametrize("rounds", [50, 300])
def test_reported_runs_show_the_rows_of_our_own_runs(rounds):
    run = Run("digits", UNTOUCHED, rounds, 3, tuning=False)
    config = SimulationConfig(100, rounds, Uniform(5), runs.SEED, "replacement")
    ours, _ = make_scenarios([3], config, Expiry())
    assert runs.rows_of(run, 100).tolist() == ours.rows[0].tolist()


def test_tuning_orders_differ_from_each_other_and_from_those_reported():
    tuned = [Run("digits", UNTOUCHED, 300, number, tuning=True) for number in (0, 1)]
    reported = Run("digits", UNTOUCHED, 300, 0, tuning=False)
    orders = {tuple(runs.rows_of(run, 100).tolist()) for run in (*tuned, reported)}
    assert len(orders) == 3


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_standard_scaling_centres_sparse_rows_too(form):
    X = np.array([[0.0, 2.0], [4.0, 0.0], [0.0, 0.0]])
    standard = runs.scaled(form(X), "standard")
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(runs.scaled(form(X), "standard, unit"), axis=1), 1)


def test_raw_rows_stay_as_they_are():
    X = np.array([[3.0, 4.0]])
    assert runs.scaled(X, "raw") is X


def test_what_is_stored_is_not_played_again(tmp_path, monkeypatch):
    played = []
    monkeypatch.setattr(contest, "play", lambda run: played.append(run) or Outcome(0.25, 1.0))
    path = tmp_path / "runs" / "vowpal.jsonl"
    todo = [Run("digits", UNTOUCHED, 10, number, tuning=True) for number in (0, 1)]
    for _ in range(2):
        assert contest.Player(Store(path)).errors("twice", todo) == [0.25, 0.25]
    assert played == todo


def test_the_run_of_a_truncated_line_is_played_again(tmp_path):
    path = tmp_path / "vowpal.jsonl"
    first, second = (Run("digits", UNTOUCHED, 10, number, tuning=True) for number in (0, 1))
    store = Store(path)
    store.put(first, Outcome(0.25, 1.0))
    store.put(second, Outcome(0.5, 1.0))
    path.write_text(path.read_text()[:-9])
    again = Store(path)
    assert again.get(first) == Outcome(0.25, 1.0)
    assert again.get(second) is None
    again.put(second, Outcome(0.5, 1.0))
    assert Store(path).get(second) == Outcome(0.5, 1.0)


def test_the_best_of_the_tuning_is_what_is_reported(tmp_path, monkeypatch, capsys):
    def error(run):
        good = run.setting.explorer == "--synthcover" and run.setting.rate == 0.5
        return Outcome((0.1 if good else 0.5) + run.number / 100, 1.0)

    monkeypatch.setattr(contest, "play", error)
    player = contest.Player(Store(tmp_path / "vowpal.jsonl"))
    chosen = contest.tune(player, QUICK, "digits")
    rows = contest.report(player, QUICK, "digits", chosen)
    assert [row.rounds for row in rows] == [400, 400, 2000, 2000]
    assert [row.setting == UNTOUCHED for row in rows] == [True, False, True, False]
    assert {row.setting.explorer for row in rows[1::2]} == {"--synthcover"}
    table = contest.markdown(contest.sheet(rows, {"digits": 0.2}, QUICK))
    assert "| digits | 2,000 | 0.8000 | 0.5100 ± 0.0248 | 0.1100 ± 0.0248 | 3 | 500.0 |" in table
    assert "digits, final, 800 rounds: 4 of 4 runs" in capsys.readouterr().out


def test_raw_plays_raw_rows_only_and_tries_every_update_at_every_rate(tmp_path, monkeypatch):
    played = []
    monkeypatch.setattr(contest, "play", lambda run: played.append(run.setting) or Outcome(0.25, 1.0))
    player = contest.Player(Store(tmp_path / "vowpal.jsonl"))
    contest.tune(player, QUICK, "digits", raw=True)
    assert {setting.form.scaling for setting in played} == {"raw"}
    tried = {(setting.form.update, setting.explorer, setting.rate) for setting in played}
    assert tried == set(product(settings.UPDATES, settings.EXPLORERS, settings.RATES))


def test_raw_is_named_in_the_table_and_in_the_csv(tmp_path):
    raw = Setting(AS_IT_COMES, "--first 200", 2.0)
    rows = [contest.Reported("digits", 400, setting, (0.1, 0.3), 5.0) for setting in (UNTOUCHED, raw)]
    path = tmp_path / "vowpal.csv"
    contest.write_csv(path, rows, raw=True)
    with path.open() as file:
        names = [line["learner"] for line in csv.DictReader(file)]
    assert names == ["vowpal_wabbit untouched", "vowpal_wabbit tuned, raw rows"]
    table = contest.markdown(contest.sheet(rows, {"digits": 0.2}, QUICK, raw=True))
    assert "| VW tuned, raw rows |" in table
    assert "moments of the whole data set" not in table


def test_the_csv_has_a_line_for_every_row_of_the_table(tmp_path):
    rows = [contest.Reported("digits", 400, setting, (0.1, 0.3), 5.0) for setting in (UNTOUCHED, BETTER)]
    path = tmp_path / "vowpal.csv"
    contest.write_csv(path, rows)
    with path.open() as file:
        lines = list(csv.DictReader(file))
    assert [line["learner"] for line in lines] == ["vowpal_wabbit untouched", "vowpal_wabbit tuned"]
    assert [float(line["error"]) for line in lines] == [0.2, 0.2]
    assert [line["runs"] for line in lines] == ["2", "2"]
