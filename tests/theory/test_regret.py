"""Regret: losses of the compiled loop are those of the weights that predict; comparators have the least losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import delaytron as dt
from delaytron import theory
from delaytron.rng import stream

LINEAR = [name for name, cls in dt.LEARNERS.items() if cls.rule.is_linear]


def small(seed=0, n=40, K=3, d=4, noise=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K))).argmax(axis=1)
    y[:noise] = (y[:noise] + 1) % K
    return dt.datasets.as_dataset((X, y))


def hinge(W, x, y):
    scores = W @ x
    return max(0.0, 1 - scores[y] + max(scores[j] for j in range(len(scores)) if j != y))


def losses_by_hand(learner, data, rows, delays, draws):
    """Replay the rounds up to each one: what was learned then are the weights with which it predicts."""
    total = np.zeros(2)
    for t in range(len(rows)):
        X, y = data.X[rows[: t + 1]], data.y[rows[: t + 1]]
        run = dt.replay(learner, X, y, delays[: t + 1], draws[: t + 1])
        loss = hinge(run.weights, X[t], y[t])
        total += loss, loss * (run.greedy[t] != y[t])
    return total


def scenario(data, T, D, seed):
    rng = [stream(seed, word) for word in ("rows", "delays", "exploration")]
    rows = rng[0].integers(data.n_rows, size=T, dtype=np.uint32)
    return rows, dt.delays.Uniform(D).sample(T, rng[1]), rng[2].random(T)


@pytest.mark.parametrize("name", LINEAR)
def test_losses_are_those_of_the_weights_that_predict(name):
    data, T = small(), 60
    result = dt.simulate(name, data, delay=5, rounds=T, seed=3, regret=True)
    rows, delays, draws = scenario(data, T, 5, 3)
    assert np.array_equal(theory.delays_of(result, 0), delays)
    learner = dt.LEARNERS[name](data.n_classes, data.n_features, seed=0)
    expected = losses_by_hand(learner, data, rows, delays, draws)
    np.testing.assert_allclose(result.losses[0, -1], expected, rtol=1e-9)
    assert (expected > 0).all()


def test_noting_losses_changes_nothing_else():
    data = small()
    plain = dt.simulate("delaytron", data, delay=5, rounds=500, runs=3, gamma=[0.1, 0.3])
    noted = dt.simulate("delaytron", data, delay=5, rounds=500, runs=3, gamma=[0.1, 0.3], regret=True)
    assert plain.losses is None
    assert np.array_equal(plain.mistakes, noted.mistakes)
    assert noted.losses.shape == noted.mistakes.shape
    part = noted.best()
    assert np.array_equal(part.losses, noted.losses[[s == part.parameters[0] for s in noted.parameters]])


def test_regret_is_what_was_lost_more():
    data, T = small(noise=5), 200
    result = dt.simulate("delaytron", data, delay=5, rounds=T, runs=2, seed=3, gamma=0.2, regret=True)
    W = np.random.default_rng(1).normal(size=(data.n_classes, data.n_features))
    rows, _, _ = scenario(data, T, 5, 3)
    theirs = np.cumsum([hinge(W, data.X[i], data.y[i]) for i in rows])[result.rounds - 1]
    lost = theory.regret(result, data, W)
    np.testing.assert_allclose(lost.hinge[0], result.losses[0, :, 0] - theirs)
    np.testing.assert_allclose(lost.gated[0], result.losses[0, :, 1] - theirs)
    np.testing.assert_allclose(lost.mistakes[0], result.mistakes[0, :, 1] - theirs)
    assert (lost.mistakes <= lost.gated + 1e-9).all()


def test_what_has_no_regret_is_refused():
    data = small()
    with pytest.raises(dt.InvalidInput, match="linear in the row, got exp3; leave it out, or take another learner"):
        dt.simulate("exp3", data, regret=True)
    with pytest.raises(dt.InvalidInput, match="these runs have no losses"):
        theory.regret(dt.simulate("delaytron", data), data, np.zeros((3, 4)))
    with pytest.raises(dt.InvalidInput, match=r"W must have the shape \(3, 4\), got \(4, 3\)"):
        theory.hinge_losses(np.zeros((4, 3)), data)
    with pytest.raises(dt.InvalidInput, match=r"W must have the shape \(3, 4\), got \(\)"):
        theory.hinge_losses(None, data)
    with pytest.raises(dt.InvalidInput, match=r"W must be numbers of the shape \(3, 4\), got \[\[1\], \[1, 2\]\]"):
        theory.hinge_losses([[1], [1, 2]], data)
    with pytest.raises(dt.InvalidInput, match=r"result must be what dt\.simulate\(\.\.\., regret=True\) .*, got 7"):
        theory.regret(7, data, np.zeros((3, 4)))
    with pytest.raises(
        dt.InvalidInput, match=r"candidates must be a list of at least one matrix of weights, got \[\]; comparator_path"
    ):
        theory.best_comparator([], np.sum)
    with pytest.raises(dt.InvalidInput, match="strengths must be above 0, got -1"):
        theory.comparator_path(data, [-1])


@given(seed=st.integers(0, 10**6), sparse=st.booleans())
def test_hinge_losses_are_those_of_the_formula(seed, sparse):
    data = small(seed)
    W = np.random.default_rng(seed).normal(size=(data.n_classes, data.n_features))
    as_given = dt.datasets.as_dataset((csr_array(data.X), data.y)) if sparse else data
    by_hand = [hinge(W, x, y) for x, y in zip(data.X, data.y, strict=True)]
    np.testing.assert_allclose(theory.hinge_losses(W, as_given), by_hand, atol=1e-12)


@given(seed=st.integers(0, 10**6))
def test_no_weights_have_less_loss_than_the_exact_comparator(seed):
    data = small(seed, noise=8)
    least = theory.hinge_losses(theory.exact_comparator(data), data).sum()
    rng = np.random.default_rng(seed)
    for W in [*theory.comparator_path(data, [0.01, 1.0]), rng.normal(size=(data.n_classes, data.n_features))]:
        assert least <= theory.hinge_losses(W, data).sum() + 1e-7


def test_separable_data_have_a_comparator_without_loss():
    data = small()
    assert theory.hinge_losses(theory.exact_comparator(data), data).sum() == pytest.approx(0, abs=1e-7)
    synsep = dt.datasets.load("synsep", n_samples=300)
    assert theory.hinge_losses(synsep.certificate, synsep).max() == pytest.approx(0, abs=1e-9)


def test_along_the_path_norms_grow_and_losses_shrink():
    data = dt.datasets.load("digits", scale="unit")
    path = theory.comparator_path(data, [1e-3, 1e-1, 10.0])
    norms, losses = zip(*((np.linalg.norm(W), theory.hinge_losses(W, data).sum()) for W in path), strict=True)
    assert list(norms) == sorted(norms)
    assert list(losses) == sorted(losses, reverse=True)
    best, value = theory.best_comparator(path, lambda W: theory.hinge_losses(W, data).sum() + 10 * np.linalg.norm(W))
    assert value == min(loss + 10 * norm for norm, loss in zip(norms, losses, strict=True))
    assert any(best is W for W in path)


def test_two_classes_have_a_path_too():
    data = dt.datasets.as_dataset((np.array([[1.0, 0], [0, 1.0], [2.0, 0.1]]), [0, 1, 0]))
    W = theory.comparator_path(data, [100.0])[0]
    assert theory.hinge_losses(W, data).max() < 1e-2


def test_too_large_a_program_is_refused():
    with pytest.raises(dt.InvalidInput, match=r"takes at most 200,000 constraints.*use comparator_path"):
        theory.exact_comparator(dt.datasets.as_dataset((np.zeros((200_001, 1)), np.arange(200_001) % 2)))
