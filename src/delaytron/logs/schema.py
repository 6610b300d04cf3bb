"""The schema of a log: its columns, the checks of their values, and conversions from and to arrays."""

import json
from collections.abc import Mapping
from math import isinf
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from delaytron.checks import check_matrix, is_sparse
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.records import Array, Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = "1"
NAMED, DENSE, SPARSE = "named", "dense", "sparse"  # JSON objects; vectors; vectors that are mostly zeros
REQUIRED = ("id", "features", "label", "prob", "outcome")
TIMES = ("decided_at", "occurred_at", "received_at")
LARGEST_TIME = 2**63 - 1  # nanoseconds since 1970: in the year 2262
EXPECTED = "write it with dt.logs.write_parquet, dt.logs.from_arrays or delaytron export"
CORRECT = "correct it where the log is written, or leave out the row"  # hint
MISSING_TIME = int(np.iinfo(np.int64).min)
MOST_VALUES = 2**31 - 1  # in a column of lists that is one chunk: their offsets are 32-bit integers
CLOSE = 1e-3  # tolerance for sums of probabilities, which are often rounded to 32 bits


class About(NamedTuple):
    """What all rows of a log share, stored in the metadata of the schema.

    `classes` are the names of the labels. `n_features` is None where features have names. The log was observed until
    `until`, in nanoseconds since 1970; None means the latest time in it. `actions` has the features of each class, a
    dict by label, where the log of another tool has them.
    """

    classes: tuple[Any, ...]
    n_features: int | None = None
    until: int | None = None
    actions: tuple[dict[str, Any], ...] | None = None


