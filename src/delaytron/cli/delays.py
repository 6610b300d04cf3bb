"""`delaytron delays`: statistics of recorded delays, and the delay models that fit them."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from math import ceil
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from delaytron.cli.documents import DelaysDocument, FittedDelay, PendingRounds
from delaytron.cli.options import Json, print_notes, trace_notes
from delaytron.cli.outputs import busy, new_table, show, targets, write
from delaytron.delays.fits import DelaySummary, Pending, summarize
from delaytron.delays.traces import TRACE, Trace, open_trace
from delaytron.errors import InvalidInput

EXAMPLES = """
Examples

delaytron delays outcomes.csv --event created_at --outcome resolved_at
delaytron delays waits.csv --wait seconds --rate 2.5 --unit s --output out
delaytron delays delays.txt --plot delays.png
delaytron delays college
"""
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 36  # blocks of a sparkline
LARGE = 20_000_000  # bytes of a file that take longer than a second to read
NAMES = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
OPTIONS = "--event COLUMN --outcome COLUMN, or --wait COLUMN --rate R"
UNITS = ((365.25 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "min"), (1, "s"))

Source = Annotated[str, typer.Argument(metavar="FILE", help="CSV, TSV, text or .npy, also .gz; or a published trace.")]
Event = Annotated[str | None, typer.Option(metavar="COLUMN", help="Times of the decisions.", show_default="event*")]
Outcome = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Times at which outcomes were known; empty: never.", show_default="outcome*"),
]
Wait = Annotated[str | None, typer.Option(metavar="COLUMN", help="Waiting times, instead of --event and --outcome.")]
Unit = Annotated[
    str | None, typer.Option(help="Of times that are numbers: s, min, h or d.", show_default="s; of --wait none")
]
Rate = Annotated[float | None, typer.Option(help="Rounds per unit of the waiting times.", show_default="1")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw delays and waiting rounds: .png, .pdf or .svg.")]
Output = Annotated[Path | None, typer.Option(metavar="DIR", help="Write delays.csv, delays.json and delays.png.")]


def delays(
    source: Source,
    event: Event = None,
    outcome: Outcome = None,
    wait: Wait = None,
    rate: Rate = None,
    unit: Unit = None,
    plot: Plot = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Show statistics of recorded delays: quantiles, missing answers, pending rounds, and the models that fit.

    A table needs a column of times at which decisions were made and one of
    times at which their outcomes were known. Rounds are the decisions in the
    order of time. The published traces college, dengue and retweets are read
    from the folder delays of the folder that DELAYTRON_DATA names.
    """
    files = targets(plot, None, output, "delays", "delays")
    asked = {"event": event, "outcome": outcome, "wait": wait, "rate": rate, "unit": unit}
    named = {name: value for name, value in asked.items() if value is not None}
    path = Path(source)
    large = path.is_file() and path.stat().st_size > LARGE
    with busy(f"reading {path}") if large else nullcontext():
        trace = _open_trace(source, named)
        summary = summarize(trace, path.name)
    if trace.in_seconds:
        print_notes(["times: numbers taken as seconds; --unit min, h or d says otherwise"])
    elif unit is not None and summary.waits:
        print_notes([f"times: numbers taken as {NAMES[unit]}"])
    print_notes(trace_notes(trace, "--wait {} --rate R", "--rate R"))
    document = DelaysDocument(
        trace=summary.name,
        rounds=summary.n_rounds,
        never=summary.never,
        late=summary.late,
        mean_delay=summary.mean,
        quantiles={str(share): delay for share, delay in summary.quantiles.items()},
        quantiles_in_seconds={str(share): wait for share, wait in summary.waits.items()},
        pending=PendingRounds(mean=summary.pending.mean, highest=summary.pending.highest),
        coming=PendingRounds(mean=summary.coming.mean, highest=summary.coming.highest),
        fits=[
            FittedDelay(delay=fit.text, log_likelihood=fit.log_likelihood, distance=fit.distance)
            for fit in summary.fits
        ],
        suggested_delays=summary.models,
    )
    show(document, Group(*delay_lines(summary)), json)
    if not json:
        recorded = f"delaytron run --delay {quote(trace.text)}"
        if not trace.text.startswith(TRACE):  # names that the notation cannot express
            recorded = f"dt.delays.Trace.from_file({source!r}, ...), with the columns that you named"
        models = [f"  delaytron run --delay {model}" for model in summary.models[:1]]
        first = f"To play these delays{', or the likelier model' if models else ''}:"
        typer.echo("\n".join([first, f"  {recorded}", *models]))  # unwrapped, so that commands can be pasted
    write(files, summary, document, json)


