"""Recorded delays: integers, waiting times, or times of events and their outcomes."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_integer, check_number, check_positive
from delaytron.delays.notation import how_to_name, write_trace
from delaytron.delays.times import Place, Recorded, at_index, delays_after, delays_between
from delaytron.delays.trace_files import TraceTable, as_table, read_content, read_numbers
from delaytron.errors import InvalidInput
from delaytron.records import NEVER, Array, Ints

NEVER_MARK = -1  # in the place of a delay: feedback that is lost


@dataclass(frozen=True, repr=False, eq=False)
class Trace:
    """Recorded delays, used in order and from the start again when they run out; `never` marks lost feedback.

    The source is a sequence of integers, or a file, also with .gz: text with one number per line (`#`
    comments and one header line are skipped), .npy, or a CSV or TSV table in which one column starts with
    "event" and one with "outcome" (see `from_times`).

    Attributes
    ----------
    delays : ndarray of int64
        One delay per round, `NEVER` for lost feedback.
    waits : ndarray of float64 or None
        Seconds from event to outcome, NaN for lost feedback, where the trace comes from times.
    text : str
        What `--delay` takes for this trace, such as "trace:FILE" or "trace:FILE,event=COLUMN,outcome=COLUMN", if it
        comes from a file; else its size.
    in_seconds : bool
        Whether times that are numbers were taken as seconds because nobody told their unit.
    header : str
        Of a file with one column, the header, which was skipped: its numbers were taken as rounds.

    Examples
    --------
    >>> Trace([4, -1, 2])
    Trace(3 delays, 33.3% never)
    >>> Trace([4, 1, 2]).sample(5, np.random.default_rng(0)).tolist()
    [4, 1, 2, 4, 1]
    >>> str(Trace([4, 1, 2]))
    'trace of 3 delays, 0.0% never'
    """

    source: InitVar[Sequence[int] | NDArray[Any] | str | Path | Recorded]
    never: InitVar[int] = NEVER_MARK
    delays: Ints = field(init=False)
    waits: Array | None = field(init=False)
    text: str = field(init=False)
    in_seconds: bool = field(init=False)
    header: str = field(init=False)

    def __post_init__(self, source: Any, never: int) -> None:
        recorded = _record(source, check_integer("never", never, at_least=-NEVER))
        for name in ("delays", "waits", "in_seconds", "header"):
            object.__setattr__(self, name, getattr(recorded, name))
        object.__setattr__(self, "text", recorded.text or f"trace of {self._size}")

    @classmethod
    def from_times(cls, event: Any, outcome: Any, never: float = NEVER_MARK, unit: str | None = None) -> Self:
        """Make a trace of two columns of times: when something was decided, and when the outcome was known.

        Rounds are the events in the order of time, so a burst of traffic is many rounds. Feedback is delivered at
        the start of the first later round whose event is not before the outcome; without one, at the first round
        after the trace.

        Parameters
        ----------
        event, outcome : sequence
            Numbers, datetimes or ISO text. Where the outcome is None, NaN, NaT, empty text or `never`, feedback
            never comes.
        unit : {"s", "min", "h", "d"}, optional
            Of times that are numbers, for `waits`; seconds by default.

        Examples
        --------
        >>> Trace.from_times([10, 20, 21, 22, 30], [20, 29, 22, 22, 99]).delays.tolist()
        [1, 3, 1, 1, 1]
        >>> Trace.from_times(["2024-05-31T10:00", "2024-05-31T10:01"], ["2024-05-31T10:07", ""])
        Trace(2 delays, 50.0% never)
        """
        return cls(delays_between(event, outcome, check_number("never", never), unit=unit))

    @classmethod
    def from_waits(cls, waits: Any, rate: float = 1.0, never: float = NEVER_MARK, unit: str | None = None) -> Self:
        """Make a trace of waiting times in any unit, for a steady `rate` of rounds per unit.

        Where the `unit` is told ("s", "min", "h" or "d"), the trace knows its `waits` in seconds.

        Examples
        --------
        >>> Trace.from_waits([0, 1.2, None, 3], rate=10)
        Trace(4 delays, 25.0% never)
        """
        return cls(delays_after(waits, check_positive("rate", rate), check_number("never", never), unit=unit))

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        event: str | None = None,
        outcome: str | None = None,
        wait: str | None = None,
        rate: float | None = None,
        unit: str | None = None,
    ) -> Self:
        """Read a table with named columns: `event` and `outcome` hold times, or `wait` holds waiting times.

        Without names it is read like `Trace(path)`. The `unit` of numbers is "s", "min", "h" or "d"; there are `rate`
        rounds in a unit of the waiting times, 1 by default.
        """
        named = [name for name in (event, outcome, wait) if name is not None]
        if len(named) != (2 if event is not None else wait is not None) or (rate is not None and wait is None):
            given = {"event": event, "outcome": outcome, "wait": wait, "rate": rate}
            got = ", ".join(name for name, value in given.items() if value is not None)
            raise InvalidInput(f"columns must be named as {how_to_name(Path(path))}; got {got}")
        if not named and unit is None:
            return cls(path)
        text = write_trace(path, event=event, outcome=outcome, wait=wait, rate=rate, unit=unit)
        return cls(_columns_of(Path(path), named, wait, rate, unit)._replace(text=text))

    def sample(self, n_rounds: int, rng: np.random.Generator) -> Ints:  # noqa: ARG002
        """Return `n_rounds` delays, as recorded."""
        return np.resize(self.delays, check_integer("n_rounds", n_rounds, at_least=0))

    @property
    def _size(self) -> str:
        return f"{len(self.delays)} delays, {np.mean(self.delays == NEVER):.1%} never"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Trace({self._size})"


def _record(source: Any, never: int) -> Recorded:
    if isinstance(source, Recorded):
        return source
    if not isinstance(source, str | Path):
        return Recorded(_check(source, never, at_index))
    text = write_trace(source) if never == NEVER_MARK else ""
    return _read(Path(source), never)._replace(text=text)


def _read(path: Path, never: int) -> Recorded:
    content = read_content(path)
    table = as_table(path, content)
    if table is not None and len(table.names) > 1:
        return _times_of(table, never)
    values, lines = read_numbers(path, content)
    found = _check(values, never, lambda i: f"line {lines[i]}" if lines else at_index(i), str(path))
    return Recorded(found, header=table.names[0] if table else "")


def _check(values: Any, never: int, place: Place, file: str = "") -> Ints:
    """Return integers as delays, with NEVER where `never` stands."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise InvalidInput("a trace must be a 1-D sequence, got rows of different lengths") from None
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        where = f"{file}: " if file else ""
        raise InvalidInput(f"{where}a trace must be 1-D integers, got shape {given.shape} of {given.dtype}")
    given = given.astype(np.uint64 if given.dtype.kind == "u" else np.int64)
    for i in np.flatnonzero((given < 1) & (given != never))[:1]:
        where = f"{file}, {place(i)}" if file else place(i)
        raise InvalidInput(f"{where}: a delay must be at least 1, or {never} for never; got {given[i]}")
    return np.where(given == never, NEVER, np.minimum(given, NEVER)).astype(np.int64)


