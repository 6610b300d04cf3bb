"""Dates and times as numbers: seconds since 1970, and the parts of them that repeat."""

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delaytron.records import Array, Bools, Ints

OTHER_FORMS = (  # 2024/05/31 and 31.05.2024 as ISO dates
    (r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3"),
    (r"^(\d)\.", r"0\1."),
    (r"^(\d\d)\.(\d)\.", r"\1.0\2."),
    (r"^(\d\d)\.(\d\d)\.(\d{4})", r"\3-\2-\1"),
)
WITH_ZONE = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"  # a date alone has no zone
DAY = 86_400_000_000  # microseconds
PARTS = ("", ".hour", ".weekday", ".month")
PARTS_OF_DAYS = ("", ".weekday", ".month")
MOST_TRIED = 20  # texts that are looked at before all are


def parse_dates(texts: Any) -> tuple[Ints, Bools] | None:
    """Return dates and times as microseconds since 1970, and which are missing; None if a text is no date.

    Dates are ISO's, or 2024/05/31 or 31.05.2024. What has no zone is taken as UTC.

    Examples
    --------
    >>> import pyarrow as pa
    >>> parse_dates(pa.array(["1970-01-02", "1970-01-01T02:00+01:00", None]))[0][:2].tolist()
    [86400000000, 3600000000]
    >>> parse_dates(pa.array(["2.1.1970", "1970/01/01 01:00"]))[0].tolist()
    [86400000000, 3600000000]
    >>> parse_dates(pa.array(["soon"])) is None
    True
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if len(texts) > MOST_TRIED and parse_dates(texts.slice(0, MOST_TRIED)) is None:
        return None
    for as_iso in (_as_it_is, _as_iso):
        with suppress(pa.ArrowInvalid):
            return _microseconds(as_iso(texts))
    return None


def _as_it_is(texts: Any) -> Any:
    return texts


def _as_iso(texts: Any) -> Any:
    from pyarrow import compute  # noqa: PLC0415 - slow to import

    for pattern, form in OTHER_FORMS:
        texts = compute.replace_substring_regex(texts, pattern=pattern, replacement=form)
    return texts


def _microseconds(texts: Any) -> tuple[Ints, Bools]:
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    zoned = compute.match_substring_regex(texts, WITH_ZONE).fill_null(False)
    plain = compute.if_else(zoned, None, texts).cast(pa.timestamp("us"))
    utc = compute.if_else(zoned, texts, None).cast(pa.timestamp("us", "UTC"))
    return as_microseconds(compute.coalesce(plain.cast(pa.int64()), utc.cast(pa.int64())))


def as_microseconds(column: Any) -> tuple[Ints, Bools]:
    """Return an Arrow column of dates, times or integers as 64-bit integers, and which are missing."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"))
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_time(kind):
        column = column.cast(pa.time64("us"), safe=False)
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"), safe=False)
    numbers = column.cast(pa.int64())
    return _flat(numbers.fill_null(0)), _flat(numbers.is_null())


def _flat(column: Any) -> NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False) if hasattr(column, "offset") else column.to_numpy())


def has_hours(microseconds: Ints) -> bool:
    """Whether any of these times is not midnight.

    Examples
    --------
    >>> has_hours(np.array([0, 86_400_000_000])), has_hours(np.array([1]))
    (False, True)
    """
    return bool((microseconds % DAY != 0).any())


def date_parts(microseconds: Ints, hours: bool) -> list[Array]:
    """Return seconds since 1970, the hour of the day where `hours` are told, the weekday from 0, Monday, and the month.

    Examples
    --------
    >>> [part.tolist() for part in date_parts(np.array([1_700_000_000_000_000]), hours=True)]
    [[1700000000.0], [22.22222222222222], [1.0], [11.0]]
    """
    days = microseconds // DAY
    months = microseconds.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64) % 12 + 1
    seconds = microseconds // 1_000_000 + microseconds % 1_000_000 / 1e6  # exact but for the last rounding
    parts = [seconds, (microseconds % DAY) / 3.6e9, ((days + 3) % 7).astype(float), months.astype(float)]
    return parts if hours else [parts[0], *parts[2:]]
