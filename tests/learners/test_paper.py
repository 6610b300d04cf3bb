"""The transcription in ``paper.py`` against the worked example, whose numbers were made by other code."""

import json
from functools import partial
from itertools import combinations
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from paper import adaptive_delaytron, banditron, delaytron, estimate, perceptron, sample
from paper_learners import (
    all_classes_update,
    dilute,
    exact_pa,
    exp3,
    gap,
    hinge_delaytron,
    ova_logistic,
    pab,
    passive_aggressive,
    rcnbf,
    set_estimate,
    set_probability,
    squarecb,
)
from paper_second_order import confidit, newtron, newtron_gradient, soba, softmax

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


# The transcriptions in ``paper_learners.py`` against runs made by other code, and against what they must satisfy.


TRACED = {
    "rcnbf(rho0=.1,rho1=.2)": partial(rcnbf, gamma=GAMMA, rho0=0.1, rho1=0.2),
    "hinge_da(B=1,R=sqrt2)": partial(hinge_delaytron, gamma=GAMMA, B=1, R=sqrt(2)),
    "soba_full(a=1)": partial(soba, gamma=GAMMA, a=1, matrix="full"),
    "soba_diag(a=1)": partial(soba, gamma=GAMMA, a=1, matrix="diagonal"),
    "pab(C=inf)": partial(pab, gamma=GAMMA, C=inf),
    "pab_I(C=.1)": partial(pab, gamma=GAMMA, C=0.1, variant="I"),
    "newtron_diag(alpha=10,beta=.01,D=1,argmax play)": partial(newtron, gamma=GAMMA, play="argmax"),
    "confidit_full(alpha=1,eta=.1)": partial(confidit, alpha=1, eta=0.1),
    "ova_logit(lr=.5,eps=1)": partial(ova_logistic, gamma=GAMMA, lr=0.5),
}

EVERY = {
    **TRACED,
    "newtron": partial(newtron, gamma=GAMMA),
    "newtron full": partial(newtron, gamma=GAMMA, matrix="full"),
    "confidit diagonal": partial(confidit, alpha=0.5, matrix="diagonal"),
    "pab II": partial(pab, gamma=GAMMA, C=0.1, variant="II"),
    **{
        f"exact_pa {variant} {refute}": partial(exact_pa, gamma=GAMMA, C=0.1, variant=variant, refute=refute)
        for variant in ("PA", "I", "II")
        for refute in ("all", "best", "score")
    },
    "dilute": partial(dilute, gamma=GAMMA),
    "dilute set": partial(dilute, gamma=GAMMA, estimator="set"),
    "exp3": exp3,
    "exp3 constant": partial(exp3, eta=0.3),
    "hinge_delaytron": hinge_delaytron,
    "gap": gap,
    "squarecb": partial(ova_logistic, explore="squarecb"),
    "passive_aggressive": passive_aggressive,
    "passive_aggressive I": partial(passive_aggressive, C=0.1, variant="I"),
}


@pytest.mark.parametrize(("when", "delays"), [("nodelay", [1] * T), ("delays", DELAYS)])
@pytest.mark.parametrize("key", TRACED)
def test_the_reference_run_is_reproduced(key, when, delays):
    run = TRACED[key](X, Y, delays, DRAWS, K)
    assert run.labels == LEARNERS[f"{key}/{when}"]["played"]
    close(run.weights, LEARNERS[f"{key}/{when}"]["W"])


def test_no_reference_run_is_left_out():
    assert {key.split("/")[0] for key in LEARNERS} == {*TRACED, "banditron"}


@pytest.mark.parametrize("name", EVERY)
def test_answers_that_never_come_leave_the_weights_at_zero(name):
    rows, y, _, draws = random_stream(5)
    run = EVERY[name](rows, y, [10**30] * len(y), draws, 4)
    assert not run.weights.any()
    assert run.outstanding == list(range(1, len(y) + 1))


