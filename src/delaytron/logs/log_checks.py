"""Checks of a table that is to be a log: its columns, their types, and what stands in them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.logs import columns
from delaytron.logs.schema import DENSE, EXPECTED, NAMED, REQUIRED, SPARSE, About, kind_of, log_schema

if TYPE_CHECKING:
    import pyarrow as pa

CLOSE = 1e-3  # what sums of probabilities may be off, which are often rounded to 32 bits


def checked_table(table: "pa.Table", about: About) -> "pa.Table":
    """Return the columns of the schema, of its types; raise if one is missing, or has a value that it cannot have."""
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise InvalidInput(f"a log needs the column {missing[0]!r}, got {', '.join(table.column_names)}; {EXPECTED}")
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise InvalidInput(f"a log must have each column once, got {twice[0]!r} twice")
    typed = _typed(table, log_schema(kind_of(table.schema), about))
    _check_columns(typed, about)
    _check_times(typed)
    return typed


def _typed(table: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - slow to import

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
                f"column {field.name!r} of a log must be {field.type}, or fit into it; got {column.type}"
            ) from None
        if not field.nullable and arrays[-1].null_count:
            raise InvalidInput(f"column {field.name!r} of a log must have a value in every row")
    outcome = schema.get_field_index("outcome")
    arrays[outcome] = _without_nan(arrays[outcome])
    return pa.Table.from_arrays(arrays, schema=schema)


def _without_nan(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    from pyarrow import compute  # noqa: PLC0415 - slow to import

    return (
        compute.if_else(compute.is_nan(column), None, column) if compute.any(compute.is_nan(column)).as_py() else column
    )


def _check_columns(table: "pa.Table", about: About) -> None:
    n_classes = len(about.classes)
    _check_ids(table["id"])
    labels = columns.numbers(table["label"], np.int64)
    _check(f"labels must be from 0 to {n_classes - 1}", labels, (labels >= 0) & (labels < n_classes))
    probs = columns.numbers(table["prob"], np.float64)
    _check("probs must be above 0 and at most 1", probs, (probs > 0) & (probs <= 1))
    outcomes = columns.numbers(table["outcome"], np.float64)
    _check("outcomes must be from 0 to 1", outcomes, np.isnan(outcomes) | ((outcomes >= 0) & (outcomes <= 1)))
    weights = columns.numbers(table["weight"], np.float64, 1.0)
    _check("weights must be finite and at least 1", weights, np.isfinite(weights) & (weights >= 1))
    positions = columns.numbers(table["position"], np.int64, 0)
    _check("positions must be at least 0", positions, positions >= 0)
    if table["position"].null_count not in (0, table.num_rows):
        raise InvalidInput("position must be there in every row or in none")
    _check_allowed(table["allowed"], labels, n_classes)
    _check_probabilities(table["probabilities"], labels, probs, n_classes)
    _check_features(table["features"], kind_of(table.schema), about.n_features)


def _check(rule: str, values: Any, fine: Any) -> None:
    """Raise for the first value that is not fine."""
    if not fine.all():
        row = int(np.argmin(fine))
        raise InvalidInput(f"{rule}, got {values[row].item()!r} in row {row}")


def _check_ids(ids: "pa.ChunkedArray") -> None:
    from pyarrow import compute  # noqa: PLC0415 - slow to import

    if compute.count_distinct(ids).as_py() < len(ids):
        counts = compute.value_counts(ids)
        place = compute.index(compute.greater(counts.field("counts"), 1), True).as_py()
        raise InvalidInput(f"ids must differ, got {counts.field('values')[place].as_py()[:80]!r} more than once")


def _check_allowed(column: "pa.ChunkedArray", labels: Any, n_classes: int) -> None:
    begin = 0
    for chunk in column.chunks:
        rows = np.repeat(np.arange(begin, begin + len(chunk)), columns.list_lengths(chunk))
        given = columns.numbers(chunk.flatten(), np.int64, -1)
        outside = np.flatnonzero((given < 0) | (given >= n_classes))
        if outside.size:
            found = f"got {given[outside[0]]} in row {rows[outside[0]]}"
            raise InvalidInput(f"allowed classes must be from 0 to {n_classes - 1}, {found}")
        if np.unique(rows * n_classes + given).size < given.size:
            raise InvalidInput("allowed classes must differ within a row")
        chosen = np.zeros(len(chunk), np.bool_)
        chosen[rows[given == labels[rows]] - begin] = True
        chosen |= ~np.asarray(chunk.is_valid())
        if not chosen.all():
            row = int(np.argmin(chosen)) + begin
            raise InvalidInput(f"the label must be among the allowed classes, got label {labels[row]} in row {row}")
        begin += len(chunk)


def _check_probabilities(column: "pa.ChunkedArray", labels: Any, probs: Any, n_classes: int) -> None:
    begin = 0
    for chunk in column.chunks:
        rows = np.flatnonzero(np.asarray(chunk.is_valid())) + begin
        begin += len(chunk)
        _check_lengths("probabilities", chunk, n_classes, rows)
        given = columns.numbers(chunk.flatten(), np.float64).reshape(-1, n_classes)
        with np.errstate(invalid="ignore"):
            fine = (given >= 0).all(axis=1) & (abs(given.sum(axis=1) - 1) <= CLOSE)
            same = abs(given[np.arange(len(rows)), labels[rows]] - probs[rows]) <= CLOSE
        if not fine.all():
            found = f"got {given[np.argmin(fine)].tolist()} in row {rows[np.argmin(fine)]}"
            raise InvalidInput(f"probabilities must be at least 0 and sum to 1, {found[:200]}")
        if not same.all():
            row = rows[np.argmin(same)]
            found = f"got {given[np.argmin(same), labels[row]]} and {probs[row]} in row {row}"
            raise InvalidInput(f"the probability of the label must be the same in probabilities and in prob, {found}")


def _check_lengths(name: str, chunk: "pa.Array", length: int, rows: Any) -> None:
    """Raise if a list of a column has another length."""
    lengths = columns.list_lengths(chunk)[np.asarray(chunk.is_valid())]
    wrong = np.flatnonzero(lengths != length)
    if wrong.size:
        raise InvalidInput(
            f"{name} must have {length} numbers in every row, got {lengths[wrong[0]]} in row {rows[wrong[0]]}"
        )


def _check_features(column: "pa.ChunkedArray", kind: str, n_features: int | None) -> None:
    if kind == NAMED:
        return _check_named(column)
    if n_features is None or n_features < 1:
        raise InvalidInput(f"a log of vectors needs delaytron.n_features in its metadata, got {n_features}; {EXPECTED}")
    begin = 0
    for chunk in column.chunks:
        rows = np.arange(begin, begin + len(chunk))
        begin += len(chunk)
        if kind == DENSE:
            _check_lengths("features", chunk, n_features, rows)
            _check_finite(chunk.flatten(), np.repeat(rows, n_features))
        else:
            assert kind == SPARSE  # noqa: S101
            _check_sparse(chunk, n_features, rows)
    return None


def _check_finite(values: "pa.Array", rows: Any) -> None:
    given = columns.numbers(values, np.float64)
    wrong = np.flatnonzero(~np.isfinite(given))
    if wrong.size:
        raise InvalidInput(f"features must be finite, got {given[wrong[0]]} in row {rows[wrong[0]]}")


def _check_sparse(chunk: "pa.Array", n_features: int, rows: Any) -> None:
    places, values = chunk.flatten()
    lengths = columns.list_lengths(places)
    unequal = np.flatnonzero(lengths != columns.list_lengths(values))
    if unequal.size:
        raise InvalidInput(f"sparse features must have as many indices as values, not so in row {rows[unequal[0]]}")
    each = np.repeat(rows, lengths)
    found = columns.numbers(places.flatten(), np.int64, -1)
    wrong = np.flatnonzero((found < 0) | (found >= n_features))
    if wrong.size:
        where = f"got {found[wrong[0]]} in row {each[wrong[0]]}"
        raise InvalidInput(f"indices of features must be from 0 to {n_features - 1}, {where}")
    rising = (np.diff(found) > 0) | (np.diff(each) > 0)
    if not rising.all():
        row = each[int(np.argmin(rising))]
        raise InvalidInput(f"indices of features must ascend and differ within a row, not so in row {row}")
    _check_finite(values.flatten(), each)


def _check_named(column: "pa.ChunkedArray") -> None:
    row = 0
    for chunk in column.chunks:
        for text in chunk:
            try:
                columns.decode_features(text.as_buffer())
            except (ValueError, RecursionError) as problem:
                raise InvalidInput(f"features must be a JSON object, not so in row {row}: {problem}") from None
            row += 1


def _check_times(table: "pa.Table") -> None:
    """Raise unless a column of times has one in every row that can have one, or in none."""
    n_rows = table.num_rows
    if table["decided_at"].null_count not in (0, n_rows):
        raise InvalidInput("decided_at must be there in every row or in none")
    answered = np.asarray(table["outcome"].is_valid())
    for name in ("occurred_at", "received_at"):
        given = np.asarray(table[name].is_valid())
        if given.any() and (given != answered).any():
            row = int(np.argmax(given != answered))
            raise InvalidInput(
                f"{name} must be there in every row with an outcome and in no other, not so in row {row}"
            )
