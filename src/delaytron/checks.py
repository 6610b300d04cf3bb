"""Checks of arguments, for constructors, loaders and the command line: numbers, words, paths, names, matrices.

A function `check_...` returns the checked value and raises InvalidInput if it is wrong. Code within the package trusts
its callers.
"""

import numbers
import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput, shown
from delaytron.records import NEVER, Ints, Stream

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix


LONGEST_NAME = 200  # bytes of the name of a class
MOST_NAME = 2**63  # integers have 64 bits on disk
LONGEST_REASON = 200  # characters of a message of another library
SMALLEST, LARGEST = 1e-50, 1e50  # of factors and of norms: beyond what 32-bit floats can hold, far from 64-bit limits
SMALLEST_SQUARE, LARGEST_SQUARE = SMALLEST**2, LARGEST**2


def reason_of(problem: Exception) -> str:
    """Return the message of another library's error, or of a missing key, in one line of at most 200 characters.

    Examples
    --------
    >>> reason_of(KeyError("seed")), reason_of(ValueError("one  two")), reason_of(MemoryError())
    ("there is no 'seed'", 'one two', 'MemoryError')
    """
    text = " ".join(str(problem).split())[:LONGEST_REASON]
    return f"there is no {text}" if type(problem) is KeyError else text or type(problem).__name__


def did_you_mean(word: Any, words: Iterable[str]) -> str:
    """Return a hint about an unknown word; empty if no other word is close to it.

    Examples
    --------
    >>> did_you_mean("gama", ["gamma", "eta"]), did_you_mean("lr", ["gamma", "eta"])
    ('did you mean gamma?', '')
    """
    close = get_close_matches(str(word)[:100], list(words), n=1) if isinstance(word, str) else []
    return f"did you mean {close[0]}?" if close else ""


def not_there(path: Path) -> str:
    """Return a hint about a file that does not exist: the nearest name in its folder, if there is one.

    Examples
    --------
    >>> not_there(Path(__file__).with_name("cheks.py")), not_there(Path("no_folder", "log.csv"))
    ('did you mean checks.py?', 'check the name')
    """
    try:
        names = [each.name for each in os.scandir(path.parent) if each.is_file()]
    except OSError:
        names = []
    return did_you_mean(path.name, names) or "check the name"


def installed_memory() -> int | None:
    """Return the memory of this machine in bytes; None if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def check_number(name: str, value: Any) -> float:
    """Return a finite real number as a float."""
    try:
        if not isinstance(value, bool) and isinstance(value, numbers.Real) and isfinite(float(value)):
            return float(value)
    except OverflowError:
        pass
    raise InvalidInput.of(name, "a finite number", value)


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above zero as a float."""
    if check_number(name, value) <= 0:
        raise InvalidInput.of(name, "above 0", value)
    return float(value)


def check_scale(name: str, value: Any, most: float = LARGEST) -> float:
    """Return a scale factor of the weights as a float: small enough that a product of a few does not overflow."""
    if not SMALLEST <= check_positive(name, value) <= most:
        raise InvalidInput.of(name, f"from {SMALLEST:g} to {most:g}", value)
    return float(value)


def check_exploration(value: Any) -> float:
    """Return the exploration rate gamma, in (0, 1]."""
    if not 0 < check_number("gamma", value) <= 1:
        raise InvalidInput.of("gamma", "in (0, 1]", value)
    if value < SMALLEST:
        raise InvalidInput.of("gamma", f"in (0, 1] and at least {SMALLEST:g}", value)
    return float(value)


def check_flip_rates(rho0: Any, rho1: Any) -> tuple[float, float]:
    """Return the rates of flipped answers, at least 0 with a sum below 1."""
    rates = check_number("rho0", rho0), check_number("rho1", rho1)
    if min(rates) < 0 or sum(rates) >= 1:
        raise InvalidInput(
            f"rho0 and rho1 must be at least 0 with a sum below 1; got {shown(rho0)} and {shown(rho1)}",
            "with a sum of 1 or more, answers carry no information: give smaller rates",
            parameter="rho0",
        )
    return rates


def check_integer(name: str, value: Any, at_least: int, at_most: int | None = None) -> int:
    """Return an integer within the limits."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < at_least:
        raise InvalidInput.of(name, f"an integer of at least {at_least}", value)
    if at_most is not None and int(value) > at_most:
        raise InvalidInput.of(name, f"at most {at_most}", value)
    return int(value)


def check_integers(name: str, values: Any, count: int, low: int, high: int | None = None) -> Ints:
    """Return an array of one integer per round, each from `low` to `high`; larger ones than `NEVER` become `NEVER`."""
    given = check_one_per_round(name, values, count)
    if given.dtype.kind not in "iu":
        raise InvalidInput.of(name, "integers", got=str(given.dtype))
    bad = np.flatnonzero((given < low) | (False if high is None else given > high))
    if bad.size:
        allowed = f"at least {low}" if high is None else f"in {low}..{high}"
        raise InvalidInput.of(name, allowed, got=f"{given[bad[0]]} in round {bad[0] + 1}")
    if given.size and given.max() > NEVER:
        given = np.where(given > NEVER, NEVER, given)
    return np.asarray(given, np.int64)  # without a copy, where possible: the delays of a long run are large


def check_one_per_round(name: str, values: Any, count: int) -> Any:
    """Return values as an array of `count` numbers."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise InvalidInput.of(name, f"{count} numbers, one per round", got="rows of different lengths") from None
    if given.dtype.kind not in "iufb" or given.shape != (count,):
        raise InvalidInput.of(name, f"{count} numbers, one per round", got=f"shape {given.shape} of {given.dtype}")
    return given


