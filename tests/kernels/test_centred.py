"""Scores and steps on standardised rows, against all of it written out in NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.compiler.kernel import fill, interpreted, kernel
from delaytron.kernels.centred import FIRST, add_step, count_gradient, first_of, score_row, squared_length
from delaytron.kernels.linear import padded
from delaytron.kernels.standard import CENTRE, INVERSE, LARGEST, SUM, ZERO, D, is_due
from delaytron.kernels.standard_rows import observe, standardize_row
from delaytron.learners.logit_state import refresh
from logit_states import PARAMS, as_row, new_state, random_rows, table_of
from streams import same_bits

kinds = pytest.mark.parametrize("sparse", [False, True])
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


meet_ = fill(meet, "test.meet")
refresh_ = fill(refresh, "test.refresh")


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


@kinds
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
    refresh_(state, PARAMS)
    plain.refresh(table_of(state, sparse)[:, INVERSE] > 0)
    np.testing.assert_allclose(weights_of(state, K, sparse), plain.W, atol=1e-9 * np.abs(plain.W).max())
    np.testing.assert_allclose(table_of(state, sparse)[:, SUM], plain.C[:-1], atol=1e-9 * plain.C.max())
    assert not state.shift.any()
    if sparse:
        assert not state.W[:, K:].any()


@kinds
@given(shape=shapes)
def test_they_are_the_same_to_the_bit_compiled_and_interpreted(sparse, shape):
    X = random_rows(shape)
    states = [new_state(X.shape[1], sparse) for _ in range(2)]
    change = np.zeros(padded(3))
    for t, x in enumerate(X):
        change[:3] = np.sin([t, t + 1, t + 2])
        args = PARAMS, *as_row(x, sparse), 0.5, change
        ours, theirs = np.zeros(padded(3)), np.zeros(padded(3))
        assert meet_(states[0], *args, ours) == interpreted(meet)(states[1], *args, theirs)
        assert same_bits(ours, theirs)
    assert all(same_bits(a, b) for a, b in zip(*states, strict=True))


def test_padding_never_looks_best():
    state = new_state(4, False)
    scores = np.full(padded(3), np.nan)
    _, _, best = meet_(state, PARAMS, None, np.ones(4), 0.0, np.zeros(padded(3)), scores)
    assert best == 0
    assert scores[:3].tolist() == [0.0] * 3
    assert (scores[3:] < -1e299).all()
