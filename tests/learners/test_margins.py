"""The learners that look at margins: constraints, optimality and expectations, without random draws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import delaytron as dt
from delaytron.records import Play, Row
from streams import choose, learn

K, D = 4, 3


def set_weights(learner, W):
    learner.state.W[:] = W


def updated(learner, W, x, label, correct, **noted):
    """Return the weights after one answer, starting from W."""
    set_weights(learner, W)
    past = Play(1, Row(None, x), noted.get("greedy", 0), label, noted.get("prob", 1.0), noted.get("extra", np.empty(0)))
    learn(learner, past, int(correct))
    return learner.weights_of(learner.state)


def problems(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(K, D)) * rng.choice([0.1, 1.0]), rng.normal(size=D), int(rng.integers(K))


def margins(W, x, label, sign):
    scores = W @ x
    return np.delete(sign * (scores[label] - scores), label)


def quadratic_program(W, x, label, sign, C, variant):
    """Solve min 1/2 |V|^2 + penalty(xi) such that all margins of W + V are at least 1 - xi, by a general solver."""
    linear, square = {"PA": (0.0, 1.0), "I": (C, 0.0), "II": (0.0, C)}[variant]
    others = np.delete(np.arange(K), label)
    grow = np.array([sign * np.outer(np.eye(K)[label] - np.eye(K)[j], x).ravel() for j in others])
    grow = np.column_stack([grow, np.full(K - 1, 0.0 if variant == "PA" else 1.0)])
    short = 1.0 - margins(W, x, label, sign)
    solved = minimize(
        lambda z: 0.5 * z[:-1] @ z[:-1] + linear * z[-1] + square * z[-1] ** 2,
        np.zeros(K * D + 1),
        jac=lambda z: np.append(z[:-1], linear + 2 * square * z[-1]),
        constraints=[{"type": "ineq", "fun": lambda z: grow @ z - short, "jac": lambda z: grow}],
        bounds=[(None, None)] * (K * D) + [(0, None)],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert solved.success, solved.message
    return W + solved.x[:-1].reshape(K, D)


@pytest.mark.parametrize(("variant", "C"), [("PA", np.inf), ("I", 0.05), ("I", 5.0), ("II", 0.5)])
@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_exact_pa_is_what_a_quadratic_program_gives(variant, C, correct, seed):
    W, x, label = problems(seed)
    ours = updated(dt.ExactPa(K, D, C=C, variant=variant), W, x, label, correct)
    theirs = quadratic_program(W, x, label, 1.0 if correct else -1.0, C, variant)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def multipliers(W, V, x, label, sign):
    """Read tau off the move: W_j moves by -sign tau_j x."""
    moved = -sign * (V - W) @ x / (x @ x)
    np.testing.assert_allclose((V - W), -sign * np.outer(moved, x), atol=1e-9)  # all moves are along x
    return np.delete(moved, label), -moved[label]


@given(seed=st.integers(0, 10**6), correct=st.booleans())
def test_exact_pa_meets_its_constraints_and_the_optimality_conditions(seed, correct):
    (W, x, label), sign = problems(seed), 1.0 if correct else -1.0
    V = updated(dt.ExactPa(K, D), W, x, label, correct)
    tau, total = multipliers(W, V, x, label, sign)
    slack = margins(V, x, label, sign) - 1.0
    assert (slack > -1e-9).all()  # primal feasible
    assert (tau > -1e-9).all()  # dual feasible
    np.testing.assert_allclose(tau.sum(), total, atol=1e-9)  # stationary
    np.testing.assert_allclose(tau * slack, 0.0, atol=1e-9)  # complementary, so the duality gap is 0


@given(seed=st.integers(0, 10**6), correct=st.booleans(), C=st.sampled_from([0.01, 0.1, 1.0]))
def test_exact_pa_one_spends_at_most_c_and_all_of_it_while_a_loss_is_left(seed, correct, C):
    (W, x, label), sign = problems(seed), 1.0 if correct else -1.0
    V = updated(dt.ExactPa(K, D, C=C, variant="I"), W, x, label, correct)
    tau, total = multipliers(W, V, x, label, sign)
    assert (tau > -1e-9).all()
    assert total <= C + 1e-9
    left = (1.0 - margins(V, x, label, sign)).max()
    assert left <= 1e-9 or total == pytest.approx(C, abs=1e-9)
    losses = 1.0 - margins(V, x, label, sign)
    np.testing.assert_allclose(tau[losses < left - 1e-9], 0.0, atol=1e-9)  # only the largest losses are paid for


def test_an_empty_row_changes_no_margin_learner():
    for learner in (dt.Pab(K, D), dt.ExactPa(K, D), dt.ExactPa(K, D, refute="best"), dt.ExactPa(K, D, refute="score")):
        W, _, label = problems(0)
        for correct in (True, False):
            assert np.array_equal(updated(learner, W, np.zeros(D), label, correct), W)


@given(seed=st.integers(0, 10**6), correct=st.booleans())
def test_pab_repairs_the_score_of_the_played_label_and_nothing_else(seed, correct):
    W, x, label = problems(seed)
    V = updated(dt.Pab(K, D), W, x, label, correct)
    sign = 1.0 if correct else -1.0
    assert sign * (V[label] @ x) >= 1.0 - 1e-9
    assert sign * (W[label] @ x) >= 1.0 or sign * (V[label] @ x) == pytest.approx(1.0)
    assert np.array_equal(np.delete(V, label, axis=0), np.delete(W, label, axis=0))


def play_all_labels(learner, W, x, y):
    """Yield (probability, decision's notes, weights after the answer) for every label that may be played."""
    cumulative, u = 0.0, 0.0
    for label in range(K):
        set_weights(learner, W)
        extra = np.empty(len(learner.rule.extras))
        greedy, played, prob = choose(learner, Row(None, x), u, extra)
        assert played == label
        cumulative += prob
        u = min(cumulative + 1e-12, 1.0 - 1e-12)
        after = updated(learner, W, x, label, label == y, greedy=greedy, prob=prob, extra=extra)
        yield prob, greedy, after
    assert cumulative == pytest.approx(1.0)


def subgradient_of_the_hinge(W, x, y):
    scores = W @ x
    rival = int(np.argmax(np.where(np.arange(K) == y, -np.inf, scores)))
    active = 1.0 - scores[y] + scores[rival] > 0
    return active * np.outer(np.eye(K)[rival] - np.eye(K)[y], x)


@pytest.mark.parametrize("seed", range(20))
def test_the_update_of_hinge_delaytron_is_minus_a_subgradient_of_the_hinge_in_expectation(seed):
    W, x, y = problems(seed)
    learner = dt.HingeDelaytron(K, D, gamma=0.3, eta=1.0)
    mean = sum(prob * (after - W) for prob, _, after in play_all_labels(learner, W, x, y))
    np.testing.assert_allclose(mean, -subgradient_of_the_hinge(W, x, y), atol=1e-9)


def gradient_of_the_gap_loss(W, x, y):
    """Differentiate the loss of section 10.9 by hand: 1 - 2m where the greedy label is wrong, (1 - m)^2 where right."""
    scores = W @ x
    rival = int(np.argmax(np.where(np.arange(K) == y, -np.inf, scores)))
    m = scores[y] - scores[rival]
    slope = 2.0 if int(np.argmax(scores)) != y else 2.0 * max(0.0, 1.0 - m)
    return slope * np.outer(np.eye(K)[rival] - np.eye(K)[y], x)


@pytest.mark.parametrize("seed", range(20))
def test_the_update_of_gap_is_minus_eta_times_the_gradient_in_expectation(seed):
    W, x, y = problems(seed)
    learner = dt.Gap(K, D, gamma=0.01, eta=0.5)
    mean = sum(prob * (after - W) for prob, _, after in play_all_labels(learner, W, x, y))
    np.testing.assert_allclose(mean, -0.5 * gradient_of_the_gap_loss(W, x, y), atol=1e-9)


@given(seed=st.integers(0, 10**6))
def test_gap_explores_as_much_as_the_margin_is_short_of_one(seed):
    W, x, _ = problems(seed)
    learner = dt.Gap(K, D, gamma=0.01)
    set_weights(learner, W)
    best, second = np.sort(W @ x)[:-3:-1]
    rate = max(0.01, max(0.0, 1.0 - (best - second)) ** 2)
    greedy, label, prob = choose(learner, Row(None, x))
    assert prob == pytest.approx((1 - rate) * (label == greedy) + rate / K)


def test_hinge_delaytron_needs_no_radius_it_takes_the_longest_row_so_far():
    learner = dt.HingeDelaytron(3, 2, gamma=0.3, B=2.0, seed=0)
    for length in (1.0, 5.0, 2.0):
        learner.decide([length, 0.0])
    beta = 3 * 3 / 0.3 + 2 * (0 + 1 + 2)
    learner.state.W[:] = 1.0
    np.testing.assert_allclose(learner.weights, 2.0 / (2 * 5.0 * np.sqrt(beta)), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dt.Pab(3, 2, C=0), "C must be above 0"),
        (lambda: dt.Pab(3, 2, C=float("nan")), "C must be a finite number"),
        (lambda: dt.Pab(3, 2, variant="III"), "variant must be one of PA, I, II"),
        (lambda: dt.ExactPa(3, 2, refute="every"), "refute must be one of all, best, score"),
        (lambda: dt.ExactPa("3", 2), "n_classes must be an integer"),
        (lambda: dt.HingeDelaytron("3", 2), "n_classes must be an integer"),
        (lambda: dt.HingeDelaytron(3, 2, B=-1), "B must be above 0"),
        (lambda: dt.Gap(3, 2, eta=0), "eta must be above 0"),
        (lambda: dt.OvaLogistic(3, 2, explore="greedy"), "explore must be one of epsilon, squarecb"),
        (lambda: dt.PassiveAggressive(3, 2, variant="1"), "variant must be one of"),
    ],
)
def test_bad_parameters_get_one_clear_line(make, message):
    with pytest.raises(dt.InvalidInput, match=message):
        make()
