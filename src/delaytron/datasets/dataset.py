"""Data sets: a checked matrix and class numbers, dense or CSR; labels as class numbers; scaling.

A sum over a dense row has another order than one over its non-zeros, so the same numbers in the other form may give
results that differ in the last digit. Therefore `choose_form` alone chooses the form of everything that is loaded, by
name, from a file or from a frame; a pair (X, y) and a `Dataset` of the user's own keep theirs.
"""

import numbers
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import as_kind, check_bool, check_choice, check_integers, check_matrix, is_sparse
from delaytron.errors import InvalidInput, Setting, shown
from delaytron.records import NEVER, Array

if TYPE_CHECKING:
    from delaytron.checks import Matrix, Sparse

MAX_CLASSES = 1_000_000  # a larger class number is an identifier, not a class; a model row for each would be absurd
SPARSE_BELOW = 0.2  # share of non-zeros; measured: CSR is three times faster at 0.15, and even at 0.3
SURELY_SPARSE = 0.1  # known before any row is read, of columns of categories
WIDE = 10_000  # columns: from here on memory matters more than speed
SPARSE_IF_WIDE = 0.5
SCALES = ("unit", "standard")


class Block(NamedTuple):
    """Rows of a file or frame: features, labels (numbers or text), and the names of the columns if it has any.

    Parameters
    ----------
    notes : tuple of str
        What was done with the columns, a line each.
    dropped, filled : int
        Rows that were left out because a value is missing, and cells that were filled in.
    lost : ndarray of bool, optional
        Which rows were left out, of those that were read for the block.
    delays : ndarray of int, optional
        The delay in rounds with which each row was answered.
    """

    X: "Matrix"
    labels: NDArray[Any]
    feature_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    dropped: int = 0
    filled: int = 0
    lost: NDArray[np.bool_] | None = None
    delays: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A matrix of examples with a class number for each row; raises InvalidInput if they do not fit each other.

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
        Where the data come from and on what terms; empty where unknown.
    notes : tuple of str
        What was done when they were read, a line each.
    delays : ndarray of int64, optional
        Where decisions and answers were recorded with their times: how many rounds after that of its row an answer
        came, `delaytron.delays.NEVER` for none. The rows are in the order of their decisions.

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
    delays: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", check_matrix(self.X))
        features = f"{self.n_features} or none"
        for name, allowed in (("class_names", "one name for each class"), ("feature_names", features)):
            if not isinstance(getattr(self, name), Sized):
                raise InvalidInput.of(name, allowed, got=type(getattr(self, name)).__name__)
        if len(self.feature_names) not in (0, self.n_features):
            raise InvalidInput.of("feature_names", features, got=f"{len(self.feature_names)}")
        y = np.asarray(self.y)
        if y.ndim != 1 or len(y) != self.n_rows:
            allowed = f"one label for each of the {self.n_rows} rows of X"
            raise InvalidInput.of("y", allowed, got=f"shape {y.shape}", verb="have")
        if self.n_classes < 2:
            raise InvalidInput.of("y", "at least two classes", got=str(self.n_classes), verb="name")
        if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= self.n_classes:
            allowed = f"integer class numbers from 0 to {self.n_classes - 1}"
            got = f"from {y.min()} to {y.max()}" if y.dtype.kind in "iu" else str(y.dtype)
            raise InvalidInput.of("y", allowed, got=got, verb="hold")
        shape = (self.n_classes, self.n_features)
        if self.certificate is not None and np.shape(self.certificate) != shape:
            raise InvalidInput.of("certificate", f"shape {shape}", got=f"{np.shape(self.certificate)}", verb="have")
        own = np.array(y, dtype=np.int64)
        own.setflags(write=False)  # the compiled loop indexes by them without a check
        object.__setattr__(self, "y", own)
        if self.delays is not None:
            waits = np.array(check_integers("delays", self.delays, self.n_rows, low=1))
            waits.setflags(write=False)
            object.__setattr__(self, "delays", waits)

    @property
    def n_rows(self) -> int:
        """The number of examples."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return int(self.X.shape[1])

    @property
    def n_classes(self) -> int:
        """The number of classes, including those that are not in y."""
        return len(self.class_names)

    @property
    def majority_error(self) -> float:
        """The error of always playing the most frequent class, the baseline of a learner.

        Examples
        --------
        >>> Dataset(np.eye(4), np.array([0, 1, 1, 1]), "tiny", ("a", "b")).majority_error
        0.25
        """
        return majority_error(np.bincount(self.y))

    @property
    def n_bytes(self) -> int:
        """The bytes of memory that the numbers of X take."""
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
        origin = {"source": self.source, "licence": self.licence}
        known = (
            sizes | {"error of the most frequent class": self.majority_error} | {k: v for k, v in origin.items() if v}
        )
        counts = np.bincount(self.y, minlength=self.n_classes)
        shares = (f"{count / self.n_rows:.1%}" for count in counts.tolist())
        rows = zip(self.class_names, counts.tolist(), shares, strict=True)
        return page(self.name, facts(known), table(("class", "rows", "share"), rows, self.n_classes))


def majority_error(class_counts: NDArray[np.int64]) -> float:
    """Return the error of always playing the most frequent class, given the number of rows of each.

    Examples
    --------
    >>> majority_error(np.array([6, 3, 1]))
    0.4
    """
    return float(1 - class_counts.max() / class_counts.sum())


def is_frame(data: object) -> bool:
    """Whether this is a frame of pandas, polars or another library, which is not imported for it."""
    return hasattr(data, "__arrow_c_stream__")


def encode_labels(labels: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the class number of every label, and the names of the classes; raise InvalidInput if one is invalid.

    Examples
    --------
    >>> encode_labels([-1, 1, 1])
    (array([0, 1, 1]), ('-1', '1'))
    >>> encode_labels([2, 0, 2])
    (array([2, 0, 2]), ('0', '1', '2'))
    """
    y = _plain_labels(labels)
    if y.ndim != 1 or y.size == 0:
        raise InvalidInput.of("y", "1-D with at least one label", got=f"shape {y.shape}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise InvalidInput.of("y", "finite numbers or text", got=f"{y[row]} in row {row}", verb="hold")
    if y.dtype.kind not in "iuf" or y.min() < 0 or (y != np.floor(y)).any():
        names, codes = np.unique(y, return_inverse=True)
        return codes.astype(np.int64), tuple(str(value) for value in names.tolist())
    if y.max() >= MAX_CLASSES:
        raise InvalidInput(f"a class number must be below {MAX_CLASSES}, got {y.max()}", "pass the labels as text")
    return y.astype(np.int64), tuple(str(k) for k in range(int(y.max()) + 1))


def class_name(value: Any) -> str:
    """Return a label as text; an integer has no decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def labelled(block: Block, name: str, source: str) -> Dataset:
    """Return the rows of a file or frame as a data set: its classes are the labels that occur, sorted.

    Raises InvalidInput if there are fewer than two classes, or rows that cannot be played.

    Examples
    --------
    >>> labelled(Block(np.eye(2), np.array(["b", "a"])), "tiny", "tiny.csv").class_names
    ('a', 'b')
    """
    values, y = np.unique(block.labels, return_inverse=True)
    class_names = tuple(map(class_name, values.tolist()))
    check_two_classes(source, class_names)
    notes = (*block.notes, *row_notes(block.filled, block.dropped, len(y)))
    try:
        return Dataset(
            block.X,
            y,
            name,
            class_names,
            feature_names=block.feature_names,
            source=source,
            notes=notes,
            delays=block.delays,
        )
    except InvalidInput as problem:
        raise InvalidInput(f"{source}: {problem.problem}", problem.args[1] or "correct the file") from None


def largest_classes(data: Dataset, most: int) -> Dataset:
    """Return the rows of the largest classes, as if there had been no others; of equal ones the first.

    Recorded delays then count the rounds that are left.

    Examples
    --------
    >>> data = Dataset(np.eye(4), np.array([0, 1, 2, 2]), "tiny", ("a", "b", "c"), delays=np.array([2, 2, 1, 1]))
    >>> some = largest_classes(data, 2)
    >>> some.class_names, some.y.tolist(), some.delays.tolist()
    (('a', 'c'), [0, 1, 1], [1, 1, 1])
    """
    counts = np.bincount(data.y, minlength=data.n_classes)
    kept = np.sort(np.argsort(-counts, kind="stable")[:most])
    rows = np.isin(data.y, kept)
    delays = None
    if data.delays is not None:
        # An answer comes with the first decision that is left of those at or after the one with which it came.
        left = np.concatenate([[0], np.cumsum(rows)])
        came = np.minimum(np.arange(data.n_rows) + data.delays, data.n_rows)
        waits = np.maximum(1, left[came] - left[: data.n_rows])
        delays = np.where(data.delays < NEVER, waits, NEVER)[rows]
    names = tuple(data.class_names[k] for k in kept)
    return replace(data, X=data.X[rows], y=np.searchsorted(kept, data.y[rows]), class_names=names, delays=delays)


def check_two_classes(source: str, classes: Sequence[Any] | NDArray[Any]) -> None:
    """Raise InvalidInput if there are fewer than two classes in a file."""
    if len(classes) < 2:
        raise InvalidInput(
            f"{source}: there must be at least two classes, got only {str(classes[0])!r}",
            ("add rows of other classes, or pass another ", Setting("label")),
        )


def row_notes(filled: int, dropped: int, n_rows: int) -> list[str]:
    """Return notes on what was done about missing values, a line each; `n_rows` is the number of rows kept.

    Examples
    --------
    >>> row_notes(0, 1, 3)
    ['dropped 1 of 4 rows with a missing value']
    """
    notes = []
    if filled:
        cells = "cell" if filled == 1 else "cells"
        notes.append(f"filled {filled:,} missing {cells}: numbers with means, categories with one of their own")
    if dropped:
        notes.append(f"dropped {dropped:,} of {n_rows + dropped:,} rows with a missing value")
    return notes


def _plain_labels(labels: Any) -> NDArray[Any]:
    """Return labels as numbers, booleans or text; raise InvalidInput if they are mixed, which NumPy would make text."""
    try:
        y = np.asarray(labels)
    except ValueError:
        raise InvalidInput.of("y", "1-D", got="rows of different lengths") from None
    if y.dtype.kind in "biuf" or (y.dtype.kind == "U" and isinstance(labels, np.ndarray)):
        return y
    values = np.asarray(labels, dtype=object).ravel().tolist()
    for allowed in (str, bool | np.bool_, numbers.Real):
        if all(isinstance(value, allowed) for value in values):
            return np.array(values, dtype=object if allowed is str else None).reshape(y.shape)
    kind = str if isinstance(values[0], str) else numbers.Real
    row = next((i for i, value in enumerate(values) if not isinstance(value, kind)), 0)
    raise InvalidInput.of("y", "all text or all numbers", got=f"{shown(values[row])} in row {row}")


def choose_form(data: Dataset) -> Dataset:
    """Return a data set in the form in which it is played: as CSR if it has few non-zeros, or is CSR already.

    Examples
    --------
    >>> choose_form(Dataset(np.eye(9), np.arange(9), "tiny", tuple("123456789")))
    Dataset('tiny', 9 rows, 9 features, 9 classes, sparse)
    """
    if data.sparse or not plays_sparse(int(np.count_nonzero(np.asarray(data.X))), data.n_rows, data.n_features):
        return data
    return replace(data, X=as_kind(data.X, sparse=True))


def plays_sparse(nonzeros: int, n_rows: int, n_features: int) -> bool:
    """Whether a matrix with this number of non-zeros is played as CSR."""
    return nonzeros <= SPARSE_BELOW * n_rows * n_features


def encodes_sparse(n_filled: int, width: int) -> bool:
    """Whether rows of `width` columns, of which `n_filled` can differ from 0, are encoded as CSR."""
    return n_filled <= width * (SPARSE_IF_WIDE if width > WIDE else SURELY_SPARSE)


class Scaling:
    """Scales rows and appends a bias; "standard" needs `partial_fit` on all rows before it can `apply` to any.

    Parameters
    ----------
    kind : {"unit", "standard"}, optional
        "unit" gives every row the Euclidean norm 1; a row of zeros stays. "standard" gives every column mean 0 and
        standard deviation 1; a constant column becomes 0. A sparse X is divided by the deviations but not centred, so
        that it stays sparse.
    bias : bool
        Append a column of ones after that.

    Examples
    --------
    >>> scaling = Scaling("standard", bias=True)
    >>> for block in (np.array([[1.0, 7.0]]), np.array([[3.0, 7.0]])):
    ...     scaling.partial_fit(block)
    >>> scaling.apply(np.array([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]]))
    array([[-1.,  0.,  1.],
           [ 0.,  0.,  1.],
           [ 1.,  0.,  1.]])
    """

    def __init__(self, kind: str | None = None, bias: bool = False) -> None:
        self.kind = None if kind is None else check_choice("scale", kind, SCALES)
        self.bias = check_bool("bias", bias)
        self.count = 0
        # Of each column: the value in the first row; the mean minus that; the sum of squared deviations from the mean.
        self.origin = self.mean_offset = self.sum_squares = np.zeros(0)

    @property
    def needs_all(self) -> bool:
        """Whether `partial_fit` must get all rows before any can be scaled."""
        return self.kind == "standard"

    def partial_fit(self, X: "Matrix") -> None:
        """Take the mean and the deviation of more rows into account; "unit" needs neither.

        A later sparse block may have more columns than those before: they were 0 until then.
        """
        if not self.needs_all:
            return
        if not self.count:
            self.origin = np.array(X[0]) if isinstance(X, np.ndarray) else X[[0]].toarray()[0]
        n_new = max(0, X.shape[1] - self.origin.size)
        self.origin = np.pad(self.origin, (0, n_new))
        self.mean_offset = np.pad(self.mean_offset, (0, n_new))
        self.sum_squares = np.pad(self.sum_squares, (0, n_new))
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow becomes an error in `apply`
            mean_offset, sum_squares = _moments(X, self.origin)
            count, total = X.shape[0], self.count + X.shape[0]
            if self.count:  # merge both by the stable formulas of Chan, Golub and LeVeque (1979)
                difference = mean_offset - self.mean_offset
                sum_squares = self.sum_squares + sum_squares + difference**2 * (self.count * count / total)
                mean_offset = self.mean_offset + difference * (count / total)
        self.count, self.mean_offset, self.sum_squares = total, mean_offset, sum_squares

    def apply(self, X: "Matrix") -> "Matrix":
        """Return rows scaled, in a new matrix if anything is to be done.

        Raises InvalidInput if the square of a number does not fit into a float.
        """
        if self.kind == "unit":
            X = _unit(X)
        elif self.kind == "standard":
            deviations = np.sqrt(self.sum_squares / self.count)
            if not np.isfinite(deviations).all():
                raise InvalidInput(
                    (
                        Setting("scale", "'standard'"),
                        " needs numbers whose squares fit into 64-bit floats, got a larger one",
                    ),
                    "divide the column by a constant first",
                    parameter="scale",
                )
            if isinstance(X, np.ndarray):
                X = X - (self.origin + self.mean_offset)
                X /= _or_one(deviations)
            else:
                mine = deviations[X.indices]
                X = _csr_like(X, np.where(mine > 0, X.data / _or_one(mine), 0.0))
        if not self.bias:
            return X
        ones = np.ones((X.shape[0], 1))
        if isinstance(X, np.ndarray):
            return np.hstack([X, ones])
        from scipy.sparse import csr_array, hstack  # noqa: PLC0415 - slow to import

        widened: Sparse = hstack([X, csr_array(ones)], format="csr")
        return widened


def rescale(data: Dataset, scaling: Scaling) -> Dataset:
    """Return a data set scaled, the column of ones named "bias" if the others have names.

    Examples
    --------
    >>> data = Dataset(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([0, 1]), "tiny", ("no", "yes"), None, ("a", "b"))
    >>> scaled = rescale(data, Scaling("unit", bias=True))
    >>> scaled.X, scaled.feature_names
    (array([[0.6, 0.8, 1. ],
           [0. , 0. , 1. ]]), ('a', 'b', 'bias'))
    """
    if scaling.kind is None and not scaling.bias:
        return data
    scaling.partial_fit(data.X)
    names = (*data.feature_names, "bias") if scaling.bias and data.feature_names else data.feature_names
    certificate = None  # one of unscaled rows certifies nothing about scaled ones
    if data.certificate is not None and not scaling.kind:
        certificate = np.pad(data.certificate, ((0, 0), (0, 1)))  # the bias decides nothing: every row has it
    return replace(data, X=scaling.apply(data.X), feature_names=names, certificate=certificate)


def _moments(X: "Matrix", origin: Array) -> tuple[Array, Array]:
    """Return the mean of every column less its origin, and the sum of squares about the mean.

    A constant column equals its origin, so its deviation is exactly 0; without the origin, rounding would leave some.
    """
    if isinstance(X, np.ndarray):
        moved = X - origin
        shift = moved.mean(axis=0)
        moved -= shift
        return shift, np.einsum("ij,ij->j", moved, moved)
    n_rows, size = X.shape[0], origin.size
    moved, zeros = X.data - origin[X.indices], n_rows - np.bincount(X.indices, minlength=size)
    shift = (np.bincount(X.indices, moved, size) - zeros * origin) / n_rows
    moved -= shift[X.indices]
    return shift, np.bincount(X.indices, moved**2, size) + zeros * (origin + shift) ** 2


def _unit(X: "Matrix") -> "Matrix":
    """Return rows of norm 1; they are divided by their largest number first, whose square may not fit into a float."""
    if isinstance(X, np.ndarray):
        result = X / _or_one(np.abs(X).max(axis=1))[:, None]
        result /= _or_one(np.sqrt(np.einsum("ij,ij->i", result, result)))[:, None]
        return result
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    largest = np.zeros(X.shape[0])
    np.maximum.at(largest, rows, np.abs(X.data))
    data = X.data / _or_one(largest)[rows]
    return _csr_like(X, data / _or_one(np.sqrt(np.bincount(rows, data**2, X.shape[0])))[rows])


def _or_one(divisors: Array) -> Array:
    return np.where(divisors > 0, divisors, 1.0)


def _csr_like(X: "Sparse", data: Array) -> "Sparse":
    return type(X)((data, X.indices, X.indptr), shape=X.shape)
