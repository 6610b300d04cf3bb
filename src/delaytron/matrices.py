"""Rows and matrices as the kernels read them: checked float64, dense or CSR."""

import numbers
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import LARGEST, SMALLEST, reason_of, shown
from delaytron.errors import InvalidInput
from delaytron.records import Ints, Stream

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

    Sparse: TypeAlias = csr_array[np.float64, tuple[int, int]] | csr_matrix[np.float64]
    Matrix: TypeAlias = NDArray[np.float64] | Sparse

MODERATE = f"a largest number of 0 or from {SMALLEST:g} to {LARGEST:g}"
ZERO = np.uint64(0)
ONE = SIGN = np.uint64(1)
SMALLEST_BITS, LARGEST_BITS = np.array([SMALLEST, LARGEST]).view(np.uint64) << SIGN
SLICE = 2**16  # numbers looked at together, so that a check of a large matrix needs no large scratch


def is_sparse(X: object) -> "TypeGuard[Sparse]":
    """Whether X is a SciPy sparse matrix or array; finds out without importing SciPy."""
    return hasattr(X, "tocsr")


def check_matrix(X: Any, n_features: int | None = None, *, one_row_ok: bool = False) -> "Matrix":
    """Return X as a C-ordered float64 array or as CSR with float64 data and sorted int32 indices.

    An X of that form comes back as it is, without a copy. With `one_row_ok` a 1-D X is one row.

    Examples
    --------
    >>> check_matrix([[1, 2], [3, 4]], n_features=2)
    array([[1., 2.],
           [3., 4.]])
    >>> check_matrix([1, 2], one_row_ok=True)
    array([[1., 2.]])
    """
    given: Any = X if is_sparse(X) else as_numbers(X)
    if given.ndim == 1 and one_row_ok:
        given = given.reshape(1, -1)
    if given.ndim != 2:
        raise InvalidInput(f"X must be 2-D, one row per example, got {given.ndim}-D of shape {given.shape}")
    if 0 in given.shape:
        raise InvalidInput(f"X must have at least one row and one column, got shape {given.shape}")
    if n_features is not None and given.shape[1] != n_features:
        raise InvalidInput(f"X must have {n_features} features, got {given.shape[1]}")
    return _canonical(given) if is_sparse(X) else _dense(given)


def as_numbers(X: Any) -> NDArray[Any]:
    """X as an array of numbers; text is refused even where NumPy could read it as a number."""
    try:
        given = np.asarray(X)
    except ValueError:
        raise InvalidInput("X must be 2-D, one row per example, got rows of different lengths") from None
    if given.dtype.kind in "biuf":
        return given
    if given.dtype.kind in "mM":  # NumPy would make plain integers of nanoseconds
        raise InvalidInput(f"X must hold numbers only, got {given.dtype}: turn times into numbers, such as hours")
    objects = np.asarray(X, dtype=object)
    for place, value in np.ndenumerate(objects):
        if not isinstance(value, numbers.Real | np.bool_):
            raise InvalidInput(f"X must hold numbers only, got {shown(value)}{_at(*place)}")
    return objects


def _at(*place: int) -> str:
    return f" in row {place[0]}, column {place[1]}" if len(place) == 2 else ""


def _dense(given: NDArray[Any]) -> NDArray[np.float64]:
    try:
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(given, dtype=np.float64)
    except OverflowError:
        raise InvalidInput("X must hold numbers that fit into 64-bit floats, got a larger one; scale it") from None
    first = first_not_finite(X.ravel())
    if first is not None:
        row, column = divmod(first, X.shape[1])
        raise InvalidInput(f"X must be finite, got {X[row, column]}{_at(row, column)}")
    if not _is_moderate(X.ravel()):
        _check_largest(np.abs(X).max(axis=1))
    return X


def first_not_finite(values: NDArray[np.float64]) -> int | None:
    """Return the place of the first number that is not finite."""
    if _sum_is_finite(values):
        return None
    for start in range(0, values.size, SLICE):
        finite = np.isfinite(values[start : start + SLICE])
        if not finite.all():
            return start + int(finite.argmin())
    return None


def has_moderate_square(values: NDArray[np.float64]) -> bool:
    """Whether all is finite and the largest number moderate, found quickly; a row of zeros says no as well."""
    return bool(SMALLEST**2 <= np.vdot(values, values) <= LARGEST**2)  # unlike `dot` it warns of nothing: a third


