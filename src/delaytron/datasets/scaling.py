"""Rows of norm 1, columns of mean 0 and deviation 1, a constant column: for whole data sets and for blocks of them."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from delaytron.checks import check_bool, check_choice
from delaytron.datasets.base import Dataset
from delaytron.errors import InvalidInput
from delaytron.records import Array

if TYPE_CHECKING:
    from delaytron.matrices import Matrix, Sparse

SCALES = ("unit", "standard")


class Scaling:
    """Scales rows after it has seen all of them; `kind` "unit" and None need not see any.

    Parameters
    ----------
    kind : {"unit", "standard"}, optional
        "unit" gives every row the Euclidean norm 1; a row of zeros stays. "standard" gives every column mean 0 and
        standard deviation 1; a constant column becomes 0. A sparse X is divided by the deviations but not moved to
        mean 0, so that it stays sparse.
    bias : bool
        Append a column of ones after that.

    Examples
    --------
    >>> scaling = Scaling("standard", bias=True)
    >>> for block in (np.array([[1.0, 7.0]]), np.array([[3.0, 7.0]])):
    ...     scaling.see(block)
    >>> scaling.apply(np.array([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]]))
    array([[-1.,  0.,  1.],
           [ 0.,  0.,  1.],
           [ 1.,  0.,  1.]])
    """

    def __init__(self, kind: str | None = None, bias: bool = False) -> None:
        self.kind = None if kind is None else check_choice("scale", kind, SCALES)
        self.bias = check_bool("bias", bias)
        self.count = 0
        self.origin = self.shift = self.spread = np.zeros(0)  # a value; mean minus it; sum of squares about the mean

    @property
    def needs_all(self) -> bool:
        """Whether all rows must be seen before any can be scaled."""
        return self.kind == "standard"

    def see(self, X: "Matrix") -> None:
        """Take in rows; a later sparse block may have more columns than those before."""
        if not self.needs_all:
            return
        if not self.count:
            self.origin = np.array(X[0]) if isinstance(X, np.ndarray) else X[[0]].toarray()[0]
        wider = (0, max(0, X.shape[1] - self.origin.size))
        self.origin, self.shift, self.spread = (np.pad(v, wider) for v in (self.origin, self.shift, self.spread))
        with np.errstate(over="ignore", invalid="ignore"):
            self._merge(X.shape[0], *_moments(X, self.origin))

    def _merge(self, count: int, shift: Array, spread: Array) -> None:
        """Put the moments of new rows to those of the rows before, in the stable way of Chan and others (1979)."""
        if not self.count:
            self.count, self.shift, self.spread = count, shift, spread
            return
        total, apart = self.count + count, shift - self.shift
        self.spread = self.spread + spread + apart**2 * (self.count * count / total)
        self.shift = self.shift + apart * (count / total)
        self.count = total

    def apply(self, X: "Matrix") -> "Matrix":
        """Return rows scaled, in a new matrix where anything is to be done."""
        if self.kind == "unit":
            X = _unit(X)
        elif self.kind == "standard":
            X = self._standard(X)
        return _with_ones(X) if self.bias else X

    def _standard(self, X: "Matrix") -> "Matrix":
        deviations = np.sqrt(self.spread / self.count)
        if not np.isfinite(deviations).all():
            raise InvalidInput("scale 'standard' needs numbers whose squares fit into 64-bit floats, got a larger one")
        if not isinstance(X, np.ndarray):
            return _by_column(X, deviations)
        moved = X - (self.origin + self.shift)
        moved /= _or_one(deviations)
        return moved


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
    scaling.see(data.X)
    names = (*data.feature_names, "bias") if scaling.bias and data.feature_names else data.feature_names
    certificate = None if data.certificate is None or scaling.kind else _with_zeros(data.certificate)
    return replace(data, X=scaling.apply(data.X), feature_names=names, certificate=certificate)


def _moments(X: "Matrix", origin: Array) -> tuple[Array, Array]:
    """Return the mean of every column less its origin, and the sum of squares about the mean.

    A column that is constant, and so equal to its origin, has exactly no spread; about 0 it might have a little.
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
    """Divide by the largest number of a row first: its square may not fit into a float."""
    if isinstance(X, np.ndarray):
        result = X / _or_one(np.abs(X).max(axis=1))[:, None]
        result /= _or_one(np.sqrt(np.einsum("ij,ij->i", result, result)))[:, None]
        return result
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    largest = np.zeros(X.shape[0])
    np.maximum.at(largest, rows, np.abs(X.data))
    data = X.data / _or_one(largest)[rows]
    return _with_data(X, data / _or_one(np.sqrt(np.bincount(rows, data**2, X.shape[0])))[rows])


def _or_one(divisors: Array) -> Array:
    return np.where(divisors > 0, divisors, 1.0)


def _by_column(X: "Sparse", deviations: Array) -> "Sparse":
    mine = deviations[X.indices]
    return _with_data(X, np.where(mine > 0, X.data / _or_one(mine), 0.0))


def _with_data(X: "Sparse", data: Array) -> "Sparse":
    return type(X)((data, X.indices, X.indptr), shape=X.shape)


def _with_ones(X: "Matrix") -> "Matrix":
    ones = np.ones((X.shape[0], 1))
    if isinstance(X, np.ndarray):
        return np.hstack([X, ones])
    from scipy.sparse import csr_array, hstack  # noqa: PLC0415 - slow to import

    widened: Sparse = hstack([X, csr_array(ones)], format="csr")
    return widened


def _with_zeros(certificate: Array) -> Array:
    return np.pad(certificate, ((0, 0), (0, 1)))  # a column that everybody has decides nothing
