"""Times turned into delays: the rounds are the events, and a delay counts the rounds until the outcome."""

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_choice
from delaytron.errors import InvalidInput, Setting, shown
from delaytron.extras import needs
from delaytron.records import NEVER, Array, Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa


UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}  # in seconds
ALLOWED = "numbers or ISO times (2024-05-31, 2024-05-31T12:30:00), all of one kind and to the microsecond"
CONVERT = "write all times of the column in the same way; leave unknown ones empty"
MISSING = ("", "NA", "NaN", "nan", "NaT", "None", "null", "NULL")

Place = Callable[[int], str]  # where a row is, for the beginning of a message


class Recorded(NamedTuple):
    """A delay per round and, where there were times, the seconds from event to outcome (NaN: no outcome).

    `text` is what `delaytron.delays.parse` reads as the same delays, empty if there is no such text; `in_seconds`
    whether numbers were taken as seconds because no unit was given; `header` the line above a single column, which was
    skipped; `order` the events in the order of time, where there were times.
    """

    delays: Ints
    waits: Array | None = None
    text: str = ""
    in_seconds: bool = False
    header: str = ""
    order: Ints = np.empty(0, np.int64)


class Times(NamedTuple):
    """One column: the cells, as numbers (microseconds of dates), which are missing, and what kind of time they are."""

    column: "pa.Array"
    values: NDArray[Any]
    missing: Bools
    kind: str

    def first(self, wrong: Bools) -> tuple[int, str] | None:
        """Return the first row where something is wrong, and its cell; None if there is no such row."""
        rows = np.flatnonzero(wrong)
        return (int(rows[0]), str(self.column[int(rows[0])])) if rows.size else None


def at_index(row: int) -> str:
    """Return where a row of a sequence is."""
    return f"index {row}"


def seconds_in(unit: str | None) -> float:
    """Return the length of a unit of time in seconds; without a unit, numbers are seconds.

    Examples
    --------
    >>> seconds_in("min"), seconds_in(None)
    (60.0, 1.0)
    """
    return 1.0 if unit is None else UNITS[check_choice("unit", unit, UNITS)]


def delays_between(
    event: Any,
    outcome: Any,
    never: float,
    place: Place = at_index,
    unit: str | None = None,
    words: tuple[str, str] = ("event", "outcome"),
) -> Recorded:
    """Return the delays of rounds that are the events, sorted by time; `unit` is that of times that are numbers.

    Messages call the two times by these `words`.

    Feedback is delivered at the start of the first later round whose event is not before the outcome; if there
    is none, at the first round after the last one. Raises InvalidInput, with the place, at times that do not fit.

    Examples
    --------
    >>> delays_between([10, 20, 21, 22, 30], [20, 29, None, 22, 99], -1).delays[[0, 1, 3, 4]]
    array([1, 3, 1, 1])
    """
    seconds = seconds_in(unit)
    events, outcomes = as_times(words[0], event, None, place), as_times(words[1], outcome, never, place)
    _check_pair(events, outcomes, place, words)
    if unit is not None and events.kind != "numbers":
        raise InvalidInput(
            (f"{place(0)}: ", Setting("unit"), f" is for times that are numbers, got {events.column[0]}"),
            "leave it out",
            parameter="unit",
        )
    order = np.argsort(events.values, kind="stable")  # events of the same time stay in the order of the file
    start, end, missing = events.values[order], outcomes.values[order], outcomes.missing[order]
    delays = np.maximum(1, np.searchsorted(start, end, side="left") - np.arange(len(start)))
    waits = (end - start) * seconds if events.kind == "numbers" else (end - start) / 1e6
    known = np.where(missing, np.nan, waits)
    in_seconds = unit is None and events.kind == "numbers"
    return Recorded(np.where(missing, NEVER, delays), known, in_seconds=in_seconds, order=order)


