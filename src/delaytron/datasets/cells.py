"""Cells of a table as text: which are missing, which are numbers, and what they are called as categories."""

import re
from collections.abc import Sequence
from contextlib import suppress
from math import isfinite, nan
from typing import Any

CODE = re.compile(r"[+-]?0\d")  # how a code begins that only looks like a number
TOO_LARGE = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")  # also of what no float can hold
NO_NUMBERS = ("nan", "inf", "infinity")
MISSING = {"", "na", "n/a", "#n/a", "null", *(sign + word for sign in ("", "+", "-") for word in NO_NUMBERS)}
MARKS = ("?", "-", "--", ".", "none", "nat")  # among numbers or dates they say the same
Key = str | float  # of a category: by it, categories are sorted and told apart


def is_missing(text: str) -> bool:
    """Whether a cell says that there is nothing to say.

    Examples
    --------
    >>> is_missing("NaN"), is_missing("none")
    (True, False)
    """
    return text.lower() in MISSING


def says_nothing(text: str) -> bool:
    """Whether a cell among numbers or dates is one that says nothing.

    Examples
    --------
    >>> says_nothing("?"), says_nothing("NaN"), says_nothing("0")
    (True, True, False)
    """
    return is_missing(text) or text.lower() in MARKS


def number_in(text: str) -> float | None:
    """Return the finite number that a text is, exactly if it is a whole one; None if it is none.

    Examples
    --------
    >>> number_in("17"), number_in("-2.5e3"), number_in("1_000"), number_in("inf")
    (17, -2500.0, None, None)
    """
    for kind in (int, float):
        with suppress(ValueError, OverflowError):  # the latter of an integer that is too large
            value = kind(text)
            return value if isfinite(value) and "_" not in text else None
    return None


def cell_number(text: str) -> float | None:
    """Return the number that a text is, NaN if it says that there is none or is too large for a float; None for a text.

    Examples
    --------
    >>> cell_number("7"), cell_number("n/a"), cell_number("1e999"), cell_number("seven")
    (7.0, nan, nan, None)
    """
    if is_missing(text):
        return nan
    value = number_in(text)
    if value is not None:
        return float(value)
    return nan if TOO_LARGE.fullmatch(text) else None


def keys(texts: Sequence[str]) -> Sequence[Key]:
    """Return cells as what they stand for: numbers if all are numbers, so that 2 comes before 10; else as they are.

    Examples
    --------
    >>> keys(["10", "2.0"]), keys(["10", "ten"]), keys(["01", "1"])
    ([10, 2.0], ['10', 'ten'], ['01', '1'])
    """
    numbers = [None if CODE.match(text) else number_in(text) for text in texts]
    exact = [number for number in numbers if number is not None]
    return exact if len(exact) == len(texts) else texts


def as_text(column: Any) -> Any:
    """Return the cells of an Arrow column as text without spaces around it."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    if pa.types.is_dictionary(column.type):  # by hand: pyarrow cannot look up in the dictionaries of polars
        chunks = [as_text(chunk.dictionary).take(chunk.indices) for chunk in column.chunks]
        return pa.chunked_array(chunks, pa.large_string())
    return compute.utf8_trim_whitespace(column.cast(pa.large_string()))
