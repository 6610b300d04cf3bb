"""Scaling, and the form of a data set, dense or CSR."""

import tracemalloc
from math import fsum

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.extra.numpy import arrays
from pyarrow import parquet as pq
from pyarrow import table
from scipy import sparse
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.checks import as_kind
from delaytron.datasets import Dataset, as_dataset, load, stream
from delaytron.datasets.dataset import Scaling, choose_form, encodes_sparse, rescale

VALUES = st.floats(-1e6, 1e6).map(lambda value: round(value, 3)) | st.just(0.0)
MATRICES = arrays(float, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=VALUES)


def scaled(X, *kind, **options):
    scaling = Scaling(*kind, **options)
    scaling.partial_fit(X)
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
def test_blocks_are_scaled_like_the_whole(X, cuts, form):
    scaling = Scaling("standard", bias=True)
    blocks = [form(part) for part in np.split(X, sorted(min(cut, len(X)) for cut in cuts)) if len(part)]
    for block in blocks:
        scaling.partial_fit(block)
    parts = [scaling.apply(block) for block in blocks]
    whole = scaled(form(X), "standard", bias=True)
    together = np.vstack([part.toarray() if sparse.issparse(part) else part for part in parts])
    np.testing.assert_allclose(together, whole.toarray() if sparse.issparse(whole) else whole, rtol=1e-9, atol=1e-10)


def test_blocks_agree_with_exact_sums_to_twelve_digits():
    X, scaling = np.random.default_rng(0).normal(1e4, 3.0, size=(5000, 7)), Scaling("standard")
    for block in np.array_split(X, 13):
        scaling.partial_fit(block)
    moved = X - np.array([fsum(column) / len(X) for column in X.T])
    exact = moved / np.sqrt([fsum(column**2) / len(X) for column in moved.T])
    np.testing.assert_allclose(scaling.apply(X), exact, rtol=0, atol=3e-12)  # 1e4 has no more digits
    np.testing.assert_allclose(scaling.apply(X), scaled(X, "standard"), rtol=0, atol=1e-12)


def test_sparse_blocks_may_grow_wider():
    X = np.array([[1.0, 0, 0], [0, 2, 0], [3, 0, 5], [0, 4, 5]])
    scaling = Scaling("standard")
    for block in (X[:1, :1], X[1:2, :2], X[2:]):
        scaling.partial_fit(sparse.csr_array(block))
    np.testing.assert_allclose(scaling.apply(sparse.csr_array(X)).toarray(), X / X.std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("value", [1e-300, 1e300, 5e-324])
def test_unit_neither_overflows_nor_vanishes(value):
    np.testing.assert_allclose(scaled(np.array([[value, value]]), "unit"), [[0.5**0.5] * 2])


def test_standard_refuses_numbers_whose_squares_overflow():
    with pytest.raises(dt.InvalidInput, match="scale='standard' needs numbers whose squares fit"):
        scaled(np.array([[1e300], [-1e300]]), "standard")


def test_a_constant_column_becomes_exactly_0():
    assert (scaled(np.full((1000, 1), 0.1), "standard") == 0).all()
    assert (scaled(sparse.csr_array(np.full((1000, 1), 0.1)), "standard").toarray() == 0).all()


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_bias_is_the_last_column_and_has_a_name_if_the_others_have(form):
    named = Dataset(form([[1.0], [2.0]]), np.array([0, 1]), "own", ("a", "b"), feature_names=("x",))
    data = load("digits", bias=True)
    assert (data.n_features, data.X[:, -1].tolist()) == (65, [1.0] * 1797)
    biased = rescale(named, Scaling(None, bias=True))
    assert (biased.feature_names, biased.sparse) == (("x", "bias"), named.sparse)
    assert (biased.X.toarray() if biased.sparse else biased.X).tolist() == [[1, 1], [2, 1]]


def test_without_options_nothing_is_scaled():
    data = load("digits")
    assert rescale(data, Scaling()) is data


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
def test_invalid_options_are_refused_before_anything_is_loaded(options, message):
    with pytest.raises(dt.InvalidInput, match=message):
        load("no such data", **options)


RNG = np.random.default_rng(5)
FEW = np.where(RNG.random((300, 20)) < 0.15, RNG.normal(size=(300, 20)), 0.0)
MANY = RNG.normal(size=(300, 20))
LABELS = np.arange(300) % 3


@pytest.fixture(params=["few", "many"])
def numbers(request):
    return FEW if request.param == "few" else MANY


def of_frame(X):
    return pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]).assign(label=LABELS)


