"""Logs in the columns of the Open Bandit Dataset, and as the dict of arrays of Open Bandit Pipeline: reading."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from delaytron.checks import check_integer
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.lines import records
from delaytron.logs.arrays import from_arrays
from delaytron.logs.feature_columns import encode_features
from delaytron.logs.log import Log
from delaytron.logs.schema import NAMED, About, log_schema
from delaytron.logs.times import parse_time

NEEDED = ("n_actions", "context", "action", "reward", "pscore")
COLUMNS = ("item_id", "click", "propensity_score")
OPTIONAL = ("timestamp", "position")
TEXTS = "user_feature_"  # how names of columns begin whose cells are texts
ITEM_TEXTS = ("item_feature_1", "item_feature_2", "item_feature_3")
ACTION_CONTEXT = "action_context"
MOST_ITEMS = 100_000
ROWS = 10_000  # of the table that are made at once


def read_open_bandit(
    source: str | Path | Mapping[str, Any], *, n_actions: int | None = None, item_context: str | Path | None = None
) -> Log:
    """Read a log in the columns of the Open Bandit Dataset, or the `bandit_feedback` of Open Bandit Pipeline.

    Parameters
    ----------
    source
        A CSV file, plain or compressed, or a dict.
    n_actions
        How many items there are, where that is more than a file shows; by default one more than the largest number.
    item_context
        The file `item_context.csv` that belongs to a file.

    Notes
    -----
    Of a file, `user_feature_*` are texts and all other columns numbers, of which zeros are left out; of a dict, the
    features are the rows of `context`. Positions count from 0 in a log and in a dict, in a file from 1. What is
    known of the items is in `Log.actions`.

    Examples
    --------
    >>> feedback = {"n_rounds": 2, "n_actions": 3, "context": [[0.5], [1.0]], "action": [2, 0], "reward": [1, 0],
    ...             "position": None, "pscore": [0.2, 0.6]}
    >>> read_open_bandit(feedback)
    Log(2 decisions, 2 with an outcome, 3 classes, 1 features)
    """
    if isinstance(source, Mapping):
        return _from_dict(source, n_actions)
    if not isinstance(source, str | Path):
        kind = type(source).__name__
        raise InvalidInput(f"source must be the path of a CSV file, or a dict; got {kind}: write it to a file before")
    actions = None if item_context is None else _read_items(Path(item_context))
    return _from_file(Path(source), n_actions, actions)


def _from_dict(given: Mapping[str, Any], n_actions: int | None) -> Log:
    missing = [name for name in NEEDED if given.get(name) is None]
    if missing:
        raise InvalidInput(f"a bandit_feedback has {', '.join(NEEDED)}; got no {missing[0]!r}")
    count = check_integer("n_actions", n_actions or given["n_actions"], at_least=2)
    known = given.get(ACTION_CONTEXT)
    rows = None if known is None else _array(known)
    if rows is not None and (rows.ndim != 2 or rows.shape[0] != count or rows.dtype.kind not in "biuf"):
        raise InvalidInput(f"action_context must be a row of numbers for each of {count} actions, got {rows.shape}")
    return from_arrays(
        features=given["context"],
        labels=given["action"],
        probs=given["pscore"],
        rewards=given["reward"],
        n_classes=count,
        positions=given.get("position"),
        actions=None if rows is None else [{ACTION_CONTEXT: row} for row in rows.tolist()],
    )


def _array(values: Any) -> Any:
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        return np.zeros(0)


def _from_file(path: Path, n_actions: int | None, actions: list[dict[str, Any]] | None) -> Log:
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    about = About((0, 1))
    schema = log_schema(NAMED, about)
    rows = _file_rows(path)
    batches = []
    largest = 0 if actions is None else len(actions) - 1
    while piece := list(islice(rows, ROWS)):
        largest = max(largest, *(row["label"] for row in piece))
        batches.append(pa.RecordBatch.from_pylist(piece, schema))
    if not batches:
        raise InvalidInput(f"{path}: there is no row below the header; add rows, or name another file")
    count = check_integer("n_actions", max(2, largest + 1) if n_actions is None else n_actions, at_least=2)
    if count <= largest:
        raise InvalidInput(f"n_actions must be above the largest item_id of {path}, {largest}; got {count}")
    known = None if actions is None else (*actions, *({} for _ in range(count - len(actions))))
    named = log_schema(NAMED, about._replace(classes=tuple(range(count)), actions=known))
    try:
        return Log(pa.Table.from_batches(batches, schema).replace_schema_metadata(named.metadata))
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {problem}") from None


def _file_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a file as those of a log."""
    rows = records(path, ",")
    header = _check_header(path, next(rows, (1, []))[1])
    place = {name: header.index(name) for name in (*COLUMNS, *OPTIONAL) if name in header}
    own = [(i, name) for i, name in enumerate(header) if name and name not in place]
    for number, (line, cells) in enumerate(rows):
        if len(cells) != len(header):
            raise InvalidInput(f"{path}, line {line}: must have {len(header)} cells like the header, got {len(cells)}")
        told = {name: cells[i] for name, i in place.items()}
        yield {"id": str(number), **_told(f"{path}, line {line}", told), "features": _features(path, line, cells, own)}


