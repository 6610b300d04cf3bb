"""Means and deviations of the rows seen so far, against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.compiler.kernel import fill, interpreted
from delaytron.kernels.standard import CENTRE, INVERSE, LARGEST, ROWS, is_due
from delaytron.kernels.standard_rows import observe, standardize_row
from delaytron.learners.logit_state import refresh
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