def _sum_is_finite(values: NDArray[np.float64]) -> bool:
    """Whether all is finite, found quickly; a sum that overflows says no as well.

    Not by a dot product: the threads of NumPy's linear algebra stall for milliseconds on a busy machine.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return isfinite(values.sum())


def _canonical(given: Any) -> "Sparse":
    X = given.tocsr()
    if X.dtype.kind not in "biuf" or X.nnz > np.iinfo(np.int32).max:
        raise InvalidInput(f"X must hold fewer than 2^31 real numbers, got {X.nnz} of type {X.dtype}")
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise InvalidInput(f"X must be a valid CSR matrix, but {reason_of(error)}; build it anew") from None
    parts = [(X.data, np.float64), (X.indices, np.int32), (X.indptr, np.int32)]
    if not X.has_canonical_format or any(part.dtype != dtype for part, dtype in parts):
        X = type(X)(tuple(part.astype(dtype) for part, dtype in parts), shape=X.shape)
        X.sum_duplicates()  # sorts, too; on our own copy
    first = first_not_finite(X.data)
    if first is not None:
        row = int(np.searchsorted(X.indptr, first, side="right")) - 1
        raise InvalidInput(f"X must be finite, got {X.data[first]}{_at(row, int(X.indices[first]))}")
    if not _is_moderate(X.data):
        _check_largest(abs(X).max(axis=1).toarray().ravel())
    return X  # type: ignore[no-any-return]


def _is_moderate(values: NDArray[np.float64]) -> bool:
    """Whether every number is 0 or far from the limits of floats, so that a look at each row is not needed."""
    for start in range(0, values.size, SLICE):
        bits = values[start : start + SLICE].view(np.uint64) << SIGN  # without it they ascend as the sizes do
        if bits.max(initial=ZERO) > LARGEST_BITS or (bits - ONE).min(initial=LARGEST_BITS) < SMALLEST_BITS - ONE:
            return False  # 0 - 1 is the largest number there is, so that zeros do not count as small
    return True


def is_extreme(largest: Any) -> Any:
    """Whether the largest number of a row, or of each of many, is too large or too small for its square to be used."""
    return (largest > LARGEST) | ((largest > 0) & (largest < SMALLEST))


def _check_largest(largest: NDArray[np.float64]) -> None:
    """Raise if the largest number of a row is extreme."""
    bad = np.flatnonzero(is_extreme(largest))
    if bad.size:
        row = int(bad[0])
        raise InvalidInput(
            f"every row of X must have {MODERATE}, got {largest[row]:g} in row {row}; scale the features"
        )


def as_kind(matrix: Any, sparse: bool) -> "Matrix":
    """Return a checked matrix as the kind that is wanted."""
    if is_sparse(matrix) == sparse:
        return matrix  # type: ignore[no-any-return]
    if not sparse:
        return np.ascontiguousarray(matrix.toarray())
    return check_matrix(_as_csr(matrix))


def _as_csr(matrix: NDArray[np.float64]) -> "Sparse":
    """Return the non-zeros of a matrix, some rows at a time: SciPy would need several times their memory."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import, and seldom needed

    n_rows, n_features = matrix.shape
    step = max(1, SLICE // n_features)
    slices = [matrix[first : first + step] for first in range(0, n_rows, step)]
    counts = np.concatenate([np.count_nonzero(rows, axis=1) for rows in slices])
    ends = np.concatenate([[0], np.cumsum(counts)])
    indices = np.empty(ends[-1], np.int32)
    values = np.empty(ends[-1])
    for rows, first, last in zip(slices, ends[:-1:step], [*ends[step:-1:step], ends[-1]], strict=True):
        indices[first:last] = np.nonzero(rows)[1]
        values[first:last] = rows[rows != 0]
    return csr_array((values, indices, ends), shape=matrix.shape)


def stack_rows(parts: Sequence[Any]) -> "Matrix":
    """Return checked matrices of one kind, each below the one before.

    Examples
    --------
    >>> stack_rows([np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])])
    array([[1., 2.],
           [3., 4.]])
    """
    if len(parts) == 1:
        return parts[0]  # type: ignore[no-any-return]
    if not is_sparse(parts[0]):
        return np.concatenate(parts, dtype=np.float64)
    from scipy.sparse import vstack  # noqa: PLC0415 - slow to import

    return vstack(parts, format="csr")  # type: ignore[no-any-return]


def as_stream(matrix: "Matrix", y: Ints) -> Stream:
    """Return a checked matrix and its labels as the kernels read them; nothing is copied."""
    if isinstance(matrix, np.ndarray):
        return Stream(None, None, matrix, y)
    return Stream(matrix.indptr.view(np.uint32), matrix.indices.view(np.uint32), matrix.data, y)
