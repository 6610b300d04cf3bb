"""Logs as dsjson, as Vowpal Wabbit reads it: a line for each decision, written one after the other."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from delaytron.errors import InvalidInput
from delaytron.files.atomic import replacing
from delaytron.files.compressed import packing
from delaytron.logs.columns import decode_features
from delaytron.logs.features import ACTIONS, TEXT, context_features, merge
from delaytron.logs.log import Log, check_log
from delaytron.logs.schema import DENSE, NAMED, TIMES, kind_of
from delaytron.logs.times import format_time

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1000  # that are looked at together
VECTOR = "x"  # the namespace of features that have no names

_encode = msgspec.json.Encoder().encode


def write_dsjson(log: Log, path: str | Path) -> None:
    """Write a log for Vowpal Wabbit, compressed if the path ends in .gz; after an error the file is as it was.

    A reward is written as its negative, a cost. Decisions without an outcome have no cost, and are not learned from.
    Features without names are in the namespace `x`, named by their places. A list of strings becomes a namespace with
    the strings as features. The learner and `occurred_at` are not written: dsjson has no place for them.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> log = dt.logs.from_arrays(features=[[0.5, 0]], labels=[1], probs=[0.8], rewards=[1], n_classes=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dt.logs.write_dsjson(log, Path(folder, "log.dsjson"))
    ...     print(Path(folder, "log.dsjson").read_text()[:78])
    {"_label_cost":-1.0,"_label_probability":0.8,"_label_Action":2,"_labelIndex":1
    """
    check_log(log)
    with replacing(Path(path)) as whole, packing(whole, Path(path)) as file:
        for line in _lines(log):
            file.write(_encode(line) + b"\n")


def _lines(log: Log) -> Iterator[dict[str, Any]]:
    kind = kind_of(log.table.schema)
    names = [str(name) for name in log.classes]
    actions = log.actions or tuple({"_tag": name, "i": {"id": name}} for name in names)
    for batch in log.table.to_batches(max_chunksize=ROWS):
        for row in _rows(batch):
            context = _context(row["features"], kind)
            own = context.pop(ACTIONS, {})
            labels = range(len(names)) if row["allowed"] is None else row["allowed"]
            multi = [{**actions[label], **own.get(names[label], {})} for label in labels]
            yield _line(row, list(labels), {**context, "_multi": multi})


def _rows(batch: "pa.RecordBatch") -> Iterator[dict[str, Any]]:
    """Iterate over rows as plain values, with times as integers."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    columns = [
        batch[name].cast(pa.int64()).to_pylist() if name in TIMES else batch[name].to_pylist()
        for name in batch.schema.names
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))


def _line(row: Mapping[str, Any], labels: list[int], context: dict[str, Any]) -> dict[str, Any]:
    place = labels.index(row["label"])
    ranked = [place]
    probs = [row["prob"]]
    if row["probabilities"] is not None:
        ranked += [other for other in range(len(labels)) if other != place]
        probs = [row["probabilities"][labels[rank]] for rank in ranked]
    line: dict[str, Any] = {} if row["outcome"] is None else {"_label_cost": 0.0 - row["outcome"]}
    line |= {"_label_probability": row["prob"], "_label_Action": place + 1, "_labelIndex": place}
    if row["outcome"] is not None:
        line["o"] = [_outcome(row)]
    if row["decided_at"] is not None:
        line["Timestamp"] = format_time(row["decided_at"])
    line |= {"Version": "1", "EventId": row["id"], "a": [rank + 1 for rank in ranked], "c": context, "p": probs}
    if row["weight"] is not None and row["weight"] > 1:
        line["pdrop"] = 1.0 - 1.0 / row["weight"]
    return line


def _outcome(row: Mapping[str, Any]) -> dict[str, Any]:
    note = {"v": row["outcome"], "EventId": row["id"], "ActionTaken": False}
    return note if row["received_at"] is None else note | {"EnqueuedTimeUtc": format_time(row["received_at"])}


def _context(given: Any, kind: str) -> dict[str, Any]:
    """Return features as a context of dsjson."""
    if kind == NAMED:
        features = decode_features(given)
        own = {ACTIONS: features.pop(ACTIONS)} if ACTIONS in features else {}
        return _readable(context_features(_check_names(features))) | own
    if kind == DENSE:
        places = np.flatnonzero(given)
        return {VECTOR: {str(place): given[place] for place in places}}
    return {VECTOR: {str(place): value for place, value in zip(given["indices"], given["values"], strict=True)}}


def _check_names(features: dict[str, Any]) -> dict[str, Any]:
    for name in features:
        if name[:1] == "_" and name != TEXT:
            raise InvalidInput(
                f"feature {name[:60]!r} cannot be written to dsjson, where no name begins with _; rename it"
            )
    return features


def _readable(features: dict[str, Any]) -> dict[str, Any]:
    """Return features as Vowpal Wabbit can read them.

    It reads no lists of strings, and crashes at a namespace whose name does not begin in ASCII: its features get names
    such as `outer.inner`, as a `dt.Model` would have them.
    """
    found: dict[str, Any] = {}
    for name, value in features.items():
        inner = _readable_value(value)
        if isinstance(inner, dict) and not name[:1].isascii():
            merge(found, _readable({f"{name}.{key}": own for key, own in inner.items()}).items())
        else:
            merge(found, [(name, inner)])
    return found


def _readable_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _readable(value)
    return dict(Counter(item for item in value if item is not None)) if isinstance(value, list) else value
