"""Delays of rows: recorded ones, shuffled ones, and those of the true class, in every simulation."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.datasets.dataset import Dataset
from delaytron.delays import NEVER, ByClass, Fixed, OfRows, Uniform, WithMissing
from delaytron.experiments.compare import compare
from delaytron.rng import stream
from delaytron.simulation.scenarios import SimulationConfig, draw_outcomes, mean_wait
from delaytron.simulation.simulate import labels_for
from delaytron.theory.study import TrialTerms

RNG = np.random.default_rng(3)
N = 300
OWN = np.where(RNG.random(N) < 0.1, NEVER, RNG.integers(1, 80, N))
DATA = Dataset(RNG.normal(size=(N, 5)), RNG.integers(3, size=N), "log", ("a", "b", "c"), delays=OWN)
PLAIN = Dataset(DATA.X, DATA.y, "log", DATA.class_names)


def replayed(delays, seed=4, run=0):
    learner = dt.Delaytron(3, 5, gamma=0.2, seed=seed)
    return dt.replay(
        learner,
        DATA.X[: len(delays)],
        DATA.y[: len(delays)],
        delays,
        stream(seed, "exploration", run).random(len(delays)),
    )


def mistakes(**options):
    return dt.simulate("delaytron", DATA, gamma=0.2, seed=4, **options).mistakes[:, -1, 0].tolist()


@pytest.mark.parametrize("rounds", [N, 120])
def test_every_row_is_played_with_its_own_delay(rounds):
    expected = [int((~replayed(OWN[:rounds], run=run).correct).sum()) for run in range(3)]
    assert mistakes(delay="recorded", rounds=rounds, runs=3) == expected
    assert mistakes(rounds=rounds, runs=3) == expected  # the default of data that have them
    sparse = Dataset(csr_array(DATA.X), DATA.y, "log", DATA.class_names, delays=OWN)
    assert dt.simulate("delaytron", sparse, gamma=0.2, seed=4, rounds=rounds).delay == "recorded"


def test_without_recorded_delays_the_default_is_no_delay():
    assert dt.simulate("delaytron", PLAIN, gamma=0.2).delay == "uniform:1"


def test_shuffled_delays_are_the_recorded_ones_in_another_order():
    config = SimulationConfig(N, N, OfRows(shuffled=True), 4, "replacement", labelled=labels_for(OfRows(), DATA, N))
    first, second = (draw_outcomes(config, run)[0] for run in (0, 1))
    assert sorted(first) == sorted(second) == sorted(OWN)
    assert (first != OWN).any()
    assert (first != second).any()
    assert mistakes(delay="shuffled") == [int((~replayed(first).correct).sum())]
    more, _ = draw_outcomes(config._replace(n_rounds=2 * N + 5), 0)
    assert sorted(more[: 2 * N]) == sorted([*OWN, *OWN])


def test_rows_with_their_own_delays_are_not_played_twice():
    with pytest.raises(dt.InvalidInput, match=r"rounds must be at most 300, .*; give fewer, or the delay 'shuffled'"):
        mistakes(delay="recorded", rounds=N + 1)
    assert len(mistakes(delay="shuffled", rounds=N + 1)) == 1


def test_delays_of_rows_need_rows_that_have_them(tmp_path):
    for delay in ("recorded", "shuffled+missing:0.1", "right=recorded/wrong=3"):
        with pytest.raises(dt.InvalidInput, match="the rows have no recorded delays") as caught:
            dt.simulate("delaytron", PLAIN, delay=delay)
        assert "\n" not in str(caught.value)
    path = tmp_path / "clicks.svm"
    path.write_text("1 1:1\n2 1:2\n")
    with pytest.raises(dt.InvalidInput, match="which a stream reads later; load the file whole"):
        dt.simulate("delaytron", dt.datasets.stream(path), delay="class:1=3/else=4")


def test_each_class_has_its_own_delays():
    delay = ByClass({"a": Fixed(2), "c": Uniform(50)}, WithMissing(Fixed(7), 1.0))
    drawn = Uniform(50).sample(N, stream(4, "delays"))
    expected = np.select([DATA.y == 0, DATA.y == 2], [2, drawn], NEVER)
    assert mistakes(delay=delay) == [int((~replayed(expected).correct).sum())]
    assert mistakes(delay=str(delay)) == mistakes(delay=delay)
    same = ByClass({name: Uniform(50) for name in "abc"})
    assert mistakes(delay=same, rounds=900) == mistakes(delay=50, rounds=900)


def test_outcomes_and_rows_can_be_mixed():
    got = dt.simulate("delaytron", DATA, gamma=0.2, seed=4, delay="right=recorded/wrong=class:a=90/else=fixed:1")
    wrong = np.where(DATA.y == 0, Uniform(90).sample(N, stream(4, "delays")), 1)
    draws = stream(4, "exploration").random(N)
    run = dt.replay(dt.Delaytron(3, 5, gamma=0.2, seed=4), DATA.X, DATA.y, [OWN, wrong], draws)
    assert got.mistakes[0, -1, 0] == (~run.correct).sum()


@pytest.mark.parametrize(
    ("delay", "message"),
    [
        ("class:d=3/else=4", "names 'd', which is not a class of the data"),
        ("class:a=3/class:b=4", "has no model for the class 'c'; give a default"),
    ],
)
def test_delays_by_class_must_fit_the_classes(delay, message):
    with pytest.raises(dt.InvalidInput, match=message):
        mistakes(delay=delay)


def test_the_log_of_a_run_has_the_times_of_the_answers_that_came(tmp_path):
    delay = "right=fixed:3/wrong=fixed:40+missing:0.5"
    dt.simulate("banditron", DATA, delay=delay, seed=2, noise=(0.3, 0.2), log=tmp_path / "run.parquet")
    log = dt.logs.read_parquet(tmp_path / "run.parquet")
    waits = (log.received_at - log.decided_at) / 1e9
    came = np.isfinite(log.outcomes)
    assert set(waits[came & (log.outcomes == 1)]) == {3}
    assert set(waits[came & (log.outcomes == 0)]) == {40}
    assert (~came).sum() > 20


def test_the_mean_wait_of_both_outcomes_and_of_rows():
    assert mean_wait(dt.delays.parse("right=fixed:10/wrong=fixed:30"), 1000, 0) == 20
    assert mean_wait(OfRows(), 1000, 0) == np.inf
    assert mean_wait(OfRows(), N, 0, labels_for(OfRows(), DATA, N)) == np.minimum(OWN, N).mean()


def test_a_comparison_plays_rows_as_they_were_recorded():
    found = compare(DATA, ["banditron"], runs=2, tuning_runs=1, budget=1)
    assert (found.delays, found.terms.rounds) == (["recorded"], N)
    found = compare(DATA, ["banditron"], ["shuffled", 1, "recorded", 10], runs=2, tuning_runs=1, budget=1, rounds=200)
    assert found.delays[:2] == ["1", "10"]
    with pytest.raises(dt.InvalidInput, match="the rows have no recorded delays"):
        compare(PLAIN, ["banditron"], ["recorded"], runs=2, tuning_runs=1, budget=1)


def test_what_needs_delays_of_chance_alone_says_so():
    for delay in ("recorded", "right=1/wrong=2", "class:a=3/else=1"):
        with pytest.raises(dt.InvalidInput, match="a bound needs delays that do not depend on") as caught:
            TrialTerms(delay=delay).checked()
        assert "\n" not in str(caught.value)
        with pytest.raises(dt.InvalidInput, match="is not known here"):
            dt.delays.parse(delay).sample(3, np.random.default_rng(0))


def test_delays_of_a_run_are_known_if_they_do_not_depend_on_its_outcomes():
    result = dt.simulate("banditron", DATA, runs=2, gamma=0.2)
    assert dt.theory.delays_of(result, 1).tolist() == OWN.tolist()
    result = dt.simulate("banditron", DATA, delay="right=1/wrong=9", gamma=0.2)
    with pytest.raises(dt.InvalidInput, match="depend on outcomes: right=uniform:1/wrong=uniform:9"):
        dt.theory.delays_of(result, 0)
