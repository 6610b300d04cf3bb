"""`Log`: decisions and their outcomes; from arrays, and from and to Parquet files."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.checks import check_integer, check_path
from delaytron.errors import InvalidInput, Setting
from delaytron.extras import needs
from delaytron.files.atomic import replacing
from delaytron.logs.schema import (
    EXPECTED,
    MISSING_TIME,
    TIMES,
    About,
    allowed_mask,
    check_classes,
    checked_table,
    column_features,
    column_numbers,
    column_times,
    decode_about,
    dense_column,
    dense_rows,
    feature_column,
    kind_of,
    lists_of,
    log_schema,
)
from delaytron.records import Array, Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 10_000  # of a row group
MOST_LABELS = 2**31 - 1  # the column has 32-bit integers
DAMAGED = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    RuntimeError,
    MemoryError,
)  # what pyarrow raises for damaged files, besides its own


class Log:
    """Decisions and their outcomes, one row each; immutable.

    `dt.logs.from_arrays` and the readers of `dt.logs` return one. Where a decision has no outcome yet, `outcomes` is
    NaN and the times of the outcome are the smallest 64-bit integer. Raises InvalidInput if the table is no log.

    Parameters
    ----------
    table : pyarrow.Table
        Columns and metadata as in docs/howto/logs.md. Columns that may be empty can be left out; unknown ones are
        dropped.

    Examples
    --------
    >>> import delaytron as dt
    >>> log = dt.logs.from_arrays(features=[[1, 0], [0, 1]], labels=[2, 0], probs=[0.5, 0.8], rewards=[1, None],
    ...                           n_classes=3)
    >>> log
    Log(2 decisions, 1 with an outcome, 3 classes, 2 features)
    >>> log.labels, log.outcomes
    (array([2, 0]), array([ 1., nan]))
    """

    def __init__(self, table: "pa.Table") -> None:
        if not hasattr(table, "schema"):
            raise InvalidInput.of("table", "a pyarrow.Table", got=type(table).__name__, hint="see dt.logs.from_arrays")
        about = decode_about(table.schema.metadata)
        self._table = checked_table(table, about)
        self._about = about

    @property
    def table(self) -> "pa.Table":
        """The log as a table of the documented schema."""
        return self._table

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes; a label is an index into them."""
        return self._about.classes

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self._about.classes)

    @property
    def actions(self) -> tuple[dict[str, Any], ...] | None:
        """The features of each class, a dict by label; None where the log has none."""
        return self._about.actions

    @property
    def n_features(self) -> int | None:
        """The number of features; None where they have names."""
        return self._about.n_features

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @cached_property
    def labels(self) -> Ints:
        """The class that was chosen, as an index into `classes`."""
        labels: Ints = self._numbers("label", np.int64)
        return labels

    @cached_property
    def probs(self) -> Array:
        """The probability with which it was chosen."""
        probs: Array = self._numbers("prob", np.float64)
        return probs

    @cached_property
    def outcomes(self) -> Array:
        """The reward, from 0 to 1; NaN where there is none yet."""
        outcomes: Array = self._numbers("outcome", np.float64)
        return outcomes

    @cached_property
    def weights(self) -> Array | None:
        """The number of decisions that each row represents, where some were dropped; None where none were."""
        column = self._table["weight"]
        return None if column.null_count == len(self) else _fixed(column_numbers(column, np.float64, 1.0))

    @cached_property
    def positions(self) -> Ints | None:
        """The position at which it was shown, from 0, where several are shown at once; None without positions."""
        column = self._table["position"]
        return None if column.null_count == len(self) else _fixed(column_numbers(column, np.int64, -1))

    @cached_property
    def decided_at(self) -> Ints | None:
        """When it was decided, in nanoseconds since 1970 UTC; None in a log without times."""
        return self._times("decided_at", len(self))

    @cached_property
    def occurred_at(self) -> Ints | None:
        """When the outcome occurred; None unless every outcome has such a time."""
        return self._times("occurred_at", self._n_outcomes)

    @cached_property
    def received_at(self) -> Ints | None:
        """When the outcome was received; None unless every outcome has such a time."""
        return self._times("received_at", self._n_outcomes)

    @cached_property
    def delays(self) -> Ints | None:
        """The number of decisions between each one and its outcome, -1 without an outcome; None if not known."""
        column = self._table["delay"]
        return None if column.null_count == len(self) else _fixed(column_numbers(column, np.int64, -1))

    @cached_property
    def until(self) -> int | None:
        """Until when the log was observed; by default the latest time in it, None without times."""
        if self._about.until is not None:
            return self._about.until
        latest = max(int(column_times(self._table[name]).max(initial=MISSING_TIME)) for name in TIMES)
        return None if latest == MISSING_TIME else latest

    @cached_property
    def allowed(self) -> Bools | None:
        """(n, K): which classes could be chosen; None where all could, always."""
        mask = allowed_mask(self._table["allowed"], self.n_classes)
        return None if mask is None else _fixed(mask)

    @cached_property
    def probabilities(self) -> Array | None:
        """(n, K): the probabilities of all classes when it was decided; None unless every row has them."""
        column = self._table["probabilities"]
        return None if column.null_count or not len(self) else _fixed(dense_rows(column, self.n_classes))

    @cached_property
    def features(self) -> Any:
        """The features of the decisions: an (n, d) array, a CSR matrix, or a list of dicts, as given."""
        return column_features(self._table["features"], kind_of(self._table.schema), self.n_features)

    def write_parquet(self, path: str | Path) -> None:
        """Write the log to a Parquet file; `dt.logs.read_parquet` reads it."""
        write_parquet(self, path)

    def _numbers(self, name: str, kind: Any) -> Any:
        return _fixed(column_numbers(self._table[name], kind))

    @property
    def _n_outcomes(self) -> int:
        return len(self) - int(self._table["outcome"].null_count)

    def _times(self, name: str, wanted: int) -> Ints | None:
        """Return a column of times; None unless it has `wanted` of them."""
        column = self._table[name]
        complete = wanted > 0 and len(self) - column.null_count == wanted
        return _fixed(column_times(column)) if complete else None

    def __repr__(self) -> str:
        decided = f"{len(self)} decisions, {self._n_outcomes} with an outcome"
        width = "named" if self.n_features is None else str(self.n_features)
        return f"Log({decided}, {self.n_classes} classes, {width} features)"


