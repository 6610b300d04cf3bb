"""Matrices made of encoded columns: numbers in their places, a 1 for every category."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput

if TYPE_CHECKING:
    from delaytron.matrices import Matrix


class Cells(NamedTuple):
    """One column: where in X it begins, whether it holds the numbers of categories, and its cells."""

    place: int
    one_hot: bool
    cells: NDArray[Any]


def empty_matrix(name: str, n_rows: int, n_features: int) -> NDArray[np.float64]:
    """Return room for a dense matrix; raise if no memory of this machine could hold it."""
    n_bytes = 8 * n_rows * n_features
    there = _memory()
    if there is not None and n_bytes > there:
        raise InvalidInput(
            f"{name}: {n_rows:,} rows of {n_features:,} numbers take {n_bytes / 2**30:,.1f} GB, but this machine has "
            f"{there / 2**30:,.1f}; leave columns out, or read Parquet or LIBSVM in blocks (datasets.stream, --stream)"
        )
    return np.empty((n_rows, n_features))


def _memory() -> int | None:
    """Return how many bytes of memory this machine has, where the system tells it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def dense_matrix(columns: Iterable[Cells], shape: tuple[int, int]) -> NDArray[np.float64]:
    """Fill in numbers, and a 1 for every category."""
    X = np.zeros(shape)
    rows = np.arange(shape[0])
    for place, one_hot, cells in columns:
        if one_hot:
            X[rows, place + cells] = 1.0
        else:
            X[:, place] = cells
    return X


def sparse_matrix(columns: Iterable[Cells], shape: tuple[int, int], n_numbers: int) -> "Matrix":
    """Make the same as CSR: the same number of entries in every row."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    data = np.ones((shape[0], n_numbers))
    indices = np.empty((shape[0], n_numbers), np.int32)
    for i, (place, one_hot, cells) in enumerate(columns):
        indices[:, i] = place + (cells if one_hot else 0)
        if not one_hot:
            data[:, i] = cells
    ends = np.arange(0, data.size + 1, n_numbers)
    return csr_array((data.ravel(), indices.ravel(), ends), shape=shape)
