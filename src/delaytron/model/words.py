"""Named values of a row, the tokens that are hashed (numbers, strings, texts), and the table of their names."""

import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from delaytron.checks import LARGEST, MODERATE, has_moderate_square
from delaytron.errors import InvalidInput, Setting, shown
from delaytron.learners.arguments import check_row
from delaytron.records import Array

NUMPY_NUMBERS = (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
NUMPY_FLOATS = (np.float16, np.float32, np.float64)  # a longdouble may be too large
PLAIN_NUMBERS = frozenset((float, int, bool, *NUMPY_NUMBERS, *NUMPY_FLOATS))  # used as they are, without a closer look
LISTS = (list, tuple, set, frozenset)
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
ALLOWED = "a number, a string, True, False, None, a list of strings, or a dict of these"
ROWS = "a dict of features, a pandas Series, or a pandas or polars DataFrame of one row"
DEEPEST = 16  # dicts within dicts; a dict that contains itself ends here, too
MOST_WORDS = 8  # in one n-gram
WORD = re.compile(r"\w+")
MOST_NAMES = 100_000  # in the table of names; later ones are not kept
MOST_AT_A_PLACE = 4
LONGEST_NAME = 200  # characters; the rest of a name is not kept
HINTS: tuple[tuple[Any, str], ...] = (
    ((timedelta, np.timedelta64), "send a number, such as its seconds"),
    ((date, time, np.datetime64), "send numbers, such as its hour or weekday"),
    ((bytes, bytearray, memoryview), "decode it to a string"),
    (Enum, "send its name or its value"),
    (object, "send its parts as numbers or strings"),
)

Token = tuple[str, Any]  # with its number, whose size is not checked; several may have the same text


def is_missing(value: Any) -> bool:
    """Whether a value that is no text and no container means "not known": None, NaN, NaT, or the NA of pandas.

    Examples
    --------
    >>> is_missing(float("nan")), is_missing(None), is_missing(0)
    (True, True, False)
    """
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 - only NaN and its like differ from themselves
    except (TypeError, ValueError, ArithmeticError):
        return isinstance(value, Decimal) or type(value).__name__ == "NAType"


def as_number(name: str, value: Any, allowed: str = ALLOWED) -> float:
    """Return the value of a feature as a float, which may be infinite; raise InvalidInput if it is no number.

    Examples
    --------
    >>> from datetime import date
    >>> as_number("day", date(2024, 5, 1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: feature 'day' must be ..., got a date; send numbers, such as its hour or weekday
    """
    time_span = isinstance(value, np.timedelta64)  # NumPy counts it among the integers
    if not isinstance(value, Real | Decimal | np.bool_) or time_span:
        hint = next(text for kinds, text in HINTS if isinstance(value, kinds))
        raise InvalidInput(f"feature {shown(name)} must be {allowed}, got a {type(value).__name__}", hint)
    try:
        return float(value)
    except OverflowError:
        raise _too_large(name) from None


def check_name(name: Any) -> str:
    """Return the name of a feature; raise InvalidInput if it is not a string that can be stored.

    Examples
    --------
    >>> check_name(7)
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: names of features must be strings, got 7 (int); name it by a string
    """
    if not isinstance(name, str):
        kind = type(name).__name__
        raise InvalidInput(f"names of features must be strings, got {shown(name)} ({kind})", "name it by a string")
    return check_unicode(str.__str__(name))


def check_unicode(text: str) -> str:
    """Return a text; raise InvalidInput if it has half of a pair of surrogates, which cannot be encoded."""
    if LONE_SURROGATE.search(text):
        raise InvalidInput(f"names and strings must be valid Unicode, got {shown(text)}", "replace its lone surrogates")
    return text


def check_size(values: Array, named: Iterable[tuple[str, Any]]) -> None:
    """Raise InvalidInput if a row is too large or too small for learners; `named` are the numbers it was built from.

    Examples
    --------
    >>> check_size(np.array([np.inf]), [("age", np.inf)])
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: feature 'age' must be finite, got inf; leave it out, or send None, if it is not known
    """
    if not has_moderate_square(values):
        check_numbers(named)
        check_row(values)


def check_numbers(named: Iterable[tuple[str, Any]]) -> None:
    """Raise InvalidInput, with the name of the feature, if a number is infinite or too large."""
    for name, value in named:
        try:
            number = float(value)
        except OverflowError:
            raise _too_large(name) from None
        if not isfinite(number):
            hint = "leave it out, or send None, if it is not known"
            raise InvalidInput(f"feature {shown(name)} must be finite, got {number}", hint)
        if abs(number) > LARGEST:
            raise InvalidInput.of(
                "x", MODERATE, got=f"{number:g} for feature {shown(name)}", hint="scale it", verb="have"
            )


def _too_large(name: str) -> InvalidInput:
    return InvalidInput(f"feature {shown(name)} must fit into a 64-bit float, got a larger number", "scale it")


def as_mapping(x: Any) -> Mapping[Any, Any]:
    """Return one row of named values as a new dict; raise InvalidInput if x is none.

    Examples
    --------
    >>> as_mapping({"age": 31})
    {'age': 31}
    >>> as_mapping([("age", 31)])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: x must be a dict ..., got a list, [('age', 31)]; for vectors use features=n
    """
    if isinstance(x, Mapping):
        return dict(x)

    def is_a(name: str, package: str) -> bool:  # if its package was never imported, it is not
        return isinstance(x, getattr(sys.modules.get(package), name, ()))

    in_polars, in_pandas = is_a("DataFrame", "polars"), is_a("DataFrame", "pandas")
    if (in_polars or in_pandas) and len(x) != 1:
        raise InvalidInput.of("x", "one row", got=f"a DataFrame of {len(x)}", hint="send its rows one by one")
    if in_polars:
        return dict(x.row(0, named=True))
    if in_pandas or is_a("Series", "pandas"):
        series = x.iloc[0] if in_pandas else x
        if not series.index.is_unique:
            twice = f"{shown(series.index[series.index.duplicated()][0])} twice"
            raise InvalidInput.of("x", "every name once", got=twice, hint="rename one of them", verb="have")
        return dict(zip(series.index, series.tolist(), strict=True))
    hint = ("for vectors use ", Setting("features", "n"))
    raise InvalidInput.of("x", ROWS, x, hint, got=f"a {type(x).__name__}, {shown(x)}")


def list_tokens(given: Mapping[Any, Any], ngrams: int = 1, outer: str = "", depth: int = 1) -> list[Token]:
    """Return the tokens of a row of named values with their numbers, without zeros; raise InvalidInput.

    Examples
    --------
    >>> list_tokens({"tokens": 512, "tenant": "a", "prompt": "Hello, hello world", "user": {"new": True, "age": None}})
    [('tokens', 512), ('tenant=a', 1), ('prompt=hello', 2), ('prompt=world', 1), ('user.new', True)]
    """
    if depth > DEEPEST:
        raise InvalidInput.of(
            "x", f"at most {DEEPEST} dicts within one another", got="more", hint="flatten it", verb="have"
        )
    found: list[Token] = []
    for key, value in given.items():
        name = key if type(key) is str else check_name(key)
        if outer:
            name = f"{outer}{name}"
        kind = type(value)
        if kind in PLAIN_NUMBERS:
            if value and value == value:  # noqa: PLR0124 - NaN, which is missing, differs from itself
                found.append((name, value))
        elif kind is str:
            found += [(f"{name}={value}", 1)] if value.split() == [value] else _text_tokens(name, value, ngrams)
        elif isinstance(value, Mapping):
            found += list_tokens(value, ngrams, f"{name}.", depth + 1)
        else:
            found += _other_tokens(name, value, ngrams)
    return found


def _text_tokens(name: str, text: str, ngrams: int) -> Iterable[Token]:
    """Return the words of a text and their n-grams, counted."""
    words = WORD.findall(text.lower())
    phrases = words
    for n in range(2, ngrams + 1):
        phrases = [*phrases, *map(" ".join, zip(*(words[start:] for start in range(n)), strict=False))]
    counts: dict[str, int] = {}
    for phrase in phrases:  # a Counter takes three times as long for a short text
        counts[phrase] = counts.get(phrase, 0) + 1
    return [(f"{name}={phrase}", count) for phrase, count in counts.items()]


def _other_tokens(name: str, value: Any, ngrams: int) -> Iterable[Token]:
    """Return the tokens of free text, of a list, and of everything that is not of the most usual types."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, str):
        text = str.__str__(value)  # of a class derived from it
        return [(f"{name}={text}", 1)] if text.split() == [text] else _text_tokens(name, text, ngrams)
    if isinstance(value, LISTS):
        items = []
        for item in value:
            if isinstance(item, str):
                items.append(str.__str__(item))
            elif isinstance(item, (*LISTS, Mapping, np.ndarray)) or not is_missing(item):
                hint = f"give each a name of its own, such as {shown(name[:20] + '_1')}"
                problem = f"feature {shown(name)} must be a list of strings only, got {shown(item)} in it"
                raise InvalidInput(problem, hint)
        if isinstance(value, set | frozenset):
            items.sort()  # a set has no order of its own, and one that changes from run to run
        return [(f"{name}={item}", 1) for item in items if item]
    number = 0.0 if is_missing(value) else as_number(name, value)
    return [(name, number)] if number else []


class NameTable:
    """The names that were seen at each index, for explanations.

    Examples
    --------
    >>> table = NameTable()
    >>> table.add("age", 3), table.add("city=Rome", 3), table.add("age", 3)
    (True, True, False)
    >>> table.at(3), table.at(4)
    ('age or city=Rome', '#4')
    """

    def __init__(self) -> None:
        self._names: dict[int, list[str]] = {}
        self._count = 0

    def add(self, name: str, index: int) -> bool:
        """Keep a name, unless the table is full or has it; return whether it is new."""
        if self._count >= MOST_NAMES:
            return False
        names = self._names.setdefault(index, [])
        name = name[:LONGEST_NAME]
        if len(names) >= MOST_AT_A_PLACE or name in names:
            return False
        names.append(name)
        self._count += 1
        return True

    def at(self, index: int) -> str:
        """Return the name of an index: all that were seen there, or its number if none was."""
        names = self._names.get(index)
        return " or ".join(names) if names else f"#{index}"

    def as_json(self) -> dict[str, list[str]]:
        """Return a copy for JSON, with the indices as text."""
        return {str(index): list(names) for index, names in self._names.items()}

    def whole_names(self) -> Iterable[tuple[str, int]]:
        """Iterate over the names that were not cut off, with their indices."""
        return ((name, i) for i, names in self._names.items() for name in names if len(name) < LONGEST_NAME)

    @classmethod
    def from_json(cls, given: Any, n_features: int) -> "NameTable":
        """Return the table that `as_json` wrote; raise InvalidInput if it is damaged."""

        def damaged(how: str) -> InvalidInput:
            allowed = f"a dict of indices, with up to {MOST_AT_A_PLACE} different names each"
            return InvalidInput(f"the table of names must be {allowed}, but it {how}", "restore the file from a backup")

        if not isinstance(given, dict):
            raise damaged(f"is a {type(given).__name__}")
        table = cls()
        for key, names in given.items():
            digits = isinstance(key, str) and len(key) < 20 and key.isascii() and key.isdigit()
            if not digits or str(int(key)) != key or int(key) >= n_features:
                raise damaged(f"has the index {shown(key)}, which is not in 0..{n_features - 1}")
            if not isinstance(names, list) or not 1 <= len(names) <= MOST_AT_A_PLACE:
                raise damaged(f"has {shown(names)} at {key}")
            for name in names:
                if not isinstance(name, str) or len(name) > LONGEST_NAME:
                    raise damaged(f"has the name {shown(name)}")
                check_unicode(name)
            if len(set(names)) < len(names):
                raise damaged(f"has a name twice at {key}")
            table._names[int(key)] = list(names)
            table._count += len(names)
            if table._count > MOST_NAMES:
                raise damaged(f"has more than {MOST_NAMES} names")
        return table
