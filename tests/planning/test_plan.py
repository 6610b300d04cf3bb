"""`delaytron plan`: bounds against brute force, curves by hand, honest simulations, and every number with its kind."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.cli import plan as command
from delaytron.delays import NEVER, Fixed, Trace, parse
from delaytron.formats import as_json
from delaytron.learners.options import GAMMAS
from delaytron.planning import Doubled, draft, exploring, plan
from delaytron.planning.answers import BOUND, EXACT, SIMULATION, answers, change, summary
from delaytron.planning.bounds import Problem, best_bound, first_round, smallest
from delaytron.planning.documents import plan_document
from delaytron.planning.simulation import Reached, mixture, round_from_which_below
from delaytron.simulation.results import mean_of
from delaytron.theory import outstanding

SMALL = {"rounds": 3000, "delay": "fixed:10", "target": 0.4, "features": 5, "runs": 3, "tuning_runs": 2}
FLAGS = shlex.split("--classes 3 --rounds 900 --delay 20 --target 0.4 --features 4 --runs 2 --tuning-runs 1")


@pytest.fixture(scope="module")
def small():
    return plan(classes=3, **SMALL)


def delaytron(*args, columns=80):
    env = {"COLUMNS": str(columns)}
    return CliRunner().invoke(cli.app, ["plan", *map(str, args)], env=env, prog_name="delaytron")


def output_of(*args, **options):
    result = delaytron(*args, **options)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def with_errors(found, *final_errors):
    """Return a plan whose learners have these final errors, one per run, at both delays."""

    def learner(one, errors):
        mistakes = one.result.mistakes.copy()
        mistakes[:, -1, 0] = np.round(np.array(errors) * one.result.rounds[-1])
        return replace(one, result=replace(one.result, mistakes=mistakes))

    def forecast(at):
        return replace(at, learners=tuple(map(learner, at.learners, final_errors)))

    return replace(found, forecasts=tuple(map(forecast, found.forecasts)))


def brute_force(gamma, K, radius, norm, loss, waits):
    """Return the least of R2 and R3, as docs/explanation/theory.md prints them, in played mistakes."""
    T, L, size = len(waits), loss * len(waits), radius * norm
    r2 = L + size * np.sqrt((1 + K / gamma) * T + 4 * waits.sum())
    b = 1 + K / gamma + 4 * waits.max()
    r3 = np.where(gamma <= 0.5, L + b * size**2 + size * np.sqrt(b * L + 2 * gamma * T), np.inf)
    return (1 - gamma) * np.minimum(r2, r3) + gamma * (K - 1) / K * T


class TestBounds:
    @pytest.mark.parametrize(
        ("K", "radius", "norm", "loss", "delay", "T"),
        [
            (2, 1.0, 1.0, 0.0, "fixed:1", 10_000),
            (10, 1.0, 2.0, 0.0, "100", 200_000),
            (10, 0.5, 4.0, 0.02, "lognormal:50,1.5", 300_000),
            (3, 2.0, 0.7, 0.1, "geometric:30+missing:0.01", 100_000),
        ],
    )
    def test_gamma_is_the_minimiser_of_the_least_bound(self, K, radius, norm, loss, delay, T):
        waits = outstanding(parse(delay).sample(T, np.random.default_rng(0)))
        found = best_bound(Problem(K, radius, np.array([norm]), np.array([loss])), waits, 0.3, T)
        grid = np.geomspace(1e-5, 1, 200_001)
        values = brute_force(grid, K, radius, norm, loss, waits)
        assert found.gamma == pytest.approx(grid[values.argmin()], rel=2e-4)
        assert found.wrong <= values.min() * (1 + 1e-12)
        assert found.wrong == pytest.approx(brute_force(found.gamma, K, radius, norm, loss, waits), rel=1e-12)
        assert found.early == pytest.approx(found.wrong / T, rel=1e-12)

    def test_the_round_of_the_target_is_the_first_from_which_the_bound_suffices(self):
        waits = outstanding(Fixed(20).sample(40_000, np.random.default_rng(0)))
        found = best_bound(Problem(4, 1.0, np.array([1.5]), np.array([0.0])), waits, 0.1, 1000)
        rates = [brute_force(found.gamma, 4, 1.0, 1.5, 0.0, waits[:n]) / n for n in (found.until - 1, found.until)]
        assert rates[0] > 0.1 >= rates[1]
        assert found.early == pytest.approx(brute_force(found.gamma, 4, 1.0, 1.5, 0.0, waits[:1000]) / 1000)

    def test_the_best_weights_are_taken(self):
        waits = np.zeros(100_000, np.int64)
        norms, losses = np.array([1.0, 3.0, 50.0]), np.array([0.5, 0.01, 0.0])
        found = best_bound(Problem(5, 1.0, norms, losses), waits, 0.2, 100_000)
        alone = [best_bound(Problem(5, 1.0, norms[i : i + 1], losses[i : i + 1]), waits, 0.2, 10) for i in range(3)]
        assert (found.norm, found.loss) == (3.0, 0.01)
        assert found.wrong == min(one.wrong for one in alone if one is not None) == alone[1].wrong

    def test_a_bound_that_is_no_better_than_guessing_says_nothing(self):
        hard = Problem(10, 1.0, np.array([100.0]), np.array([0.0]))
        assert best_bound(hard, np.zeros(1000, np.int64), 0.2, 1000) is None

    def test_the_smallest_value_may_lie_at_an_end(self):
        assert smallest(lambda x: x, 0.1, 1) == pytest.approx(0.1)
        assert smallest(lambda x: -x, 0.1, 1) == pytest.approx(1)

    def test_exploration_costs_gamma_times_k_minus_one_by_k_of_the_rounds(self):
        assert exploring(10, 0.1, 1000) == pytest.approx(90, rel=1e-15)
        assert exploring(2, 1.0, 7) == 3.5

    def test_the_bound_holds_in_the_simulation_where_the_data_have_the_weights(self):
        found = plan(classes=2, rounds=20_000, delay="fixed:3", target=0.4, features=3, best=0, runs=3, tuning_runs=1)
        for forecast in found.forecasts:
            assert forecast.at_bound.final_error.mean() < forecast.bound.early < 0.5
            assert not forecast.contradicts

    def test_weights_that_are_too_good_for_the_data_are_told(self):
        found = plan(**SMALL | {"rounds": 30_000, "limit": 4000}, classes=3, best=0.3, norm=0.2)
        assert all(forecast.contradicts for forecast in found.forecasts)
        assert plan_document(found)["forecasts"][0]["best_bound"]["with_this_gamma"]["worse_than_bound"] is True
        assert "The simulation is worse than the bound" in summary(found)[-1]


class TestDoubled:
    def test_twice_ten_is_twenty(self, small):
        drawn = [model.sample(500, np.random.default_rng(0)) for model in (Doubled(Fixed(10)), Fixed(20))]
        assert np.array_equal(*drawn)
        results = [dt.simulate("delaytron", small.setup.data, delay=d, rounds=500) for d in (Doubled(Fixed(10)), 20)]
        other = dt.simulate("delaytron", small.setup.data, delay=Fixed(20), rounds=500)
        assert np.array_equal(results[0].mistakes, other.mistakes)
        assert not np.array_equal(results[1].mistakes, other.mistakes)  # a number is uniform

    def test_the_second_forecast_is_that_of_twice_the_delay(self, small):
        twenty = plan(classes=3, **SMALL | {"delay": "fixed:20"}).forecasts[0]
        doubled = small.forecasts[1]
        assert (doubled.waited, doubled.most, doubled.bound) == (twenty.waited, twenty.most, twenty.bound)
        assert [one.gamma for one in doubled.learners] == [one.gamma for one in twenty.learners]
        for one, other in zip(doubled.learners, twenty.learners, strict=True):
            assert np.array_equal(one.result.mistakes, other.result.mistakes)

    def test_never_stays_never_and_nothing_overflows(self):
        trace = Trace([1, -1, NEVER // 2, NEVER // 2 + 1, 7])
        drawn = Doubled(trace).sample(6, np.random.default_rng(0))
        assert drawn.tolist() == [2, NEVER, 2 * (NEVER // 2), NEVER, 14, 2]


class TestRoundsToTarget:
    @pytest.mark.parametrize(
        ("errors", "expected"),
        [
            ([0.9, 0.5, 0.2, 0.1], 100),  # at most the target is enough
            ([0.0, 0.5, 0.1, 0.3], None),  # below, and above again at the end
            ([0.0, 0.3, 0.1, 0.1], 100),  # luck in the first rounds does not count
            ([0.2, 0.1, 0.0, 0.0], 1),
            ([0.9, 0.9, 0.9, 0.2], 1000),
        ],
    )
    def test_curves_by_hand(self, errors, expected):
        assert round_from_which_below(np.array([1, 10, 100, 1000]), np.array(errors), 0.2) == expected

    def test_the_mean_is_that_of_the_runs_that_got_there(self):
        reached = Reached((100, None, 300))
        assert (reached.mean, reached.rounds) == (200.0, [100, 300])
        assert Reached((None, None)).mean is None

    def test_bounds_are_searched_round_by_round(self):
        def error(rounds):
            return 40 / rounds + 0.1 * (rounds < 777)

        assert first_round(error, 100_000, 0.1) == 777
        assert first_round(error, 100_000, 40 / 1234) == 1234
        assert first_round(error, 776, 0.1) is None
        assert first_round(lambda rounds: 0 * rounds, 1, 0.5) == 1

    def test_the_simulated_rounds_are_those_of_the_curves(self, small):
        one = small.forecasts[0].learners[0]
        for curve, reached in zip(one.result.error_rate, one.reached(0.4).each, strict=True):
            place = one.result.rounds.tolist().index(reached)
            assert (curve[place:] <= 0.4).all()
            assert curve[place - 1] > 0.4


class TestSimulation:
    def test_reported_runs_are_those_of_simulate_with_the_gamma_that_was_best_on_other_seeds(self, small):
        setup = small.setup
        for forecast, delay in zip(small.forecasts, (Fixed(10), Fixed(20)), strict=True):
            default, one = forecast.learners
            assert (default.learner, default.gamma, default.tried) == (dt.DEFAULT_LEARNER, None, None)
            as_it_is = dt.simulate(dt.DEFAULT_LEARNER, setup.data, delay=delay, rounds=3000, runs=3, seed=0)
            assert np.array_equal(default.result.final_error, as_it_is.final_error)
            tuned = dt.simulate(
                one.learner, setup.tuning_data, delay=delay, rounds=3000, runs=2, seed=1_000_003, gamma=list(GAMMAS)
            )
            assert one.gamma == tuned.best().parameters[0]["gamma"]
            played = dt.simulate(one.learner, setup.data, delay=delay, rounds=3000, runs=3, seed=0, gamma=one.gamma)
            assert np.array_equal(one.result.final_error, played.final_error)

    def test_tuning_sees_other_data_where_they_are_made_up(self, small):
        assert not np.array_equal(small.setup.data.X, small.setup.tuning_data.X)

    def test_the_seed_fixes_everything_on_any_number_of_threads(self, small):
        again = plan(classes=3, **SMALL, n_jobs=1)
        assert plan_document(again) == plan_document(small)
        other = plan(classes=3, **SMALL, seed=1)
        assert plan_document(other)["forecasts"] != plan_document(small)["forecasts"]

    def test_progress_counts_every_round(self):
        drafted = draft(classes=2, rounds=400, delay=1, target=0.3, features=2, norm=0.5, runs=2, tuning_runs=1)
        assert all(forecast.bound is not None for forecast in drafted.forecasts)
        counted = []
        drafted.simulated(progress=counted.append)
        assert sum(counted) == drafted.n_rounds == 400 * 2 * (len(GAMMAS) + 3 * 2)  # one of the two learners is tuned

    def test_the_change_is_paired_by_runs(self, small):
        before, after = (forecast.learners[0].result.final_error for forecast in small.forecasts)
        assert change(small) == mean_of(after - before)

    def test_long_plans_are_simulated_in_part_and_say_so(self):
        found = plan(**SMALL | {"rounds": 50_000, "limit": 1000, "runs": 1, "tuning_runs": 1}, classes=3)
        one = found.forecasts[0].learners[1]
        assert one.result.rounds[-1] == 1000
        assert found.forecasts[0].waited == outstanding(np.full(50_000, 10)).sum()
        assert any("Only 1,000 of 50,000 rounds are simulated" in line for line in summary(found))
        rows = [answer for answer in answers(found) if answer.kind == EXACT]
        assert rows[0].cells[0] == f"{one.gamma * 2 / 3 * 1000:,.0f}"
        assert rows[1].question.strip() == "in all 50,000"
        assert rows[1].cells[0] == f"{one.gamma * 2 / 3 * 50_000:,.0f}"

    def test_runs_that_get_stuck_are_told(self, small):
        assert not any("far apart" in line for line in summary(with_errors(small, [0.2, 0.3, 0.4], [0.1] * 3)))
        told = summary(with_errors(small, [0.1, 0.1, 0.9], [0.1] * 3))
        assert told[1] == "Its runs lie far apart, at errors from 0.100 to 0.900: plan with more --runs."
        told = summary(with_errors(small, [0.1] * 3, [0.1, 0.1, 0.9]))
        assert told[3] == "Its runs lie far apart, at errors from 0.100 to 0.900: a larger gamma is safer."

    def test_the_papers_learner_is_said_to_be_better_only_where_it_clearly_is(self, small):
        def named(*errors):
            return [line for line in summary(with_errors(small, *errors)) if "does better" in line]

        (line,) = named([0.30, 0.32, 0.34], [0.1, 0.1, 0.12])
        assert line.startswith("delaytron does better: gamma ")
        assert ", error 0.1067 ± 0.0287, " in line
        assert not named([0.1, 0.1, 0.3], [0.1, 0.1, 0.1])  # one run is chance
        assert not named([0.1, 0.1, 0.1], [0.3, 0.3, 0.31])

    def test_long_rows_are_simulated_for_fewer_rounds(self):
        X = np.random.default_rng(0).random((30, 3000))
        drafted = draft(data=(X, np.arange(30) % 10), rounds=100_000, delay=1, target=0.3, norm=1)
        assert drafted.setup.terms.rounds == 5000


class TestMadeUpData:
    @pytest.mark.parametrize(("K", "d", "best"), [(2, 2, 0.4), (3, 8, 0.0), (10, 32, 0.02), (50, 4, 0.1)])
    def test_the_best_linear_rule_errs_as_asked(self, K, d, best):
        data = mixture(K, d, 2001, best, seed=3)
        wrong = ((data.X @ data.certificate.T).argmax(axis=1) != data.y).mean()
        assert wrong == pytest.approx(best, abs=1 / 2001)
        assert np.allclose(np.linalg.norm(data.X, axis=1), 1)

    def test_a_single_row_is_made_too(self):
        assert all(np.isfinite(mixture(2, 2, 1, 0.4, seed).X).all() for seed in range(20))


class TestOutput:
    def test_json_holds_the_numbers_of_the_library(self):
        document = json.loads(output_of(*FLAGS, "--json"))
        found = plan(classes=3, rounds=900, delay="20", target=0.4, features=4, runs=2, tuning_runs=1)
        assert document == json.loads(as_json(plan_document(found)))
        assert document["rounds"] == 900
        assert [forecast["delay_factor"] for forecast in document["forecasts"]] == [1, 2]
        default, first = document["forecasts"][0]["simulations"]
        assert (default["learner"], default["parameters"], default["tried"]) == (dt.DEFAULT_LEARNER, {}, [])
        assert not default.keys() & {"gamma", "exploring"}
        assert document["majority_error"] == found.setup.data.majority_error
        one = found.forecasts[0].learners[1]
        assert (first["learner"], first["gamma"], first["kind"]) == ("delaytron", one.gamma, "simulation")
        assert first["parameters"] == {"gamma": one.gamma}
        assert first["final_errors"] == one.result.final_error.tolist()
        assert first["exploring"]["decisions"] == [{"rounds": 900, "wrong": exploring(3, one.gamma, 900)}]
        assert len(first["tried"]) == len(GAMMAS)

    def test_whatever_has_numbers_in_a_forecast_has_a_kind(self):
        found = plan(**SMALL | {"rounds": 40_000, "limit": 500}, classes=3, norm=1)
        forecast = plan_document(found)["forecasts"][0]
        kinds = {"waiting": EXACT, "best_bound": BOUND}
        assert {name: forecast[name]["kind"] for name in kinds} == kinds
        assert forecast["best_bound"]["gamma"] == found.forecasts[0].bound.gamma
        assert forecast["best_bound"]["exploring"]["kind"] == EXACT
        assert forecast["best_bound"]["with_this_gamma"]["kind"] == SIMULATION
        assert [one["kind"] for one in forecast["simulations"]] == [SIMULATION] * 2
        assert [one["exploring"]["kind"] for one in forecast["simulations"] if "exploring" in one] == [EXACT]

    def test_bounds_are_said_to_be_about_the_papers_learner_alone(self, small):
        found = plan(**SMALL | {"rounds": 40_000, "limit": 500}, classes=3, norm=1)
        assert plan_document(found)["forecasts"][0]["best_bound"]["learner"] == "delaytron"
        assert {row.section for row in answers(found) if row.kind == BOUND} == {"delaytron, proved"}
        for told in (summary(found), summary(small)):
            assert "What is proved is proved of delaytron: no bound here is about bandit_logit." in told
        text = output_of(*FLAGS)
        assert "bounds are about delaytron alone: nothing is proved here of bandit_logit" in text

    def test_the_most_frequent_class_stands_beside_the_learners(self, small):
        *_, last = answers(small)
        error = f"{1 - np.bincount(small.setup.data.y).max() / small.setup.data.n_rows:.4f}"
        assert last == ("always the most frequent class", "error", EXACT, (error, error))
        lines = output_of(*FLAGS).splitlines()
        (place,) = [i for i, line in enumerate(lines) if line.strip() == "always the most"]
        assert lines[place + 1].strip() == "frequent class"
        assert lines[place + 2].split()[:2] == ["error", EXACT]

    @pytest.mark.parametrize("columns", [80, 120])
    def test_the_table_has_a_line_with_a_kind_for_every_answer(self, columns):
        flags = [*FLAGS, "--norm", "0.3", "--rounds", "90000", "--limit", "900"]
        text = output_of(*flags, columns=columns)
        question = {"rounds": 90_000, "limit": 900, "delay": "20", "target": 0.4, "norm": 0.3}
        found = plan(classes=3, features=4, runs=2, tuning_runs=1, **question)
        assert all(len(line) <= columns for line in text.splitlines())
        lines = [" ".join(line.split()) for line in text.splitlines()]
        rows = list(answers(found))
        assert {row.kind for row in rows} == {EXACT, BOUND, SIMULATION}
        for row in rows:
            assert " ".join(" ".join([row.question, row.kind, *row.cells]).split()) in lines
        assert "3 classes, 90,000 rounds, delay 20, target 0.4" in lines
        assert " ".join(summary(found)) in " ".join(lines)

    def test_a_target_out_of_reach_is_never_reached(self):
        text = output_of(*FLAGS, "--target", "0.001")
        assert "never in 900" in text
        assert "0.001 is not reached" in " ".join(text.split())

    def test_a_bound_that_says_nothing_is_one_line(self):
        text = output_of(*FLAGS, "--best", "0.3")
        (line,) = [line for line in text.splitlines() if "says nothing" in line]
        assert line.split()[:3] == ["any", "gamma", "bound"]
        assert "bound: for 900 rounds no better than guessing" in text

    def test_a_single_run_has_no_margin(self):
        text = output_of(*FLAGS, "--runs", "1")
        assert "nan" not in text
        assert "±" not in text
        assert "in a single run" in text
        assert "simulation: a single run of 900 rounds" in text

    def test_data_and_traces_may_be_given(self, tmp_path):
        (tmp_path / "delays.txt").write_text("3\n-1\n8\n")
        flags = f"--data digits --rounds 400 --target 0.5 --runs 2 --tuning-runs 1 --delay trace:{tmp_path}/delays.txt"
        document = json.loads(output_of(*shlex.split(flags), "--json"))
        assert (document["classes"], document["dataset"]) == (10, "digits")
        assert document["best_linear_error"] is None
        assert document["radius"] == pytest.approx(np.linalg.norm(dt.datasets.load("digits").X, axis=1).max())
        assert document["delay"] == f"trace:{tmp_path}/delays.txt"

    def test_the_figure_shows_both_delays_and_the_target(self, tmp_path):
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none"}):
            text = output_of(*FLAGS, "--plot", tmp_path / "plan.svg")
        assert text.endswith(f"wrote {tmp_path / 'plan.svg'}\n")
        words = (tmp_path / "plan.svg").read_text()
        for word in (
            "delaytron, this delay",
            "bandit_logit, twice the delay",
            "target",
            "always the most frequent class",
        ):
            assert word in words

    def test_a_figure_without_any_error_is_drawn_all_the_same(self, tmp_path):
        data = dt.datasets.Dataset(np.ones((20, 1)), np.zeros(20, int), "easy", ("a", "b"))  # a tie goes to class 0
        found = plan(data=data, rounds=20, delay=1, target=0.1, runs=1, tuning_runs=1)
        found.plot(tmp_path / "plan.png")
        assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--target", "0"], "target must be between 0 and 1, both excluded; got 0.0"),
        (["--target", "1"], "target must be between 0 and 1, both excluded; got 1.0"),
        (["--target", "nan"], "target must be a finite number, got nan"),
        (["--classes", "1"], "classes must be an integer of at least 2, got 1"),
        (["--classes", "2000"], "made-up data have at most 1000 classes, got 2000: give data"),
        (["--delay", "soon"], "--delay must be 1000 or uniform:D"),
        (["--delay", "trace:absent.txt"], "absent.txt"),
        (["--rounds", "0"], "rounds must be an integer of at least 1, got 0"),
        (["--rounds", "10000001"], "rounds must be at most 10000000, got 10000001: plan for a part of them"),
        (["--features", "1"], "features must be an integer of at least 2, got 1"),
        (["--best", "0.5"], "best must be in [0, 0.4], got 0.5"),
        (["--norm", "0"], "norm must be above 0, got 0.0"),
        (["--radius", "-1"], "radius must be above 0, got -1.0"),
        (["--loss", "0.1"], "loss needs norm, that of the weights with this loss; give norm, or leave out loss"),
        (["--norm", "1", "--loss", "-1"], "loss must be at least 0, got -1.0"),
        (["--runs", "0"], "runs must be an integer of at least 1, got 0"),
        (["--limit", "0"], "limit must be an integer of at least 1, got 0"),
        (["--seed", "-1"], "seed must be an integer of at least 0, got -1"),
        (["--workers", "0"], "workers must be an integer of at least 1, got 0"),
        (["--plot", "plan.txt"], "a figure must end in .png, .pdf, .svg; got 'plan.txt'"),
        (["--label", "y", "--bias"], "--label, --bias must come with --data, which is not given"),
        (["--data", "digits"], "features and best are for made-up data"),
        (["--data", "digit"], "did you mean digits?"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(flags, message):
    complain(message, *FLAGS, *flags)


def test_what_is_missing_or_does_not_fit_is_one_line_and_exit_code_2():
    complain("classes must be given where there are no data", *shlex.split("--rounds 100 --delay 1 --target 0.1"))
    complain("Missing --rounds, --delay, --target, --classes or --data; see delaytron plan --help")
    complain("Missing --target, --classes or --data", *shlex.split("--rounds 100 --delay 1"))
    complain("Missing option '--target'", *shlex.split("--rounds 100 --delay 1 --classes 3"))
    complain(
        "classes must be those of the data, 10, or left out; got 9",
        *shlex.split("--rounds 100 --delay 1 --target 0.1 --data digits --classes 9"),
    )


def complain(message, *args):
    result = delaytron(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("delaytron: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_tuning_data_must_fit_the_data():
    with pytest.raises(dt.errors.InvalidInput, match="tuning_data must have the classes and features"):
        draft(data=mixture(3, 4, 9, 0, 0), tuning_data=mixture(3, 5, 9, 0, 0), rounds=9, delay=1, target=0.1)


def test_the_examples_in_the_help_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = output_of("--help").partition("Examples")[2].splitlines()
    found = [shlex.split(line)[2:] for line in lines if line.strip().startswith("delaytron plan ")]
    assert found == [shlex.split(line)[2:] for line in command.EXAMPLES.splitlines() if "plan" in line]  # unbroken
    (tmp_path / "log.csv").write_text("event,outcome\n1,2\n2,\n3,9\n")
    for example in found:
        output_of(*example, "--rounds", "400", "--runs", "2", "--tuning-runs", "1")
    assert (tmp_path / "p.png").exists()
