"""Times as logs write them, in nanoseconds since 1970 UTC."""

import re
from datetime import UTC, datetime
from typing import Any

SECOND = 10**9  # nanoseconds
FORM = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


def parse_time(text: Any) -> int | None:
    """Return a time in nanoseconds; None for what is none. One without a zone is in UTC.

    Examples
    --------
    >>> parse_time("1970-01-01T00:00:01.2460001Z"), parse_time("1970-01-01 01:00:00+01:00"), parse_time("today")
    (1246000100, 0, None)
    """
    found = FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone or 'Z'}")
        whole = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    except (ValueError, OverflowError):  # such as a 13th month
        return None
    nanoseconds = whole * SECOND + int((fraction or "0").ljust(9, "0"))
    return nanoseconds if abs(nanoseconds) < 2**63 else None


def format_time(nanoseconds: int) -> str:
    """Return a time as dsjson has it, with seven digits after the point, and with nine where it needs them.

    Examples
    --------
    >>> format_time(1246000100), format_time(1)
    ('1970-01-01T00:00:01.2460001Z', '1970-01-01T00:00:00.000000001Z')
    """
    whole, rest = divmod(nanoseconds, SECOND)
    fraction = f"{rest:09d}"
    moment = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{fraction if rest % 100 else fraction[:7]}Z"
