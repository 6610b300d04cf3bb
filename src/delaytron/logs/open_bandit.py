"""Logs from CSV files of the Open Bandit Dataset, and from and to the dict of arrays of Open Bandit Pipeline."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from delaytron.checks import check_integer, check_number, check_path
from delaytron.errors import InvalidInput, Setting
from delaytron.extras import needs
from delaytron.files.text import records
from delaytron.logs.dsjson import parse_time
from delaytron.logs.log import Log, check_log, from_arrays
from delaytron.logs.schema import NAMED, About, encode_features, kind_of, log_schema
from delaytron.records import Array

NEEDED = ("n_actions", "context", "action", "reward", "pscore")
COLUMNS = ("item_id", "click", "propensity_score")
OPTIONAL = ("timestamp", "position")
TEXTS = "user_feature_"  # prefix of columns of text
ITEM_TEXTS = ("item_feature_1", "item_feature_2", "item_feature_3")
ACTION_CONTEXT = "action_context"
MOST_ITEMS = 100_000
CORRECT = "correct the line, or remove it"  # hint
ROWS = 10_000  # per record batch
MOST_CELLS = 2**28  # of a matrix of features: 2 GB


def read_open_bandit(
    source: str | Path | Mapping[str, Any], *, n_actions: int | None = None, item_context: str | Path | None = None
) -> Log:
    """Read a log in the columns of the Open Bandit Dataset, or the `bandit_feedback` of Open Bandit Pipeline.

    Parameters
    ----------
    source
        A CSV file, plain or compressed, or a dict.
    n_actions
        The number of items, where that is more than a file shows; by default one more than the largest item_id.
    item_context
        The file `item_context.csv` that belongs to the CSV file.

    Notes
    -----
    Of a file, `user_feature_*` are texts and all other columns numbers, of which zeros are left out; of a dict, the
    features are the rows of `context`. Positions count from 0 in a log and in a dict, in a file from 1. The features of
    the items are in `Log.actions`. Raises InvalidInput, with the line, if something cannot be read.

    Examples
    --------
    >>> feedback = {"n_rounds": 2, "n_actions": 3, "context": [[0.5], [1.0]], "action": [2, 0], "reward": [1, 0],
    ...             "position": None, "pscore": [0.2, 0.6]}
    >>> read_open_bandit(feedback)
    Log(2 decisions, 2 with an outcome, 3 classes, 1 features)
    """
    if isinstance(source, Mapping):
        if item_context is not None:
            problem = (Setting("item_context"), " belongs to a CSV file; a dict has its own action_context")
            raise InvalidInput(problem, "leave it out", parameter="item_context")
        return _from_dict(source, n_actions)
    if not isinstance(source, str | Path):
        kind = type(source).__name__
        raise InvalidInput.of("source", "the path of a CSV file, or a dict", got=kind, hint="write it to a file first")
    actions = None if item_context is None else _read_items(check_path("item_context", item_context))
    return _from_file(check_path("source", source), n_actions, actions)


def _from_dict(given: Mapping[str, Any], n_actions: int | None) -> Log:
    missing = [name for name in NEEDED if given.get(name) is None]
    if missing:
        raise InvalidInput(f"a bandit_feedback has {', '.join(NEEDED)}, got no {missing[0]!r}", f"add {missing[0]!r}")
    count = check_integer("n_actions", given["n_actions"] if n_actions is None else n_actions, at_least=2)
    rows = given.get(ACTION_CONTEXT)
    if rows is not None:
        try:
            rows = np.asarray(rows)
        except ValueError:  # rows of different lengths
            rows = np.zeros(0)
    if rows is not None and (rows.ndim != 2 or rows.shape[0] != count or rows.dtype.kind not in "biuf"):
        raise InvalidInput.of("action_context", f"a row of numbers for each of {count} actions", got=str(rows.shape))
    return from_arrays(
        features=given["context"],
        labels=given["action"],
        probs=given["pscore"],
        rewards=given["reward"],
        n_classes=count,
        positions=given.get("position"),
        actions=None if rows is None else [{ACTION_CONTEXT: row} for row in rows.tolist()],
    )


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
        raise InvalidInput(f"{path}: there is no row below the header", "add rows, or name another file")
    count = check_integer("n_actions", max(2, largest + 1) if n_actions is None else n_actions, at_least=2)
    if count <= largest:
        raise InvalidInput.of("n_actions", f"above the largest item_id of {path}, {largest}", got=str(count))
    known = None if actions is None else (*actions, *({} for _ in range(count - len(actions))))
    named = log_schema(NAMED, about._replace(classes=tuple(range(count)), actions=known))
    try:
        return Log(pa.Table.from_batches(batches, schema).replace_schema_metadata(named.metadata))
    except InvalidInput as problem:
        raise problem.at(str(path)) from None


def _file_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a file as those of a log; raise InvalidInput at the first row that is not valid."""
    rows = records(path, ",")
    header = list(next(rows, (1, []))[1])
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        wanted = ", ".join((*OPTIONAL, *COLUMNS))
        raise InvalidInput(
            f"{path}: must have the columns of the Open Bandit Dataset, {wanted}, and more; there is no {missing[0]}",
            "add it, or give another file",
        )
    twice = [name for name in header if name and header.count(name) > 1]
    if twice:
        raise InvalidInput(
            f"{path}: each column must have a name of its own, got {twice[0]!r} twice", "rename one of them"
        )
    place = {name: header.index(name) for name in (*COLUMNS, *OPTIONAL) if name in header}
    own = [(i, name) for i, name in enumerate(header) if name and name not in place]
    for number, (line, cells) in enumerate(rows):
        where = f"{path}, line {line}"
        if len(cells) != len(header):
            raise InvalidInput(f"{where}: must have {len(header)} cells like the header, got {len(cells)}", CORRECT)
        cell = {name: cells[i] for name, i in place.items()}
        time, position = cell.get("timestamp"), cell.get("position")
        decided_at = None if time is None else parse_time(time)
        if time is not None and decided_at is None:
            raise InvalidInput(f"{where}: timestamp must be like 2019-11-24 00:03:13+00:00, got {time[:60]!r}", CORRECT)
        features: dict[str, Any] = {}
        for i, name in own:
            if name.startswith(TEXTS):
                if cells[i]:
                    features[name] = cells[i]
            elif cells[i] not in ("", "0", "0.0"):
                features[name] = _number(where, name, cells[i])
        yield {
            "id": str(number),
            "decided_at": decided_at,
            "position": None if position is None else _integer(where, "position", position, 1) - 1,
            "label": _item_id(where, cell["item_id"]),
            "prob": _number(where, "propensity_score", cell["propensity_score"]),
            "outcome": _number(where, "click", cell["click"]) if cell["click"] else None,
            "features": encode_features(features),
        }


