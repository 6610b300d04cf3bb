"""Recorded delays (traces): from files, tables and times; their short form "trace:FILE,..."; published examples."""

import csv
import io
import os
import re
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import (
    check_choice,
    check_integer,
    check_number,
    check_path,
    check_positive,
    did_you_mean,
    not_there,
)
from delaytron.delays.times import Place, Recorded, at_index, delays_after, delays_between
from delaytron.errors import InvalidInput, Setting
from delaytron.extras import needs
from delaytron.files.tensors import BROKEN, read_npy, reason
from delaytron.files.text import open_binary, place_of, plain_suffix, reading, refuse_ragged
from delaytron.records import NEVER, Array, Ints

if TYPE_CHECKING:
    import pyarrow as pa

TRACE = "trace:"
MISSING = "+missing:"  # between a model and the share of its feedback that gets lost
NAMED = ("event", "outcome", "wait", "rate", "unit")  # what may follow the file: the arguments of `Trace.from_file`
NAME = re.compile(r",\s*(\w+)=")
HEAD = 2**16  # bytes in which the header of a table must end
NEVER_MARK = -1  # in the place of a delay: feedback that is lost


def written(value: float) -> str:
    """Return a number exactly, an integer without a decimal point.

    Examples
    --------
    >>> written(2.0), written(0.1)
    ('2', '0.1')
    """
    return repr(value).removesuffix(".0")


def how_to_name(file: Any) -> str:
    """Return how the columns of a file are named in the short form, for messages."""
    return f"{TRACE}{file},event=COLUMN,outcome=COLUMN or {TRACE}{file},wait=COLUMN,rate=R"


def write_trace(path: str | Path, **named: Any) -> str:
    """Return the short form of a file with these columns; empty if `read_trace` would read it as something else.

    Examples
    --------
    >>> write_trace("log.csv", event="shown", outcome="clicked", unit=None), write_trace("log.csv", wait="a,rate=2")
    ('trace:log.csv,event=shown,outcome=clicked', '')
    """
    given = [
        (name, value if isinstance(value, str) else written(value))
        for name, value in named.items()
        if value is not None
    ]
    words = ",".join([str(path), *map("=".join, given)])
    same = not given or NAME.split(words) == [str(path), *chain(*given)]
    return TRACE + words if same and MISSING not in words and words == words.strip() else ""


def read_trace(words: str) -> tuple[str, dict[str, Any]]:
    """Return the file and the arguments of `Trace.from_file` that a short form names, without its "trace:".

    Raises InvalidInput if an argument is unknown, comes twice, or is a rate that is not a number.

    Examples
    --------
    >>> read_trace("log.csv,wait=seconds,rate=2.5")
    ('log.csv', {'wait': 'seconds', 'rate': 2.5})
    """
    try:
        is_file = Path(words).exists()  # a comma may be a part of its name
    except (OSError, ValueError):  # a name that no file can have
        is_file = False
    source, *rest = [words] if is_file else NAME.split(words)
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    for place, (name, _) in enumerate(pairs):
        check_choice("what follows the file of a trace", name, NAMED)
        if name in rest[: 2 * place : 2]:
            raise InvalidInput(f"{TRACE}{words} names {name} twice", "leave one out")
    named: dict[str, Any] = dict(pairs)
    if "rate" in named:
        try:
            named["rate"] = float(named["rate"])
        except ValueError:
            allowed = "a number of rounds in a unit of the waiting times"
            raise InvalidInput.of("rate", allowed, named["rate"], "write it as in rate=2.5") from None
    return source, named


def read_content(path: Path) -> bytes:
    """Return the content of a file, decompressed if its name says so; raise InvalidInput if it cannot be read."""
    with reading(path), open_binary(path) as file:
        content = file.read()
    if content.startswith(b"PAR1"):
        raise InvalidInput(
            f"{path}: a trace is CSV, TSV, text or .npy, not Parquet", "read it with pyarrow, and use Trace.from_times"
        )
    return content


def read_numbers(path: Path, content: bytes) -> tuple[Any, list[int] | None]:
    """Return the numbers of a file without columns, and their line numbers if it is text.

    In text, comments (`#`), blank lines and one header line are skipped. Raises InvalidInput if something else is not
    an integer.
    """
    try:
        if plain_suffix(path) == ".npy":
            return read_npy(io.BytesIO(content), len(content)), None
        words = (row.partition("#")[0].strip() for row in content.decode("utf-8-sig").splitlines())
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: must be text in UTF-8, or end in .npy", "save the file in UTF-8") from None
    except BROKEN as problem:
        raise InvalidInput(f"{path}: cannot be read, {reason(problem)}", "save 1-D integers by numpy.save") from None
    rows = [(line, word) for line, word in enumerate(words, start=1) if word]
    if rows and _is_header(rows[0][1]):
        del rows[0]
    for line, word in rows:
        if not word.removeprefix("-").isdecimal() or len(word) > 99:
            raise InvalidInput(
                f"{path}, line {line}: a trace has one integer per line, got {word!r}",
                f"name the columns of a table as {how_to_name(path)}",
                parameter="columns",
            )
    if not rows:
        raise InvalidInput(f"{path}: there is no delay in this file", "write an integer in each line")
    return [max(-NEVER, min(int(word), NEVER)) for _, word in rows], [line for line, _ in rows]


