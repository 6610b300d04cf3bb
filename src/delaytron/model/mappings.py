"""One row of named values, as a dict, as a row of pandas or polars; neither is imported for it."""

import sys
from collections.abc import Mapping
from typing import Any

from delaytron.checks import shown
from delaytron.errors import InvalidInput

ROWS = "a dict of features, a pandas Series, or a pandas or polars DataFrame of one row"


def as_mapping(x: Any) -> Mapping[Any, Any]:
    """Return one row of named values as a dict of its own.

    Examples
    --------
    >>> as_mapping({"age": 31})
    {'age': 31}
    >>> as_mapping([("age", 31)])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: x must be a dict ...; got a list, [('age', 31)]; for vectors use features=n
    """
    if isinstance(x, Mapping):
        return dict(x)
    if _is_a("DataFrame", "polars", x):
        return dict(_only_row(x).row(0, named=True))
    if _is_a("DataFrame", "pandas", x):
        return _from_series(_only_row(x).iloc[0])
    if _is_a("Series", "pandas", x):
        return _from_series(x)
    raise InvalidInput(f"x must be {ROWS}; got a {type(x).__name__}, {shown(x)}; for vectors use features=n")


def _is_a(name: str, package: str, x: Any) -> bool:
    """Whether x is of that class: if its package was never imported, it is not."""
    return isinstance(x, getattr(sys.modules.get(package), name, ()))


def _only_row(frame: Any) -> Any:
    if len(frame) != 1:
        raise InvalidInput(f"x must be one row, got a DataFrame of {len(frame)}; send its rows one by one")
    return frame


def _from_series(series: Any) -> Mapping[Any, Any]:
    if not series.index.is_unique:
        twice = series.index[series.index.duplicated()][0]
        raise InvalidInput(f"x must have every name once, got {shown(twice)} twice; rename one of them")
    return dict(zip(series.index, series.tolist(), strict=True))
