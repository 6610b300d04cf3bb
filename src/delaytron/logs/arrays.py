"""A log from arrays that are in memory."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.checks import check_integer
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.logs.feature_columns import dense_column, feature_column, lists_of
from delaytron.logs.log import Log
from delaytron.logs.schema import About, check_classes, log_schema

if TYPE_CHECKING:
    import pyarrow as pa

MISSING_TIME = np.iinfo(np.int64).min


def from_arrays(
    *,
    features: Any,
    labels: Any,
    probs: Any,
    rewards: Any,
    n_classes: int | None = None,
    classes: Sequence[Any] | None = None,
    ids: Sequence[str] | None = None,
    decided_at: Any = None,
    occurred_at: Any = None,
    received_at: Any = None,
    until: Any = None,
    allowed: Any = None,
    probabilities: Any = None,
    learner: str | Sequence[str] | None = None,
    weights: Any = None,
    positions: Any = None,
    actions: Sequence[dict[str, Any]] | None = None,
) -> Log:
    """Return a log of decisions that are in memory.

    Parameters
    ----------
    features : 2-D array, sparse matrix, or list of dicts
        What was known, a row for each decision.
    labels : 1-D array of int
        What was chosen, counted from 0.
    probs : 1-D array of float
        With which probability, above 0 and at most 1.
    rewards : 1-D array of float
        What came of it, from 0 to 1; NaN or None where nothing has come yet.
    n_classes, classes
        How many classes there are, or their names. One of them is needed.
    ids : sequence of str, optional
        The numbers of the rows from 0 by default.
    decided_at, occurred_at, received_at : arrays of datetime64, optional
        When it was decided, when the outcome was there, and when it was heard of; or integers, in nanoseconds since
        1970. Where there is no outcome the last two are not read.
    until : datetime64 or int, optional
        The time to which the log was observed; the latest time in it by default.
    allowed : (n, K) array of bool, optional
        Which classes could be chosen.
    probabilities : (n, K) array, optional
        The probabilities of all classes.
    learner : str or sequence of str, optional
        What decided.
    weights : 1-D array of float, optional
        For how many decisions each one stands, where some were dropped.
    positions : 1-D array of int, optional
        The places at which they were shown, from 0, where several are shown at once.
    actions : sequence of dict, optional
        What is known of each class.

    Examples
    --------
    >>> log = from_arrays(features=[{"hour": 7}, {"hour": 9}], labels=[0, 1], probs=[0.9, 0.5],
    ...                   rewards=[1, float("nan")], classes=["tea", "coffee"])
    >>> log.features, log.classes[log.labels[1]]
    ([{'hour': 7}, {'hour': 9}], 'coffee')
    """
    names = _class_names(classes, n_classes)
    kind, rows, n_features = feature_column(features)
    n_rows = len(rows)
    outcomes = _floats("rewards", rewards, n_rows)
    open_ = np.isnan(outcomes)
    given = {
        "id": _ids(ids, n_rows),
        "decided_at": _times("decided_at", decided_at, n_rows),
        "features": rows,
        "allowed": _allowed(allowed, (n_rows, len(names))),
        "label": _integers("labels", labels, n_rows, len(names)),
        "prob": _probs(probs, n_rows),
        "probabilities": _probabilities(probabilities, (n_rows, len(names))),
        "learner": [learner] * n_rows if learner is None or isinstance(learner, str) else _list("learner", learner),
        "outcome": outcomes,
        "occurred_at": _times("occurred_at", occurred_at, n_rows, open_),
        "received_at": _times("received_at", received_at, n_rows, open_),
        "weight": None if weights is None else _floats("weights", weights, n_rows),
        "position": None if positions is None else _integers("positions", positions, n_rows, 2**31),
    }
    last = None if until is None else int(_nanoseconds("until", [until])[0])
    known = None if actions is None else _actions(actions, len(names))
    return Log(_table(given, log_schema(kind, About(names, n_features, last, known)), n_rows))


def _table(given: dict[str, Any], schema: "pa.Schema", n_rows: int) -> "pa.Table":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    columns = []
    for field in schema:
        values = given[field.name]
        if values is None:
            values = pa.nulls(n_rows, field.type)
        elif not isinstance(values, pa.Array):
            try:
                values = pa.array(values, field.type, from_pandas=isinstance(values, np.ndarray))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
                raise InvalidInput(f"{field.name} cannot be read: {' '.join(str(problem).split())}") from None
        if len(values) != n_rows:
            raise InvalidInput(f"{field.name} must have {n_rows} entries, one for each row, got {len(values)}")
        columns.append(values)
    return pa.Table.from_arrays(columns, schema=schema)


def _class_names(classes: Sequence[Any] | None, n_classes: int | None) -> tuple[Any, ...]:
    if classes is None:
        if n_classes is None:
            raise InvalidInput("a log needs n_classes=K or classes=[...], got neither")
        return tuple(range(check_integer("n_classes", n_classes, at_least=2)))
    given = _list("classes", classes)
    names = check_classes([name.item() if isinstance(name, np.generic) else name for name in given])
    if n_classes not in (None, len(names)):
        raise InvalidInput(f"n_classes must be the number of classes, {len(names)}; got {n_classes!r}")
    return names


def _list(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} must be a list, got {values!r}")
    return list(values)


def _actions(actions: Any, n_classes: int) -> tuple[dict[str, Any], ...]:
    given = tuple(_list("actions", actions))
    if len(given) != n_classes or not all(isinstance(one, dict) for one in given):
        kinds = ", ".join(sorted({type(one).__name__ for one in given}))
        raise InvalidInput(f"actions must be a dict for each of {n_classes} classes, got {len(given)} of {kinds}")
    return given


def _probs(values: Any, n_rows: int) -> Any:
    given = _floats("probs", values, n_rows)
    if np.isnan(given).any():
        raise InvalidInput(f"probs must be above 0 and at most 1, got nan in row {np.isnan(given).argmax()}")
    return given


def _array(name: str, values: Any) -> Any:
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidInput(f"{name} must have one entry for each row, got rows of different lengths") from None


def _floats(name: str, values: Any, n_rows: int) -> Any:
    try:
        given = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        kind = _array(name, values).dtype
        raise InvalidInput(f"{name} must be {n_rows} numbers, one for each row; got {kind}") from None
    return _one_each(name, given, n_rows)


def _one_each(name: str, given: Any, n_rows: int) -> Any:
    if given.shape != (n_rows,):
        raise InvalidInput(f"{name} must have one entry for each of {n_rows} rows, got shape {given.shape}")
    return given


def _integers(name: str, values: Any, n_rows: int, count: int) -> Any:
    given = _one_each(name, _array(name, values), n_rows)
    if given.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be integers, counted from 0; got {given.dtype}")
    wrong = np.flatnonzero((given < 0) | (given >= count))
    if wrong.size:
        raise InvalidInput(f"{name} must be from 0 to {count - 1}, got {given[wrong[0]]} in row {wrong[0]}")
    return given


def _ids(ids: Sequence[str] | None, n_rows: int) -> list[str]:
    given = [str(row) for row in range(n_rows)] if ids is None else _list("ids", ids)
    wrong = [one for one in given if not isinstance(one, str)]
    if wrong:
        raise InvalidInput(f"ids must be strings, got {wrong[0]!r}")
    if len(given) != n_rows:
        raise InvalidInput(f"ids must have one entry for each of {n_rows} rows, got {len(given)}")
    return given


def _nanoseconds(name: str, values: Any) -> Any:
    given = _array(name, values)
    if given.dtype.kind == "M":
        return given.astype("datetime64[ns]").astype(np.int64)
    if given.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be datetime64, or integers in nanoseconds since 1970; got {given.dtype}")
    return given.astype(np.int64)


def _times(name: str, values: Any, n_rows: int, missing: Any = None) -> "pa.Array | None":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if values is None:
        return None
    given = _one_each(name, _nanoseconds(name, values), n_rows)
    empty = given == MISSING_TIME if missing is None else missing
    wrong = np.flatnonzero((given == MISSING_TIME) & ~empty) if missing is not None else np.flatnonzero(empty)
    if wrong.size:
        raise InvalidInput(f"{name} must be a time, got none in row {wrong[0]}")
    return pa.array(given, pa.timestamp("ns", tz="UTC"), mask=empty)


def _matrix(name: str, values: Any, shape: tuple[int, int], kind: Any) -> Any:
    try:
        given = np.asarray(values)
    except ValueError:
        given = np.zeros(0)
    if given.shape != shape or given.dtype.kind not in ("b" if kind is np.bool_ else "iuf"):
        wanted = "True or False" if kind is np.bool_ else "a number"
        got = f"shape {given.shape} of {given.dtype}"
        raise InvalidInput(f"{name} must be {wanted} for each row and class, shape {shape}; got {got}")
    return given


def _allowed(values: Any, shape: tuple[int, int]) -> "pa.Array | None":
    if values is None:
        return None
    given = _matrix("allowed", values, shape, np.bool_)
    starts = np.concatenate([[0], np.cumsum(given.sum(axis=1))])
    return lists_of(starts, np.nonzero(given)[1].astype(np.int32))


def _probabilities(values: Any, shape: tuple[int, int]) -> "pa.Array | None":
    if values is None:
        return None
    given = np.ascontiguousarray(_matrix("probabilities", values, shape, np.float64), np.float64)
    return dense_column(given)
