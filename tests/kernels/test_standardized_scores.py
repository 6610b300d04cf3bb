"""Means and deviations of the rows seen so far, against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.compiler.kernel import fill, interpreted, kernel
from delaytron.kernels.linear import padded
from delaytron.kernels.standardize import (
    CENTRE,
    FIRST,
    INVERSE,
    LARGEST,
    ROWS,
    SUM,
    ZERO,
    D,
    add_step,
    count_gradient,
    first_of,
    is_due,
    observe,
    score_row,
    squared_length,
    standardize_row,
)
from delaytron.learners.bandit_logit import one, refresh
from logit_states import PARAMS, as_row, new_state, random_rows, table_of
from streams import same_bits

observe_, standardize_, refresh_ = (
    fill(observe, "test.observe"),
    fill(standardize_row, "test.row"),
    fill(refresh, "t.r"),
)
kinds = pytest.mark.parametrize("sparse", [False, True])
streams = st.tuples(st.integers(1, 60), st.integers(1, 40), st.integers(0, 2**32))


def see(state, X, sparse, *, compiled=True):
    """Show all rows, with refreshes in between; return how many rows had been seen at the last refresh."""
    count, renew = (observe_, refresh_) if compiled else (interpreted(observe), interpreted(refresh))
    last = 0
    for x in X:
        if interpreted(is_due)(state):
            last = int(state.seen[ROWS])
            renew(state, PARAMS)
        count(state, *as_row(x, sparse))
    return last


@kinds
@given(shape=streams)
def test_a_refresh_finds_the_mean_and_the_deviation_of_all_rows(sparse, shape):
    X = random_rows(shape)
    state = new_state(X.shape[1], sparse)
    last = see(state, X, sparse)
    table = table_of(state, sparse)
    if last:
        np.testing.assert_allclose(table[:, CENTRE], X[:last].mean(axis=0), rtol=1e-12)
        deviations = X[:last].std(axis=0)
        varies = np.ptp(X[:last], axis=0) > 0
        np.testing.assert_allclose(table[varies, INVERSE], 1 / deviations[varies], rtol=1e-9)
        assert not table[~varies, INVERSE].any()


@kinds
@given(shape=streams)
def test_rows_are_seen_the_same_to_the_bit_compiled_and_interpreted(sparse, shape):
    X = random_rows(shape)
    ours, theirs = new_state(X.shape[1], sparse), new_state(X.shape[1], sparse)
    see(ours, X, sparse)
    see(theirs, X, sparse, compiled=False)
    assert all(same_bits(a, b) for a, b in zip(ours, theirs, strict=True))
    more, along = standardize_(ours, *as_row(X[0], sparse))
    assert (more, along) == interpreted(standardize_row)(theirs, *as_row(X[0], sparse))
    assert same_bits(ours.z, theirs.z)


@given(shape=streams)
def test_a_dense_row_is_standardised_and_measured(shape):
    X = random_rows(shape)
    state = new_state(X.shape[1], False)
    see(state, X, False)
    for x in X[:5]:
        more, along = standardize_(state, None, x)
        expected = np.clip((x - state.features[CENTRE]) * state.features[INVERSE], -LARGEST, LARGEST)
        np.testing.assert_array_equal(state.z, expected)
        assert more == pytest.approx((expected**2).sum(), rel=1e-12)
        assert along == 0


def test_a_column_far_from_zero_loses_no_digits():
    X = np.random.default_rng(0).normal([1e9, 0.0, -1e9], size=(200, 3))
    state = new_state(3, False)
    last = see(state, X, False)
    np.testing.assert_allclose(state.features[CENTRE], X[:last].mean(axis=0), rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(state.features[INVERSE], 1 / X[:last].std(axis=0), rtol=1e-6)


@kinds
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1e9, -1e-9, 123.456])
def test_a_constant_column_is_exactly_0(sparse, constant):
    X = np.random.default_rng(0).normal(size=(300, 20))
    X[:, 7] = constant
    state = new_state(20, sparse)
    see(state, X, sparse)
    standardize_(state, *as_row(X[0], sparse))
    place = np.flatnonzero(X[0]).tolist().index(7) if sparse and constant else 7
    assert table_of(state, sparse)[7, INVERSE] == 0
    assert constant == 0.0 or state.z[place] == 0


# Scores and steps on standardised rows, against all of it written out in NumPy.


kinds_of_steps = pytest.mark.parametrize("sparse", [False, True])
shapes = st.tuples(st.integers(2, 40), st.integers(1, 40), st.integers(0, 2**32))


@kernel
def meet(state, params, indices, values, weight, change, scores):
    """See a row, score it and step along it, as a learner does; return its squared length, <D z, z> and the best."""
    if is_due(state):
        refresh(state, params)
    observe(state, indices, values)
    more, along = standardize_row(state, indices, values)
    length = squared_length(state, more)
    top = score_row(state, indices, values, length, along, scores)
    spread = count_gradient(state, indices, values, weight)
    add_step(state, indices, values, along, change)
    return length, spread, first_of(scores, top)


meet_ = fill(meet, "test.meet", squared_constant=one)
refresh_steps = fill(refresh, "test.refresh")


class Plain:
    """The same with nothing but dense rows, which are standardised as the state under test does."""

    def __init__(self, K, d):
        self.W = np.zeros((K, d + 1))
        self.C = np.zeros(d + 1)
        self.D = np.full(d + 1, FIRST**-0.5)
        self.varied, self.mean = np.zeros(d, bool), 0.0

    def meet(self, table, x, weight, change):
        z = np.append(np.clip((x - table[:, CENTRE]) * table[:, INVERSE], -LARGEST, LARGEST), 1.0)
        scores = self.W @ z / np.sqrt(z @ z)
        self.C += weight * z * z
        self.W += np.outer(change, self.D * z)
        return scores, z @ z, z @ (self.D * z)

    def refresh(self, varies):
        """A feature that begins to vary starts from the mean of those that varied."""
        self.C[:-1] += np.where(varies & ~self.varied, self.mean, 0.0)
        self.mean = self.C[:-1][varies].mean() if varies.any() else 0.0
        self.varied = varies
        self.D = 1 / np.sqrt(FIRST + self.C / len(self.W))


def weights_of(state, K, sparse):
    if not sparse:
        return np.column_stack([state.W, state.bias])
    steps = state.features[:, D] * state.features[:, ZERO]
    return np.column_stack([state.W[:, :K].T + np.outer(state.shift[:K], steps), state.bias])


@kinds_of_steps
@pytest.mark.parametrize("K", [2, 9, 20])
@given(shape=shapes)
def test_scores_and_steps_are_those_of_rows_written_out(sparse, K, shape):
    X = random_rows(shape)
    rng = np.random.default_rng(shape[2])
    state = new_state(X.shape[1], sparse, K)
    plain = Plain(K, X.shape[1])
    scores, change = np.full(padded(K), np.nan), np.zeros(padded(K))
    for x in X:
        due = interpreted(is_due)(state)
        weight = rng.random()
        change[:K] = rng.normal(size=K)
        length, spread, best = meet_(state, PARAMS, *as_row(x, sparse), weight, change, scores)
        if due:
            plain.refresh(table_of(state, sparse)[:, INVERSE] > 0)
        expected, norm, along_rates = plain.meet(table_of(state, sparse), x, weight, change[:K])
        np.testing.assert_allclose(scores[:K], expected, atol=1e-9 * np.abs(plain.W).max())
        assert length == pytest.approx(norm, rel=1e-9)
        assert spread == pytest.approx(along_rates, rel=1e-9)
        assert scores[best] == scores[:K].max()
    np.testing.assert_allclose(weights_of(state, K, sparse), plain.W, atol=1e-9 * np.abs(plain.W).max())
    refresh_steps(state, PARAMS)
    plain.refresh(table_of(state, sparse)[:, INVERSE] > 0)
    np.testing.assert_allclose(weights_of(state, K, sparse), plain.W, atol=1e-9 * np.abs(plain.W).max())
    np.testing.assert_allclose(table_of(state, sparse)[:, SUM], plain.C[:-1], atol=1e-9 * plain.C.max())
    assert not state.shift.any()
    if sparse:
        assert not state.W[:, K:].any()


@kinds_of_steps
@given(shape=shapes)
def test_they_are_the_same_to_the_bit_compiled_and_interpreted(sparse, shape):
    X = random_rows(shape)
    states = [new_state(X.shape[1], sparse) for _ in range(2)]
    change = np.zeros(padded(3))
    for t, x in enumerate(X):
        change[:3] = np.sin([t, t + 1, t + 2])
        args = PARAMS, *as_row(x, sparse), 0.5, change
        ours, theirs = np.zeros(padded(3)), np.zeros(padded(3))
        assert meet_(states[0], *args, ours) == interpreted(meet_)(states[1], *args, theirs)
        assert same_bits(ours, theirs)
    assert all(same_bits(a, b) for a, b in zip(*states, strict=True))


def test_padding_never_looks_best():
    state = new_state(4, False)
    scores = np.full(padded(3), np.nan)
    _, _, best = meet_(state, PARAMS, None, np.ones(4), 0.0, np.zeros(padded(3)), scores)
    assert best == 0
    assert scores[:3].tolist() == [0.0] * 3
    assert (scores[3:] < -1e299).all()