def _open_trace(source: str, named: Mapping[str, Any]) -> Trace:
    """Return recorded delays; raise InvalidInput, with the options of this command for the columns."""
    try:
        return open_trace(source, **named)
    except InvalidInput as problem:
        if problem.parameter != "columns":
            raise
        if problem.allowed is None:  # no columns were named, and the header does not say which they are
            raise InvalidInput(problem.args[0], f"name the columns by {OPTIONS}") from None
        got = ", ".join(f"--{name}" for name in named if name != "unit")
        raise InvalidInput.of("columns", f"named by {OPTIONS}", got=got) from None


def delay_lines(summary: DelaySummary) -> Iterator[RenderableType]:
    """Iterate over the tables and lines that show a summary."""
    late = f", {summary.late:.1%} only after the last" if summary.late else ""
    yield Text(f"{summary.name}: {summary.n_rounds:,} rounds, {summary.never:.1%} never answered{late}\n")
    if summary.mean is not None:
        quantiles = new_table("delay", numbers=["max" if q == 1 else f"{q:.0%}" for q in summary.quantiles])
        quantiles.add_row("rounds", *(f"{delay:,}" for delay in summary.quantiles.values()))
        if summary.waits:
            quantiles.add_row("time", *map(duration, summary.waits.values()))
        yield quantiles
        yield Text(f"Of the delays that come; their mean is {_mean(summary.mean)} rounds.\n")
    pending = new_table("pending rounds", numbers=("mean", "highest"))
    pending.add_column(f"from round 1 to {summary.n_rounds:,}", no_wrap=True)
    for name, kind in {"all": summary.pending, "to be answered": summary.coming}.items():
        if name == "all" or summary.never:
            pending.add_row(name, _mean(kind.mean), f"{kind.highest:,}", sparkline(kind))
    yield pending
    yield Text("Rounds that are never answered stay pending.\n" if summary.never else "")
    if summary.fits:
        fits = new_table("model", numbers=("log-likelihood", "KS distance"))
        for fit in summary.fits:
            fits.add_row(fit.text, f"{fit.log_likelihood:.3f}", f"{fit.distance:.3f}")
        yield fits
        yield Text("Fitted to the delays that come, the likeliest first.\n")


def duration(seconds: float) -> str:
    """Return a time in the largest unit of which it has one.

    Examples
    --------
    >>> duration(0), duration(42), duration(5400), duration(86400 * 40)
    ('0 s', '42 s', '1.5 h', '40 d')
    """
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{round(seconds / size, 1 if seconds < 10 * size else None):g} {unit}"


def _mean(value: float) -> str:
    return f"{value:,.{1 if value < 1000 else 0}f}"


def sparkline(pending: Pending) -> str:
    """Return the pending rounds over time as blocks, the tallest for the highest number.

    Examples
    --------
    >>> sparkline(Pending(1.5, 8, np.arange(1, 9)))
    '▁▂▃▄▅▆▇█'
    """
    parts = np.array_split(pending.stretches, min(len(pending.stretches), WIDTH))
    heights = [int(part.max()) * len(BLOCKS) / max(1, pending.highest) for part in parts]
    return "".join(BLOCKS[max(0, ceil(height) - 1)] for height in heights)