def _check_header(path: Path, header: Sequence[str]) -> list[str]:
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        wanted = ", ".join((*OPTIONAL, *COLUMNS))
        raise InvalidInput(
            f"{path}: must have the columns of the Open Bandit Dataset, {wanted}, and more; there is no {missing[0]}"
        )
    twice = [name for name in header if name and header.count(name) > 1]
    if twice:
        raise InvalidInput(f"{path}: each column must have a name of its own, got {twice[0]!r} twice")
    return list(header)


def _told(place: str, told: Mapping[str, str]) -> dict[str, Any]:
    """Return what the columns of the data set say."""
    label = _integer(place, "item_id", told["item_id"], 0)
    if label >= MOST_ITEMS:
        raise InvalidInput(f"{place}: item_id must be below {MOST_ITEMS}, got {label}")
    time = told.get("timestamp")
    decided_at = None if time is None else parse_time(time)
    if time is not None and decided_at is None:
        raise InvalidInput(f"{place}: timestamp must be like 2019-11-24 00:03:13+00:00, got {time[:60]!r}")
    position = told.get("position")
    return {
        "decided_at": decided_at,
        "position": None if position is None else _integer(place, "position", position, 1) - 1,
        "label": label,
        "prob": _number(place, "propensity_score", told["propensity_score"]),
        "outcome": _number(place, "click", told["click"]) if told["click"] else None,
    }


def _features(path: Path, line: int, cells: Sequence[str], own: Sequence[tuple[int, str]]) -> str:
    found: dict[str, Any] = {}
    for i, name in own:
        if name.startswith(TEXTS):
            found[name] = cells[i]
        elif cells[i] not in ("", "0", "0.0"):
            found[name] = _number(f"{path}, line {line}", name, cells[i])
    return encode_features({name: value for name, value in found.items() if value != ""})


def _number(place: str, name: str, cell: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise InvalidInput(f"{place}: {name} must be a number, got {cell[:60]!r}")
    return number


def _integer(place: str, name: str, cell: str, low: int) -> int:
    number = _number(place, name, cell)
    if not number.is_integer() or not low <= number < 2**31:
        raise InvalidInput(f"{place}: {name} must be an integer of at least {low}, got {cell[:60]!r}")
    return int(number)


def _read_items(path: Path) -> list[dict[str, Any]]:
    """Return what a file says of the items, by their numbers."""
    rows = records(path, ",")
    header = next(rows, (1, []))[1]
    if "item_id" not in header:
        raise InvalidInput(f"{path}: there must be a column item_id, got {', '.join(header)[:100] or 'none'}")
    items: dict[int, dict[str, Any]] = {}
    for line, cells in rows:
        place = f"{path}, line {line}"
        if len(cells) != len(header):
            raise InvalidInput(f"{place}: must have {len(header)} cells like the header, got {len(cells)}")
        told = {name: cell for name, cell in zip(header, cells, strict=True) if name}
        number = _integer(place, "item_id", told.pop("item_id"), 0)
        if number >= MOST_ITEMS:
            raise InvalidInput(f"{place}: item_id must be below {MOST_ITEMS}, got {number}")
        items[number] = {name: _item_value(place, name, cell) for name, cell in told.items()}
    return [items.get(number, {}) for number in range(max(items, default=0) + 1)]


def _item_value(place: str, name: str, cell: str) -> str | float:
    return cell if name in ITEM_TEXTS else _number(place, name, cell)
