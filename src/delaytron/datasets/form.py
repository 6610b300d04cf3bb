"""In which form data are played, dense or CSR: chosen here and nowhere else, since last digits depend on it.

A sum over a dense row has other lanes than one over its non-zeros, so that the same numbers in the other form may give
results that differ in the last digit. Whatever is loaded, by name, from a file or from a frame, gets its form here;
a pair (X, y) and a `Dataset` of the user's own keep theirs.
"""

from dataclasses import replace

import numpy as np

from delaytron.datasets.base import Dataset
from delaytron.matrices import as_kind

SPARSE_BELOW = 0.2  # share of non-zeros; measured: CSR is three times faster at 0.15, and even at 0.3
SURELY_SPARSE = 0.1  # known before any row is read, of columns of categories
WIDE = 10_000  # columns: from here on memory matters more than speed
SPARSE_IF_WIDE = 0.5


def choose_form(data: Dataset) -> Dataset:
    """Return a data set in the form in which it is played: few non-zeros as CSR; what is CSR stays so.

    Examples
    --------
    >>> choose_form(Dataset(np.eye(9), np.arange(9), "tiny", tuple("123456789")))
    Dataset('tiny', 9 rows, 9 features, 9 classes, sparse)
    """
    if data.sparse or not plays_sparse(int(np.count_nonzero(np.asarray(data.X))), data.n_rows, data.n_features):
        return data
    return replace(data, X=as_kind(data.X, sparse=True))


def plays_sparse(nonzeros: int, n_rows: int, n_features: int) -> bool:
    """Whether a matrix with so many non-zeros is played as CSR."""
    return nonzeros <= SPARSE_BELOW * n_rows * n_features


def encodes_sparse(n_filled: int, width: int) -> bool:
    """Whether rows of so many columns, of which only so many can differ from 0, are made as CSR from the start."""
    return n_filled <= width * (SPARSE_IF_WIDE if width > WIDE else SURELY_SPARSE)
