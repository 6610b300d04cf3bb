"""Rows and matrices as the kernels read them: checked float64, dense or CSR."""

from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.datasets.base import check_matrix, is_sparse
from delaytron.errors import InvalidInput
from delaytron.records import Array, Ints, Row, Stream

if TYPE_CHECKING:
    from delaytron.datasets.base import Matrix


def as_row(x: Any, n_features: int, sparse: bool | None) -> Row:
    """Return a copy of one example, as the kind that is wanted (None: as it came).

    Examples
    --------
    >>> as_row([0, 2.5], 2, sparse=True)
    Row(indices=array([1], dtype=uint32), values=array([2.5]))
    """
    row = _sparse_row(x, n_features) if is_sparse(x) else Row(None, _dense_row(x, n_features))
    if sparse is None or sparse == (row.indices is not None):
        return row
    return _only_nonzeros(row.values) if sparse else Row(None, _spread(row, n_features))


def as_matrix_of(X: Any, n_features: int, sparse: bool) -> "Matrix":
    """Return a checked matrix of the kind that is wanted; a single row may come as 1-D."""
    matrix = check_matrix(X, n_features, one_row_ok=True)
    if is_sparse(matrix) == sparse:
        return matrix
    if not sparse:
        return np.ascontiguousarray(matrix.toarray())
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import, and seldom needed

    return check_matrix(csr_array(matrix))


def as_stream(matrix: "Matrix", y: Ints) -> Stream:
    """Return a checked matrix and its labels as the kernels read them; nothing is copied."""
    if is_sparse(matrix):
        return Stream(matrix.indptr.astype(np.int64), matrix.indices.view(np.uint32), matrix.data, y)
    return Stream(None, None, matrix, y)


def _dense_row(x: Any, n_features: int) -> Array:
    try:
        values = np.array(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"x must be {n_features} numbers, got {x!r}") from None
    if values.shape != (n_features,):
        raise InvalidInput(f"x must be 1-D with {n_features} numbers, got shape {values.shape}")
    if not np.isfinite(values).all():
        position = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidInput(f"x must be finite, got {values[position]} at position {position}")
    return values


def _sparse_row(x: Any, n_features: int) -> Row:
    matrix: Any = check_matrix(x, n_features, one_row_ok=True)
    if matrix.shape[0] != 1:
        raise InvalidInput(f"x must be one row, got {matrix.shape[0]}")
    return Row(matrix.indices.astype(np.uint32), matrix.data.copy())


def _only_nonzeros(values: Array) -> Row:
    indices = np.flatnonzero(values)
    return Row(indices.astype(np.uint32), values[indices])


def _spread(row: Row, n_features: int) -> Array:
    values = np.zeros(n_features)
    values[row.indices] = row.values
    return values