def _is_header(line: str) -> bool:
    return line.lstrip("\"'")[:1].isalpha()


@dataclass(frozen=True)
class TraceTable:
    """A CSV or TSV file with a header, in memory."""

    path: Path
    content: bytes
    names: tuple[str, ...]
    delimiter: str

    def place(self, row: int) -> str:
        """Return where a row of values is."""
        return f"{self.path}, {place_of(self.path, self.delimiter, row + 1)}"

    def starting(self, word: str) -> str | None:
        """Return the name of the only column that starts with a word, in any case; None unless there is exactly one."""
        found = [name for name in self.names if name.strip().lower().startswith(word)]
        return found[0] if len(found) == 1 else None

    def columns(self, names: Sequence[str]) -> "list[pa.Array]":
        """Return the columns of these names as text; raise InvalidInput if one is not there or the file is damaged."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import
        from pyarrow import csv as arrow  # noqa: PLC0415

        for name in names:
            if self.names.count(name) != 1:
                there = ", ".join(self.names)
                raise InvalidInput(f"{self.path}: there must be one column {name!r}", f"the columns are {there}")
        try:
            table = arrow.read_csv(
                pa.BufferReader(self.content),
                parse_options=arrow.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    include_columns=names, column_types=dict.fromkeys(names, pa.string())
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError) as problem:  # the latter: a name that is not text
            refuse_ragged(self.path, self.delimiter, len(self.names))
            raise InvalidInput(f"{self.path}: cannot be read as CSV, {reason(problem)}", "write it again") from None
        if not table.num_rows:
            raise InvalidInput(f"{self.path}: there is no row below the header", "add rows, or name another file")
        return [table.column(name).combine_chunks() for name in names]

    def between(self, names: Sequence[str], never: int = NEVER_MARK, unit: str | None = None) -> Recorded:
        """Return the delays between two columns of times."""
        event, outcome = self.columns(names)
        return delays_between(event, outcome, never, self.place, unit)

    def by_names(self, never: int = NEVER_MARK, unit: str | None = None) -> Recorded:
        """Return the delays between the column that starts with "event" and the one that starts with "outcome"."""
        names = [name for name in map(self.starting, ("event", "outcome")) if name is not None]
        if len(names) < 2:
            raise InvalidInput(
                f"{self.path}, line 1: one column must start with event and one with outcome, "
                f"got {', '.join(self.names)}",
                f"name the columns as {how_to_name(self.path)}",
                parameter="columns",
            )
        return self.between(names, never, unit)


def as_table(path: Path, content: bytes) -> TraceTable | None:
    """Return a file as a table; None if it does not begin with a header."""
    lines = content[:HEAD].decode("utf-8-sig", "replace").lstrip().splitlines()
    if not lines or not _is_header(lines[0]):
        return None
    delimiter = next((mark for mark in "\t,;" if mark in lines[0]), ",")
    return TraceTable(path, content, tuple(next(csv.reader(lines[:1], delimiter=delimiter))), delimiter)


@dataclass(frozen=True, repr=False, eq=False)
class Trace:
    """Recorded delays, repeated from the start when they run out; `never` marks lost feedback.

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
        Whether times that are numbers were taken as seconds because no unit was given.
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
        """Return the trace of two columns of times: when something was decided, and when the outcome was known.

        Rounds are the events in the order of time, so a burst of traffic is many rounds. Feedback is delivered at
        the start of the first later round whose event is not before the outcome; without one, at the first round
        after the trace. Raises InvalidInput, with the index, at times that are missing, unreadable or before their
        event.

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
        """Return the trace of waiting times in any unit, for a steady `rate` of rounds per unit.

        If the `unit` is given ("s", "min", "h" or "d"), the trace has its `waits` in seconds. Raises InvalidInput, with
        the index, at a waiting time that is not a number of at least 0.

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
        """Return the trace of a table with named columns: `event` and `outcome` of times, or `wait` of waiting times.

        Without names it is read like `Trace(path)`. The `unit` of numbers is "s", "min", "h" or "d"; there are `rate`
        rounds in a unit of the waiting times, 1 by default. Raises InvalidInput, with the line, if the file cannot be
        read as such.
        """
        file = check_path("path", path)
        named = [name for name in (event, outcome, wait) if name is not None]
        if len(named) != (2 if event is not None else wait is not None) or (rate is not None and wait is None):
            given = {"event": event, "outcome": outcome, "wait": wait, "rate": rate}
            got = ", ".join(name for name, value in given.items() if value is not None)
            raise InvalidInput.of(
                "columns",
                f"named as {how_to_name(file)}",
                got=got,
                hint=("name ", Setting("event"), " and ", Setting("outcome"), ", or ", Setting("wait")),
            )
        if not named and unit is None:
            return cls(path)
        table = as_table(file, read_content(file))
        if table is None:
            columns = ", ".join(named) or "event and outcome"
            raise InvalidInput(f"{path}, line 1: there must be a header with the columns {columns}", "add one")
        if wait is None:
            recorded = table.between(named, unit=unit) if named else table.by_names(unit=unit)
        else:
            rounds = check_positive("rate", 1.0 if rate is None else rate)
            recorded = delays_after(table.columns([wait])[0], rounds, NEVER_MARK, table.place, unit)
        text = write_trace(path, event=event, outcome=outcome, wait=wait, rate=rate, unit=unit)
        return cls(recorded._replace(text=text))

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
    """Return the delays of what a trace is made from; raise InvalidInput if they cannot be delays."""
    if isinstance(source, Recorded):
        return source
    if not isinstance(source, str | Path):
        return Recorded(_checked_delays(source, never, at_index))
    text = write_trace(source) if never == NEVER_MARK else ""
    path = check_path("path", source)
    content = read_content(path)
    table = as_table(path, content)
    if table is not None and len(table.names) > 1:
        return table.by_names(never)._replace(text=text)
    values, lines = read_numbers(path, content)
    found = _checked_delays(values, never, lambda i: f"{path}, {f'line {lines[i]}' if lines else at_index(i)}", path)
    return Recorded(found, text=text, header=table.names[0] if table else "")


