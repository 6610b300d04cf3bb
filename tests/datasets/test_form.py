"""Dense or CSR: chosen once, the same for everyone who plays the data, and told in the result."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyarrow import parquet as pq
from pyarrow import table
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.datasets import as_dataset, load, stream
from delaytron.datasets.form import choose_form, encodes_sparse
from delaytron.matrices import as_kind

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


def test_what_users_have_made_themselves_is_played_as_it_is():
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


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 9)), elements=st.sampled_from([0, -0.0, 1.5]))
)
def test_csr_is_what_scipy_makes_of_a_matrix(X):
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


def test_a_result_tells_the_form():
    for X, form in ((FEW, "sparse"), (MANY, "dense")):
        result = dt.simulate("perceptron", load(of_frame(X)))
        assert result.form == form
        assert set(result.to_table()["form"].to_pylist()) == {form}
