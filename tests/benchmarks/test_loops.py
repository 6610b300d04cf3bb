"""The loops that the package is measured against: all of them play the same rounds."""

import platform
import sys
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from scipy import sparse

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

with pytest.MonkeyPatch.context() as patch:  # importing it sets the number of BLAS threads of processes started later
    patch.setenv("OPENBLAS_NUM_THREADS", "1")
    import numpy_loops
    from c_loop import c_dense, c_sparse

T, RUNS, GAMMA = 400, 3, 0.2
SHAPES = [(2, 1), (3, 4), (4, 7), (5, 8), (7, 33), (9, 40), (10, 13), (11, 16), (13, 21), (21, 30), (37, 9)]


@pytest.mark.skipif(which("gcc") is None or platform.machine() != "x86_64", reason="needs gcc on x86-64")
@pytest.mark.parametrize(("n_classes", "n_features"), SHAPES)
def test_numpy_and_c_play_the_same_rounds(n_classes, n_features):
    rng = np.random.default_rng([n_classes, n_features])
    dense = rng.normal(size=(T, n_features)) * (rng.random((T, n_features)) < 0.6)  # some rows may be empty
    rows = sparse.csr_matrix(dense)
    y = np.abs(dense @ rng.normal(size=(n_features, n_classes))).argmax(axis=1)
    delays = rng.integers(1, 30, size=(RUNS, T))
    delays[rng.random((RUNS, T)) < 0.05] = 2**62
    delays[0] = 1
    draws = np.stack([np.random.default_rng(seed).random(T) for seed in range(RUNS)])
    by_c = [play(X, y, delays, draws, n_classes, GAMMA) for X, play in ((dense, c_dense), (rows, c_sparse))]
    np.testing.assert_allclose(by_c[0].weights, by_c[1].weights, rtol=1e-9, atol=1e-9)
    for run in range(RUNS):
        for X, c in zip((dense, rows), by_c, strict=True):
            labels = np.empty(T, dtype=int)
            mistakes = numpy_loops.tuned(X, y, delays[run], draws[run], n_classes, GAMMA, labels)
            naive = numpy_loops.naive(X, y, delays[run], n_classes, GAMMA, run)  # choice() draws once a round
            preallocated = numpy_loops.preallocated(X, y, delays[run], draws[run], n_classes, GAMMA)
            assert labels.tolist() == c.labels[run].tolist()
            assert mistakes == naive == preallocated == c.mistakes[run]