def check_distinct(what: str, names: Sequence[Any], same: str = "name") -> None:
    """Raise InvalidInput unless there is at least one name, and no two are equal."""
    if not names or len(set(names)) < len(names):
        raise InvalidInput.of(what, f"at least one, and no two of the same {same}", names)


def check_bool(name: str, value: Any) -> bool:
    """Return True or False; 1 and 0 are accepted."""
    try:
        if value in (0, 1):
            return bool(value)
    except (TypeError, ValueError):  # an array has no single truth, and pandas.NA has none at all
        pass
    raise InvalidInput.of(name, "True or False", value)


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return the value if it is one of the allowed words; the error has the nearest word as its hint."""
    words = list(allowed)
    if isinstance(value, str) and value in words:
        return str(value)
    raise InvalidInput.of(name, f"one of {', '.join(words)}", value, did_you_mean(value, words))


def check_path(name: str, path: Any) -> Path:
    """Return a path as a `Path`; the file need not exist.

    Examples
    --------
    >>> check_path("path", None)
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: path must be a str or a Path that is not empty, got None
    """
    try:
        if path != "" and b"\0" not in os.fsencode(given := Path(path)):
            return given
    except (TypeError, ValueError):  # of another type, of lone surrogates, or an array, which has no single truth
        pass
    raise InvalidInput.of(name, "a str or a Path that is not empty", path)


def as_class_name(name: Any) -> str | int | None:
    """Return the name of a class as a plain str or int; None if it is not a valid name.

    Examples
    --------
    >>> as_class_name("tea"), as_class_name(7), as_class_name(""), as_class_name(True)
    ('tea', 7, None, None)
    """
    if isinstance(name, str):
        text = str.__str__(name)
        return text if 0 < len(text.encode("utf-8", "replace")) <= LONGEST_NAME and text.isprintable() else None
    if isinstance(name, bool) or not isinstance(name, numbers.Integral):
        return None
    return int(name) if abs(int(name)) < MOST_NAME else None


Sparse: TypeAlias = "csr_array[np.float64, tuple[int, int]] | csr_matrix[np.float64]"
Matrix: TypeAlias = "NDArray[np.float64] | Sparse"

MODERATE = f"a largest number of 0 or from {SMALLEST:g} to {LARGEST:g}"
ZERO = np.uint64(0)
ONE = SIGN = np.uint64(1)
SMALLEST_BITS, LARGEST_BITS = np.array([SMALLEST, LARGEST]).view(np.uint64) << SIGN
SLICE = 2**16  # numbers that are checked at once, so that the check of a large matrix needs little memory


def is_sparse(X: object) -> "TypeGuard[Sparse]":
    """Whether X is a SciPy sparse matrix or array, found without importing SciPy."""
    return hasattr(X, "tocsr")


def check_matrix(X: Any, n_features: int | None = None, *, one_row_ok: bool = False) -> "Matrix":
    """Return X as a C-ordered float64 array or as CSR with float64 data and sorted int32 indices.

    An X of that form is returned itself, without a copy. With `one_row_ok` a 1-D X is one row.

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
        raise InvalidInput.of("X", "2-D, one row per example", got=f"{given.ndim}-D of shape {given.shape}")
    if 0 in given.shape:
        raise InvalidInput.of("X", "at least one row and one column", got=f"shape {given.shape}", verb="have")
    if n_features is not None and given.shape[1] != n_features:
        raise InvalidInput.of("X", f"{n_features} features", got=f"{given.shape[1]}", verb="have")
    return _canonical(given) if is_sparse(X) else _dense(given)


def as_numbers(X: Any) -> NDArray[Any]:
    """Return X as an array of numbers; text is refused even where NumPy could read it as a number."""
    try:
        given = np.asarray(X)
    except ValueError:
        raise InvalidInput.of("X", "2-D, one row per example", got="rows of different lengths") from None
    if given.dtype.kind in "biuf":
        return given
    if given.dtype.kind in "mM":  # NumPy would make plain integers of nanoseconds
        raise InvalidInput.of(
            "X", "numbers only", got=f"{given.dtype}", hint="turn times into numbers, such as hours", verb="hold"
        )
    objects = np.asarray(X, dtype=object)
    for place, value in np.ndenumerate(objects):
        if not isinstance(value, numbers.Real | np.bool_):
            raise InvalidInput.of("X", "numbers only", got=f"{shown(value)}{_at(*place)}", verb="hold")
    return objects


def _at(*place: int) -> str:
    """Return the row and column of a number in a matrix for a message; empty for other shapes."""
    return f" in row {place[0]}, column {place[1]}" if len(place) == 2 else ""