def written(X, folder, kind):
    path = folder / f"a.{kind}"
    frame = of_frame(X)
    if kind == "npz":
        np.savez(path, X=X, y=LABELS)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    else:
        pq.write_table(table(frame), path)
    return path


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_a_file_with_few_non_zeros_is_loaded_as_csr(kind, numbers, tmp_path):
    data = load(written(numbers, tmp_path, kind))
    assert data.sparse == (numbers is FEW)
    assert (as_kind(data.X, sparse=False) == numbers).all()


def test_a_frame_gets_the_same_form_wherever_it_is_given(numbers):
    frame = of_frame(numbers)
    assert load(frame).sparse == as_dataset(frame).sparse == (numbers is FEW)


def test_data_of_the_user_keep_their_form():
    for X in (FEW, csr_array(MANY)):
        data = as_dataset((X, LABELS))
        assert data.sparse == (X is not FEW)
        assert as_dataset(data) is data
        assert dt.simulate("perceptron", data).form == ("dense" if X is FEW else "sparse")


def test_the_form_is_chosen_after_scaling(tmp_path):
    path = written(FEW, tmp_path, "npz")
    assert load(path, scale="unit", bias=True).sparse
    assert not load(path, scale="standard").sparse  # moved to mean 0, no number is 0


def test_the_rules_meet_at_their_shares():
    fifth = np.zeros((10, 10))
    fifth.ravel()[:20] = 1
    assert choose_form(as_dataset((fifth, np.arange(10)))).sparse
    fifth[9, 9] = 1
    dense = as_dataset((fifth, np.arange(10)))
    assert choose_form(dense) is dense
    assert [encodes_sparse(*case) for case in [(1, 10), (1, 9), (5001, 10_002), (5001, 10_001)]] == [1, 0, 1, 0]
    assert [encodes_sparse(*case) for case in [(5000, 10_000), (5000, 10_001)]] == [0, 1]


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 9)), elements=st.sampled_from([0, -0.0, 1.5]))
)
def test_csr_equals_that_of_scipy(X):
    mine = as_kind(X, sparse=True)
    theirs = csr_array(X)
    assert (mine.indptr.tolist(), mine.indices.tolist()) == (theirs.indptr.tolist(), theirs.indices.tolist())
    assert mine.data.tobytes() == theirs.data.tobytes()


@pytest.mark.parametrize("width", [1, 3, 2**20 + 1])
def test_csr_of_many_slices_has_every_number(width):
    X = np.zeros((max(3, 3_000_000 // width), width))
    X.ravel()[::7] = 1 + np.arange(-(-X.size // 7))
    sparse = as_kind(X, sparse=True)
    assert sparse.nnz == np.count_nonzero(X)
    assert (sparse.data == X[X != 0]).all()
    assert (sparse.indptr == np.concatenate([[0], np.cumsum(np.count_nonzero(X, axis=1))])).all()


def test_making_csr_takes_little_more_memory_than_the_result():
    X = np.zeros((60_000, 100))
    X[:, :15] = 1
    as_kind(X[:1], sparse=True)  # imports
    tracemalloc.start()
    sparse = as_kind(X, sparse=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    result = sparse.data.nbytes + sparse.indices.nbytes + sparse.indptr.nbytes
    assert peak < 2 * result + 2**23
    assert peak < X.nbytes


@pytest.mark.parametrize("scale", [None, "unit", "standard"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_stream_is_played_in_the_form_of_the_whole_file(scale, bias, numbers, tmp_path):
    path = written(numbers, tmp_path, "parquet")
    how = {"delay": 9, "gamma": 0.1}
    whole = dt.simulate("delaytron", load(path, scale=scale, bias=bias), **how)
    streamed = dt.simulate("delaytron", stream(path, scale=scale, bias=bias), **how)
    assert whole.form == streamed.form == ("sparse" if numbers is FEW and scale != "standard" else "dense")
    assert (whole.mistakes == streamed.mistakes).all()


def test_a_result_has_the_form():
    for X, form in ((FEW, "sparse"), (MANY, "dense")):
        result = dt.simulate("perceptron", load(of_frame(X)))
        assert result.form == form
        assert set(result.to_table()["form"].to_pylist()) == {form}