def _check_pair(events: Times, outcomes: Times, place: Place, words: tuple[str, str]) -> None:
    """Raise InvalidInput if the events and outcomes do not belong together."""
    event, outcome = words
    n_events, n_outcomes = len(events.values), len(outcomes.values)
    if n_events != n_outcomes or not n_events:
        raise InvalidInput(
            f"a trace needs {event}s and an {outcome} for each, got {n_events} {event}s and {n_outcomes} {outcome}s",
            f"leave {outcome}s that never came empty",
        )
    lost = events.first(events.missing)
    if lost:
        raise InvalidInput(
            f"{place(lost[0])}: the {event} time is missing", f"fill it in; only an {outcome} may be missing"
        )
    if outcomes.kind not in ("", events.kind):
        row = int(outcomes.missing.argmin())
        pair = f"{str(events.column[row])!r} ({events.kind}) and {str(outcomes.column[row])!r} ({outcomes.kind})"
        raise InvalidInput(
            f"{place(row)}: {event} and {outcome} must be of one kind, got {pair}", "convert one of them"
        )
    early = outcomes.first(~outcomes.missing & (outcomes.values < events.values))
    if early:
        raise InvalidInput(
            f"{place(early[0])}: the {outcome} {early[1]} lies before its {event} {events.column[early[0]]}",
            "check that the columns are not swapped, and that both clocks have the same zone",
        )


def delays_after(waits: Any, rate: float, never: float, place: Place = at_index, unit: str | None = None) -> Recorded:
    """Return the delays of waiting times when there are `rate` rounds in a unit of time, and seconds if it is given.

    Raises InvalidInput, with the place, at waiting times that are not numbers of at least 0.

    Examples
    --------
    >>> delays_after([0, 1.2, 3], 10, -1).delays
    array([ 1, 12, 30])
    """
    seconds = seconds_in(unit)
    times = as_times("wait", waits, never, place)
    if not len(times.values):
        raise InvalidInput("a trace needs at least one waiting time, got none", "check the column")
    if times.kind not in ("", "numbers"):
        raise InvalidInput(
            f"{place(0)}: a waiting time must be a number, got {times.column[0]} ({times.kind})",
            ("give two times per row as ", Setting("event"), " and ", Setting("outcome")),
        )
    low = times.first(~times.missing & (times.values < 0))
    if low:
        raise InvalidInput(
            f"{place(low[0])}: a waiting time must be at least 0, or {never:g} for never; got {low[1]}",
            "correct it, or leave it empty if feedback never came",
        )
    # 2^62 is the float next to NEVER: a larger one would not fit into 64 bits.
    rounds = np.clip(np.ceil(times.values * rate), 1, 2.0**62).astype(np.int64)
    known = None if unit is None else np.where(times.missing, np.nan, times.values * seconds)
    return Recorded(np.where(times.missing, NEVER, np.minimum(rounds, NEVER)), known)


