"""Features as a client sends them: what `dt.Model` takes, as JSON can hold it."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.matrices import is_sparse
from delaytron.model.mappings import as_mapping
from delaytron.model.tokens import DEEPEST
from delaytron.model.values import as_number, check_name, check_numbers, check_unicode, is_missing

SENT_AS_THEY_ARE = (str, int, bool, type(None))


def as_sent(x: Any) -> Any:
    """Return features for JSON: a dict, a list of numbers, or pairs of an index and a number for a sparse row.

    Examples
    --------
    >>> as_sent({"tokens": np.int64(512), "hour": float("nan"), "tags": ("a", "b")})
    {'tokens': 512.0, 'hour': None, 'tags': ['a', 'b']}
    >>> as_sent(np.array([0.5, 2.0]))
    [0.5, 2.0]
    """
    if is_sparse(x):
        return _pairs(x)
    if isinstance(x, np.ndarray):
        if x.ndim != 1:
            raise InvalidInput(f"x must be 1-D, got shape {x.shape}; decide_many takes several rows")
        return _vector(x.tolist())
    return _vector(x) if isinstance(x, list | tuple) else _named(as_mapping(x), 1)


def _pairs(x: Any) -> list[list[float]]:
    row = x.tocoo()
    if row.ndim == 2 and row.shape[0] != 1:
        raise InvalidInput(f"x must be one row, got {row.shape[0]}; decide_many takes several")
    row.sum_duplicates()
    numbers = _vector(row.data.tolist())
    return [[int(index), number] for index, number in zip(row.coords[-1], numbers, strict=True)] or [[0, 0.0]]


def _vector(x: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [_entry(position, value) for position, value in enumerate(x)]


def _entry(position: int, value: Any, *, in_pair: bool = False) -> Any:
    if isinstance(value, list | tuple) and not in_pair:  # a pair of a sparse row
        return [_entry(place, item, in_pair=True) for place, item in enumerate(value)]
    if isinstance(value, float) and not isfinite(value):
        raise InvalidInput(f"x must be finite, got {value} at position {position}")
    return _value(str(position), value, 1)


def _named(given: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    _check_depth(depth)
    return {check_name(name): _value(name, value, depth) for name, value in given.items()}


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise InvalidInput(f"x must have at most {DEEPEST} dicts or lists within one another, got more; flatten it")


def _value(name: str, value: Any, depth: int) -> Any:
    if type(value) in SENT_AS_THEY_ARE:
        return check_unicode(value) if isinstance(value, str) else value
    if isinstance(value, str):
        return check_unicode(str.__str__(value))
    if isinstance(value, Mapping):
        return _named(value, depth + 1)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return _value(name, value.item(), depth)
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        _check_depth(depth)
        return [_value(name, item, depth + 1) for item in _items(value)]
    return None if is_missing(value) else _number(name, as_number(name, value))


def _items(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _number(name: str, number: float) -> float:
    check_numbers([(name, number)])
    return number