@pytest.mark.parametrize("name", EVERY)
def test_rows_of_zeros_are_played_and_change_no_weights(name):
    rows, y, delays, draws = random_stream(8)
    rows[::3] = 0
    run = EVERY[name](rows, y, delays, draws, 4)
    assert len(run.labels) == len(y)
    assert np.isfinite(run.weights).all()
    assert all(0 < p <= 1 + 1e-12 for p in run.probs)
    if "exp3" not in name:
        assert not EVERY[name](0 * rows, y, delays, draws, 4).weights.any()


@pytest.mark.parametrize("play", [soba, hinge_delaytron, gap])
def test_wrong_answers_change_nothing_in_learners_of_right_ones(play):
    rows, _, delays, draws = random_stream(9)
    assert not play(rows, [99] * len(rows), delays, draws, 4, gamma=0.5).weights.any()


def test_known_rates_of_zero_are_banditron():
    stream = random_stream(10)
    ours, theirs = rcnbf(*stream, 4, gamma=0.2), banditron(*stream, 4, 0.2)
    assert same_play(ours, theirs)
    np.testing.assert_allclose(ours.weights, theirs.weights, atol=1e-9)


@pytest.mark.parametrize("variant", ["PA", "I", "II"])
@pytest.mark.parametrize("refute", ["all", "best"])
def test_with_two_classes_the_bit_is_the_label_and_exact_pa_is_passive_aggressive(variant, refute):
    rows, _, delays, draws = random_stream(11)
    y = np.random.default_rng(11).integers(2, size=len(rows))
    bandit = exact_pa(rows, y, delays, draws, 2, gamma=0.5, C=0.05, variant=variant, refute=refute)
    full = passive_aggressive(rows, y, delays, draws, 2, C=0.05, variant=variant)
    assert bandit.greedy == full.greedy
    close(bandit.weights, full.weights)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize(("variant", "C"), [("PA", inf), ("I", 0.15), ("I", 10.0), ("II", 0.3), ("II", inf)])
def test_exact_pa_is_the_nearest_matrix_that_satisfies_every_constraint(variant, C, right):
    rng = np.random.default_rng(12)
    for _ in range(5):
        W, x, label = rng.normal(size=(4, 3)), rng.normal(size=3), int(rng.integers(4))
        ours = W.copy()
        all_classes_update(ours, x, label, right, C, variant)
        sign, others = (1 if right else -1), [j for j in range(4) if j != label]

        def margins(V, x=x, label=label, sign=sign, others=others):
            return sign * ((V @ x)[label] - (V @ x)[others])

        free = variant != "PA" and np.isfinite(C)

        def penalty(xi, free=free):
            return (C * xi if variant == "I" else C * xi**2) if free else 0.0

        slack = max(0.0, 1 - margins(ours).min()) if free else 0.0
        assert margins(ours).min() >= 1 - slack - 1e-9
        found = minimize(
            lambda v, W=W: np.sum((v[:-1] - W.ravel()) ** 2) / 2 + penalty(v[-1]),
            np.append(W.ravel(), 5.0 if free else 0.0),
            constraints={"type": "ineq", "fun": lambda v, f=margins: f(v[:-1].reshape(4, 3)) - 1 + v[-1]},
            bounds=[(None, None)] * 12 + [(0, None if free else 0)],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        assert np.sum((ours - W) ** 2) / 2 + penalty(slack) <= found.fun + 1e-7
        np.testing.assert_allclose(ours.ravel(), found.x[:-1], atol=1e-4)


@pytest.mark.parametrize(("n_classes", "m"), [(2, 1), (4, 1), (4, 2), (5, 3), (5, 4)])
def test_the_probabilities_of_all_sets_sum_to_one_and_both_estimates_have_the_mean_of_the_label(n_classes, m):
    top, gamma = tuple(range(n_classes - m, n_classes)), 0.3
    subsets = list(combinations(range(n_classes), m))
    chances = [set_probability(S, top, n_classes, gamma) for S in subsets]
    close(sum(chances), 1)
    for estimator in ("set", "inclusion"):
        for y in range(n_classes):
            estimates = [set_estimate(y in S, S, top, n_classes, gamma, estimator) for S in subsets]
            close(np.dot(chances, estimates), np.eye(n_classes)[y])


def test_sets_are_drawn_in_lexicographic_order_after_the_top_set():
    # K = 4, m = 2, gamma = 0.6: W stays zero, the top set is {0, 1}, then six sets of 0.1 each from u = 0.4 on
    draws = [0.0, 0.39, 0.41, 0.51, 0.61, 0.71, 0.81, 0.91, 0.999999]
    run = dilute(np.ones((9, 1)), [3] * 9, [100] * 9, draws, 4, gamma=0.6, m=2)
    assert run.labels == [0, 0, 0, 0, 0, 1, 1, 2, 2]
    assert run.correct == [False] * 4 + [True, False, True, True, True]
    close(run.probs, [0.5, 0.5, 0.5] + [0.1] * 6)


def test_with_sets_of_one_both_estimates_are_the_same():
    stream = random_stream(13)
    a, b = (dilute(*stream, 4, gamma=0.3, m=1, estimator=name) for name in ("set", "inclusion"))
    assert same_play(a, b)
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-9)