def as_times(name: str, values: Any, never: float | None, place: Place) -> Times:
    """Return a checked column of times; None, NaN, NaT, empty text and `never` are missing.

    Raises InvalidInput, with the place, at a value that is not a finite time of the same kind as those before it.
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    column = _column(name, values, never, place)
    if _kind(name, column.type) == "text":
        column, parsed = _parsed(name, column, never, place)
    else:
        column = parsed = _without_missing(column, never)
    kind = _kind(name, parsed.type)
    try:
        if kind.startswith("times"):
            parsed = parsed.cast(pa.timestamp("us", tz=getattr(parsed.type, "tz", None)))
        dense = parsed.cast(pa.float64() if pa.types.is_floating(parsed.type) else pa.int64()).fill_null(0).to_numpy()
    except pa.ArrowInvalid as problem:
        raise InvalidInput(f"{name} must be {ALLOWED}: {problem}", CONVERT, parameter=name, allowed=ALLOWED) from None
    times = Times(column, dense, parsed.is_null().to_numpy(zero_copy_only=False), kind)
    infinite = times.first(~np.isfinite(times.values)) if times.values.dtype.kind == "f" else None
    if infinite:
        raise InvalidInput(
            f"{place(infinite[0])}: {name} must be finite, got {infinite[1]}", "leave it empty if it is unknown"
        )
    return times


def _column(name: str, values: Any, never: float | None, place: Place) -> "pa.Array":
    """Return values in memory as an Arrow array; raise if they are not of one kind."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    def as_arrow(values: Any) -> "pa.Array | None":
        try:
            return pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None

    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if isinstance(values, np.ndarray) and kind == "M" and values.dtype != "datetime64[ns]":
        values = values.astype("datetime64[us]")  # Arrow knows no months, and no hours
    elif isinstance(values, list | tuple) or kind == "O":
        values = [_as_cell(value, never) for value in values]
    column = as_arrow(values)
    if column is None and isinstance(values, list):
        row = _first_invalid(len(values), lambda n: as_arrow(values[:n]) is None)
        raise InvalidInput(f"{place(row)}: {name} must be {ALLOWED}; got {shown(values[row])}", CONVERT)
    if column is None:
        raise InvalidInput.of(name, f"1-D, {ALLOWED}", got=type(values).__name__, hint="pass a list or an array")
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _as_cell(value: Any, never: float | None) -> Any:
    """Return dates as text, since Arrow would drop their hours and zones, and None instead of `never`."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[us]"))
    return None if isinstance(value, Real) and value == never else value


def _first_invalid(count: int, fails: Callable[[int], bool]) -> int:
    """Return the first row that does not fit those before it, by bisection: `fails(n)` tries the first n rows."""
    return bisect_left(range(1, count + 1), True, key=fails)


def _parsed(name: str, text: "pa.Array", never: float | None, place: Place) -> tuple["pa.Array", "pa.Array"]:
    """Return a column of text with nulls where a time is missing, and the times that it means."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    def parse(text: "pa.Array") -> "pa.Array | None":
        for kind in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
            with suppress(pa.ArrowInvalid):
                return text.cast(kind)
        return None

    for column in (text, compute.utf8_trim_whitespace(text)):
        known = _without_missing(column, never)
        parsed = parse(known)
        if parsed is not None:
            return known, _without_missing(parsed, never)  # "-1.0" is `never` as a number only, not as text
    row = _first_invalid(len(known), lambda n: parse(known[:n]) is None)
    raise InvalidInput(f"{place(row)}: {name} must be {ALLOWED}; got {str(known[row])!r}", CONVERT)


def _without_missing(column: "pa.Array", never: float | None) -> "pa.Array":
    """Return a column with nulls where a time is missing."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    kind = _kind("a column", column.type)
    if kind == "text":
        marks = MISSING if never is None else (*MISSING, f"{never:g}")
        return compute.if_else(compute.is_in(column, value_set=pa.array(marks, column.type)), None, column)
    if kind == "numbers" and never is not None:
        # Beside a float, large integers would be rounded; beyond 64 bits there are only floats.
        mark = int(never) if float(never).is_integer() and abs(never) < 2**63 else float(never)
        return compute.if_else(compute.equal(column, mark), None, column)
    return column


def _kind(name: str, given: "pa.DataType") -> str:
    """Return what an Arrow type is: numbers, text, times, times with a zone, or nothing at all (all null)."""
    from pyarrow import types  # noqa: PLC0415 - slow to import

    if types.is_null(given):
        return ""
    if types.is_integer(given) or types.is_float32(given) or types.is_float64(given):
        return "numbers"
    if types.is_string(given) or types.is_large_string(given):
        return "text"
    if types.is_timestamp(given) or types.is_date(given):
        return "times" if getattr(given, "tz", None) is None else "times with a zone"
    raise InvalidInput.of(name, ALLOWED, got=str(given), hint="convert the column")