def _fixed(array: Any) -> Any:
    """Return the array, made read-only."""
    array.flags.writeable = False
    return array


def learning_order(log: Log) -> tuple[Ints, Bools]:
    """Return the rows of a log in the order in which a model learns from it: each decision, and each outcome.

    A row with an outcome is there twice; the second array is True where it is its outcome. In a log with delays,
    decisions are in the order of the rows, and an outcome follows after `delay` others. Else, in a log with times,
    decisions are in their order, and an outcome comes before the first decision that was not made before it was
    received. Outcomes of which neither is known come right after their decisions.

    Examples
    --------
    >>> log = from_arrays(features=[[1], [2], [3]], labels=[0, 1, 0], probs=[0.5] * 3, rewards=[1, 1, None],
    ...                   n_classes=2, decided_at=[10, 20, 30], received_at=[30, 25, 0])
    >>> rows, is_outcome = learning_order(log)
    >>> rows.tolist(), is_outcome.tolist()
    ([0, 1, 1, 0, 2], [False, False, True, True, False])
    """
    answered = np.flatnonzero(~np.isnan(log.outcomes))
    received = column_times(log.table["received_at"])
    received = np.where(received == MISSING_TIME, column_times(log.table["occurred_at"]), received)[answered]
    order, place = np.arange(len(log)), np.arange(len(log))
    after = answered.copy()  # the index, among all decisions, of the one that an outcome follows
    waited = np.zeros(len(log) + answered.size, np.bool_)
    if log.delays is not None:
        after += np.minimum(np.maximum(log.delays[answered], 0), len(log) - 1 - answered)
        waited[len(log) :] = after > answered  # outcomes without a delay come first
    elif log.decided_at is not None:
        order = np.argsort(log.decided_at, kind="stable")
        place[order] = np.arange(len(log))
        last_before = np.searchsorted(log.decided_at[order], received, side="left") - 1
        after = np.maximum(place[answered], last_before)
    rows = np.concatenate([order, answered])
    is_outcome = np.arange(rows.size) >= len(log)
    times = np.concatenate([np.zeros(len(log), np.int64), received])
    # The last key counts first: the place in the sequence, a decision before outcomes, those without a delay before
    # others, then the time, then the order of the decisions.
    sequence = np.lexsort((place[rows], times, waited, is_outcome, np.concatenate([place[order], after])))
    return rows[sequence], is_outcome[sequence]


