"""The columns of a log as arrays, converted piece by piece."""

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from delaytron.logs.schema import DENSE, NAMED, TIMES
from delaytron.records import Array, Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa

MISSING_TIME = int(np.iinfo(np.int64).min)

decode_features = msgspec.json.Decoder(dict[str, Any]).decode


def numbers(column: "pa.ChunkedArray", kind: Any, missing: float = np.nan) -> Any:
    """Return a column of numbers, with `missing` where there is none."""
    if column.null_count:
        column = column.fill_null(missing)
    return column.to_numpy().astype(kind, copy=False)


def times(column: "pa.ChunkedArray") -> Ints:
    """Return a column of times in nanoseconds, with `MISSING_TIME` where there is none."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    return np.asarray(column.cast(pa.int64()).fill_null(MISSING_TIME).to_numpy(), np.int64)


def latest_time(table: "pa.Table") -> int | None:
    """Return the latest time of a log, if it has any."""
    found = [times(table[name]).max(initial=MISSING_TIME) for name in TIMES]
    return None if max(found) == MISSING_TIME else int(max(found))


def dense_rows(column: "pa.ChunkedArray", width: int) -> Array:
    """Return a column of lists, all of the same length, as a matrix."""
    rows = np.empty((len(column), width))
    begin = 0
    for chunk in column.chunks:
        rows[begin : begin + len(chunk)] = chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
        begin += len(chunk)
    return rows


def allowed_mask(column: "pa.ChunkedArray", n_classes: int) -> Bools | None:
    """Return which classes could be chosen; None if all could in every row."""
    if column.null_count == len(column):
        return None
    mask = np.ones((len(column), n_classes), np.bool_)
    begin = 0
    for chunk in column.chunks:
        given = np.asarray(chunk.is_valid())
        part = mask[begin : begin + len(chunk)]
        part[given] = False
        part[np.repeat(np.arange(len(chunk)), list_lengths(chunk)), chunk.flatten().to_numpy()] = True
        begin += len(chunk)
    return None if mask.all() else mask


def list_lengths(chunk: "pa.Array") -> Ints:
    """Return how long the lists of a column are; 0 where there is none."""
    return np.asarray(chunk.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def features(column: "pa.ChunkedArray", kind: str, n_features: int | None) -> Any:
    """Return the features of a log as they were given."""
    if kind == NAMED:
        return [decode_features(text) for chunk in column.chunks for text in chunk.to_pylist()]
    assert n_features is not None  # noqa: S101 - vectors have a length
    if kind == DENSE:
        rows = dense_rows(column, n_features)
        rows.flags.writeable = False
        return rows
    return _sparse_rows(column, n_features)


def _sparse_rows(column: "pa.ChunkedArray", n_features: int) -> Any:
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - slow to import

    lengths, indices, values = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0)]
    for chunk in column.chunks:
        places, found = chunk.flatten()
        lengths.append(list_lengths(places))
        indices.append(places.flatten().to_numpy())
        values.append(found.flatten().to_numpy())
    starts = np.cumsum(np.concatenate(lengths))
    shape = (len(column), n_features)
    return csr_matrix((np.concatenate(values), np.concatenate(indices), starts), shape=shape)
