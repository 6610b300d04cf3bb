"""Scaling: what it promises, and that blocks give what the whole gives."""

from math import fsum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import delaytron as dt
from delaytron.datasets import Dataset, load
from delaytron.datasets.scaling import Scaling

VALUES = st.floats(-1e6, 1e6).map(lambda value: round(value, 3)) | st.just(0.0)
MATRICES = arrays(float, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=VALUES)


def scaled(X, *kind, **options):
    scaling = Scaling(*kind, **options)
    scaling.see(X)
    return scaling.apply(X)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@given(X=MATRICES)
def test_unit_gives_every_row_but_zeros_the_norm_1(X, form):
    before, result = X.copy(), scaled(form(X), "unit")
    rows = result.toarray() if sparse.issparse(result) else result
    norms, old = np.linalg.norm(rows, axis=1), np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(norms, (old > 0).astype(float), rtol=1e-12)
    np.testing.assert_allclose(rows * old[:, None], X, rtol=1e-12, atol=1e-12)
    assert np.array_equal(X, before)


@given(X=MATRICES)
def test_standard_gives_columns_of_mean_0_and_deviation_1(X):
    result = scaled(X, "standard")
    varies = (X[0] != X).any(axis=0)
    np.testing.assert_allclose(result.mean(axis=0), 0, atol=1e-7)
    np.testing.assert_allclose(result[:, varies].std(axis=0), 1, rtol=1e-7)
    assert (result[:, ~varies] == 0).all()


@given(X=MATRICES)
def test_standard_divides_a_sparse_matrix_by_its_deviations_and_leaves_its_zeros(X):
    result = scaled(sparse.csr_array(X), "standard")
    varies, deviations = (X[0] != X).any(axis=0), X.std(axis=0)
    expected = np.where(varies, X / np.where(varies, deviations, 1), 0)
    np.testing.assert_allclose(result.toarray(), expected, rtol=1e-9, atol=1e-12)
    assert result.nnz <= np.count_nonzero(X)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@given(X=MATRICES, cuts=st.lists(st.integers(0, 12)))
def test_blocks_give_what_the_whole_gives(X, cuts, form):
    scaling = Scaling("standard", bias=True)
    blocks = [form(part) for part in np.split(X, sorted(min(cut, len(X)) for cut in cuts)) if len(part)]
    for block in blocks:
        scaling.see(block)
    parts = [scaling.apply(block) for block in blocks]
    whole = scaled(form(X), "standard", bias=True)
    together = np.vstack([part.toarray() if sparse.issparse(part) else part for part in parts])
    np.testing.assert_allclose(together, whole.toarray() if sparse.issparse(whole) else whole, rtol=1e-9, atol=1e-10)


def test_blocks_give_what_exact_sums_give_to_twelve_digits():
    X, scaling = np.random.default_rng(0).normal(1e4, 3.0, size=(5000, 7)), Scaling("standard")
    for block in np.array_split(X, 13):
        scaling.see(block)
    moved = X - np.array([fsum(column) / len(X) for column in X.T])
    exact = moved / np.sqrt([fsum(column**2) / len(X) for column in moved.T])
    np.testing.assert_allclose(scaling.apply(X), exact, rtol=0, atol=3e-12)  # 1e4 has no more digits
    np.testing.assert_allclose(scaling.apply(X), scaled(X, "standard"), rtol=0, atol=1e-12)


def test_sparse_blocks_may_grow_wider():
    X = np.array([[1.0, 0, 0], [0, 2, 0], [3, 0, 5], [0, 4, 5]])
    scaling = Scaling("standard")
    for block in (X[:1, :1], X[1:2, :2], X[2:]):
        scaling.see(sparse.csr_array(block))
    np.testing.assert_allclose(scaling.apply(sparse.csr_array(X)).toarray(), X / X.std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("value", [1e-300, 1e300, 5e-324])
def test_unit_neither_overflows_nor_vanishes(value):
    np.testing.assert_allclose(scaled(np.array([[value, value]]), "unit"), [[0.5**0.5] * 2])


def test_standard_refuses_what_it_cannot_square():
    with pytest.raises(dt.InvalidInput, match="scale 'standard' needs numbers whose squares fit"):
        scaled(np.array([[1e300], [-1e300]]), "standard")


def test_a_constant_column_becomes_exactly_0():
    assert (scaled(np.full((1000, 1), 0.1), "standard") == 0).all()
    assert (scaled(sparse.csr_array(np.full((1000, 1), 0.1)), "standard").toarray() == 0).all()


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_bias_is_the_last_column_and_has_a_name_if_the_others_have(form):
    named = Dataset(form([[1.0], [2.0]]), np.array([0, 1]), "own", ("a", "b"), feature_names=("x",))
    data = load("digits", bias=True)
    assert (data.n_features, data.X[:, -1].tolist()) == (65, [1.0] * 1797)
    biased = dt.datasets.scaling.rescale(named, Scaling(None, bias=True))
    assert (biased.feature_names, biased.sparse) == (("x", "bias"), named.sparse)
    assert (biased.X.toarray() if biased.sparse else biased.X).tolist() == [[1, 1], [2, 1]]


def test_nothing_asked_is_nothing_done():
    data = load("digits")
    assert dt.datasets.scaling.rescale(data, Scaling()) is data


def test_a_certificate_survives_a_bias_but_no_scaling():
    data = load("synsep", n_samples=200, bias=True)
    assert data.certificate.shape == (9, 401)
    scores = data.X @ data.certificate.T
    assert (scores.argmax(axis=1) == data.y).all()
    assert load("synsep", n_samples=200, scale="standard").certificate is None


@pytest.mark.parametrize(
    ("options", "message"),
    [({"scale": "maximum"}, "scale must be one of unit, standard"), ({"bias": 2}, "bias must be True or False")],
)
def test_other_words_are_refused_before_anything_is_loaded(options, message):
    with pytest.raises(dt.InvalidInput, match=message):
        load("no such data", **options)