def test_exp3_starts_afresh_at_each_epoch_and_with_a_constant_step_never():
    rows, y, _, draws = random_stream(14)
    run = exp3(rows, y, [1] * len(y), draws, 4)  # m_t = 1: epochs begin in rounds 1, 2, 4, 8, ...
    rounds = np.arange(1, len(y) + 1)
    assert run.epochs == [int(t).bit_length() for t in rounds]
    close(np.array(run.etas) ** 2 * 2.0 ** np.array(run.epochs), np.log(4))
    starts = [1, 2, 4, 8, 16, 32, 64]
    assert [run.probs[t - 1] for t in starts] == [0.25] * 7
    assert sum(p == 0.25 for p in run.probs) < 20
    # what is left is the sum over the wrong rounds of the last epoch but for the last round's own answer
    expected = np.zeros(4)
    for t in range(64, len(y)):
        expected[run.labels[t - 1]] -= (1 - run.correct[t - 1]) / run.probs[t - 1]
    np.testing.assert_allclose(run.weights, expected[:, None], rtol=1e-12)
    constant = exp3(rows, y, [1] * len(y), draws, 4, eta=0.2)
    assert set(constant.epochs) == {0}
    assert set(constant.etas) == {0.2}
    assert -constant.weights.sum() > -run.weights.sum()


def test_exp3_ignores_answers_that_cross_an_epoch():
    # m = 1, 2, 2, ..., cum = 1, 3, 5, 7, 9: epochs begin in rounds 1, 2, 3, 5; the answers in 4 and 5 come too late
    rows, y = np.ones((5, 1)), [9] * 5
    assert not exp3(rows, y, [2] * 5, [0.5] * 5, 3).weights.any()
    assert exp3(rows, y, [2] * 5, [0.5] * 5, 3).epochs == [1, 2, 3, 3, 4]


@pytest.mark.parametrize("t", [1, 10, 10**6])
def test_squarecb_sums_to_one_and_favours_the_best(t):
    rng = np.random.default_rng(t)
    for _ in range(20):
        scores = rng.normal(size=5) * 4
        P = squarecb(scores, t, 10.0)
        close(sum(P), 1)
        assert min(P) > 0
        assert (np.argsort(P, kind="stable") == np.argsort(scores, kind="stable")).all()
    close(squarecb(np.zeros(5), t, 10.0), [0.2] * 5)
    close(squarecb(np.array([0.0, -np.log(3)]), t, 7.0)[1], 1 / (2 + 7 * sqrt(t) / 4))


