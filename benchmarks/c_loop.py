"""limit.c, the best plain C loop: compiled here, called on the same rounds as the loops of ``numpy_loops``."""

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from time import thread_time
from typing import NamedTuple

import numpy as np

from numpy_loops import arrivals

FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC")


class Outcome(NamedTuple):
    """What the C loops hand back, one row for each run; ``seconds`` is the CPU time of the C call alone."""

    mistakes: np.ndarray
    labels: np.ndarray | None
    weights: np.ndarray | None
    seconds: float


@cache
def library():
    """Compile limit.c into a temporary directory that lives as long as the process, and load it."""
    folder = tempfile.TemporaryDirectory(prefix="delaytron-limit-")
    target = Path(folder.name) / "limit.so"
    source = Path(__file__).with_name("limit.c")
    subprocess.run(["gcc", *FLAGS, str(source), "-o", str(target)], check=True)  # noqa: S607
    loaded = ctypes.CDLL(str(target))
    loaded.folder = folder
    for function in (loaded.dense, loaded.sparse):
        function.restype = ctypes.c_long
    return loaded


def aligned(a, dtype):
    """Return the array C-contiguous and on a 64-byte boundary: no vector load straddles two cache lines."""
    a = np.ascontiguousarray(a, dtype=dtype)
    if a.ctypes.data % 64 == 0:
        return a
    raw = np.empty(a.nbytes + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    copy[...] = a
    return copy


def c_dense(X, y, delays, draws, n_classes, gamma, *, keep=True):
    """Play len(delays) runs over the rows of a dense array; ``delays`` and ``draws`` are (runs, T).

    Without ``keep`` only the mistakes are handed back: labels and weights are not copied out of the loop.
    """
    return _call(library().dense, [aligned(X, np.float64)], X.shape, y, delays, draws, n_classes, gamma, keep)


def c_sparse(X, y, delays, draws, n_classes, gamma, *, keep=True):
    """Do as ``c_dense`` does, over the rows of a CSR matrix."""
    parts = [aligned(X.indptr, np.int64), aligned(X.indices, np.int32), aligned(X.data, np.float64)]
    return _call(library().sparse, parts, X.shape, y, delays, draws, n_classes, gamma, keep)


def _call(function, rows, shape, y, delays, draws, n_classes, gamma, keep):
    (T, d), runs = shape, len(delays)
    if n_classes >= 1 << 16:
        raise ValueError(f"limit.c keeps labels in 16 bits: n_classes must be below 65536, got {n_classes}")
    slices = [arrivals(run) for run in delays]
    inputs = [
        *rows,
        aligned(y, np.int32),
        aligned([starts for starts, _ in slices], np.int32),
        aligned([order for _, order in slices], np.int32),
        aligned(draws, np.float64),
    ]
    outputs = [
        np.zeros((runs, n_classes, d)) if keep else None,
        np.zeros((runs, T), dtype=np.int32) if keep else None,
        np.zeros(runs, dtype=np.int64),
    ]

    def pointers(arrays):
        return [ctypes.c_void_p(None if a is None else a.ctypes.data) for a in arrays]

    sizes = [ctypes.c_int(n) for n in (T, d, n_classes, runs)]
    begin = thread_time()
    function(*pointers(inputs), *sizes, ctypes.c_double(gamma), *pointers(outputs))
    seconds = thread_time() - begin
    weights, labels, mistakes = outputs
    return Outcome(mistakes, labels, weights, seconds)
