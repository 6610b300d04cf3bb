"""How long a model waits for an answer: a number of decisions, or a time."""

import re
from datetime import timedelta
from math import isfinite
from typing import Any, NamedTuple

from delaytron.checks import check_integer, shown
from delaytron.errors import InvalidInput

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
NS = 10**9
LONGEST = 100 * 365 * 86400  # seconds
FORMS = "a number of decisions, a timedelta, or a text such as '30s', '15m', '6h', '7d' or '2w'"


class Wait(NamedTuple):
    """The limit: `rounds` or `clock`, in ns; the other one is None."""

    rounds: int | None = None
    clock: int | None = None


def read_wait(expire_after: Any) -> Wait | None:
    """Return how long to wait; None is for ever.

    Examples
    --------
    >>> read_wait("6h"), read_wait(500)
    (Wait(rounds=None, clock=21600000000000), Wait(rounds=500, clock=None))
    """
    if expire_after is None:
        return None
    if isinstance(expire_after, str):
        return _of_seconds(_seconds(expire_after), expire_after)
    if isinstance(expire_after, timedelta):
        return _of_seconds(expire_after.total_seconds(), expire_after)
    try:
        return Wait(rounds=check_integer("expire_after", expire_after, at_least=1))
    except InvalidInput:
        raise InvalidInput(f"expire_after must be {FORMS}; got {shown(expire_after)}") from None


def as_given(stored: Any) -> int | str | None:
    """Return a stored limit as a user gives it.

    Examples
    --------
    >>> as_given({"rounds": None, "clock": 21600000000000}), as_given(None)
    ('21600s', None)
    """
    if stored is None:
        return None
    rounds, clock = Wait(**stored)
    return rounds if clock is None else f"{clock / NS:.10g}s"


def _seconds(text: str) -> float:
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", text)
    if parts is None:
        raise InvalidInput(f"expire_after must be {FORMS}; got {shown(text)}")
    return float(parts[1]) * SECONDS[parts[2]]


def _of_seconds(seconds: float, given: Any) -> Wait:
    if not (isfinite(seconds) and 0 < seconds <= LONGEST):
        raise InvalidInput(f"expire_after must be above 0 and at most 100 years, got {shown(given)}")
    return Wait(clock=max(1, round(seconds * NS)))
