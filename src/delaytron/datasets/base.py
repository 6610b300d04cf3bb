"""What every learner and simulation is fed with: a checked matrix and class numbers."""

import numbers
from collections.abc import Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput
from delaytron.matrices import check_matrix, is_sparse

if TYPE_CHECKING:
    from delaytron.matrices import Matrix

MAX_CLASSES = 1_000_000  # a larger class number is an identifier, not a class; a model row for each would be absurd


class Block(NamedTuple):
    """Rows as a file has them: features, labels (numbers or text), and the names of the columns if it has any.

    Parameters
    ----------
    notes : tuple of str
        What was done with the columns, a line each.
    dropped, filled : int
        Rows that were left out because a value is missing, and cells that were filled in.
    """

    X: "Matrix"
    labels: NDArray[Any]
    feature_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    dropped: int = 0
    filled: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A matrix of examples with a class number for each row, validated on construction.

    Parameters
    ----------
    X : ndarray or CSR
        One row per example: C-ordered float64, or CSR with float64 data and sorted int32 indices.
    y : ndarray of int64
        The class of each row, from 0 to `n_classes` - 1.
    certificate : ndarray, optional
        A (classes, features) matrix without hinge loss on the noise-free examples, where one is known.
    feature_names : tuple of str
        One for each column of X, or none at all.
    source, licence, citation : str
        Where the data come from and on what terms; empty where nobody said so.
    notes : tuple of str
        What was done when they were read, a line each.

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
    feature_names: tuple[str, ...] = ()
    source: str = ""
    licence: str = ""
    citation: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", check_matrix(self.X))
        if not isinstance(self.class_names, Sized):
            raise InvalidInput(f"class_names must be one name for each class, got {type(self.class_names).__name__}")
        if len(self.feature_names) not in (0, self.n_features):
            raise InvalidInput(f"feature_names must be {self.n_features} or none, got {len(self.feature_names)}")
        object.__setattr__(self, "y", _check_classes(np.asarray(self.y), self.n_rows, self.n_classes))

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
    def majority_error(self) -> float:
        """The error of always playing the most frequent class: what a learner has to beat.

        Examples
        --------
        >>> Dataset(np.eye(4), np.array([0, 1, 1, 1]), "tiny", ("a", "b")).majority_error
        0.25
        """
        return majority_error(np.bincount(self.y))

    @property
    def n_bytes(self) -> int:
        """How much memory X takes."""
        return int(self.X.data.nbytes)

    @property
    def sparse(self) -> bool:
        """Whether X is a CSR matrix."""
        return is_sparse(self.X)

    def __repr__(self) -> str:
        form = "sparse" if self.sparse else "dense"
        sizes = f"{self.n_rows} rows, {self.n_features} features, {self.n_classes} classes"
        return f"Dataset({self.name!r}, {sizes}, {form})"

    def _repr_html_(self) -> str:
        from delaytron.notebooks import facts, page, table  # noqa: PLC0415 - for notebooks only

        sizes = {"rows": self.n_rows, "features": self.n_features, "form": "sparse" if self.sparse else "dense"}
        known = {"source": self.source, "licence": self.licence}
        told = sizes | {"error of the most frequent class": self.majority_error} | {k: v for k, v in known.items() if v}
        counts = np.bincount(self.y, minlength=self.n_classes)
        shares = (f"{count / self.n_rows:.1%}" for count in counts.tolist())
        rows = zip(self.class_names, counts.tolist(), shares, strict=True)
        return page(self.name, facts(told), table(("class", "rows", "share"), rows, self.n_classes))


def _check_classes(y: NDArray[np.int64], n_rows: int, n_classes: int) -> NDArray[np.int64]:
    if y.ndim != 1 or len(y) != n_rows:
        raise InvalidInput(f"y must have one label for each of the {n_rows} rows of X, got shape {y.shape}")
    if n_classes < 2:
        raise InvalidInput(f"y must name at least two classes, got {n_classes}")
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= n_classes:
        got = f"from {y.min()} to {y.max()}" if y.dtype.kind in "iu" else y.dtype
        raise InvalidInput(f"y must hold integer class numbers from 0 to {n_classes - 1}, got {got}")
    own = np.array(y, dtype=np.int64)
    own.setflags(write=False)  # the compiled loop trusts the class numbers
    return own


def majority_error(class_counts: NDArray[np.int64]) -> float:
    """Return the error of always playing the most frequent class, from the number of rows of each.

    Examples
    --------
    >>> majority_error(np.array([6, 3, 1]))
    0.4
    """
    return float(1 - class_counts.max() / class_counts.sum())


def is_frame(data: object) -> bool:
    """Whether this is a table of columns, of pandas, polars or any other maker; found out without importing it."""
    return hasattr(data, "__arrow_c_stream__")


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
        raise InvalidInput(f"a class number must be below {MAX_CLASSES}, got {y.max()}; give text labels instead")
    return y.astype(np.int64), tuple(str(k) for k in range(int(y.max()) + 1))


def encode_present(labels: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return class numbers for the labels of a file: only what occurs is a class, in sorted order, and keeps its name.

    Examples
    --------
    >>> encode_present(np.array([10.0, 2.0, 10.0]))
    (array([1, 0, 1]), ('2', '10'))
    """
    values, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.int64), tuple(map(class_name, values.tolist()))


def class_name(value: Any) -> str:
    """Return a label as text; an integer has no decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


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