def _columns_of(path: Path, named: Sequence[str], wait: str | None, rate: float | None, unit: str | None) -> Recorded:
    """Read a table by columns that are named, of waiting times or of two times, or by those that can be told."""
    table = as_table(path, read_content(path))
    if table is None:
        columns = ", ".join(named) or "event and outcome"
        raise InvalidInput(f"{path}, line 1: there must be a header with the columns {columns}; add one")
    if wait is None:
        return _between(table, named, unit=unit) if named else _times_of(table, NEVER_MARK, unit)
    times = table.columns(named)[0]
    return delays_after(times, check_positive("rate", 1.0 if rate is None else rate), NEVER_MARK, table.place, unit)


def _between(table: TraceTable, names: Sequence[str], never: int = NEVER_MARK, unit: str | None = None) -> Recorded:
    event, outcome = table.columns(names)
    return delays_between(event, outcome, never, table.place, unit)


def _times_of(table: TraceTable, never: int, unit: str | None = None) -> Recorded:
    """Read a table whose columns of times can be told by their names."""
    names = [table.starting(word) for word in ("event", "outcome")]
    found = [name for name in names if name is not None]
    if len(found) < 2:
        raise InvalidInput(
            f"{table.path}, line 1: one column must start with event and one with outcome, got "
            f"{', '.join(table.names)}; name the columns as {how_to_name(table.path)}"
        )
    return _between(table, found, never, unit)
