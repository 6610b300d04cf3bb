"""Logs as the `bandit_feedback` of Open Bandit Pipeline, and in the columns of the Open Bandit Dataset."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from delaytron.checks import check_number
from delaytron.errors import InvalidInput
from delaytron.files.atomic import replacing
from delaytron.files.compressed import packing
from delaytron.logs.columns import decode_features
from delaytron.logs.log import Log, check_log
from delaytron.logs.open_bandit import ACTION_CONTEXT, TEXTS
from delaytron.logs.schema import DENSE, NAMED, kind_of
from delaytron.logs.times import format_time
from delaytron.records import Array

ROWS = 1000  # that are looked at together
MOST_CELLS = 2**28  # of a matrix of features: 2 GB
MISSING = (0.0, "")  # a number and a text that a row does not have
HEADER = ("", "timestamp", "item_id", "position", "click", "propensity_score")


def to_open_bandit(log: Log, *, missing_reward: float | None = None) -> dict[str, Any]:
    """Return a log as the dict of arrays that the estimators of Open Bandit Pipeline take.

    Parameters
    ----------
    log
        The log. Named features become a matrix: a column for each number and for each text, sorted by their names.
    missing_reward
        What stands for an outcome that has not come: Open Bandit Pipeline knows no missing ones.

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
    return {
        "n_rounds": len(log),
        "n_actions": log.n_classes,
        "context": _context(log),
        ACTION_CONTEXT: _action_context(log),
        "action": log.labels.copy(),
        "position": None if log.positions is None else log.positions.copy(),
        "reward": _rewards(log, missing_reward),
        "pscore": log.probs.copy(),
    }


def _rewards(log: Log, missing: float | None) -> Array:
    open_ = np.isnan(log.outcomes)
    if open_.any() and missing is None:
        raise InvalidInput(
            f"Open Bandit Pipeline knows no missing outcomes, and {open_.sum()} of {len(log)} have not come; "
            "give missing_reward=0 to count them as such"
        )
    value = 0.0 if missing is None else check_number("missing_reward", missing)
    return np.where(open_, value, log.outcomes)


def _context(log: Log) -> Array:
    features = log.features
    if kind_of(log.table.schema) == NAMED:
        return _matrix(features)
    _check_cells(*features.shape)
    return np.array(features if isinstance(features, np.ndarray) else features.toarray())


def _action_context(log: Log) -> Array | None:
    if log.actions is None:
        return None
    if all(set(known) == {ACTION_CONTEXT} for known in log.actions):
        return np.array([known[ACTION_CONTEXT] for known in log.actions], np.float64)
    return _matrix(log.actions)


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
        raise InvalidInput(f"a matrix of {n_rows:,} rows and {n_columns:,} features is too large; take fewer of them")


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


def write_open_bandit(log: Log, path: str | Path) -> None:
    """Write a log in the columns of the Open Bandit Dataset; after an error the file is as it was.

    Features are columns: texts named `user_feature_...`, and numbers by their names, those of vectors `x_0`, `x_1`, ...
    A click that has not come is an empty cell.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> rows = [{"hour": 7, "sky": "blue"}]
    >>> log = dt.logs.from_arrays(features=rows, labels=[1], probs=[0.5], rewards=[1], n_classes=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_open_bandit(log, Path(folder, "log.csv"))
    ...     print(Path(folder, "log.csv").read_text())
    ,item_id,click,propensity_score,user_feature_sky,hour
    0,1,1.0,0.5,blue,7.0
    <BLANKLINE>
    """
    check_log(log)
    names = sorted({name for row in _feature_rows(log) for name in row}, key=_natural)
    absent = {"timestamp": log.decided_at is None, "position": log.positions is None}
    told = [name for name in HEADER if not absent.get(name)]
    with replacing(Path(path)) as whole, packing(whole, Path(path)) as file:
        text = TextIOWrapper(file, "utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*told, *names])
        for i, row in enumerate(_feature_rows(log)):
            writer.writerow(
                [
                    *(_cell(log, i, name) for name in told),
                    *(row.get(name, MISSING[name.startswith(TEXTS)]) for name in names),
                ]
            )
        text.flush()
        text.detach()


def _feature_rows(log: Log) -> Iterator[dict[str, float | str]]:
    """Iterate over the features as cells by the names of columns."""
    kind = kind_of(log.table.schema)
    for chunk in log.table["features"].chunks:
        for start in range(0, len(chunk), ROWS):
            for given in chunk.slice(start, ROWS).to_pylist():
                if kind == NAMED:
                    yield dict(_columns(decode_features(given)))
                elif kind == DENSE:
                    yield {f"x_{place}": value for place, value in enumerate(given)}
                else:
                    yield {f"x_{place}": v for place, v in zip(given["indices"], given["values"], strict=True)}


def _columns(features: Mapping[str, Any]) -> Iterator[tuple[str, float | str]]:
    """Iterate over named features; texts of one name are one column."""
    for name, value in features.items():
        if isinstance(value, str):
            yield name if name.startswith(TEXTS) else f"{TEXTS}{name}", value
        else:
            yield from _cells(value, name)


def _cell(log: Log, row: int, name: str) -> Any:
    if name == "timestamp":
        return (
            ""
            if log.decided_at is None
            else format_time(int(log.decided_at[row])).replace("T", " ").replace("Z", "+00:00")
        )
    if name == "position":
        return "" if log.positions is None else int(log.positions[row]) + 1
    outcome = float(log.outcomes[row])
    told = {"": row, "item_id": int(log.labels[row]), "propensity_score": float(log.probs[row])}
    return told[name] if name in told else ("" if np.isnan(outcome) else outcome)


def _natural(name: str) -> tuple[bool, list[tuple[int, str]]]:
    """Return by what names of columns are sorted: texts first, numbers in names by their size."""
    parts = [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
    return not name.startswith(TEXTS), parts
