"""Times turned into delays: rounds are events in their own order, and a delay counts the rounds until the outcome."""

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.delays.units import seconds_in
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.records import NEVER, Array, Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa

ALLOWED = "numbers or ISO times (2024-05-31, 2024-05-31T12:30:00), all of one kind and to the microsecond"
MISSING = ("", "NA", "NaN", "nan", "NaT", "None", "null", "NULL")

Place = Callable[[int], str]  # where a row stands, as an error begins


class Recorded(NamedTuple):
    """A delay per round and, where there were times, the seconds from event to outcome (NaN: no outcome).

    `text` is what `delaytron.delays.parse` reads as the same, if there is such; `in_seconds` whether numbers were taken
    as seconds because nobody told their unit; `header` the line above a single column, which was skipped.
    """

    delays: Ints
    waits: Array | None = None
    text: str = ""
    in_seconds: bool = False
    header: str = ""


class Times(NamedTuple):
    """One column: what was given, as numbers (microseconds of dates), what is missing, and what kind of time it is."""

    column: "pa.Array"
    values: NDArray[Any]
    missing: Bools
    kind: str

    def first(self, wrong: Bools) -> tuple[int, str] | None:
        """Return the first row where something is wrong, and the value that stands there."""
        rows = np.flatnonzero(wrong)
        return (int(rows[0]), str(self.column[int(rows[0])])) if rows.size else None


def at_index(row: int) -> str:
    """Say where a row of a sequence stands."""
    return f"index {row}"


def delays_between(
    event: Any, outcome: Any, never: float, place: Place = at_index, unit: str | None = None
) -> Recorded:
    """Return the delays of rounds that are the events, sorted by time; `unit` is that of times that are numbers.

    Feedback is delivered at the start of the first later round whose event is not before the outcome; if there
    is none, at the first round after the last one.

    Examples
    --------
    >>> delays_between([10, 20, 21, 22, 30], [20, 29, None, 22, 99], -1).delays[[0, 1, 3, 4]]
    array([1, 3, 1, 1])
    """
    seconds = seconds_in(unit)
    events, outcomes = as_times("event", event, None, place), as_times("outcome", outcome, never, place)
    _check_pair(events, outcomes, place)
    if unit is not None and events.kind != "numbers":
        raise InvalidInput(f"{place(0)}: a unit is for times that are numbers, got {events.column[0]}; leave it out")
    order = np.argsort(events.values, kind="stable")
    start, end, missing = events.values[order], outcomes.values[order], outcomes.missing[order]
    delays = np.maximum(1, np.searchsorted(start, end, side="left") - np.arange(len(start)))
    waits = (end - start) * seconds if events.kind == "numbers" else (end - start) / 1e6
    known = np.where(missing, np.nan, waits)
    return Recorded(np.where(missing, NEVER, delays), known, in_seconds=unit is None and events.kind == "numbers")


def _check_pair(events: Times, outcomes: Times, place: Place) -> None:
    n_events, n_outcomes = len(events.values), len(outcomes.values)
    if n_events != n_outcomes or not n_events:
        got = f"{n_events} events and {n_outcomes} outcomes"
        raise InvalidInput(f"a trace needs events and an outcome for each, got {got}; leave empty what never came")
    lost = events.first(events.missing)
    if lost:
        raise InvalidInput(f"{place(lost[0])}: the event time is missing; only an outcome may be")
    if outcomes.kind not in ("", events.kind):
        row = int(outcomes.missing.argmin())
        pair = f"{str(events.column[row])!r} ({events.kind}) and {str(outcomes.column[row])!r} ({outcomes.kind})"
        raise InvalidInput(f"{place(row)}: event and outcome must be of one kind, got {pair}")
    early = outcomes.first(~outcomes.missing & (outcomes.values < events.values))
    if early:
        raise InvalidInput(f"{place(early[0])}: the outcome {early[1]} lies before its event {events.column[early[0]]}")


def delays_after(waits: Any, rate: float, never: float, place: Place = at_index, unit: str | None = None) -> Recorded:
    """Return the delays of waiting times when there are `rate` rounds in a unit of time; the seconds if that is known.

    Examples
    --------
    >>> delays_after([0, 1.2, 3], 10, -1).delays
    array([ 1, 12, 30])
    """
    seconds = seconds_in(unit)
    times = as_times("wait", waits, never, place)
    if not len(times.values):
        raise InvalidInput("a trace needs at least one waiting time, got none; check the column")
    if times.kind not in ("", "numbers"):
        raise InvalidInput(f"{place(0)}: a waiting time must be a number, got {times.column[0]} ({times.kind})")
    low = times.first(~times.missing & (times.values < 0))
    if low:
        raise InvalidInput(f"{place(low[0])}: a waiting time must be at least 0, or {never:g} for never; got {low[1]}")
    rounds = np.clip(np.ceil(times.values * rate), 1, 2.0**62).astype(np.int64)
    known = None if unit is None else np.where(times.missing, np.nan, times.values * seconds)
    return Recorded(np.where(times.missing, NEVER, np.minimum(rounds, NEVER)), known)


