"""The options that commands share, and how their texts are read."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

from delaytron import datasets, delays
from delaytron.checks import check_number
from delaytron.datasets.files import FORMATS
from delaytron.errors import InvalidInput
from delaytron.formats import plain_value
from delaytron.simulation.batches import check_threads

DATA_HELP = f"A name from `delaytron datasets`, or a file: {', '.join(FORMATS)}."
DELAY_HELP = f"{delays.ALLOWED}. Repeatable; 1,100,1000 tries all three."
ROUNDS_WORDS = ("delay", "round")  # headers of columns that are rounds, and not seconds

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Delays = Annotated[list[str], typer.Option(metavar="DELAY", help=DELAY_HELP)]
Runs = Annotated[int, typer.Option(help="Runs of every setting.")]
Rounds = Annotated[int, typer.Option(help="Rounds of every run.")]
Workers = Annotated[int | None, typer.Option(help="Runs played at the same time.", show_default="all cores")]
Noise = Annotated[
    str | None, typer.Option(metavar="RHO0,RHO1", help="Rates at which wrong is reported as right, and right as wrong.")
]
OnExpiry = Annotated[str, typer.Option(help="What no answer in time means: drop (nothing) or wrong (until corrected).")]


def check_workers(workers: int | None) -> int | None:
    """Raise if there cannot be so many workers."""
    return None if workers is None else check_threads("workers", workers)


def rows_note(given: str, data: datasets.Dataset | datasets.FileStream, n_rounds: int) -> list[str]:
    """Return what is to be said of the rows of a file that are played, unless they are drawn or shuffled."""
    shuffled = any(note.startswith("rows: ") for note in data.notes)
    if given in datasets.DATASETS or shuffled or n_rounds > data.n_rows:
        return []
    some = "all" if n_rounds == data.n_rows else f"{n_rounds:,} of"
    return [f"rows: {some} {data.n_rows:,}, in file order; --shuffle mixes them"]


def drawn_note(
    given: str, data: datasets.Dataset | datasets.FileStream, n_rounds: int, sampling: str = "replacement"
) -> str:
    """Return how often each row of a file is played, if there are fewer rows than rounds; else nothing."""
    if given in datasets.DATASETS or n_rounds <= data.n_rows:
        return ""
    times = f"each {n_rounds / data.n_rows:.3g} times on average"
    how = "drawn with replacement" if sampling == "replacement" else "in epochs"
    return f"more rounds than rows: {data.n_rows:,} rows {how}, {times}"


def tell(notes: Iterable[str], kind: str = "note") -> None:
    """Say on stderr what was done with a file, a line each."""
    for note in notes:
        typer.echo(f"delaytron: {kind}: {' '.join(note.split())}", err=True)


def split_delays(texts: Sequence[str]) -> list[str]:
    """Split 1,100,1000 but not lognormal:100,1.5 and drop what comes twice.

    Examples
    --------
    >>> split_delays(["1,100", "lognormal:100,1.5", "1"])
    ['1', '100', 'lognormal:100,1.5']
    """
    plain = {text: all(piece.strip().isdecimal() for piece in text.split(",")) for text in texts}
    return list(dict.fromkeys(piece.strip() for t in texts for piece in (t.split(",") if plain[t] else [t])))


def read_delays(texts: Sequence[str]) -> list[str]:
    """Return the delays that are asked for, each checked, and say how recorded ones were taken."""
    found = split_delays(texts)
    for text in found:
        tell(delay_notes(delays.parse(text)))
    return found


def delay_notes(delay: delays.Delay) -> Iterator[str]:
    """Iterate over what is to be said of recorded delays, with the notation of `--delay`."""
    model = delay.model if isinstance(delay, delays.WithMissing) else delay
    if isinstance(model, delays.Trace):
        yield from trace_notes(model, f"{model},wait={{}},rate=R", f"--delay {model},rate=R")


def trace_notes(trace: delays.Trace, waits: str, rate: str) -> Iterator[str]:
    """Iterate over what is to be said of recorded delays; `waits` and `rate` are how the user says otherwise."""
    if trace.header and not any(word in trace.header.lower() for word in ROUNDS_WORDS):
        means = f"{waits.format(trace.header)} takes them as waiting times, R rounds in a unit of them"
        yield f"header {trace.header!r} skipped, numbers taken as rounds; {means}"
    if ",wait=" in trace.text and ",rate=" not in trace.text:
        yield f"waiting times: 1 round in a unit of them; {rate} says otherwise"


def split_names(texts: Sequence[str]) -> list[str]:
    """Split A,B and drop what comes twice."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",")))


def read_assignments(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Read NAME=VALUE,VALUE; a name given twice collects all its values.

    Examples
    --------
    >>> read_assignments(["eta=1,0.5", "restart=true", "eta=2"])
    {'eta': [1, 0.5, 2], 'restart': [True]}
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals:
            raise InvalidInput(f"--set must be NAME=VALUE, as in --set eta=0.5; got {text!r}")
        known = found.setdefault(name.strip(), [])
        known.extend(v for v in map(plain_value, values.split(",")) if v not in known)
    return found


def read_noise(text: str | None) -> tuple[Any, ...] | None:
    """Read RHO0,RHO1; whether these are rates is checked where they are used."""
    if text is None:
        return None
    read_pair("--noise", text, "0.1,0.2")  # says what is wrong with it
    return tuple(map(plain_value, text.split(",")))


def read_pair(flag: str, text: str, example: str) -> tuple[float, float]:
    """Read two numbers.

    Examples
    --------
    >>> read_pair("--noise", "0.1,0.2", example="0,0.1")
    (0.1, 0.2)
    """
    try:
        first, second = (check_number(flag, float(part)) for part in text.split(","))
    except ValueError:  # an InvalidInput, too
        raise InvalidInput(f"{flag} must be two numbers, as in {flag} {example}; got {text!r}") from None
    return first, second
