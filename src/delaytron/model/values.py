"""Values of features as people have them: what counts as a number, what as missing, and what is refused."""

import re
from collections.abc import Iterable
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from delaytron.checks import LARGEST, shown
from delaytron.errors import InvalidInput
from delaytron.learners.rows import check_row
from delaytron.matrices import MODERATE, has_moderate_square
from delaytron.records import Array

NUMPY_NUMBERS = (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
NUMPY_FLOATS = (np.float16, np.float32, np.float64)  # a longdouble may be too large
PLAIN_NUMBERS = frozenset((float, int, bool, *NUMPY_NUMBERS, *NUMPY_FLOATS))  # used as they are, without a closer look
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
ALLOWED = "a number, a string, True, False, None, a list of strings, or a dict of these"
HINTS: tuple[tuple[Any, str], ...] = (
    ((timedelta, np.timedelta64), "send a number, such as its seconds"),
    ((date, time, np.datetime64), "send numbers, such as its hour or weekday"),
    ((bytes, bytearray, memoryview), "decode it to a string"),
    (Enum, "send its name or its value"),
    (object, "send its parts as numbers or strings"),
)


def is_missing(value: Any) -> bool:
    """Whether a value that is no text and no container stands for "not known": None, NaN, NaT, or the NA of pandas.

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
    """Return the value of a feature as a float; it may be infinite. Raise if it is no number.

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
        raise InvalidInput(f"feature {shown(name)} must be {allowed}, got a {type(value).__name__}; {hint}")
    try:
        return float(value)
    except OverflowError:
        raise _too_large(name) from None


def check_name(name: Any) -> str:
    """Return the name of a feature; raise if it is not a string that can be stored.

    Examples
    --------
    >>> check_name(7)
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: names of features must be strings, got 7 (int); name it otherwise
    """
    if not isinstance(name, str):
        kind = type(name).__name__
        raise InvalidInput(f"names of features must be strings, got {shown(name)} ({kind}); name it otherwise")
    return check_unicode(str.__str__(name))


def check_unicode(text: str) -> str:
    """Return a text; raise if it has half of a pair of surrogates, which no file can hold."""
    if LONE_SURROGATE.search(text):
        raise InvalidInput(f"names and strings must be valid Unicode, got {shown(text)}; replace its lone surrogates")
    return text


def check_size(values: Array, named: Iterable[tuple[str, Any]]) -> None:
    """Raise if a row is too large or too small for learners; `named` are the numbers that it was made of.

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
    """Raise if a number is infinite or too large, and say which."""
    for name, value in named:
        try:
            number = float(value)
        except OverflowError:
            raise _too_large(name) from None
        if not isfinite(number):
            unknown = "leave it out, or send None, if it is not known"
            raise InvalidInput(f"feature {shown(name)} must be finite, got {number}; {unknown}")
        if abs(number) > LARGEST:
            raise InvalidInput(f"x must have {MODERATE}, got {number:g} for feature {shown(name)}; scale it")


def _too_large(name: str) -> InvalidInput:
    return InvalidInput(f"feature {shown(name)} must fit into a 64-bit float, got a larger number; scale it")