@pytest.mark.parametrize("y", range(3))
def test_the_newtron_estimate_has_the_mean_of_the_gradient(y):
    x, q = np.array([1.0, -2.0]), softmax([0.1, -0.05, 0.2], 10)
    for P in ([0.9 * p + 0.1 / 3 for p in q], [0.1, 0.1, 0.8]):
        mean = sum(P[label] * newtron_gradient(x, label, label == y, q, P[label])[0] for label in range(3))
        close(mean, np.outer(np.array(q) - np.eye(3)[y], x))


def test_the_first_part_of_a_label_in_newtron_is_exploration():
    # W_s is 0 in round 2 if the draw falls into the first gamma / K of its label: another b, hence another W
    rows, width = np.ones((3, 1)), 0.3 / 3

    def play(u):
        return newtron(rows, [0, 0, 0], [1, 1, 1], [0.05, u, 0.5], 3, gamma=0.3, alpha=0.5, beta=1)

    bound = play(0.0).probs[1]
    for label, start in enumerate((0.0, bound)):
        early, late = [play(start + u) for u in (0.001, 0.99 * width)], [play(start + u) for u in (1.01 * width, 0.15)]
        assert {run.labels[1] for run in early + late} == {label}
        assert (early[0].weights == early[1].weights).all()
        assert (late[0].weights == late[1].weights).all()
        assert abs(early[0].weights - late[0].weights).max() > 1e-6


@pytest.mark.parametrize("matrix", ["diagonal", "full"])
def test_the_first_step_of_newtron(matrix):
    run = newtron(np.array([[2.0], [1.0]]), [0, 0], [1, 1], [0.0, 0.0], 3, 0.3, 10, 0.01, 0.5, matrix, "argmax")
    g = -(2 / 3) / 0.8 * np.array([2 / 3, -1 / 3, -1 / 3]) * 2
    growth = 0.01 * 0.8 * (g @ g if matrix == "full" else g * g)
    close(run.weights[:, 0], -g / (1 / 0.5 + growth))


@pytest.mark.parametrize("seed", range(3))
def test_soba_on_the_line_with_two_classes_is_a_recursion_of_numbers(seed):
    # W = (w, -w), and of A only its value along (1, -1) matters
    rng = np.random.default_rng(seed)
    x, y, draws = rng.normal(size=200), rng.integers(2, size=200), rng.random(200)
    y = np.where(rng.random(200) < 0.8, x > 0, y)
    run = soba(x[:, None], y, [1] * 200, draws, 2, gamma=0.4, a=0.5, matrix="full")
    A, theta, w, credit, used = 0.5, 0.0, 0.0, 0.0, 0
    for t in range(199):
        assert run.greedy[t] == (w * x[t] < 0)
        if run.correct[t]:
            towards = x[t] if run.labels[t] == 0 else -x[t]
            p, delta = run.probs[t], -2 * w * towards
            m = (delta**2 + 2 * delta) / p / (1 + 2 * towards**2 / p / A)
            if credit + m >= 0:
                credit, A, theta, used = credit + m, A + 2 * towards**2 / p, theta + towards / p, used + 1
                w = theta / A
    assert 1 < used < sum(run.correct) - 1
    close(run.weights, [[w], [-w]])


def test_on_unit_vectors_confidit_needs_no_more_than_the_diagonal():
    _, y, delays, draws = random_stream(15)
    rows = np.eye(5)[np.random.default_rng(15).integers(5, size=len(y))]
    a, b = (confidit(rows, y, delays, draws, 4, alpha=0.2, matrix=name) for name in ("full", "diagonal"))
    assert same_play(a, b)
    close(a.weights, b.weights)


def test_the_sign_of_a_wrong_answer_in_confidit_is_the_draw():
    rows, y = np.ones((2, 1)), [9, 9]
    signs = [np.sign(confidit(rows, y, [1, 1], [u, 0.0], 2, alpha=0.5).weights[0, 0]) for u in (0.0, 0.74, 0.76)]
    assert signs == [-1, -1, 1]


