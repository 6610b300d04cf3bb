"""SOBA, Newtron and Confidit: inverses against `solve`, expectations by enumeration, corrections, and memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from test_paper import DELAYS, DRAWS, GAMMA, LEARNERS, K, T, X, Y

import delaytron as dt
from delaytron.kernels.second_order import LATE, REFRESH
from delaytron.learners.arguments import as_row
from delaytron.learners.second_order import Confidit, Newtron, Soba, check_full_matrix
from delaytron.records import Play
from paper_second_order import softmax
from streams import choose, correct_late, learn, make, play_online, same_bits, stories

FORMS = ["diagonal", "full"]
CLASSES = [Soba, Newtron, Confidit]
every_form = pytest.mark.parametrize("form", FORMS)
every_layout = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])


def settled(learner, sparse):
    learner._reset_state(sparse)
    return learner


def plays(learner, count, seed=0):
    """Rounds that this learner might have played, with a rival (SOBA), q and a lead (Newtron) or a sign (Confidit)."""
    rng, K, d = np.random.default_rng(seed), learner.n_classes, learner.n_features
    teacher = rng.normal(size=(K, d))
    for s in range(1, count + 1):
        x = rng.normal(size=d) * (rng.random(d) < 0.7)
        label, rival = (int(k) for k in rng.permutation(K)[:2])
        if rng.random() < 0.8:
            rival, label = (int(k) for k in np.argsort(teacher @ x)[-2:])
        extra = {Soba: [float(rival)], Newtron: [rng.random(), rng.normal()], Confidit: [rng.choice([-1.0, 1.0])]}
        row = as_row(csr_array(x[None]) if learner.sparse else x, d, learner.sparse)
        yield Play(s, row, rival, label, rng.uniform(0.1, 1.0), np.array(extra[type(learner)])), x


def direction(learner, past, x):
    """The vector e_rival - e_label or e_label - 1/K, times x, over all weights, as SOBA or Newtron steps along it."""
    e = np.eye(learner.n_classes)
    h = e[int(past.extra[0])] - e[past.label] if isinstance(learner, Soba) else e[past.label] - 1 / learner.n_classes
    return np.outer(h, x).ravel()


def deviation(a, b):
    return abs(a - b).max()


def inverse_of(state):
    """A^-1, the steps that B lags behind included."""
    last = state.steps[0] % LATE
    return state.B - (state.late[:last].T * state.signs[:last]) @ state.late[:last]


@every_layout
def test_full_soba_follows_the_explicit_matrix_through_thousands_of_updates(sparse):
    learner = settled(Soba(3, 4, a=0.5, matrix="full"), sparse)
    A, theta, credit, taken, refused, worst = 0.5 * np.eye(12), np.zeros(12), 0.0, 0, 0, 0.0
    for past, x in plays(learner, 6000):
        h, W = direction(learner, past, x), learner.weights.ravel()
        g, z = h / past.prob, h / np.sqrt(past.prob)
        m = ((W @ z) ** 2 + 2 * W @ g) / (1 + z @ np.linalg.solve(A, z))
        learn(learner, past, True)
        if credit + m >= 0:
            A, theta, credit, taken = A + np.outer(z, z), theta - g, credit + m, taken + 1
        else:
            refused += 1
        assert learner.state.steps[0] == taken
        assert abs(learner.state.credit[0] - credit) <= 1e-9 * max(1, credit)
        worst = max(worst, deviation(learner.weights.ravel(), np.linalg.solve(A, theta)))
    assert worst < 1e-9
    assert_allclose(inverse_of(learner.state), np.linalg.inv(A), rtol=0, atol=1e-9)
    assert same_bits(learner.state.B, np.ascontiguousarray(learner.state.B.T))
    assert taken > 2 * REFRESH
    assert refused > 100


@every_layout
def test_full_newtron_follows_the_explicit_matrix_through_thousands_of_updates_and_revisions(sparse):
    learner = settled(Newtron(3, 4, beta=0.3, diameter=2.0, matrix="full"), sparse)
    A, b, worst = np.eye(12) / 2, np.zeros(12), 0.0

    def part(past, x, correct):
        c, kappa = (past.extra[0] - correct) / past.prob, past.prob if correct else 1.0
        g = c * direction(learner, past, x)
        return 0.3 * kappa * np.outer(g, g), (1 - kappa * 0.3 * c * past.extra[1]) * g

    for i, (past, x) in enumerate(plays(learner, 2 * REFRESH + 100)):
        correct = i % 2 == 0
        learn(learner, past, correct)
        A, b = A + part(past, x, correct)[0], b + part(past, x, correct)[1]
        if i % 10 == 1:  # it was right after all
            correct_late(learner, past)
            right, wrong = part(past, x, True), part(past, x, False)
            A, b = A + right[0] - wrong[0], b + right[1] - wrong[1]
        worst = max(worst, deviation(learner.weights.ravel(), -np.linalg.solve(A, b)))
    assert worst < 1e-9
    assert_allclose(inverse_of(learner.state), np.linalg.inv(A), rtol=0, atol=1e-9)


@every_layout
def test_full_confidit_follows_the_explicit_matrices_through_thousands_of_updates(sparse):
    learner = settled(Confidit(3, 4, alpha=0.5), sparse)
    A, b, worst = np.stack([2.25 * np.eye(4)] * 3), np.zeros((3, 4)), 0.0
    for i, (past, x) in enumerate(plays(learner, 4000)):
        correct = i % 3 == 0
        learn(learner, past, correct)
        A[past.label] += np.outer(x, x)
        b[past.label] += (1 if correct else past.extra[0]) * x
        worst = max(worst, deviation(learner.weights[past.label], np.linalg.solve(A[past.label], b[past.label])))
    assert worst < 1e-9
    assert_allclose(learner.state.B, np.linalg.inv(A), rtol=0, atol=1e-9)
    assert same_bits(learner.state.B, np.ascontiguousarray(learner.state.B.transpose(0, 2, 1)))


@every_layout
def test_one_step_in_closed_form_is_a_solve_from_any_matrix(sparse):
    rng, learner = np.random.default_rng(1), settled(Soba(3, 4, matrix="full"), sparse)
    for past, x in plays(learner, 20, seed=2):
        root, theta = rng.normal(size=(12, 12)), rng.normal(size=12)
        A = root @ root.T + np.eye(12)
        learner._reset_state(sparse)
        learner.state.B[:], learner.state.theta[:] = np.linalg.inv(A), theta
        W = np.linalg.solve(A, theta).reshape(3, 4)
        held = learner.state.W[:, :3] if sparse else learner.state.W
        held[:] = W.T if sparse else W
        learner.state.credit[0] = 1e9  # every answer is taken in
        learn(learner, past, True)
        h = direction(learner, past, x)
        after = np.linalg.solve(A + np.outer(h, h) / past.prob, theta - h / past.prob)
        assert_allclose(learner.weights.ravel(), after, rtol=0, atol=1e-9)
        assert deviation(after, W.ravel()) > 1e-3 or not x.any()


@every_layout
@pytest.mark.parametrize(("steps", "repaired"), [(REFRESH - 2, False), (REFRESH - 1, True), (3 * REFRESH - 1, True)])
def test_rounding_errors_of_the_weights_are_gone_after_every_thousandth_step(sparse, steps, repaired):
    drifted, exact = (settled(Soba(3, 4, matrix="full"), sparse) for _ in range(2))
    past, _ = next(plays(exact, 1))
    learn(exact, past, True)
    drifted.state.steps[0] = steps
    drifted.state.W[:4, :3] += 1e-3
    learn(drifted, past, True)
    assert np.allclose(drifted.weights, exact.weights, rtol=0, atol=1e-12) == repaired


@every_form
@given(story=stories(max_rounds=40))
def test_the_running_sum_of_soba_never_falls_below_zero(form, story):
    def check(learner, _t):
        learner.flush()
        assert learner.state.credit[0] >= 0
        return learner

    play_online(make(Soba, story, gamma=0.5, matrix=form), story, between=check)


@every_form
@every_layout
def test_soba_refuses_right_answers_that_would_make_the_sum_negative(form, sparse):
    learner = settled(Soba(3, 4, matrix=form), sparse)
    row = as_row(csr_array([[0, 1.0, 0, 0]]), 4, sparse)
    past = next(plays(learner, 1))[0]._replace(x=row)
    learn(learner, past, True)
    assert learner.state.credit[0] == 0  # from W = 0
    before = learner.weights
    learn(learner, past, True)  # the label leads now: -2 < delta < 0, so m < 0
    assert same_bits(learner.weights, before)
    assert before.any()


def mean_step(learner, x, y, prob=lambda past: past.prob):
    """The expected change of b by a round with row x and true label y, over all that its draw may decide."""
    row, K, gamma = as_row(x, learner.n_features, learner.sparse), learner.n_classes, learner.gamma
    W, before = learner.weights, theta_of(learner)
    q = np.array(softmax(W @ x, learner.alpha))
    P = (1 - gamma) * (np.eye(K)[np.argmax(W @ x)] if learner.play == "argmax" else q) + gamma / K
    starts, mean, state = np.cumsum(P) - P, 0.0, learner.state
    for k in range(K):
        parts = [(0.0, P[k])] if learner.play == "argmax" else [(0.0, gamma / K), (gamma / K, P[k])]
        for low, high in parts:  # exploration, then the rest
            extra, u = np.empty(len(learner.rule.extras)), starts[k] + (low + high) / 2
            greedy, label, p = choose(learner, row, u, extra)
            assert label == k
            assert p == pytest.approx(P[k], rel=1e-12)
            past = Play(1, row, greedy, label, p, extra)
            twin = settled(Newtron(**learner.settings()), learner.sparse)
            for mine, theirs in zip(twin.state, state, strict=True):
                mine[:] = theirs
            learn(twin, past._replace(prob=prob(past)), k == y)
            mean -= (high - low) * (theta_of(twin) - before)
    return mean.reshape(K, -1), np.outer(q - np.eye(K)[y], x)


def theta_of(learner):
    """-b = A W."""
    if learner.matrix == "full":
        return learner.state.theta.copy()
    inverse = learner.state.inverse
    return learner.weights.ravel() / (inverse[:, : learner.n_classes].T if learner.sparse else inverse).ravel()


def taught_newtron(form, play, sparse):
    learner = settled(Newtron(4, 3, gamma=0.3, alpha=1.5, beta=1e-13, matrix=form, play=play), sparse)
    for past, _ in plays(learner, 3):
        learn(learner, past._replace(prob=1.0), True)
    return learner


@every_form
@every_layout
@pytest.mark.parametrize("play", ["sample", "argmax"])
def test_the_newtron_estimate_has_the_mean_of_the_gradient(form, play, sparse):
    learner, x = taught_newtron(form, play, sparse), np.array([0.5, -1.0, 0.7])
    for y in range(4):
        mean, gradient = mean_step(learner, x, y)
        assert_allclose(mean, gradient, rtol=0, atol=1e-9)
        assert abs(gradient).min() > 1e-3


@every_form
def test_with_the_softmax_mixture_for_a_greedy_play_the_newtron_estimate_is_biased(form):
    learner, x = taught_newtron(form, "argmax", sparse=False), np.array([0.5, -1.0, 0.7])
    mean, gradient = mean_step(learner, x, 1, prob=lambda past: 0.7 * past.extra[0] + 0.3 / 4)
    assert abs(mean - gradient).max() > 0.05


@every_form
def test_what_newtron_explores_counts_as_played_by_zero_weights(form):
    learner = taught_newtron(form, "sample", sparse=False)
    row, W = as_row([0.5, -1.0, 0.7], 3, False), learner.weights
    for u, explored in ((0.0, True), (0.0749, True), (0.0751, False)):  # gamma / K = 0.075
        extra = np.empty(2)
        _, label, _ = choose(learner, row, u, extra)
        scores = W @ row.values
        assert label == 0
        assert extra[1] == (0 if explored else pytest.approx(scores[0] - scores.mean(), rel=1e-12))


@every_form
@every_layout
@pytest.mark.parametrize("cls", CLASSES)
def test_expired_as_wrong_and_then_right_is_right_at_once(cls, form, sparse):
    late, prompt = (settled(cls(3, 4, matrix=form), sparse) for _ in range(2))
    for i, (past, _) in enumerate(plays(late, 30)):
        if i % 3:  # what lies between
            for learner in (late, prompt):
                learn(learner, past, i % 2)
        else:
            learn(late, past, False)
            between = late.weights
            learn(prompt, past, True)
            correct_late(late, past)
            if cls is not Soba and past.extra[0] != 1:  # a sign of +1: it counted as right already
                assert abs(late.weights - between).max() > 1e-3
    assert_allclose(late.weights, prompt.weights, rtol=0, atol=1e-12)
    assert prompt.weights.any()


@every_layout
@pytest.mark.parametrize("cls", [Newtron, Confidit])
def test_a_correction_is_exact_also_after_other_answers(cls, sparse):
    """The sums do not depend on the order."""
    for form in FORMS:
        late, prompt = (settled(cls(3, 4, matrix=form), sparse) for _ in range(2))
        expired = [past for past, _ in plays(late, 8, seed=1)]
        for learner in (late, prompt):
            for past in expired:
                learn(learner, past, learner is prompt)
            for past, _ in plays(late, 20, seed=2):
                learn(learner, past, past.label == 1)
        for past in expired:
            correct_late(late, past)
        assert_allclose(late.weights, prompt.weights, rtol=0, atol=1e-12)


@every_form
@pytest.mark.parametrize("scale", [1e5, 1e9, 1e12])
def test_undoing_a_step_that_dwarfs_all_others_leaves_moderate_weights(form, scale):
    for seed in range(6):
        learner = settled(Newtron(3, 4, matrix=form), sparse=False)
        (past, x), *others = plays(learner, 10, seed)
        huge = past._replace(x=past.x._replace(values=scale * x), extra=np.array([1.0, 0.0]))
        learn(learner, huge, False)
        correct_late(learner, huge)
        for other, _ in others:
            learn(learner, other, True)
        assert all(np.isfinite(field).all() for field in learner.state)
        assert abs(learner.weights).max() < 100


@every_layout
def test_classes_that_newtron_never_played_have_equal_weights_to_the_bit(sparse):
    """So that a tie between them is a tie, and not up to rounding."""
    learner = settled(Newtron(6, 4, matrix="full", beta=1.0), sparse)
    for i, (past, _) in enumerate(plays(learner, REFRESH + 10)):
        learn(learner, past._replace(label=(1, 4)[i % 2]), i % 3 == 0)
        if i % 50 == 0 or i >= REFRESH - 2:
            weights = learner.weights
            assert all(same_bits(weights[k], weights[0]) for k in (2, 3, 5))
    assert abs(weights[0] - weights[1]).max() > 1e-3


@every_form
@pytest.mark.parametrize("cls", CLASSES)
def test_only_a_full_matrix_moves_weights_beyond_the_features_of_the_row(cls, form):
    learner = settled(cls(3, 6, matrix=form), sparse=True)
    for past, _ in plays(learner, 20):
        learn(learner, past, True)
    past, _ = next(plays(learner, 1, seed=3))
    row = as_row(csr_array([[0.0, 1.0, 0.0, 2.0, 0.0, 0.0]]), 6, True)
    before = learner.weights
    if cls is Soba:
        learner.state.credit[0] = 1e9
    learn(learner, past._replace(x=row), True)
    moved = np.flatnonzero((learner.weights != before).any(axis=0))
    assert moved.tolist() == ([1, 3] if form == "diagonal" else [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(("cls", "needs"), [(Soba, "119 GiB"), (Newtron, "119 GiB"), (Confidit, "29.8 GiB")])
def test_a_matrix_too_large_for_the_memory_is_refused_before_any_is_taken(cls, needs):
    tracemalloc.start()
    try:
        with pytest.raises(dt.InvalidInput) as refusal:
            cls(4, 31_623, matrix="full")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert str(refusal.value) == f"matrix='full' needs {needs}, the limit is 2 GiB; use matrix='diagonal'"
    assert cls(4, 31_623, matrix="diagonal").weights.shape == (4, 31_623)


def test_the_limit_itself_is_allowed():
    check_full_matrix(4, 2**12, per_class=False)
    check_full_matrix(4, 2**13, per_class=True)
    for n, per_class in ((2**12 + 1, False), (2**13 + 1, True)):
        with pytest.raises(dt.InvalidInput):
            check_full_matrix(4, n, per_class=per_class)


def test_full_soba_runs_at_the_size_of_synsep_and_works_on_one_matrix_in_place():
    data = dt.datasets.load("synsep", n_samples=10)
    learner = Soba(data.n_classes, data.n_features, matrix="full", seed=0)
    learner.decide(data.X[[0]])
    place = learner.state.B.ctypes.data
    learner.state.credit[0] = 1e9  # every right answer is taken in
    for i in range(10):
        learner.feedback(learner.decide(data.X[[i]]).id, correct=True)
    learner.flush()
    assert learner.state.steps[0] == 10
    assert learner.state.B.ctypes.data == place
    assert learner.state.B.shape == (3600, 3600)


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (Soba, {"a": 0.0}, "a must be above 0"),
        (Soba, {"matrix": "diag"}, "did you mean diagonal"),
        (Newtron, {"alpha": -1.0}, "alpha must be above 0"),
        (Newtron, {"beta": 0.0}, "beta must be above 0"),
        (Newtron, {"diameter": 0.0}, "diameter must be above 0"),
        (Newtron, {"play": "greedy"}, "play must be one of sample, argmax"),
        (Confidit, {"alpha": -1.0}, r"alpha must be in \(-1, 1\]"),
        (Confidit, {"alpha": 1.5}, r"alpha must be in \(-1, 1\]"),
        (Confidit, {"eta": 0.0}, "eta must be above 0"),
        (Confidit, {"n_classes": 1}, "n_classes must be an integer of at least 2"),
        (Soba, {"n_features": "many", "matrix": "full"}, "n_features must be an integer"),
    ],
)
def test_parameters_out_of_range_are_refused(cls, settings, message):
    with pytest.raises(dt.InvalidInput, match=message):
        cls(**{"n_classes": 3, "n_features": 2} | settings)


@given(alpha=st.floats(-0.9, 1.0), u=st.floats(0, 1, exclude_max=True))
def test_the_draw_of_a_round_decides_the_sign_of_a_wrong_answer_in_confidit(alpha, u):
    learner, extra = Confidit(2, 1, alpha=alpha), np.empty(1)
    row = as_row([1.0], 1, False)
    assert choose(learner, row, u, extra) == (0, 0, 1.0)
    assert extra[0] == (-1 if u < (1 + alpha) / 2 else 1)


TRACED = {
    "soba_full(a=1)": Soba(K, 2, gamma=GAMMA, matrix="full"),
    "soba_diag(a=1)": Soba(K, 2, gamma=GAMMA),
    "newtron_diag(alpha=10,beta=.01,D=1,argmax play)": Newtron(K, 2, gamma=GAMMA, play="argmax"),
    "confidit_full(alpha=1,eta=.1)": Confidit(K, 2),
}


@every_layout
@pytest.mark.parametrize(("when", "delays"), [("nodelay", [1] * T), ("delays", DELAYS)])
@pytest.mark.parametrize("key", TRACED)
def test_the_reference_run_is_reproduced(key, when, delays, sparse):
    run = dt.replay(TRACED[key], csr_array(X) if sparse else X, Y, delays, DRAWS)
    assert run.labels.tolist() == LEARNERS[f"{key}/{when}"]["played"]
    assert_allclose(run.weights, LEARNERS[f"{key}/{when}"]["W"], rtol=0, atol=1e-12)
