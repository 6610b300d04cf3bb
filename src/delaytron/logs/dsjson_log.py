"""Logs of Vowpal Wabbit and Personalizer as a `Log`: the lines are read twice, some thousand rows at a time."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from delaytron.checks import check_bool, check_number
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.logs.dsjson_rows import EventRows, first_reading
from delaytron.logs.log import Log
from delaytron.logs.schema import NAMED, About, check_classes, log_schema

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 10_000  # of the table that are made at once


def read_dsjson(
    path: str | Path,
    *,
    action: str | None = None,
    classes: Sequence[Any] | None = None,
    reward_scale: tuple[float, float] = (0.0, 1.0),
    default_reward: float | None = None,
    skip_bad: bool = False,
) -> Log:
    """Read a log of Vowpal Wabbit or Personalizer in dsjson, plain or compressed (.gz, .bz2, .xz).

    Parameters
    ----------
    path
        The file. It is read twice.
    action
        What tells actions apart: a path to their names such as `_tag` or `i.id`, or `number` for their places. The
        first that each action has by default; a warning says when these are places at which other actions stand in
        other events.
    classes
        The names of the classes in their order; events in which another action was taken are left out. All actions,
        in the order in which they first come, by default.
    reward_scale
        The lowest and the highest reward, which become 0 and 1. A reward is minus the cost of the label.
    default_reward
        What an event without an outcome gets; it has none by default.
    skip_bad
        Leave out lines that cannot be used, instead of raising at the first.

    Notes
    -----
    Events whose action was not taken after all, lines about other things and later lines with the same id are left out.
    The features of actions that are always the same are kept in `Log.actions`, others in `features` under `_action`.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> log = dt.logs.from_arrays(features=[{"hour": 7}, {"hour": 9}], labels=[0, 1], probs=[0.9, 0.5],
    ...                           rewards=[1, 0], classes=["tea", "coffee"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dt.logs.write_dsjson(log, Path(folder, "log.dsjson"))
    ...     again = dt.logs.read_dsjson(Path(folder, "log.dsjson"))
    >>> again.features == log.features, again.classes, again.outcomes.tolist()
    (True, ('tea', 'coffee'), [1.0, 0.0])
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    file = Path(path)
    if file.exists() and not file.is_file():
        raise InvalidInput(
            f"cannot read {str(file)!r}: a log is read twice, so it must be a file, no folder or pipe; give a file"
        )
    if action is not None and not isinstance(action, str):
        raise InvalidInput(f"action must be the path of a feature, such as 'i.id', or 'number'; got {action!r}")
    check_bool("skip_bad", skip_bad)
    wanted = None if classes is None else check_classes(list(classes) if isinstance(classes, Sequence) else classes)
    found = first_reading(file, action, wanted)
    for doubt in found.names.doubts:
        warn(f"{file}: {doubt}", stacklevel=2)
    reader = EventRows(file, found, wanted, _check_scale(reward_scale, default_reward), default_reward, skip_bad)
    schema = log_schema(NAMED, About(reader.names))
    batches = list(_batches(reader.rows(), schema))
    if not batches:
        why = f"; {reader.first_problem}" if reader.first_problem else ""
        raise InvalidInput(f"{file}: there must be at least one event that can be read, got none{why}")
    about = About(reader.names, actions=reader.actions())
    table = pa.Table.from_batches(batches, schema)
    return Log(_all_or_no_times(table).cast(log_schema(NAMED, about)))


def _check_scale(scale: tuple[float, float], default: float | None) -> tuple[float, float]:
    try:
        low, high = (check_number("reward_scale", bound) for bound in scale)
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high:
        raise InvalidInput(f"reward_scale must be two numbers, the lower one first, got {scale!r}")
    if default is not None and not low <= check_number("default_reward", default) <= high:
        raise InvalidInput(f"default_reward must be from {low} to {high}, got {default!r}")
    return low, high


def _batches(rows: Iterator[dict[str, Any]], schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    while piece := list(islice(rows, ROWS)):
        yield pa.RecordBatch.from_pylist(piece, schema)


def _all_or_no_times(table: "pa.Table") -> "pa.Table":
    """Return the table without times of which some are missing."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    for name, most in (("decided_at", 0), ("received_at", table["outcome"].null_count)):
        if table[name].null_count > most:
            place = table.column_names.index(name)
            field = table.schema.field(name)
            table = table.set_column(place, field, pa.nulls(table.num_rows, field.type))
    return table
