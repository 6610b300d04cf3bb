"""Checks for the edges (constructors, loaders, command line); internals trust their callers."""

import math
import numbers
import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.records import NEVER, Ints

LONGEST_NAME = 200  # bytes of the name of a class
MOST_NAME = 2**63  # integers stand in 64 bits on disk
LONGEST_SHOWN = 60  # characters of a name or a value in a message
LONGEST_REASON = 200  # characters of what another library says
SMALLEST, LARGEST = 1e-50, 1e50  # of factors and of norms: beyond what 32-bit floats can hold, far from 64-bit limits


def shown(value: Any) -> str:
    r"""Return how a value looks in a message: one line, and not long.

    Examples
    --------
    >>> print(shown("one\ntwo"))
    'one\ntwo'
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits, lists too deep to print: a message must not fail
        return f"a value of type {type(value).__name__} that cannot be printed"
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def reason_of(problem: Exception) -> str:
    """Return in one line why something failed, as another library or a missing key tells it.

    Examples
    --------
    >>> reason_of(KeyError("seed")), reason_of(ValueError("one  two")), reason_of(MemoryError())
    ("there is no 'seed'", 'one two', 'MemoryError')
    """
    text = " ".join(str(problem).split())[:LONGEST_REASON]
    return f"there is no {text}" if type(problem) is KeyError else text or type(problem).__name__


def did_you_mean(word: Any, words: Iterable[str]) -> str:
    """Return the hint at the end of a message about a word that is not known; empty if none is close to it.

    Examples
    --------
    >>> did_you_mean("gama", ["gamma", "eta"]), did_you_mean("lr", ["gamma", "eta"])
    ('; did you mean gamma?', '')
    """
    close = get_close_matches(str(word)[:100], list(words), n=1) if isinstance(word, str) else []
    return f"; did you mean {close[0]}?" if close else ""


def not_there(path: Path) -> str:
    """Return the end of a message about a file that is not there: the nearest name in its folder, or what to do.

    Examples
    --------
    >>> not_there(Path(__file__).with_name("cheks.py")), not_there(Path("no_folder", "log.csv"))
    ('; did you mean checks.py?', '; check the name')
    """
    try:
        names = [each.name for each in os.scandir(path.parent) if each.is_file()]
    except OSError:
        names = []
    return did_you_mean(path.name, names) or "; check the name"


def check_number(name: str, value: Any) -> float:
    """A finite real number, as a float."""
    try:
        if not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(float(value)):
            return float(value)
    except OverflowError:
        pass
    raise InvalidInput(f"{name} must be a finite number, got {shown(value)}")


def check_positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    if check_number(name, value) <= 0:
        raise InvalidInput(f"{name} must be above 0, got {shown(value)}")
    return float(value)


def check_scale(name: str, value: Any, most: float = LARGEST) -> float:
    """A factor of the weights: above zero, and such that no product of a few of them leaves the floats."""
    if not SMALLEST <= check_positive(name, value) <= most:
        raise InvalidInput(f"{name} must be from {SMALLEST:g} to {most:g}, got {shown(value)}")
    return float(value)


def check_exploration(value: Any) -> float:
    """The exploration rate gamma, in (0, 1]."""
    if not 0 < check_number("gamma", value) <= 1:
        raise InvalidInput(f"gamma must be in (0, 1], got {shown(value)}")
    if value < SMALLEST:
        raise InvalidInput(f"gamma must be in (0, 1] and at least {SMALLEST:g}, got {shown(value)}")
    return float(value)


def check_integer(name: str, value: Any, at_least: int, at_most: int | None = None) -> int:
    """An integer that is not too small, and not too large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < at_least:
        raise InvalidInput(f"{name} must be an integer of at least {at_least}, got {shown(value)}")
    if at_most is not None and int(value) > at_most:
        raise InvalidInput(f"{name} must be at most {at_most}, got {shown(value)}")
    return int(value)


def check_integers(name: str, values: Any, count: int, low: int, high: int | None = None) -> Ints:
    """One integer per round within the bounds; what a 64-bit round number cannot reach is cut off."""
    given = check_one_per_round(name, values, count)
    if given.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be integers, got {given.dtype}")
    bad = np.flatnonzero((given < low) | (False if high is None else given > high))
    if bad.size:
        allowed = f"at least {low}" if high is None else f"in {low}..{high}"
        raise InvalidInput(f"{name} must be {allowed}, got {given[bad[0]]} in round {bad[0] + 1}")
    if given.size and given.max() > NEVER:
        given = np.where(given > NEVER, NEVER, given)
    return np.asarray(given, np.int64)  # as it came, where it can be: the delays of a long run are large


def check_one_per_round(name: str, values: Any, count: int) -> Any:
    """An array of `count` numbers."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise InvalidInput(f"{name} must be {count} numbers, one per round; got rows of different lengths") from None
    if given.dtype.kind not in "iufb" or given.shape != (count,):
        raise InvalidInput(f"{name} must be {count} numbers, one per round; got shape {given.shape} of {given.dtype}")
    return given


def check_distinct(what: str, names: Sequence[Any], same: str = "name") -> None:
    """At least one, and no two alike."""
    if not names or len(set(names)) < len(names):
        raise InvalidInput(f"{what} must be at least one, and no two of the same {same}; got {shown(names)}")


def check_bool(name: str, value: Any) -> bool:
    """True or False; 1 and 0 count as such."""
    try:
        if value in (0, 1):
            return bool(value)
    except (TypeError, ValueError):  # an array has no single truth, and pandas.NA has none at all
        pass
    raise InvalidInput(f"{name} must be True or False, got {shown(value)}")


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of a few words; for another one, say which may have been meant."""
    words = list(allowed)
    if isinstance(value, str) and value in words:
        return str(value)
    raise InvalidInput(f"{name} must be one of {', '.join(words)}; got {shown(value)}{did_you_mean(value, words)}")


def check_path(name: str, path: Any) -> Path:
    """Return a path that a file can have.

    Examples
    --------
    >>> check_path("path", None)
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: path must be a str or a Path that is not empty, got None
    """
    try:
        if path != "" and b"\0" not in os.fsencode(given := Path(path)):
            return given
    except (TypeError, ValueError):  # of another type, of lone surrogates, or an array, which has no single truth
        pass
    raise InvalidInput(f"{name} must be a str or a Path that is not empty, got {shown(path)}")


def as_class_name(name: Any) -> str | int | None:
    """Return the name of a class as the text or the integer that it is, None if it cannot be one.

    Examples
    --------
    >>> as_class_name("tea"), as_class_name(7), as_class_name(""), as_class_name(True)
    ('tea', 7, None, None)
    """
    if isinstance(name, str):
        text = str.__str__(name)
        return text if 0 < len(text.encode("utf-8", "replace")) <= LONGEST_NAME and text.isprintable() else None
    if isinstance(name, bool) or not isinstance(name, numbers.Integral):
        return None
    return int(name) if abs(int(name)) < MOST_NAME else None
