"""``python benchmarks/agreement.py`` checks that the NumPy loops and the C loop play the very same rounds."""

import numpy_loops  # isort: skip - first, as it sets the threads of NumPy's linear algebra
import numpy as np
from scipy import sparse

from c_loop import c_dense, c_sparse


def check():
    """Compare the loops on small random data of awkward shapes."""
    gamma, T, runs = 0.2, 400, 3
    cases = [
        (2, 1),
        (3, 4),
        (4, 7),
        (5, 8),
        (7, 33),
        (9, 40),
        (10, 13),
        (11, 16),
        (13, 21),
        (21, 30),
        (37, 9),
    ]
    for n_classes, d in cases:
        rng = np.random.default_rng([n_classes, d])
        dense = rng.normal(size=(T, d)) * (rng.random((T, d)) < 0.6)  # some rows may be empty
        rows = sparse.csr_matrix(dense)
        y = np.abs(dense @ rng.normal(size=(d, n_classes))).argmax(axis=1)
        delays = rng.integers(1, 30, size=(runs, T))
        delays[rng.random((runs, T)) < 0.05] = 2**62
        delays[0] = 1
        draws = np.stack([np.random.default_rng(seed).random(T) for seed in range(runs)])
        by_c = [
            c_dense(dense, y, delays, draws, n_classes, gamma),
            c_sparse(rows, y, delays, draws, n_classes, gamma),
        ]
        np.testing.assert_allclose(by_c[0].weights, by_c[1].weights, rtol=1e-9, atol=1e-9)
        for run in range(runs):
            for data, by in zip((dense, rows), by_c, strict=True):
                labels = np.empty(T, dtype=int)
                wrong = numpy_loops.tuned(data, y, delays[run], draws[run], n_classes, gamma, labels)
                plain = numpy_loops.naive(data, y, delays[run], n_classes, gamma, run)  # choice() draws once a round
                once = numpy_loops.preallocated(data, y, delays[run], draws[run], n_classes, gamma)
                if not (labels == by.labels[run]).all() or not wrong == plain == once == by.mistakes[run]:
                    raise SystemExit(f"K={n_classes} d={d} run={run}: {plain=} {once=} {wrong=} C={by.mistakes[run]}")
    print(f"naive, preallocated, tuned and C agree, dense and CSR, on {len(cases)} shapes of {runs} runs")


if __name__ == "__main__":
    check()
