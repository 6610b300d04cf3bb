"""Rows of a fixed form: a plain vector of n numbers, or a fixed list of named ones."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from delaytron.checks import shown
from delaytron.errors import InvalidInput
from delaytron.learners.rows import as_row
from delaytron.model.mappings import as_mapping
from delaytron.model.values import PLAIN_NUMBERS, as_number, check_name, check_numbers, check_size, is_missing
from delaytron.records import Array, Row

CONTAINERS = (str, list, tuple, set, frozenset, dict, np.ndarray)


class DenseEncoder:
    """What both have in common: every feature is in every row, and no names are collected."""

    sparse = False

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self.n_features = len(self._names)

    def names_of(self, row: Row) -> list[str]:  # noqa: ARG002 - all rows have the same
        """Return the names of all features, in their order."""
        return list(self._names)

    def names(self) -> dict[str, list[str]]:
        """Return nothing: the settings say it all."""
        return {}

    def take_names(self, names: Any) -> None:
        """Raise if there are names to take."""
        if names != {}:
            raise InvalidInput(f"the table of names must be empty for these features, got {shown(names)}")

    def new_names(self) -> list[tuple[int, str]]:
        """Return nothing: the settings say it all."""
        return []

    def add_names(self, names: Iterable[tuple[int, str]]) -> None:
        """Leave it: the settings say it all."""


class VectorEncoder(DenseEncoder):
    """A plain vector of n numbers, or one CSR row.

    Examples
    --------
    >>> VectorEncoder(2).encode([3, 4])
    Row(indices=None, values=array([3., 4.]))
    """

    def __init__(self, n_features: int) -> None:
        super().__init__([str(i) for i in range(n_features)])

    def encode(self, x: Any) -> Row:
        """Return a copy of x as a row."""
        return as_row(x, self.n_features, sparse=False)

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_encoder` makes the same encoder."""
        return {"features": self.n_features}


class NamedEncoder(DenseEncoder):
    """Numbers by their names, in a fixed order; what is missing is 0.

    Examples
    --------
    >>> encoder = NamedEncoder(["age", "income"])
    >>> encoder.encode({"income": 1200, "age": None})
    Row(indices=None, values=array([   0., 1200.]))
    >>> encoder.encode({"incom": 1200})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: x must have no features but those listed, got 'incom'; did you mean 'income'? ...
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(self._names)}

    def encode(self, x: Any) -> Row:
        """Return the row of a dict or of what is like one."""
        given = x if type(x) is dict else as_mapping(x)
        numbers = [0.0] * self.n_features
        for name, value in given.items():
            if name not in self._places:
                raise self._unknown(check_name(name))
            number = value if type(value) in PLAIN_NUMBERS else _number(name, value)
            if number == number:  # noqa: PLR0124 - NaN, which is missing, differs from itself
                numbers[self._places[name]] = number
        values = self._as_array(numbers)
        check_size(values, zip(self._names, numbers, strict=True))
        return Row(None, values)

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_encoder` makes the same encoder."""
        return {"features": list(self._names)}

    def _as_array(self, numbers: Sequence[Any]) -> Array:
        try:
            return np.array(numbers, dtype=np.float64)
        except OverflowError:  # an integer that no float can hold
            check_numbers(zip(self._names, numbers, strict=True))
            raise

    def _unknown(self, name: str) -> InvalidInput:
        close = get_close_matches(name[:100], self._names, n=3)
        meant = f"did you mean {' or '.join(map(shown, close))}? " if close else ""
        other = 'features="hashed" takes any name'
        return InvalidInput(f"x must have no features but those listed, got {shown(name)}; {meant}{other}")


def _number(name: str, value: Any) -> float:
    """Return a number that is not a plain one, 0 if it is missing."""
    if isinstance(value, CONTAINERS):
        took = f"got a {type(value).__name__}, {shown(value)}"
        raise InvalidInput(f'feature {shown(name)} must be a number, {took}; features="hashed" takes strings and lists')
    return 0.0 if is_missing(value) else as_number(name, value, "a number, True, False or None")