def as_times(name: str, values: Any, never: float | None, place: Place) -> Times:
    """Return a checked column of times; None, NaN, NaT, empty text and `never` are missing."""
    column = _column(name, values, never, place)
    if _kind(name, column.type) == "text":
        column, parsed = _parsed(name, column, never, place)
    else:
        column = parsed = _without(column, never)
    times = Times(column, *_plain(name, parsed))
    endless = times.first(~np.isfinite(times.values)) if times.values.dtype.kind == "f" else None
    if endless:
        raise InvalidInput(f"{place(endless[0])}: {name} must be finite, got {endless[1]}")
    return times


def _column(name: str, values: Any, never: float | None, place: Place) -> "pa.Array":
    """Values in memory as an Arrow array; dates of Python become text, as Arrow would drop their hours and zones."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if isinstance(values, np.ndarray) and kind == "M" and values.dtype != "datetime64[ns]":
        values = values.astype("datetime64[us]")  # Arrow knows no months, and no hours
    elif isinstance(values, list | tuple) or kind == "O":
        values = [_written(value, never) for value in values]
    column = _arrow(values)
    if column is None and isinstance(values, list):
        row = _first_odd(len(values), lambda n: _arrow(values[:n]) is None)
        raise InvalidInput(f"{place(row)}: {name} must be {ALLOWED}; got {values[row]!r}")
    if column is None:
        raise InvalidInput(f"{name} must be 1-D, {ALLOWED}; got {type(values).__name__}")
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _arrow(values: Any) -> "pa.Array | None":
    """Return values as an Arrow array, if they are of one kind."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _first_odd(count: int, goes_wrong: Callable[[int], bool]) -> int:
    """Return the first row that does not fit those before it, when it is known how many rows go wrong together."""
    return bisect_left(range(1, count + 1), True, key=goes_wrong)


def _written(value: Any, never: float | None) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[us]"))
    return None if isinstance(value, Real) and value == never else value


def _parsed(name: str, text: "pa.Array", never: float | None, place: Place) -> tuple["pa.Array", "pa.Array"]:
    """Return a column of text with nothing where a time is missing, and the times that it means."""
    needs("pyarrow")
    from pyarrow import compute  # noqa: PLC0415 - slow to import

    for column in (text, compute.utf8_trim_whitespace(text)):
        known = _without(column, never)
        parsed = _parse(known)
        if parsed is not None:
            return known, _without(parsed, never)  # -1.0 is no text that says never, but a number that does
    row = _first_odd(len(known), lambda n: _parse(known[:n]) is None)
    raise InvalidInput(f"{place(row)}: {name} must be {ALLOWED}; got {str(known[row])!r}")


def _parse(text: "pa.Array") -> "pa.Array | None":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    for kind in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        with suppress(pa.ArrowInvalid):
            return text.cast(kind)
    return None


def _without(column: "pa.Array", never: float | None) -> "pa.Array":
    """Empty the places where a time is missing."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    kind = _kind("a column", column.type)
    if kind == "text":
        marks = MISSING if never is None else (*MISSING, f"{never:g}")
        return compute.if_else(compute.is_in(column, value_set=pa.array(marks, column.type)), None, column)
    if kind == "numbers" and never is not None:
        mark = int(never) if float(never).is_integer() else never  # a float would not do beside large integers
        return compute.if_else(compute.equal(column, mark), None, column)
    return column


def _plain(name: str, column: "pa.Array") -> tuple[NDArray[Any], Bools, str]:
    """Return a column as NumPy has it, which rows are missing (0 stands there), and its kind."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    kind = _kind(name, column.type)
    try:
        if kind.startswith("times"):
            column = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)))
        values = column.cast(pa.float64() if pa.types.is_floating(column.type) else pa.int64()).fill_null(0).to_numpy()
    except pa.ArrowInvalid as problem:
        raise InvalidInput(f"{name} must be {ALLOWED}; {problem}") from None
    return values, column.is_null().to_numpy(zero_copy_only=False), kind


def _kind(name: str, given: "pa.DataType") -> str:
    needs("pyarrow")
    from pyarrow import types  # noqa: PLC0415 - slow to import

    if types.is_null(given):
        return ""
    if types.is_integer(given) or types.is_float32(given) or types.is_float64(given):
        return "numbers"
    if types.is_string(given) or types.is_large_string(given):
        return "text"
    if types.is_timestamp(given) or types.is_date(given):
        return "times" if getattr(given, "tz", None) is None else "times with a zone"
    raise InvalidInput(f"{name} must be {ALLOWED}; got {given}")
