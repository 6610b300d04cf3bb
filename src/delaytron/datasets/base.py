"""What every learner and simulation is fed with: a checked matrix and class numbers."""

import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

    Sparse: TypeAlias = csr_array[np.float64, tuple[int, int]] | csr_matrix[np.float64]
    Matrix: TypeAlias = NDArray[np.float64] | Sparse

MAX_CLASSES = (
    1_000_000  # a larger class number is an identifier, not a class; a model row for each would be absurd
)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A matrix of examples with a class number for each row; wrong ones cannot be made.

    Parameters
    ----------
    X : ndarray or CSR
        One row per example: C-ordered float64, or CSR with float64 data and sorted int32 indices.
    y : ndarray of int64
        The class of each row, from 0 to `n_classes` - 1.
    certificate : ndarray, optional
        A (classes, features) matrix without hinge loss on the noise-free examples, where one is known.

    Examples
    --------
    >>> Dataset(np.eye(2), np.array([0, 1]), name="tiny", class_names=("no", "yes"))
    Dataset('tiny', 2 rows, 2 features, 2 classes, dense)
    """

    X: "Matrix"
    y: NDArray[np.int64]
    name: str
    class_names: tuple[str, ...]
    certificate: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", check_matrix(self.X))
        object.__setattr__(self, "y", _check_classes(self.y, self.n_rows, self.n_classes))

    @property
    def n_rows(self) -> int:
        """How many examples there are."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """How many numbers describe an example."""
        return int(self.X.shape[1])

    @property
    def n_classes(self) -> int:
        """How many classes there are, seen in y or not."""
        return len(self.class_names)

    @property
    def sparse(self) -> bool:
        """Whether X is a CSR matrix."""
        return is_sparse(self.X)

    def __repr__(self) -> str:
        form = "sparse" if self.sparse else "dense"
        sizes = f"{self.n_rows} rows, {self.n_features} features, {self.n_classes} classes"
        return f"Dataset({self.name!r}, {sizes}, {form})"


def _check_classes(y: NDArray[np.int64], n_rows: int, n_classes: int) -> NDArray[np.int64]:
    if y.ndim != 1 or len(y) != n_rows:
        raise InvalidInput(f"y must have one label for each of the {n_rows} rows of X, got shape {y.shape}")
    if n_classes < 2:
        raise InvalidInput(f"y must name at least two classes, got {n_classes}")
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= n_classes:
        raise InvalidInput(f"y must hold whole class numbers from 0 to {n_classes - 1}")
    return np.ascontiguousarray(y, dtype=np.int64)


def as_dataset(data: Any, name: str = "data") -> Dataset:
    """Pass a Dataset through, or make one of a pair (X, y).

    Whole non-negative labels are class numbers; any others (text, negative numbers, fractions) are numbered
    in sorted order and keep their names.

    Examples
    --------
    >>> as_dataset(([[0, 1], [1, 0], [1, 1]], ["cat", "dog", "cat"]), name="pets").class_names
    ('cat', 'dog')
    """
    if isinstance(data, Dataset):
        return data
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InvalidInput(f"data must be a Dataset or a pair (X, y), got {type(data).__name__}")
    y, class_names = encode_labels(data[1])
    return Dataset(data[0], y, name, class_names)


def encode_labels(labels: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the class number of every label, and the names of the classes.

    Examples
    --------
    >>> encode_labels([-1, 1, 1])
    (array([0, 1, 1]), ('-1', '1'))
    >>> encode_labels([2, 0, 2])
    (array([2, 0, 2]), ('0', '1', '2'))
    """
    y = _plain_labels(labels)
    if y.ndim != 1 or y.size == 0:
        raise InvalidInput(f"y must be 1-D with at least one label, got shape {y.shape}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise InvalidInput(f"y must hold finite numbers or text, got {y[row]} in row {row}")
    if y.dtype.kind not in "iuf" or y.min() < 0 or (y != np.floor(y)).any():
        names, codes = np.unique(y, return_inverse=True)
        return codes.astype(np.int64), tuple(str(value) for value in names.tolist())
    if y.max() >= MAX_CLASSES:
        raise InvalidInput(
            f"a class number must be below {MAX_CLASSES}, got {y.max()}; give text labels instead"
        )
    return y.astype(np.int64), tuple(str(k) for k in range(int(y.max()) + 1))


def _plain_labels(labels: Any) -> NDArray[Any]:
    """Labels as numbers, booleans or text; a list that mixes them is refused instead of becoming text."""
    try:
        y = np.asarray(labels)
    except ValueError:
        raise InvalidInput("y must be 1-D, got rows of different lengths") from None
    if y.dtype.kind in "biuf" or (y.dtype.kind == "U" and isinstance(labels, np.ndarray)):
        return y
    values = np.asarray(labels, dtype=object).ravel().tolist()
    for allowed in (str, bool | np.bool_, numbers.Real):
        if all(isinstance(value, allowed) for value in values):
            return np.array(values, dtype=object if allowed is str else None).reshape(y.shape)
    raise InvalidInput(f"y must be all text or all numbers, got {_odd_one(values)}")


def _odd_one(values: list[Any]) -> str:
    kind = str if isinstance(values[0], str) else numbers.Real
    row = next((i for i, value in enumerate(values) if not isinstance(value, kind)), 0)
    return f"{values[row]!r} in row {row}"


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
    given: Any = X if is_sparse(X) else _numbers(X)
    if given.ndim == 1 and one_row_ok:
        given = given.reshape(1, -1)
    if given.ndim != 2:
        raise InvalidInput(f"X must be 2-D, one row per example, got {given.ndim}-D of shape {given.shape}")
    if 0 in given.shape:
        raise InvalidInput(f"X must have at least one row and one column, got shape {given.shape}")
    if n_features is not None and given.shape[1] != n_features:
        raise InvalidInput(f"X must have {n_features} features, got {given.shape[1]}")
    return _canonical(given) if is_sparse(X) else _dense(given)


def _numbers(X: Any) -> NDArray[Any]:
    """X as an array of numbers; text is refused even where NumPy could read it as a number."""
    try:
        given = np.asarray(X)
    except ValueError:
        raise InvalidInput("X must be 2-D, got rows of different lengths") from None
    if given.dtype.kind in "biuf":
        return given
    objects = np.asarray(X, dtype=object)
    for place, value in np.ndenumerate(objects):
        if not isinstance(value, numbers.Real | np.bool_):
            raise InvalidInput(f"X must hold numbers only, got {value!r}{_at(*place)}")
    return objects


def _at(*place: int) -> str:
    return f" in row {place[0]}, column {place[1]}" if len(place) == 2 else ""


def _dense(given: NDArray[Any]) -> NDArray[np.float64]:
    try:
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(given, dtype=np.float64)
    except OverflowError:
        raise InvalidInput("X must hold numbers that fit into 64-bit floats, got a larger one") from None
    finite = np.isfinite(X)
    if not finite.all():
        row, column = np.unravel_index(finite.argmin(), X.shape)
        raise InvalidInput(f"X must be finite, got {X[row, column]}{_at(int(row), int(column))}")
    return X


def _canonical(given: Any) -> "Sparse":
    X = given.tocsr()
    if X.dtype.kind not in "biuf" or X.nnz > np.iinfo(np.int32).max:
        raise InvalidInput(f"X must hold fewer than 2^31 real numbers, got {X.nnz} of type {X.dtype}")
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise InvalidInput(f"X must be a valid CSR matrix, but {error}") from None
    parts = [(X.data, np.float64), (X.indices, np.int32), (X.indptr, np.int32)]
    if not X.has_canonical_format or any(part.dtype != dtype for part, dtype in parts):
        X = type(X)(tuple(part.astype(dtype) for part, dtype in parts), shape=X.shape)
        X.sum_duplicates()  # sorts, too; on our own copy
    if not np.isfinite(X.data).all():
        first = int(np.isfinite(X.data).argmin())
        row = int(np.searchsorted(X.indptr, first, side="right")) - 1
        raise InvalidInput(f"X must be finite, got {X.data[first]}{_at(row, int(X.indices[first]))}")
    return X  # type: ignore[no-any-return]
