"""Ids of decisions: given by the caller, or made here; issued once and never again."""

import os
from time import time_ns
from typing import Any

from delaytron.checks import shown
from delaytron.errors import InvalidInput, UnknownDecision
from delaytron.records import Decision

LONGEST_ID = 200  # bytes of UTF-8
RANDOM_BYTES = 10  # of an id that is made here


def check_id(id: Any) -> str:
    """Raise if an id is not text of 1 to 200 bytes without NUL.

    Examples
    --------
    >>> check_id("req-17")
    'req-17'
    """
    if isinstance(id, Decision):
        raise InvalidInput(f"id must be that of a decision, got the decision itself; give its id, {shown(id.id)}")
    if not isinstance(id, str):
        raise InvalidInput(f"id must be a string of 1 to {LONGEST_ID} bytes, got {type(id).__name__} {str(id)[:40]!r}")
    try:
        size = len(id.encode())
    except UnicodeEncodeError:
        raise InvalidInput(
            f"id must be text that UTF-8 can hold, got {id[:40]!a}; give it without surrogates"
        ) from None
    if not 1 <= size <= LONGEST_ID:
        raise InvalidInput(f"id must be of 1 to {LONGEST_ID} bytes, got {size}; use a hash of longer ones")
    if "\0" in id:
        raise InvalidInput(f"id must not contain NUL, got {id[:40]!r}; leave it out")
    return str(id)


def issued_before(id: str) -> InvalidInput:
    """Return the error for an id that cannot be issued again."""
    return InvalidInput(f"id {id!r} was issued before; ids are never reused: give another one, or none")


def never_issued(id: str) -> UnknownDecision:
    """Return the error for an id of which nothing is known."""
    return UnknownDecision(f"decision {id!r} was never issued; check the id")


def new_id() -> str:
    """Return the present millisecond and 80 random bits, as 32 hexadecimal digits.

    Nobody can guess one. Those of one time are near each other in an index, so that few pages of it have to be written.

    Examples
    --------
    >>> len(new_id())
    32
    """
    return _millisecond() + os.urandom(RANDOM_BYTES).hex()


def new_ids(count: int) -> list[str]:
    """Return several new ids.

    Examples
    --------
    >>> len(set(new_ids(3)))
    3
    """
    begin, size = _millisecond(), 2 * RANDOM_BYTES
    digits = os.urandom(RANDOM_BYTES * count).hex()
    return [begin + digits[start : start + size] for start in range(0, size * count, size)]


def _millisecond() -> str:
    return f"{time_ns() // 1_000_000:012x}"
