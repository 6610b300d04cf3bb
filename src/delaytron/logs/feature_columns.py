"""Features as columns of a log: vectors, sparse rows and dicts."""

from math import isinf
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.logs.schema import DENSE, NAMED, SPARSE
from delaytron.matrices import check_matrix, is_sparse
from delaytron.records import Array

if TYPE_CHECKING:
    import pyarrow as pa

MOST_VALUES = 2**31 - 1  # of a column that is one piece: lists begin at 32-bit integers


def feature_column(given: Any) -> tuple[str, "pa.Array", int | None]:
    """Return how features stand, the column, and how many there are."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if isinstance(given, list | tuple) and given and isinstance(given[0], dict):
        return NAMED, pa.array(list(map(encode_features, given)), pa.string()), None
    X: Any = check_matrix(given)
    if is_sparse(X):
        return SPARSE, sparse_column(X.indptr, X.indices, X.data), X.shape[1]
    return DENSE, dense_column(X), X.shape[1]


def dense_column(X: Array) -> "pa.Array":
    """Return the rows of a matrix as a column of lists."""
    return lists_of(np.arange(0, X.size + 1, X.shape[1]), X.ravel())


def sparse_column(starts: Any, indices: Any, values: Array) -> "pa.Array":
    """Return the rows of a CSR matrix as a column."""
    needs("pyarrow")
    from pyarrow import StructArray  # noqa: PLC0415 - slow to import

    return StructArray.from_arrays([lists_of(starts, indices), lists_of(starts, values)], ["indices", "values"])


def lists_of(starts: Any, values: Any) -> "pa.Array":
    """Return a column of lists, of which each begins where the one before ends."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if starts[-1] > MOST_VALUES:
        raise InvalidInput(
            f"a log that is made at once can have {MOST_VALUES:,} numbers in a column, got {starts[-1]:,}; make several"
        )
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(values))


def encode_features(row: Any) -> str:
    """Return named features as JSON."""
    if not isinstance(row, dict):
        raise InvalidInput(f"features must all be dicts where one is, got {type(row).__name__}")
    try:
        text = msgspec.json.encode(row, enc_hook=_plain).decode()
        if "null" in text:
            _check_numbers(row)
        return text  # noqa: TRY300
    except InvalidInput:
        raise
    except (TypeError, ValueError, RecursionError, OverflowError) as problem:
        raise InvalidInput(f"features must hold what JSON can hold: {problem}") from None


def _check_numbers(value: Any) -> None:
    """Raise if a number is infinite, which would be written as missing; NaN is missing."""
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_numbers(inner)
    elif isinstance(value, float) and isinf(value):
        raise InvalidInput(f"features must be finite, got {value}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise InvalidInput(f"features must hold what JSON can hold, got {type(value).__name__}")