def check_log(log: Any) -> None:
    """Raise InvalidInput if something is no log."""
    if not isinstance(log, Log):
        how = "read one by dt.logs.read_parquet, or make one by dt.logs.from_arrays"
        raise InvalidInput.of("log", "a dt.logs.Log", got=type(log).__name__, hint=how)


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
    delays: Any = None,
    until: Any = None,
    allowed: Any = None,
    probabilities: Any = None,
    learner: str | Sequence[str] | None = None,
    weights: Any = None,
    positions: Any = None,
    actions: Sequence[dict[str, Any]] | None = None,
) -> Log:
    """Return a log of decisions from arrays.

    Parameters
    ----------
    features : 2-D array, sparse matrix, or list of dicts
        A row for each decision.
    labels : 1-D array of int
        The classes that were chosen, counted from 0.
    probs : 1-D array of float
        Their probabilities, above 0 and at most 1.
    rewards : 1-D array of float
        The outcomes, from 0 to 1; NaN or None where there is none yet.
    n_classes, classes
        The number of classes, or their names. One of them is needed.
    ids : sequence of str, optional
        By default the numbers of the rows, from 0.
    decided_at, occurred_at, received_at : arrays of datetime64, optional
        When it was decided, when the outcome occurred, and when it was received; or integers, in nanoseconds since
        1970. Where there is no outcome the last two are ignored.
    delays : 1-D array of int, optional
        The number of decisions between each one and its outcome, for `dt.Model.learn_from`; takes precedence over
        times, ignored where there is no outcome.
    until : datetime64 or int, optional
        Until when the log was observed; by default the latest time in it.
    allowed : (n, K) array of bool, optional
        Which classes could be chosen.
    probabilities : (n, K) array, optional
        The probabilities of all classes.
    learner : str or sequence of str, optional
        The name of what decided.
    weights : 1-D array of float, optional
        The number of decisions that each row represents, where some were dropped.
    positions : 1-D array of int, optional
        The positions at which they were shown, from 0, where several are shown at once.
    actions : sequence of dict, optional
        The features of each class.

    Raises InvalidInput if something is missing or wrong.

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
    chances = _floats("probs", probs, n_rows)
    if np.isnan(chances).any():  # pyarrow would take it for a missing value
        raise InvalidInput.of("probs", "above 0 and at most 1", got=f"nan in row {np.isnan(chances).argmax()}")
    mask = of_all = None
    if allowed is not None:
        given_mask = _matrix("allowed", allowed, (n_rows, len(names)), np.bool_)
        starts = np.concatenate([[0], np.cumsum(given_mask.sum(axis=1))])
        mask = lists_of(starts, np.nonzero(given_mask)[1].astype(np.int32))
    if probabilities is not None:
        of_all = _matrix("probabilities", probabilities, (n_rows, len(names)), np.float64)
        of_all = dense_column(np.ascontiguousarray(of_all, np.float64))
    given = {
        "id": _ids(ids, n_rows),
        "decided_at": _times("decided_at", decided_at, n_rows),
        "features": rows,
        "allowed": mask,
        "label": _integers("labels", labels, n_rows, len(names)),
        "prob": chances,
        "probabilities": of_all,
        "learner": [learner] * n_rows if learner is None or isinstance(learner, str) else _list("learner", learner),
        "outcome": outcomes,
        "occurred_at": _times("occurred_at", occurred_at, n_rows, open_),
        "received_at": _times("received_at", received_at, n_rows, open_),
        "delay": _delays(delays, n_rows, open_),
        "weight": None if weights is None else _floats("weights", weights, n_rows),
        "position": None if positions is None else _integers("positions", positions, n_rows, 2**31),
    }
    last = None if until is None else int(_one_each("until", _nanoseconds("until", [until]), 1)[0])
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
                raise InvalidInput(
                    f"{field.name} cannot be read: {' '.join(str(problem).split())}",
                    f"give values of type {field.type}",
                ) from None
        if len(values) != n_rows:
            raise InvalidInput(
                f"{field.name} must have {n_rows} entries, one for each row, got {len(values)}", "give one for each row"
            )
        columns.append(values)
    return pa.Table.from_arrays(columns, schema=schema)


def _class_names(classes: Sequence[Any] | None, n_classes: int | None) -> tuple[Any, ...]:
    if classes is None:
        if n_classes is None:
            raise InvalidInput(
                ("a log needs ", Setting("n_classes", "K"), " or ", Setting("classes", "[...]"), ", got neither"),
                "give one of them",
            )
        return tuple(range(check_integer("n_classes", n_classes, at_least=2, at_most=MOST_LABELS)))
    given = _list("classes", classes)
    names = check_classes([name.item() if isinstance(name, np.generic) else name for name in given])
    if n_classes not in (None, len(names)):
        raise InvalidInput.of("n_classes", f"the number of classes, {len(names)}", n_classes)
    return names


def _list(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInput.of(name, "a list", values)
    return list(values)


def _actions(actions: Any, n_classes: int) -> tuple[dict[str, Any], ...]:
    given = tuple(_list("actions", actions))
    if len(given) != n_classes or not all(isinstance(one, dict) for one in given):
        kinds = ", ".join(sorted({type(one).__name__ for one in given}))
        raise InvalidInput.of("actions", f"a dict for each of {n_classes} classes", got=f"{len(given)} of {kinds}")
    return given


def _array(name: str, values: Any) -> Any:
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidInput.of(name, "one entry for each row", got="rows of different lengths", verb="have") from None


def _floats(name: str, values: Any, n_rows: int) -> Any:
    try:
        given = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        kind = _array(name, values).dtype
        raise InvalidInput.of(name, f"{n_rows} numbers, one for each row", got=kind) from None
    return _one_each(name, given, n_rows)


def _one_each(name: str, given: Any, n_rows: int) -> Any:
    """Return an array; raise InvalidInput unless it has one entry for each row."""
    if given.shape != (n_rows,):
        raise InvalidInput.of(name, f"one entry for each of {n_rows} rows", got=f"shape {given.shape}", verb="have")
    return given


def _integers(name: str, values: Any, n_rows: int, count: int) -> Any:
    given = _one_each(name, _array(name, values), n_rows)
    if given.dtype.kind not in "iu":
        raise InvalidInput.of(name, "integers, counted from 0", got=str(given.dtype))
    wrong = np.flatnonzero((given < 0) | (given >= count))
    if wrong.size:
        raise InvalidInput.of(name, f"from 0 to {count - 1}", got=f"{given[wrong[0]]} in row {wrong[0]}")
    return given


def _ids(ids: Sequence[str] | None, n_rows: int) -> list[str]:
    given = [str(row) for row in range(n_rows)] if ids is None else _list("ids", ids)
    wrong = [one for one in given if not isinstance(one, str)]
    if wrong:
        raise InvalidInput.of("ids", "strings", wrong[0])
    if len(given) != n_rows:
        raise InvalidInput.of("ids", f"one entry for each of {n_rows} rows", got=f"{len(given)}", verb="have")
    return given


def _nanoseconds(name: str, values: Any) -> Any:
    given = _array(name, values)
    if given.dtype.kind == "M":
        return given.astype("datetime64[ns]").astype(np.int64)
    if given.dtype.kind not in "iu":
        raise InvalidInput.of(name, "datetime64, or integers in nanoseconds since 1970", got=str(given.dtype))
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
        raise InvalidInput.of(name, "a time", got=f"none in row {wrong[0]}")
    return pa.array(given, pa.timestamp("ns", tz="UTC"), mask=empty)


def _delays(values: Any, n_rows: int, missing: Any) -> "pa.Array | None":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if values is None:
        return None
    given = _one_each("delays", _array("delays", values), n_rows)
    if given.dtype.kind not in "iu":
        raise InvalidInput.of("delays", "integers, counted in decisions", got=str(given.dtype))
    return pa.array(given, pa.int64(), mask=missing)


def _matrix(name: str, values: Any, shape: tuple[int, int], kind: Any) -> Any:
    try:
        given = np.asarray(values)
    except ValueError:
        given = np.zeros(0)
    if given.shape != shape or given.dtype.kind not in ("b" if kind is np.bool_ else "iuf"):
        wanted = "True or False" if kind is np.bool_ else "a number"
        got = f"shape {given.shape} of {given.dtype}"
        raise InvalidInput.of(name, f"{wanted} for each row and class, shape {shape}", got=got)
    return given


def write_parquet(log: Log, path: str | Path) -> None:
    """Write a log to a Parquet file atomically; after an error the old file is still there.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> log = dt.logs.from_arrays(features=[[1.0]], labels=[0], probs=[0.5], rewards=[1], classes=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dt.logs.write_parquet(log, Path(folder, "log.parquet"))
    ...     dt.logs.read_parquet(Path(folder, "log.parquet")).table == log.table
    True
    """
    check_log(log)
    place = check_path("path", path)
    needs("pyarrow")
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - slow to import

    with replacing(place) as file, ParquetWriter(file, log.table.schema) as writer:
        writer.write_table(log.table, row_group_size=ROWS)


def read_parquet(path: str | Path) -> Log:
    """Read a log from a Parquet file that this package wrote, or of the schema in docs/howto/logs.md.

    Raises InvalidInput if there is no such file, or if it is damaged or not a log.

    Examples
    --------
    >>> read_parquet("nowhere.parquet")
    Traceback (most recent call last):
    delaytron.errors.InvalidInput: there is no file 'nowhere.parquet'; check the name
    """
    place = check_path("path", path)
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    if not place.is_file():
        raise InvalidInput(f"there is no file {str(path)!r}", "check the name")
    with _reading(place), ParquetFile(place, pre_buffer=False) as file:
        table = pa.Table.from_batches(file.iter_batches(ROWS), file.schema_arrow)
        table.validate(full=True)  # a damaged file must not reach compiled code
        if table.num_rows != file.metadata.num_rows:
            raise ValueError(f"it has {table.num_rows} rows, and its metadata say {file.metadata.num_rows}")
        return Log(table)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the exceptions of pyarrow into an InvalidInput that names the file."""
    needs("pyarrow")
    from pyarrow.lib import ArrowException  # noqa: PLC0415 - slow to import

    try:
        yield
    except InvalidInput as problem:
        raise problem.at(str(path)) from None
    except (ArrowException, *DAMAGED) as problem:
        said = " ".join(" ".join(map(str, problem.args)).split())
        raise InvalidInput(f"{path} cannot be read as a log: {said.rstrip('.')}", EXPECTED) from None