def log_schema(kind: str, about: About) -> "pa.Schema":
    """Return the schema of a log whose features are `named`, `dense` or `sparse`.

    Examples
    --------
    >>> log_schema("dense", About(("a", "b"), n_features=3)).names
    ['id', 'decided_at', 'features', 'allowed', 'label', 'prob', 'probabilities', 'learner', 'outcome', 'occurred_at', \
'received_at', 'delay', 'weight', 'position']
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    time = pa.timestamp("ns", tz="UTC")
    pairs = [("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
    features = {NAMED: pa.string(), DENSE: pa.list_(pa.float64()), SPARSE: pa.struct(pairs)}
    columns = {
        "id": pa.string(),
        "decided_at": time,
        "features": features[kind],
        "allowed": pa.list_(pa.int32()),
        "label": pa.int32(),
        "prob": pa.float64(),
        "probabilities": pa.list_(pa.float64()),
        "learner": pa.string(),
        "outcome": pa.float64(),
        "occurred_at": time,
        "received_at": time,
        "delay": pa.int64(),
        "weight": pa.float64(),
        "position": pa.int32(),
    }
    fields = [pa.field(name, of, name not in REQUIRED[:4]) for name, of in columns.items()]
    metadata = {"delaytron.log": VERSION, "delaytron.classes": json.dumps(about.classes, ensure_ascii=False)}
    if about.n_features is not None:
        metadata["delaytron.n_features"] = str(about.n_features)
    if about.until is not None:
        metadata["delaytron.until"] = str(about.until)
    if about.actions is not None:
        metadata["delaytron.actions"] = json.dumps(about.actions, ensure_ascii=False)
    return pa.schema(fields, metadata=metadata)


def kind_of(schema: "pa.Schema") -> str:
    """Return the kind of the features of a table, by the type of their column."""
    needs("pyarrow")
    from pyarrow import types  # noqa: PLC0415 - slow to import

    given = schema.field("features").type
    if types.is_string(given) or types.is_large_string(given):
        return NAMED
    return SPARSE if types.is_struct(given) else DENSE


def decode_about(metadata: Mapping[bytes, bytes] | None) -> About:
    """Return the metadata of a schema; raise InvalidInput if it is not that of a log."""
    texts = {name.decode("utf-8", "replace"): value for name, value in (metadata or {}).items()}
    version = texts.get("delaytron.log")
    if version is None:
        raise InvalidInput("a log needs the key delaytron.log in the metadata of its schema, got none", EXPECTED)
    if version != VERSION.encode():
        raise InvalidInput(
            f"a log must be of version {VERSION}, got {version[:20]!r}", f"update delaytron, or {EXPECTED}"
        )
    try:
        classes = json.loads(texts.get("delaytron.classes", b"null"))
        actions = json.loads(texts.get("delaytron.actions", b"null"))
        numbers = {name: int(texts[key]) for name in ("n_features", "until") if (key := f"delaytron.{name}") in texts}
        if any(abs(number) > LARGEST_TIME for number in numbers.values()):
            raise ValueError("a number is too large")  # noqa: TRY301
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"the metadata of the log cannot be read: {problem}", EXPECTED) from None
    names = check_classes(classes)
    if actions is not None:
        wanted = len(names)
        if not isinstance(actions, list) or len(actions) != wanted or not all(isinstance(one, dict) for one in actions):
            raise InvalidInput(f"delaytron.actions must be a list of {wanted} objects, one for each class", EXPECTED)
        actions = tuple(actions)
    return About(names, **numbers, actions=actions)


def check_classes(classes: Any) -> tuple[Any, ...]:
    """Return the names of classes; raise InvalidInput unless they are at least two distinct strings, or integers."""
    names = tuple(classes) if isinstance(classes, list | tuple) else ()
    alike = all(isinstance(name, str) for name in names) or all(type(name) is int for name in names)
    if len(names) < 2 or not alike or len(set(names)) < len(names):
        raise InvalidInput.of("classes", "two or more different strings, or integers", classes)
    return names


decode_features = msgspec.json.Decoder(dict[str, Any]).decode


def column_numbers(column: "pa.ChunkedArray", kind: Any, missing: float = np.nan) -> Any:
    """Return a column of numbers, with `missing` where there is none."""
    if column.null_count:
        column = column.fill_null(missing)
    return column.to_numpy().astype(kind, copy=False)


def column_times(column: "pa.ChunkedArray") -> Ints:
    """Return a column of times in nanoseconds, with `MISSING_TIME` where there is none."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    return np.asarray(column.cast(pa.int64()).fill_null(MISSING_TIME).to_numpy(), np.int64)


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
    """Return the lengths of the lists of a column; 0 where there is none."""
    return np.asarray(chunk.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def column_features(column: "pa.ChunkedArray", kind: str, n_features: int | None) -> Any:
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


def feature_column(given: Any) -> tuple[str, "pa.Array", int | None]:
    """Return the kind of features, their column, and their number (None if they have names)."""
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
    """Return a column of lists, each beginning where the one before ends; raise InvalidInput if it is too long."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if starts[-1] > MOST_VALUES:
        raise InvalidInput(
            f"a log in memory can have {MOST_VALUES:,} numbers in a column, got {starts[-1]:,}", "make several logs"
        )
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(values))


def encode_features(row: Any) -> str:
    """Return named features as JSON; raise InvalidInput if JSON cannot hold them."""
    if not isinstance(row, dict):
        raise InvalidInput(
            f"features must all be dicts where one is, got {type(row).__name__}", "give a dict for every row"
        )
    try:
        text = msgspec.json.encode(row, enc_hook=_plain).decode()
        if "null" in text:
            _check_numbers(row)
        return text  # noqa: TRY300
    except InvalidInput:
        raise
    except (TypeError, ValueError, RecursionError, OverflowError) as problem:
        raise InvalidInput(
            f"features must hold what JSON can hold: {problem}", "use text, numbers, booleans, lists and dicts"
        ) from None


def _check_numbers(value: Any) -> None:
    """Raise if a number is infinite, which would be written as missing; NaN is missing."""
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_numbers(inner)
    elif isinstance(value, float) and isinf(value):
        raise InvalidInput.of("features", "finite", got=str(value), hint="leave it out, or give NaN for a missing one")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise InvalidInput.of(
        "features",
        "what JSON can hold",
        got=type(value).__name__,
        verb="hold",
        hint="use text, numbers, booleans, lists and dicts",
    )


def checked_table(table: "pa.Table", about: About) -> "pa.Table":
    """Return a table with the columns and types of the schema; raise InvalidInput if a value is missing or wrong."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise InvalidInput(f"a log needs the column {missing[0]!r}, got {', '.join(table.column_names)}", EXPECTED)
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise InvalidInput(f"a log must have each column once, got {twice[0]!r} twice", "drop or rename one of them")
    schema = log_schema(kind_of(table.schema), about)
    arrays = []
    for field in schema:
        if field.name not in table.column_names:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            continue
        column = table[field.name]
        try:
            arrays.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            raise InvalidInput(
                f"column {field.name!r} of a log must be {field.type}, or fit into it, got {column.type}", EXPECTED
            ) from None
        if not field.nullable and arrays[-1].null_count:
            raise InvalidInput(
                f"column {field.name!r} of a log must have a value in every row", "leave out the rows without one"
            )
    outcome = schema.get_field_index("outcome")
    is_nan = compute.is_nan(arrays[outcome])
    if compute.any(is_nan).as_py():
        arrays[outcome] = compute.if_else(is_nan, None, arrays[outcome])
    typed = pa.Table.from_arrays(arrays, schema=schema)
    _check_columns(typed, about)
    return typed


def _check_columns(table: "pa.Table", about: About) -> None:
    from pyarrow import compute  # noqa: PLC0415 - slow to import

    n_classes = len(about.classes)
    ids = table["id"]
    if compute.count_distinct(ids).as_py() < len(ids):
        counts = compute.value_counts(ids)
        place = compute.index(compute.greater(counts.field("counts"), 1), True).as_py()
        twice = counts.field("values")[place].as_py()[:80]
        raise InvalidInput(f"ids must differ, got {twice!r} more than once", "keep one row for each decision")
    labels = column_numbers(table["label"], np.int64)
    _check(f"labels must be from 0 to {n_classes - 1}", labels, (labels >= 0) & (labels < n_classes))
    probs = column_numbers(table["prob"], np.float64)
    _check("probs must be above 0 and at most 1", probs, (probs > 0) & (probs <= 1))
    outcomes = column_numbers(table["outcome"], np.float64)
    _check("outcomes must be from 0 to 1", outcomes, np.isnan(outcomes) | ((outcomes >= 0) & (outcomes <= 1)))
    weights = column_numbers(table["weight"], np.float64, 1.0)
    _check("weights must be finite and at least 1", weights, np.isfinite(weights) & (weights >= 1))
    delays = column_numbers(table["delay"], np.int64, 0)
    _check("delays must be at least 0", delays, delays >= 0)
    positions = column_numbers(table["position"], np.int64, 0)
    _check("positions must be at least 0", positions, positions >= 0)
    for name in ("position", "decided_at"):
        if table[name].null_count not in (0, table.num_rows):
            raise InvalidInput(f"{name} must be there in every row or in none", "fill it, or leave the column out")
    answered = np.asarray(table["outcome"].is_valid())
    for name in ("occurred_at", "received_at", "delay"):
        early = np.asarray(table[name].is_valid()) & ~answered
        if early.any():
            raise InvalidInput(
                f"{name} must be there in rows with an outcome only, not so in row {early.argmax()}",
                "leave it empty where there is no outcome",
            )
    _check_allowed(table["allowed"], labels, n_classes)
    _check_probabilities(table["probabilities"], labels, probs, n_classes)
    _check_features(table["features"], kind_of(table.schema), about.n_features)


def _check(rule: str, values: Any, valid: Any) -> None:
    """Raise InvalidInput for the first value that is not valid."""
    if not valid.all():
        row = int(np.argmin(valid))
        raise InvalidInput(f"{rule}, got {values[row].item()!r} in row {row}", CORRECT)


def _check_allowed(column: "pa.ChunkedArray", labels: Any, n_classes: int) -> None:
    """Raise InvalidInput unless every list that is given has distinct labels, the one that was played among them."""
    begin = 0
    for chunk in column.chunks:
        rows = np.repeat(np.arange(begin, begin + len(chunk)), list_lengths(chunk))
        given = column_numbers(chunk.flatten(), np.int64, -1)
        outside = np.flatnonzero((given < 0) | (given >= n_classes))
        if outside.size:
            found = f"got {given[outside[0]]} in row {rows[outside[0]]}"
            raise InvalidInput(f"allowed classes must be from 0 to {n_classes - 1}, {found}", CORRECT)
        if np.unique(rows * n_classes + given).size < given.size:
            raise InvalidInput("allowed classes must differ within a row", CORRECT)
        chosen = np.zeros(len(chunk), np.bool_)
        chosen[rows[given == labels[rows]] - begin] = True
        chosen |= ~np.asarray(chunk.is_valid())
        if not chosen.all():
            row = int(np.argmin(chosen)) + begin
            raise InvalidInput(
                f"the label must be among the allowed classes, got label {labels[row]} in row {row}", CORRECT
            )
        begin += len(chunk)


def _check_probabilities(column: "pa.ChunkedArray", labels: Any, probs: Any, n_classes: int) -> None:
    """Raise InvalidInput unless every list that is given sums to 1 and has `prob` at the label that was played."""
    begin = 0
    for chunk in column.chunks:
        rows = np.flatnonzero(np.asarray(chunk.is_valid())) + begin
        begin += len(chunk)
        _check_lengths("probabilities", chunk, n_classes, rows)
        given = column_numbers(chunk.flatten(), np.float64).reshape(-1, n_classes)  # `flatten` leaves out null lists
        with np.errstate(invalid="ignore"):
            fine = (given >= 0).all(axis=1) & (abs(given.sum(axis=1) - 1) <= CLOSE)
            same = abs(given[np.arange(len(rows)), labels[rows]] - probs[rows]) <= CLOSE
        if not fine.all():
            found = f"got {given[np.argmin(fine)].tolist()} in row {rows[np.argmin(fine)]}"
            raise InvalidInput(f"probabilities must be at least 0 and sum to 1, {found[:200]}", CORRECT)
        if not same.all():
            row = rows[np.argmin(same)]
            found = f"got {given[np.argmin(same), labels[row]]} and {probs[row]} in row {row}"
            raise InvalidInput(
                f"the probability of the label must be the same in probabilities and in prob, {found}", CORRECT
            )


def _check_lengths(name: str, chunk: "pa.Array", length: int, rows: Any) -> None:
    """Raise InvalidInput if a list of a column has another length."""
    lengths = list_lengths(chunk)[np.asarray(chunk.is_valid())]
    wrong = np.flatnonzero(lengths != length)
    if wrong.size:
        raise InvalidInput.of(
            name, f"{length} numbers in every row", got=f"{lengths[wrong[0]]} in row {rows[wrong[0]]}", verb="have"
        )


def _check_features(column: "pa.ChunkedArray", kind: str, n_features: int | None) -> None:
    if kind != NAMED and (n_features is None or n_features < 1):
        raise InvalidInput(f"a log of vectors needs delaytron.n_features in its metadata, got {n_features}", EXPECTED)
    begin = 0
    for chunk in column.chunks:
        rows = np.arange(begin, begin + len(chunk))
        begin += len(chunk)
        if kind == NAMED:
            for row, text in zip(rows, chunk, strict=True):
                try:
                    decode_features(text.as_buffer())
                except (ValueError, RecursionError) as problem:
                    raise InvalidInput(
                        f"features must be a JSON object, not so in row {row}: {problem}", CORRECT
                    ) from None
            continue
        assert n_features is not None  # noqa: S101 - checked above
        if kind == DENSE:
            _check_lengths("features", chunk, n_features, rows)
            _check_finite(chunk.flatten(), np.repeat(rows, n_features))
        else:
            _check_sparse(chunk, n_features, rows)


def _check_finite(values: "pa.Array", rows: Any) -> None:
    given = column_numbers(values, np.float64)
    wrong = np.flatnonzero(~np.isfinite(given))
    if wrong.size:
        raise InvalidInput.of("features", "finite", got=f"{given[wrong[0]]} in row {rows[wrong[0]]}")


def _check_sparse(chunk: "pa.Array", n_features: int, rows: Any) -> None:
    places, values = chunk.flatten()
    lengths = list_lengths(places)
    unequal = np.flatnonzero(lengths != list_lengths(values))
    if unequal.size:
        raise InvalidInput(
            f"sparse features must have as many indices as values, not so in row {rows[unequal[0]]}", CORRECT
        )
    each = np.repeat(rows, lengths)
    found = column_numbers(places.flatten(), np.int64, -1)
    wrong = np.flatnonzero((found < 0) | (found >= n_features))
    if wrong.size:
        where = f"got {found[wrong[0]]} in row {each[wrong[0]]}"
        raise InvalidInput(f"indices of features must be from 0 to {n_features - 1}, {where}", CORRECT)
    rising = (np.diff(found) > 0) | (np.diff(each) > 0)
    if not rising.all():
        row = each[int(np.argmin(rising))]
        raise InvalidInput(f"indices of features must ascend and differ within a row, not so in row {row}", "sort them")
    _check_finite(values.flatten(), each)