def _number(place: str, name: str, cell: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise InvalidInput(f"{place}: {name} must be a number, got {cell[:60]!r}", CORRECT)
    return number


def _integer(place: str, name: str, cell: str, low: int) -> int:
    number = _number(place, name, cell)
    if not number.is_integer() or not low <= number < 2**31:
        raise InvalidInput(f"{place}: {name} must be an integer of at least {low}, got {cell[:60]!r}", CORRECT)
    return int(number)


def _item_id(place: str, cell: str) -> int:
    number = _integer(place, "item_id", cell, 0)
    if number >= MOST_ITEMS:
        raise InvalidInput(f"{place}: item_id must be below {MOST_ITEMS}, got {number}", "number the items from 0")
    return number


def _read_items(path: Path) -> list[dict[str, Any]]:
    """Return the features of the items, by item_id; raise InvalidInput if the file cannot be read."""
    rows = records(path, ",")
    header = next(rows, (1, []))[1]
    if "item_id" not in header:
        raise InvalidInput(
            f"{path}: there must be a column item_id, got {', '.join(header)[:100] or 'none'}", "give another file"
        )
    items: dict[int, dict[str, Any]] = {}
    for line, cells in rows:
        place = f"{path}, line {line}"
        if len(cells) != len(header):
            raise InvalidInput(f"{place}: must have {len(header)} cells like the header, got {len(cells)}", CORRECT)
        given = {name: cell for name, cell in zip(header, cells, strict=True) if name}
        number = _item_id(place, given.pop("item_id"))
        items[number] = {
            name: cell if name in ITEM_TEXTS else _number(place, name, cell) for name, cell in given.items()
        }
    return [items.get(number, {}) for number in range(max(items, default=0) + 1)]


def to_open_bandit(log: Log, *, missing_reward: float | None = None) -> dict[str, Any]:
    """Return a log as the dict of arrays that the estimators of Open Bandit Pipeline take.

    Parameters
    ----------
    log
        The log. Named features become a matrix: a column for each number and for each text, sorted by their names.
    missing_reward
        The reward of decisions without an outcome, since Open Bandit Pipeline has no missing ones; without it
        InvalidInput is raised where there are some.

    Examples
    --------
    >>> import delaytron as dt
    >>> log = dt.logs.from_arrays(features=[{"hour": 7, "sky": "blue"}, {"hour": 9, "sky": "grey"}], labels=[0, 1],
    ...                           probs=[0.9, 0.5], rewards=[1, 0], n_classes=2)
    >>> feedback = to_open_bandit(log)
    >>> feedback["n_rounds"], feedback["action"].tolist(), feedback["context"].tolist()
    (2, [0, 1], [[7.0, 1.0, 0.0], [9.0, 0.0, 1.0]])
    """
    check_log(log)
    is_open = np.isnan(log.outcomes)
    if is_open.any() and missing_reward is None:
        raise InvalidInput(
            f"Open Bandit Pipeline has no missing outcomes, and {is_open.sum()} of {len(log)} decisions have none",
            ("give ", Setting("missing_reward", "0"), " to count each as a reward of 0"),
        )
    reward = 0.0 if missing_reward is None else check_number("missing_reward", missing_reward)
    context = log.features
    if kind_of(log.table.schema) == NAMED:
        context = _matrix(context)
    else:
        _check_cells(*context.shape)
        context = np.array(context if isinstance(context, np.ndarray) else context.toarray())
    actions = None
    if log.actions is not None:
        if all(set(known) == {ACTION_CONTEXT} for known in log.actions):  # from `read_open_bandit`
            actions = np.array([known[ACTION_CONTEXT] for known in log.actions], np.float64)
        else:
            actions = _matrix(log.actions)
    return {
        "n_rounds": len(log),
        "n_actions": log.n_classes,
        "context": context,
        ACTION_CONTEXT: actions,
        "action": log.labels.copy(),
        "position": None if log.positions is None else log.positions.copy(),
        "reward": np.where(is_open, reward, log.outcomes),
        "pscore": log.probs.copy(),
    }


def _matrix(rows: Sequence[Mapping[str, Any]]) -> Array:
    """Return dicts of features as a matrix with a column for each number and for each text."""
    flat = [dict(_cells(row)) for row in rows]
    names = sorted({name for row in flat for name in row})
    _check_cells(len(flat), len(names))
    place = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((len(flat), len(names)))
    for i, row in enumerate(flat):
        matrix[i, [place[name] for name in row]] = list(row.values())
    return matrix


def _check_cells(n_rows: int, n_columns: int) -> None:
    if n_rows * n_columns > MOST_CELLS:
        raise InvalidInput(f"a matrix of {n_rows:,} rows and {n_columns:,} features is too large", "take fewer of them")


def _cells(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Iterate over features by names such as `outer.inner` and, of texts, `name=text`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _cells(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _cells(inner, name if isinstance(inner, str) else f"{name}.{place}")
    elif isinstance(value, str):
        yield f"{name}={value}", 1.0
    elif value is not None:
        yield name, float(value)
