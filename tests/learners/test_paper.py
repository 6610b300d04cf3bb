"""The transcription in ``paper.py`` against the worked example, whose numbers were made by other code."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from paper import adaptive_delaytron, banditron, delaytron, estimate, perceptron, sample

# Copies of ../shared/reference, so that this file needs nothing outside the repository.
REFERENCE = Path(__file__).parents[1] / "reference"
TRACES = json.loads((REFERENCE / "delaytron_traces.json").read_text())
LEARNERS = json.loads((REFERENCE / "learner_traces.json").read_text())

K, GAMMA = 3, 0.3
X = np.array([(1, 0), (0, 1), (1, 1), (0.5, -1), (-1, 0.5), (1, 0.25), (-0.5, 1), (0.75, -0.5)])
Y = [0, 1, 1, 2, 2, 0, 1, 0]
DELAYS = [1, 3, 1, 2, 2, 1, 4, 1]
DRAWS = [0.05, 0.95, 0.55, 0.99, 0.10, 0.45, 0.92, 0.30]
T = len(Y)

close = partial(assert_allclose, rtol=0, atol=1e-12)


def random_stream(seed, rounds=120, n_classes=4, n_features=5, longest=15):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rounds, n_features))
    y = rng.integers(n_classes, size=rounds)
    return X, y, rng.integers(1, longest + 1, size=rounds), rng.random(rounds)


def same_play(a, b):
    return a.labels == b.labels and a.greedy == b.greedy and a.probs == b.probs and a.correct == b.correct


@pytest.mark.parametrize(
    ("key", "play"),
    [
        ("delaytron/before", partial(delaytron, eta=0.5)),
        ("adaptive/before", adaptive_delaytron),
        ("adaptive/before/instant", partial(adaptive_delaytron, tracker="instant")),
    ],
)
def test_every_round_of_the_worked_example_is_reproduced(key, play):
    trace = TRACES[key]
    run = play(X, Y, DELAYS, DRAWS, K, GAMMA)
    assert run.delivered == [row["S"] for row in trace]
    assert run.outstanding == [row["m"] for row in trace]
    assert run.epochs == [row["e"] for row in trace]
    assert run.greedy == [row["yhat"] for row in trace]
    assert run.labels == [row["ytilde"] for row in trace]
    assert run.correct == [row["correct"] for row in trace]
    close(run.etas, [row["eta"] for row in trace])
    close(run.probs, [row["P"] for row in trace])
    for row in trace:  # W after round t is the final W of the first t rounds
        t = row["t"]
        close(play(X[:t], Y[:t], DELAYS[:t], DRAWS[:t], K, GAMMA).weights, row["W"])


@pytest.mark.parametrize(("key", "delays"), [("nodelay", [1] * T), ("delays", DELAYS)])
def test_banditron_reproduces_its_reference_run(key, delays):
    run = banditron(X, Y, delays, DRAWS, K, GAMMA)
    assert run.labels == LEARNERS[f"banditron/{key}"]["played"]
    close(run.weights, LEARNERS[f"banditron/{key}"]["W"])


@pytest.mark.parametrize("seed", range(3))
def test_delaytron_with_step_one_is_banditron_and_no_power_of_two_changes_a_label(seed):
    stream = random_stream(seed)
    one, half, kakade = (
        delaytron(*stream, 4, 0.2),
        delaytron(*stream, 4, 0.2, eta=0.5),
        banditron(*stream, 4, 0.2),
    )
    assert same_play(one, kakade)
    assert same_play(one, half)
    assert one.outstanding == kakade.outstanding
    assert (half.weights == one.weights / 2).all()
    assert_allclose(one.weights, kakade.weights, atol=1e-9)


def test_the_estimate_has_the_mean_of_the_perceptron_direction():
    x, P = np.array([1.0, -2.0, 0.5]), [0.1, 0.8, 0.1]
    for y in range(3):
        mean = sum(P[label] * estimate(x, y, 1, label, P) for label in range(3))
        close(mean, np.outer(np.eye(3)[y] - np.eye(3)[1], x))


def test_a_draw_picks_the_first_class_it_falls_below_and_otherwise_the_last():
    P = [0.25, 0.5, 0.25]
    assert [sample(P, u) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999)] == [0, 0, 1, 1, 2, 2]
    assert sample([0.5, 0.4999], 0.99995) == 1


@pytest.mark.parametrize("play", [delaytron, banditron, adaptive_delaytron])
def test_feedback_that_never_comes_changes_nothing(play):
    X, y, _, draws = random_stream(5)
    run = play(X, y, [10**30] * len(y), draws, 4, 0.2)
    assert not run.weights.any()
    assert run.outstanding == list(range(1, len(y) + 1))
    assert set(run.greedy) == {0}


def test_the_outstanding_rounds_add_up_to_the_truncated_delays():
    X, y, delays, draws = random_stream(6)
    run = delaytron(X, y, delays, draws, 4, 0.2)
    rounds = np.arange(1, len(y) + 1)
    assert sum(run.outstanding) == np.minimum(delays, len(y) - rounds + 1).sum()


@pytest.mark.parametrize("seed", range(3))
def test_the_cumulative_epoch_brackets_the_sum_and_rises_by_one_at_most(seed):
    run = adaptive_delaytron(*random_stream(seed), 4, 0.2)
    sums = np.cumsum(run.outstanding)
    epochs = np.array(run.epochs)
    assert ((2.0 ** (epochs - 1) <= sums) & (sums < 2.0**epochs)).all()
    assert set(np.diff(epochs)) <= {0, 1}
    close(run.etas, 2.0 ** (-epochs / 2))


@pytest.mark.parametrize("tracker", ["cumulative", "instant"])
def test_leaving_out_the_present_round_stays_in_epoch_zero_without_delay(tracker):
    X, y, _, draws = random_stream(7)
    once = [1] * len(y)
    run = adaptive_delaytron(X, y, once, draws, 4, 0.2, tracker=tracker, count_self=False)
    assert set(run.epochs) == {0}
    assert same_play(run, delaytron(X, y, once, draws, 4, 0.2))


def test_leaving_out_the_present_round_in_the_worked_example():
    # m - 1 = 0 0 1 1 1 1 0 1, so the sum is 0 0 1 2 3 4 4 5
    cumulative = adaptive_delaytron(X, Y, DELAYS, DRAWS, K, GAMMA, count_self=False)
    assert cumulative.epochs == [0, 0, 1, 2, 2, 3, 3, 3]
    assert cumulative.outstanding == [1, 1, 2, 2, 2, 2, 1, 2]
    instant = adaptive_delaytron(X, Y, DELAYS, DRAWS, K, GAMMA, tracker="instant", count_self=False)
    assert instant.epochs == [0, 0, 1, 1, 1, 1, 1, 1]


def test_a_restart_forgets_all_that_was_played_before_the_epoch():
    # Epochs begin in rounds 1, 2, 3 and 5. The feedback of rounds 1..4 does not last (that of 3 comes in
    # round 4, inside its epoch, and is wiped in round 5); 5 and 6, answered in round 7, are all that is left.
    run = adaptive_delaytron(X, Y, DELAYS, DRAWS, K, GAMMA, restart=True)
    assert run.epochs == [1, 2, 3, 3, 4, 4, 4, 4]
    assert run.greedy[4:6] == [0, 0]  # W is zero in rounds 5 and 6
    eta = 0.25
    expected = np.zeros((K, 2))
    for s in (4, 5):
        P = [1 - GAMMA + GAMMA / K, GAMMA / K, GAMMA / K]
        expected += eta * estimate(X[s], Y[s], 0, run.labels[s], P)
    close(run.weights, expected)
    at_four = adaptive_delaytron(X[:4], Y[:4], DELAYS[:4], DRAWS[:4], K, GAMMA, restart=True)
    close(at_four.weights, np.sqrt(1 / 8) * np.array([[-1, -1], [0, 0], [0, 0]]))


def test_the_perceptron_learns_from_late_labels_and_makes_each_correction_once():
    x = np.eye(2)[[0, 1, 0, 1, 0, 1]]
    y = [1, 0, 1, 0, 1, 0]
    run = perceptron(x, y, [3] * 6, [0.9] * 6, 2)
    # Round 4 learns of round 1's mistake and round 6 of round 3's; the others were right.
    assert run.delivered == [[], [], [], [1], [2], [3]]
    assert run.greedy == run.labels == [0, 0, 0, 0, 1, 0]
    assert run.correct == [False, True, False, True, True, True]
    assert set(run.probs) == {1.0}
    close(run.weights, [[-2, 0], [2, 0]])