def _dense(given: NDArray[Any]) -> NDArray[np.float64]:
    """Return a 2-D array as C-ordered float64; raise InvalidInput at numbers that are not finite or are extreme."""
    try:
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(given, dtype=np.float64)
    except OverflowError:
        raise InvalidInput.of(
            "X", "numbers that fit into 64-bit floats", got="a larger one", hint="scale it", verb="hold"
        ) from None
    first = first_not_finite(X.ravel())
    if first is not None:
        row, column = divmod(first, X.shape[1])
        raise InvalidInput.of("X", "finite", got=f"{X[row, column]}{_at(row, column)}")
    if not _is_moderate(X.ravel()):
        _check_largest(np.abs(X).max(axis=1))
    return X


def first_not_finite(values: NDArray[np.float64]) -> int | None:
    """Return the index of the first number that is not finite, None if all are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        # Not by a dot product: the threads of NumPy's linear algebra stall for milliseconds on a busy machine. A sum
        # that overflows needs the closer look as well.
        if isfinite(values.sum()):
            return None
    for start in range(0, values.size, SLICE):
        finite = np.isfinite(values[start : start + SLICE])
        if not finite.all():
            return start + int(finite.argmin())
    return None


def has_moderate_square(values: NDArray[np.float64]) -> bool:
    """Return whether the squared length is moderate: then all numbers are finite and none is too large.

    False also for a row of zeros.
    """
    # `vdot`, because without the warnings of `dot` it takes a third of the time.
    return SMALLEST_SQUARE <= float(np.vdot(values, values)) <= LARGEST_SQUARE


def _canonical(given: Any) -> "Sparse":
    """Return a sparse matrix as CSR with float64 data and sorted int32 indices; raise InvalidInput as `_dense` does."""
    X = given.tocsr()
    if X.dtype.kind not in "biuf" or X.nnz > np.iinfo(np.int32).max:
        raise InvalidInput.of("X", "fewer than 2^31 real numbers", got=f"{X.nnz} of type {X.dtype}", verb="hold")
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise InvalidInput(
            f"X must be a valid CSR matrix, but {reason_of(error)}", "build it again from its entries"
        ) from None
    parts = [(X.data, np.float64), (X.indices, np.int32), (X.indptr, np.int32)]
    if not X.has_canonical_format or any(part.dtype != dtype for part, dtype in parts):
        X = type(X)(tuple(part.astype(dtype) for part, dtype in parts), shape=X.shape)
        X.sum_duplicates()  # in place, and sorts, too: X is a copy by now
    first = first_not_finite(X.data)
    if first is not None:
        row = int(np.searchsorted(X.indptr, first, side="right")) - 1
        raise InvalidInput.of("X", "finite", got=f"{X.data[first]}{_at(row, int(X.indices[first]))}")
    if not _is_moderate(X.data):
        _check_largest(abs(X).max(axis=1).toarray().ravel())
    return X  # type: ignore[no-any-return]


def _is_moderate(values: NDArray[np.float64]) -> bool:
    """Whether every number is 0 or between `SMALLEST` and `LARGEST`; then no row needs a closer look."""
    for start in range(0, values.size, SLICE):
        bits = values[start : start + SLICE].view(np.uint64) << SIGN  # without the sign, bits ascend as sizes do
        if bits.max(initial=ZERO) > LARGEST_BITS or (bits - ONE).min(initial=LARGEST_BITS) < SMALLEST_BITS - ONE:
            return False  # 0 - 1 wraps around to the largest integer, so that zeros do not count as small
    return True


def is_extreme(largest: Any) -> Any:
    """Whether the largest number of a row, or of each of many rows, is too large or too small to be squared."""
    return (largest > LARGEST) | ((largest > 0) & (largest < SMALLEST))


def _check_largest(largest: NDArray[np.float64]) -> None:
    """Raise InvalidInput if the largest number of a row is extreme."""
    bad = np.flatnonzero(is_extreme(largest))
    if bad.size:
        row = int(bad[0])
        raise InvalidInput(
            f"every row of X must have {MODERATE}, got {largest[row]:g} in row {row}", "scale the features"
        )


def as_kind(matrix: Any, sparse: bool) -> "Matrix":
    """Return a checked matrix as CSR if `sparse`, else as an array; without a copy if it is of that kind."""
    if is_sparse(matrix) == sparse:
        return matrix  # type: ignore[no-any-return]
    if not sparse:
        return np.ascontiguousarray(matrix.toarray())
    return check_matrix(_as_csr(matrix))


def _as_csr(matrix: NDArray[np.float64]) -> "Sparse":
    """Return a matrix as CSR, converted some rows at a time: SciPy's conversion needs several times the memory."""
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
    """Return checked matrices of one kind, stacked.

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
    """Return a checked matrix and its labels as the kernels read them, without a copy."""
    if isinstance(matrix, np.ndarray):
        return Stream(None, None, matrix, y)
    return Stream(matrix.indptr.view(np.uint32), matrix.indices.view(np.uint32), matrix.data, y)