def _checked_delays(values: Any, never: int, place: Place, path: Path | None = None) -> Ints:
    """Return integers as delays, with NEVER in the place of `never`."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise InvalidInput("a trace must be a 1-D sequence, got rows of different lengths", "pass one list") from None
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        where = f"{path}: " if path else ""
        raise InvalidInput(
            f"{where}a trace must be 1-D integers, got shape {given.shape} of {given.dtype}",
            "use Trace.from_waits for waiting times that are not whole rounds",
        )
    given = given.astype(np.uint64 if given.dtype.kind == "u" else np.int64)
    for i in np.flatnonzero((given < 1) & (given != never))[:1]:
        raise InvalidInput(
            f"{place(i)}: a delay must be at least 1, or {never} for never; got {given[i]}",
            "count rounds from 1: feedback before the next round has delay 1",
        )
    return np.where(given == never, NEVER, np.minimum(given, NEVER)).astype(np.int64)


class Example(NamedTuple):
    """A recorded trace that others have published."""

    file: str
    source: str
    wait: str | None = None


EXAMPLES = {
    "college": Example("college_reply_delays.csv.gz", "https://snap.stanford.edu/data/CollegeMsg.html"),
    "dengue": Example("dengue_report_delays.csv.gz", "https://cran.r-project.org/package=NobBS"),
    "retweets": Example(
        "retweet_delays.csv.gz", "https://cran.r-project.org/package=seismic", wait="relative_time_second"
    ),
}


def example(name: str) -> Trace:
    """Return a real trace: `college` (replies), `dengue` (reports of cases) or `retweets`.

    The file is looked for in the folder `delays` of the folder that the variable DELAYTRON_DATA names; raises
    InvalidInput if it is not there.
    """
    known = EXAMPLES[check_choice("example", name, EXAMPLES)]
    home = os.environ.get("DELAYTRON_DATA")
    folder = Path(home or "DELAYTRON_DATA").expanduser() / "delays"
    if home and (folder / known.file).is_file():
        trace = Trace.from_file(folder / known.file, wait=known.wait)
        return Trace(Recorded(trace.delays, trace.waits, f"trace:{name}"))
    where = str(folder) if home else "the folder delays of a folder that the variable DELAYTRON_DATA names"
    raise InvalidInput(f"{name} is not on this machine", f"put {known.file}, from {known.source}, into {where}")


def open_trace(source: str, **columns: Any) -> Trace:
    """Return the trace of a file or, if there is no such file, a published example; raise InvalidInput if neither.

    `columns` are the arguments of `Trace.from_file`.
    """
    if Path(source).exists():
        return Trace.from_file(source, **columns)
    if source not in EXAMPLES:
        near = did_you_mean(source, EXAMPLES) or not_there(Path(source))
        raise InvalidInput(
            f"cannot read the trace {source!r}: no such file", f"published are {', '.join(EXAMPLES)}; {near}"
        )
    if columns:
        raise InvalidInput(f"the example {source} takes no columns", f"leave {', '.join(columns)} out")
    return example(source)