def test_the_bound_of_confidit_is_the_root_of_eta_times_the_quadratic_form():
    # after one right answer w = 1/5 and A = 5 for class 0, A = 4 for class 1: equal bounds at eta = 14.36
    labels = [confidit(np.ones((2, 1)), [0, 0], [1, 1], [0, 0], 2, eta=eta).labels for eta in (14.3, 14.4)]
    assert labels == [[0, 0], [0, 1]]


def test_the_step_of_pab_by_variant():
    def weight(x, **settings):
        return pab(np.array([[x], [x]]), [0, 0], [1, 1], [0, 0], 2, **settings).weights[0, 0]

    close([weight(2.0), weight(2.0, C=0.1, variant="I"), weight(2.0, C=9.0, variant="I")], [0.5, 0.2, 0.5])
    close([weight(2.0, C=0.1, variant="II"), weight(2.0, variant="II")], [2 / 9, 0.5])


def test_the_hinge_of_the_round_played_decides_whether_its_answer_counts():
    rows, y, p = np.ones((6, 1)), [0] * 6, 0.75
    for delay, counted in ((1, 1), (2, 2), (3, 3)):  # as many rounds are played before the margin is over 1
        run = hinge_delaytron(rows, y, [delay] * 6, [0.0] * 6, 2, gamma=0.5, eta=1.0)
        close(run.weights, [[counted / p], [-counted / p]])


def test_the_anytime_step_counts_rounds_and_outstanding_answers():
    run = hinge_delaytron(X, Y, DELAYS, DRAWS, K, gamma=GAMMA, B=2)
    waiting = np.cumsum([m - 1 for m in run.outstanding])
    longest = np.maximum.accumulate(np.linalg.norm(X, axis=1))
    close(run.etas, 2 / (2 * longest * np.sqrt(10 * np.arange(1, T + 1) + 2 * waiting)))
    assert set(hinge_delaytron(X, Y, DELAYS, DRAWS, K, eta=0.3).etas) == {0.3}


@pytest.mark.parametrize(("when", "delays"), [("nodelay", [1] * T), ("delays", DELAYS)])
def test_the_running_maximum_of_the_norms_gives_the_reference_run_of_the_hinge(when, delays):
    run = hinge_delaytron(X, Y, delays, DRAWS, K, gamma=GAMMA)
    assert run.labels == LEARNERS[f"hinge_da(B=1,R=sqrt2)/{when}"]["played"]
    close(run.weights, LEARNERS[f"hinge_da(B=1,R=sqrt2)/{when}"]["W"])


def test_gap_explores_fully_without_a_margin_and_at_rate_gamma_with_a_wide_one():
    rows, y = np.ones((12, 1)), [0] * 12
    run = gap(rows, y, [1] * 12, [0.0] * 12, 3, gamma=0.1, eta=0.2)
    close(run.probs[0], 1 / 3)  # margin 0, gamma_1 = 1
    # round 2: c = 2, W = (1.2, -1.2, 0): margin 1.2, so gamma is left, and c = 0 from then on
    close(run.probs[1:], [1 - 0.1 + 0.1 / 3] * 11)
    close(run.weights, [[1.2], [-1.2], [0]])


def test_gap_between_the_two():
    play = partial(gap, np.ones((3, 1)), delays=[1] * 3, n_classes=3, gamma=0.1, eta=0.05)
    run = play(y=[0] * 3, draws=[0.0] * 3)
    # round 2: W = (.3, -.3, 0), margin .3, gamma .49, c = 1.4, and the rival is class 2
    p = 0.51 + 0.49 / 3
    close(run.probs[1], p)
    close(run.weights, [[0.3 + 0.07 / p], [-0.3], [-0.07 / p]])
    # a label that was not the greedy one has c = 2, and its rival is the greedy one
    explored = play(y=[0, 1, 9], draws=[0.0, 0.7, 0.0])
    assert explored.labels[1] == 1
    close(explored.weights, [[0.3 - 0.1 * 3 / 0.49], [-0.3 + 0.1 * 3 / 0.49], [0]])
