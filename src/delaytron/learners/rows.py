"""One example as the kernels read it: checked, copied, dense or its non-zeros."""

from typing import Any

import numpy as np

from delaytron.checks import shown
from delaytron.errors import InvalidInput
from delaytron.matrices import (
    MODERATE,
    as_numbers,
    check_matrix,
    first_not_finite,
    has_moderate_square,
    is_extreme,
    is_sparse,
)
from delaytron.records import Array, Row


def as_row(x: Any, n_features: int, sparse: bool | None) -> Row:
    """Return a copy of one example, as the kind that is wanted (None: as it came).

    Examples
    --------
    >>> as_row([0, 2.5], 2, sparse=True)
    Row(indices=array([1], dtype=uint32), values=array([2.5]))
    """
    row = _sparse_row(x, n_features) if is_sparse(x) else Row(None, _dense_row(x, n_features))
    return row if sparse is None else as_kind_of_row(row, n_features, sparse)


def as_kind_of_row(row: Row, n_features: int, sparse: bool) -> Row:
    """Return a checked row as the kind that is wanted."""
    if sparse == (row.indices is not None):
        return row
    return _only_nonzeros(row.values) if sparse else Row(None, _spread(row, n_features))


def _dense_row(x: Any, n_features: int) -> Array:
    try:
        given = np.asarray(x)
        if given.dtype.kind not in "biuf":
            given = as_numbers(x)
        values = np.array(given, dtype=np.float64)
    except (InvalidInput, TypeError, ValueError, OverflowError):
        raise InvalidInput(f"x must be {n_features} numbers, got {shown(x)}") from None
    if values.shape != (n_features,):
        raise InvalidInput(f"x must be 1-D with {n_features} numbers, got shape {values.shape}")
    if not has_moderate_square(values):
        position = first_not_finite(values)
        if position is not None:
            raise InvalidInput(f"x must be finite, got {values[position]} at position {position}")
        check_row(values)
    return values


def check_row(values: Array) -> None:
    """Raise if the largest number of a row is too large or too small for its square to mean anything.

    Examples
    --------
    >>> check_row(np.array([1e-160, 0.0]))
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: x must have a largest number of 0 or from 1e-50 to 1e+50, got 1e-160; scale it
    """
    largest = float(np.abs(values).max(initial=0.0))
    if is_extreme(largest):
        raise InvalidInput(f"x must have {MODERATE}, got {largest:g}; scale it")


def _sparse_row(x: Any, n_features: int) -> Row:
    if not _is_plain_row(x, n_features):
        x = check_matrix(x, n_features, one_row_ok=True)
    if x.shape[0] != 1:
        raise InvalidInput(f"x must be one row, got {x.shape[0]}; pass them one by one")
    values = x.data.astype(np.float64)
    if not has_moderate_square(values):
        if first_not_finite(values) is not None:
            check_matrix(x, n_features)  # says where
        check_row(values)
    return Row(x.indices.astype(np.uint32), values)


def _is_plain_row(x: Any, n_features: int) -> bool:
    """Whether x has the form of a good CSR row already: a tenth of the time that a full check takes."""
    if x.format != "csr" or x.shape != (1, n_features) or x.data.dtype != np.float64:
        return False
    indices = x.indices
    ordered = indices.size == x.data.size and bool((indices[1:] > indices[:-1]).all())
    inside = indices.size == 0 or 0 <= indices[0] <= indices[-1] < n_features
    whole = x.indptr[0] == 0 and x.indptr[-1] == indices.size
    return ordered and bool(inside and whole)


def _only_nonzeros(values: Array) -> Row:
    indices = np.flatnonzero(values)
    return Row(indices.astype(np.uint32), values[indices])


def _spread(row: Row, n_features: int) -> Array:
    values = np.zeros(n_features)
    values[row.indices] = row.values
    return values
