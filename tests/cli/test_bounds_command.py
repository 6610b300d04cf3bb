"""`delaytron bounds`: the numbers of the library; regret measured with the steps and weights that it tells."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli, theory
from delaytron.cli import bounds
from delaytron.rng import stream
from delaytron.simulation.results import mean_of
from delaytron.theory import plots
from delaytron.theory.statements import STATEMENTS
from delaytron.theory.study import TrialTerms, play, prepare


def delaytron(*args, columns=80):
    return CliRunner().invoke(
        cli.app, ["bounds", *map(str, args)], env={"COLUMNS": str(columns)}, prog_name="delaytron"
    )


def output_of(*args, **options):
    result = delaytron(*args, **options)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def rows_of(document):
    return {row["statement"]: row for row in document["bounds"]}


SMALL = ("--rounds", 10_000, "--classes", 10, "--gamma", 0.1, "--norm", 2, "--delay", 100)
PROBLEM = {"norm": 2, "n_classes": 10, "gamma": 0.1, "radius": 1, "n_rounds": 10_000}


@pytest.fixture(scope="module")
def run():
    """What the delays of SMALL contribute."""
    return theory.measure(dt.delays.Uniform(100).sample(10_000, stream(0, "delays")))


class TestTheoryAlone:
    def test_json_holds_exactly_the_numbers_of_the_library(self, run):
        document = json.loads(output_of(*SMALL, "--comparator-loss", 7, "--loss-bound", 5, "--json"))
        rows = rows_of(document)
        assert document["outstanding"] == run.outstanding
        assert list(rows) == [statement.name for statement in STATEMENTS]
        lost = {"missing": run.missing, "delay_received": run.delay_received}
        total, waited, L = {"total_delay": run.total_delay}, {"outstanding": run.outstanding}, {"loss_bound": 5}
        greedy = theory.corollary_r2(**PROBLEM, **waited, comparator_loss=7)
        expected = {
            "Case 1": theory.case_1(**PROBLEM),
            "Case 1, best step": theory.case_1(**PROBLEM, tight=True),
            "Theorem 1": theory.theorem_1(**PROBLEM, delay_received=run.delay_received),
            "Theorem 2": theory.theorem_2(**PROBLEM, **lost, **L),
            "Corollary 1": theory.corollary_1(**PROBLEM, **total, **L),
            "Theorem 3": theory.theorem_3(**PROBLEM, **lost),
            "Corollary 2": theory.corollary_2(**PROBLEM, **total, missing=run.missing),
            "Theorem 4": theory.theorem_4(**PROBLEM, **total, **L),
            "Corollary 2, repaired": theory.corollary_2(**PROBLEM, **total, missing=run.missing, repaired=True),
            "Theorem R1": theory.theorem_r1(**PROBLEM, **waited),
            "Corollary R2": greedy,
            "Corollary R2, played": 0.9 * greedy + 0.1 * 0.9 * 10_000,
            "Corollary R3": theory.corollary_r3(**PROBLEM, max_outstanding=run.max_outstanding, comparator_loss=7),
            "Theorem R4": theory.theorem_r4(**PROBLEM, **waited),
            "Theorem R5": theory.theorem_r5(**PROBLEM, **waited),
            "Theorem R5, gated": theory.theorem_r5(**PROBLEM, **waited, hinge=False),
            "Theorem R6": theory.theorem_r6(**PROBLEM, **waited),
            "Banditron": theory.banditron_mistakes(**PROBLEM, comparator_loss=7),
            "Perceptron": theory.perceptron_mistakes(norm=2, radius=1, comparator_loss=7),
        }
        assert {name: row["bound"] for name, row in rows.items()} == pytest.approx(expected, rel=1e-12)
        etas = {name: row["eta"] for name, row in rows.items() if row["eta"] is not None}
        assert etas["Theorem 3"] == theory.theorem_3_eta(**PROBLEM, **lost)
        assert etas["Theorem R1"] == theory.theorem_r1_eta(**PROBLEM, **waited)
        assert etas["Theorem R4"] == theory.theorem_r4_eta(**PROBLEM, **waited)
        assert rows["Theorem R1"]["vacuous"] is False
        assert rows["Theorem 1"]["vacuous"] is True  # 28 thousand in 10 thousand rounds

    @pytest.mark.parametrize("columns", [80, 120])
    def test_the_table_fits_the_screen_and_names_the_sources(self, columns):
        lines = output_of(*SMALL, columns=columns).splitlines()
        assert all(len(line) <= columns for line in lines)
        words = [line.split() for line in lines]
        published, repaired = words.index(["published"]), words.index(["repaired"])
        named = {i for i, line in enumerate(lines) if line.startswith(("Theorem R", "Corollary R"))}
        assert named
        assert min(named) > repaired > published
        row = next(line for line in lines if line.startswith("Theorem R1"))
        assert row.split() == ["Theorem", "R1", "gated", "3,449", "0.0012", "delaytron:", "all", "rounds"]
        assert "for that they are false in general" in " ".join(" ".join(lines).split())

    def test_without_l_three_bounds_say_nothing(self):
        rows = rows_of(json.loads(output_of(*SMALL, "--json")))
        assert {name for name, row in rows.items() if row["bound"] is None} == {
            "Theorem 2",
            "Corollary 1",
            "Theorem 4",
        }

    def test_above_one_half_two_bounds_say_nothing_on_gamma(self):
        rows = rows_of(json.loads(output_of("--gamma", 0.6, "--rounds", 100, "--loss-bound", 1, "--json")))
        assert {name for name, row in rows.items() if row["bound"] is None} == {"Corollary R3", "Banditron"}

    def test_a_step_is_that_of_delaytron(self, run):
        rows = rows_of(json.loads(output_of(*SMALL, "--eta", 0.5, "--json")))
        waited = {"outstanding": run.outstanding}
        assert rows["Theorem R1"]["bound"] == pytest.approx(theory.theorem_r1(**PROBLEM, **waited, eta=0.5))
        assert rows["Theorem R1"]["eta"] == 0.5
        assert rows["Theorem R4"]["bound"] == pytest.approx(theory.theorem_r4(**PROBLEM, **waited))

    def test_missing_answers_can_be_given_apart_from_the_delay(self):
        apart, together = (
            json.loads(output_of(*SMALL[:-1], *delay, "--json"))
            for delay in ((100, "--missing", 0.2), ("100+missing:0.2",))
        )
        assert apart == together
        assert 1900 < apart["missing"] < 2200

    def test_csv_has_a_line_per_bound(self, tmp_path):
        path = tmp_path / "bounds.csv"
        output_of(*SMALL, "--csv", path)
        rows = list(csv.DictReader(path.read_text().splitlines()))
        assert [row["name"] for row in rows] == [statement.name for statement in STATEMENTS]
        assert float(rows[9]["bound"]) == pytest.approx(3448.6, abs=1)
        assert rows[3]["bound"] == ""


def trap(n_rounds):
    """The counterexample of the docs: one row, of class 0 always."""
    data = dt.datasets.Dataset(np.ones((1, 1)), np.array([0]), "trap", ("right", "wrong"))
    return play(prepare(data, TrialTerms(gamma=0.49, delay=1, rounds=n_rounds, runs=20)))


def test_hinge_regret_is_above_theorem_1_in_the_counterexample():
    found = {one.statement.name: one for one in trap(1000).measured}
    one, ours = found["Theorem 1"], found["Theorem R1"]
    assert one.comparator.norm == pytest.approx(0.5**0.5)
    assert one.bound[-1] == pytest.approx(101.0, abs=0.1)
    assert one.stated_at_end.value - one.stated_at_end.margin > 9 * one.bound[-1]
    assert one.fails
    assert not ours.fails
    assert one.at_end.value + one.at_end.margin < ours.bound[-1] < one.bound[-1]
    assert found["Theorem R4"].at_end.value + found["Theorem R4"].at_end.margin < found["Theorem R4"].bound[-1]


TERMS = TrialTerms(gamma=0.2, delay="lognormal:10,1+missing:0.1", rounds=600, runs=4, seed=3, loss_bound=40.0)


@pytest.fixture(scope="module")
def digits():
    return dt.datasets.load("digits", scale="unit")


@pytest.fixture(scope="module")
def found(digits):
    return play(prepare(digits, TERMS))


class TestStudy:
    def test_every_bound_is_the_mean_of_the_bounds_of_the_runs(self, found):
        """With the step of the run, for the rounds so far; corollaries at the end only."""
        formulas = {"Theorem 1": theory.theorem_1, "Theorem 3": theory.theorem_3, "Theorem R1": theory.theorem_r1}
        formulas |= {"Theorem 2": theory.theorem_2, "Theorem R4": theory.theorem_r4}
        delays = [dt.delays.parse(TERMS.delay).sample(600, stream(3, "delays", run=run)) for run in range(4)]
        for one in found.measured:
            if one.statement.name in formulas:
                known = {"norm": one.comparator.norm, "n_classes": 10, "gamma": 0.2, "radius": 1.0, "eta": one.eta}
                takes = one.statement.takes
                for place, t in ((20, int(found.trial.rounds[20])), (-1, 600)):
                    each = [theory.measure(d[:t])._asdict() | {"loss_bound": 40} for d in delays]
                    words = [known | {name: v for name, v in q.items() if takes(name)} for q in each]
                    mean = np.mean([formulas[one.statement.name](**w) for w in words])
                    assert one.bound[place] == pytest.approx(mean, rel=1e-9)
            if one.statement.name.startswith("Corollary 2"):
                assert np.isnan(one.bound[:-1]).all()
                assert one.bound[-1] > 0

    def test_steps_are_the_best_ones_and_regret_is_that_of_runs_with_them(self, found, digits):
        one = next(one for one in found.measured if one.statement.name == "Theorem R1")
        arguments = {**found.trial.arguments(one.comparator)}
        asked = {name: arguments[name] for name in ("norm", "n_classes", "gamma", "radius", "n_rounds", "outstanding")}
        assert one.eta == theory.theorem_r1_eta(**asked)
        first = dt.datasets.as_dataset((digits.X[:600], digits.y[:600]))
        how = {"delay": TERMS.delay, "rounds": 600, "runs": 4, "seed": 3, "regret": True}
        result = dt.simulate("delaytron", first, gamma=0.2, eta=one.eta, **how)
        lost = theory.regret(result, first, one.comparator.W)
        assert np.array_equal(one.values, lost.gated)
        assert one.at_end == mean_of(lost.gated[:, -1])
        greedy = next(one for one in found.measured if one.statement.name == "Corollary R2")
        assert np.array_equal(greedy.values, result.mistakes[:, :, 1])
        variant = next(one for one in found.measured if one.statement.name == "Theorem R5")
        result = dt.simulate("hinge_delaytron", first, gamma=0.2, B=variant.comparator.norm, **how)
        assert np.array_equal(variant.values, theory.regret(result, first, variant.comparator.W).hinge)

    def test_nothing_measured_is_above_a_bound_that_is_proved(self, found):
        assert {one.statement.name for one in found.measured} >= {"Theorem 2", "Theorem 4", "Theorem R6"}
        for one in found.measured:
            assert one.at_end.value + one.at_end.margin < one.bound[-1], one.statement.name

    def test_each_bound_has_the_weights_for_which_it_is_least(self, found):
        assert len(found.trial.comparators) >= 4
        for statement, chosen in found.trial.chosen:
            totals = [
                statement.total(statement.own(found.trial.arguments(comparator)))
                for comparator in found.trial.comparators
            ]
            assert statement.total(statement.own(found.trial.arguments(chosen))) == min(totals)

    def test_a_certificate_is_beaten_by_smaller_weights_without_loss(self):
        data = dt.datasets.load("synsep", n_samples=1000)
        trial = prepare(data, TrialTerms(rounds=1000, runs=1))
        (one,) = trial.comparators
        assert one.loss == 0
        assert theory.hinge_losses(one.W, data).max() < 1e-9
        assert one.norm < np.linalg.norm(data.certificate - data.certificate.mean(axis=0)) / 1.5
        assert len(prepare(data, TrialTerms(rounds=1000, runs=1, comparator="best")).comparators) > 3

    def test_a_given_step_is_played(self, digits):
        found = play(prepare(digits, TrialTerms(gamma=0.2, delay=5, rounds=100, runs=2, eta=0.5)))
        assert {one.eta for one in found.measured if one.statement.takes("eta")} >= {0.5}
        assert found.trial.settings["delaytron"][0] == {"gamma": 0.2, "eta": 0.5}
        one = next(one for one in found.measured if one.statement.name == "Theorem R4")
        assert one.eta != 0.5
        assert found.trial.settings["hinge_delaytron"][0]["eta"] == one.eta


DIGITS = ("--data", "digits", "--scale", "unit", "--rounds", 600, "--runs", 4, "--seed", 3, "--gamma", 0.2)
SAME = (*DIGITS, "--delay", "lognormal:10,1+missing:0.1", "--loss-bound", 40)


class TestMeasuring:
    def test_json_holds_the_numbers_of_the_study(self, found):
        (document,) = json.loads(output_of(*SAME, "--json"))
        rows = rows_of(document)
        assert document["radius"] == pytest.approx(1)
        assert len(rows) == len(found.measured)
        for one in found.measured:
            row = rows[one.statement.name]
            assert (row["bound"], row["measured"], row["measured_margin"]) == (one.bound[-1], *one.at_end)
            assert (row["norm"], row["eta"]) == (one.comparator.norm, one.eta)
            assert (row["hinge"] is None) == (one.statement.source != "published")
        assert rows["Theorem 1"]["hinge"] > rows["Theorem 1"]["measured"]

    @pytest.mark.parametrize("columns", [80, 120])
    def test_the_table_fits_the_screen(self, columns, found):
        text = output_of(*SAME, columns=columns)
        assert all(len(line) <= columns for line in text.splitlines())
        one = next(one for one in found.measured if one.statement.name == "Theorem R1")
        row = next(line for line in text.splitlines() if line.startswith("Theorem R1")).split()
        mean, margin = one.at_end
        assert row[3:7] == [f"{one.bound[-1]:,.0f}*", f"{mean:,.0f}", "±", f"{margin:.3g}"]
        assert f"||W|| = {one.comparator.norm:.4g}, loss {one.comparator.loss:.4g} a round" in text
        assert "…" not in text

    def test_csv_has_a_line_per_statement_and_checkpoint(self, tmp_path, found):
        output_of(*SAME, "--csv", tmp_path / "b.csv")
        rows = list(csv.DictReader((tmp_path / "b.csv").read_text().splitlines()))
        assert len(rows) == len(found.measured) * found.trial.rounds.size
        last = [row for row in rows if row["round"] == "600" and row["statement"] == "Theorem R4"]
        one = next(one for one in found.measured if one.statement.name == "Theorem R4")
        assert [float(last[0]["measured"]), float(last[0]["bound"])] == [one.at_end.value, one.bound[-1]]

    def test_a_figure_notes_points_without_positive_regret(self, found, monkeypatch):
        figures = []
        monkeypatch.setattr(plots, "save_figure", lambda figure, _: figures.append(figure))
        plots.plot_studies([found], "nowhere.png")
        panels = [panel for part in figures[0].subfigs for panel in part.axes]
        assert [panel.get_title() for panel in panels] == list(plots.PANELS.values())
        one = next(one for one in found.measured if one.statement.name == "Theorem R1")
        hidden = int((one.values.mean(axis=0) <= 0).sum())
        note = f"Theorem R1: not above 0, so not shown, at {hidden} of {found.trial.rounds.size} points"
        text = panels[0].texts[0].get_text()
        assert (note in text) == (hidden > 0)
        assert all(panel.get_xscale() == panel.get_yscale() == "log" for panel in panels)
        dashed = {line.get_label(): line.get_ydata() for line in panels[0].lines if line.get_linestyle() == "--"}
        np.testing.assert_array_equal(dashed["Theorem R1"], one.bound)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("played")
    flags = ["--data", "digits", "--rounds", "200", "--runs", "2", "--output", str(folder)]
    models = ["--delay", "5", "--delay", "geometric:9+missing:0.1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("delaytron.simulation.results.save_figure", lambda *_: None)
        args = ["run", "delaytron", "banditron", "--gamma", "0.1,0.2", *models, *flags]
        assert CliRunner().invoke(cli.app, args).exit_code == 0
    return folder


class TestResults:
    def test_the_best_line_of_every_delay_is_played_again(self, folder):
        documents = json.loads(output_of("--results", folder, "--json"))
        lines = [row for row in json.loads((folder / "results.json").read_text()) if row["learner"] == "delaytron"]
        best = [row for row in lines if row["best"]]
        assert len(lines) == 4
        assert len(documents) == len(best) == 2
        for document, line in zip(documents, best, strict=True):
            rows = rows_of(document)
            assert document["delay"] == line["delay"]
            assert document["gamma"] == line["parameters"]["gamma"]
            assert rows["Corollary R2, played"]["measured"] == pytest.approx(200 * line["error"])
            assert rows["Theorem R1"]["eta"] == 1.0

    def test_a_delay_chooses_among_them(self, folder):
        (document,) = json.loads(output_of("--results", folder, "--delay", 5, "--json"))
        assert document["delay"] == "uniform:5"

    def test_other_data_are_noticed(self, folder):
        result = delaytron("--results", folder, "--data", "digits", "--scale", "standard")
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert "played again, digits has the error" in result.stderr

    def changed(self, folder, tmp_path, **values):
        rows = json.loads((folder / "results.json").read_text())
        (tmp_path / "results.json").write_text(json.dumps([row | values for row in rows]))
        return delaytron("--results", tmp_path).stderr

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"parameters": {"gamma": 0.1, "noise": [0.1, 0.0]}}, "there is no bound for runs with noise"),
            ({"dataset": "iris"}, "the results are of the file iris; give --data"),
            ({"delay": "trace of 4 delays, 25.0% never"}, "give --delay"),
            ({"delay": "Weibull(k=2)"}, "give --delay"),
            ({"delay": "trace:gone.csv"}, "give --delay"),
            ({"learner": "soba"}, "has no delaytron, which bounds are about; name it in `delaytron run`\n"),
            ({"rounds": 0}, "rounds must be an integer"),
        ],
    )
    def test_what_cannot_be_measured_is_refused(self, folder, tmp_path, values, message):
        assert message in self.changed(folder, tmp_path, **values)

    @pytest.mark.parametrize("text", ["", "{", "[1]", '[{"learner": "delaytron", "best": true}]', "7"])
    def test_other_files_are_refused(self, tmp_path, text):
        (tmp_path / "results.json").write_text(text)
        assert "is not what `delaytron run --output` writes" in delaytron("--results", tmp_path).stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--results", "nowhere"], "there is no 'nowhere/results.json'"),
        (["--results", "nowhere", "--gamma", 0.1], "--gamma is recorded in the results; leave it out"),
        (["--runs", 3], "--runs is for runs on data; give --data or --results, too"),
        (["--plot", "a.png"], "--plot is for runs on data; give --data or --results, too"),
        (["--samples", 3], "--samples is for runs on data; give --data or --results, too"),
        (["--data", "digits", "--comparator-loss", 3], "--comparator-loss is for bounds without data; leave it out"),
        (["--data", "digits", "--plot", "a.txt"], "got 'a.txt'; end it in"),
        (["--data", "digits", "--comparator", "good"], "comparator must be one of best, separating"),
        (["--data", "digits", "--sampling", "rows"], "sampling must be one of"),
        (["--data", "digits", "--gamma", 0], "gamma must be in (0, 1]"),
        (["--gamma", 1.5], "gamma must be in (0, 1]"),
        (["--rounds", 0], "rounds must be an integer of at least 1"),
        (["--delay", "soon"], "--delay must be 1000 or uniform:D"),
        (["--missing", 2], "rate must be in [0, 1]"),
        (["--eta", 0], "eta must be above 0"),
        (["--norm", -1], "norm must be at least 0"),
        (["--classes", 1], "--classes must be integers of at least 2"),
        (["--loss-bound", -1], "--loss-bound must be at least 0"),
    ],
)
def test_bad_input_is_one_line(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = delaytron(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("delaytron: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_weights_without_loss_are_not_made_up():
    data = dt.datasets.as_dataset((np.ones((4, 1)), [0, 1, 0, 1]))
    with pytest.raises(dt.InvalidInput, match="no weights without loss are known; take comparator='best'"):
        prepare(data, TrialTerms(rounds=10, runs=1, comparator="separating"))


def test_the_examples_in_the_help_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [f"{a},{b},{'setosa' if a > b else 'virginica'}" for a, b in rng.normal(size=(30, 2))]
    (tmp_path / "iris.csv").write_text("\n".join(["width,length,species", *lines]))
    played = ["run", "delaytron", "--data", "digits", "--rounds", "50", "--output", "out"]
    assert CliRunner().invoke(cli.app, played).exit_code == 0
    examples = [line.split()[2:] for line in bounds.EXAMPLES.splitlines() if line.startswith("delaytron bounds")]
    assert len(examples) == 5
    for example in examples:
        small = ["--rounds", "200", "--runs", "2"] if "--data" in example else []
        small += ["--samples", "500"] if "synsep" in example else []
        assert delaytron(*example, *small).exit_code == 0, example
    assert (tmp_path / "synsep.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in tmp_path.iterdir()} == {"iris.csv", "out", "synsep.png", "bounds.csv"}
