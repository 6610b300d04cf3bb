"""`delaytron delays`: what recorded delays are like, and which models fit them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import ceil
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from delaytron.cli.documents import DelaysDocument
from delaytron.cli.options import Json, tell, trace_notes
from delaytron.cli.outputs import busy, show, targets, write
from delaytron.cli.tables import new_table
from delaytron.delays.notation import TRACE, how_to_name
from delaytron.delays.opening import open_trace
from delaytron.delays.summary import DelaySummary, Pending, summarize
from delaytron.delays.traces import Trace
from delaytron.errors import InvalidInput

EXAMPLES = """
Examples

delaytron delays outcomes.csv --event created_at --outcome resolved_at
delaytron delays waits.csv --wait seconds --rate 2.5 --unit s --output out
delaytron delays delays.txt --plot delays.png
delaytron delays college
"""
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 36  # blocks of a line over time
LARGE = 20_000_000  # bytes of a file that take longer than a second
NAMES = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
OPTIONS = "--event COLUMN --outcome COLUMN, or --wait COLUMN --rate R"
UNITS = ((365.25 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "min"), (1, "s"))

Source = Annotated[str, typer.Argument(metavar="FILE", help="CSV, TSV, text or .npy, also .gz; or a published trace.")]
Event = Annotated[str | None, typer.Option(metavar="COLUMN", help="When decisions were made.", show_default="event*")]
Outcome = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="When outcomes were known; empty: never.", show_default="outcome*")
]
Wait = Annotated[str | None, typer.Option(metavar="COLUMN", help="Waiting times, instead of the other two columns.")]
Unit = Annotated[
    str | None, typer.Option(help="Of times that are numbers: s, min, h or d.", show_default="s; of waits unknown")
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
    """Show what recorded delays are like: how long, how many never come, how many rounds wait, and what fits.

    A table needs a column of times at which decisions were made and one of
    times at which their outcomes were known. Rounds are the decisions in the
    order of time. The published traces college, dengue and retweets are read
    from the folder delays of the folder that DELAYTRON_DATA names.
    """
    files = targets(plot, None, output, "delays", "delays")
    asked = {"event": event, "outcome": outcome, "wait": wait, "rate": rate, "unit": unit}
    named = {name: value for name, value in asked.items() if value is not None}
    with _waiting(Path(source)):
        trace = _opened(source, named)
        summary = summarize(trace, Path(source).name)
    _tell_unit(summary, unit, trace.in_seconds)
    tell(trace_notes(trace, "--wait {} --rate R", "--rate R"))
    document = delays_document(summary)
    show(document, Group(*delay_lines(summary)), json)
    if not json:
        typer.echo(_hint(summary, trace, source))  # as it is: a command that is broken into lines cannot be pasted
    write(files, summary, document, json)


def _opened(source: str, named: Mapping[str, Any]) -> Trace:
    """Read a trace; where columns cannot be told, say by which options they are named."""
    try:
        return open_trace(source, **named)
    except InvalidInput as problem:
        raise type(problem)(str(problem).replace(how_to_name(Path(source)), OPTIONS)) from None


def _tell_unit(summary: DelaySummary, unit: str | None, in_seconds: bool) -> None:
    """Say of which unit numbers were taken."""
    if in_seconds:
        typer.echo("delaytron: note: times: numbers taken as seconds; --unit min, h or d says otherwise", err=True)
    elif unit is not None and summary.waits:
        typer.echo(f"delaytron: note: times: numbers taken as {NAMES[unit]}", err=True)


def _waiting(path: Path) -> AbstractContextManager[None]:
    large = path.is_file() and path.stat().st_size > LARGE
    return busy(f"reading {path}") if large else nullcontext()


def delays_document(summary: DelaySummary) -> DelaysDocument:
    """Return a summary as plain values."""
    return {
        "trace": summary.name,
        "rounds": summary.n_rounds,
        "never": summary.never,
        "late": summary.late,
        "mean_delay": summary.mean,
        "quantiles": {str(share): delay for share, delay in summary.quantiles.items()},
        "quantiles_in_seconds": {str(share): wait for share, wait in summary.waits.items()},
        "pending": {"mean": summary.pending.mean, "highest": summary.pending.highest},
        "coming": {"mean": summary.coming.mean, "highest": summary.coming.highest},
        "fits": [
            {"delay": fit.text, "log_likelihood": fit.log_likelihood, "distance": fit.distance} for fit in summary.fits
        ],
        "suggested_delays": summary.models,
    }


def delay_lines(summary: DelaySummary) -> Iterator[RenderableType]:
    """Iterate over what the screen shows of a summary."""
    late = f", {summary.late:.1%} only after the last" if summary.late else ""
    yield Text(f"{summary.name}: {summary.n_rounds:,} rounds, {summary.never:.1%} never answered{late}\n")
    if summary.mean is not None:
        yield _quantile_table(summary)
        yield Text(f"Of the delays that come; their mean is {_mean(summary.mean)} rounds.\n")
    yield _pending_table(summary)
    yield Text("What is never answered waits for ever.\n" if summary.never else "")
    if summary.fits:
        yield _fit_table(summary)
        yield Text("Fitted to the delays that come, the likelier one first.\n")


def _quantile_table(summary: DelaySummary) -> Table:
    table = _table("delay", ["max" if share == 1 else f"{share:.0%}" for share in summary.quantiles])
    table.add_row("rounds", *(f"{delay:,}" for delay in summary.quantiles.values()))
    if summary.waits:
        table.add_row("time", *map(duration, summary.waits.values()))
    return table


def _table(first: str, titles: Sequence[str]) -> Table:
    table = new_table(first)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


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


def _pending_table(summary: DelaySummary) -> Table:
    table = _table("waiting rounds", ("mean", "highest"))
    table.add_column(f"from round 1 to {summary.n_rounds:,}", no_wrap=True)
    kinds = {"all": summary.pending} | ({"to be answered": summary.coming} if summary.never else {})
    for name, pending in kinds.items():
        table.add_row(name, _mean(pending.mean), f"{pending.highest:,}", sparkline(pending))
    return table


def sparkline(pending: Pending) -> str:
    """Return the waiting rounds over time as blocks, the tallest for the most there were.

    Examples
    --------
    >>> sparkline(Pending(1.5, 8, np.arange(1, 9)))
    '▁▂▃▄▅▆▇█'
    """
    parts = np.array_split(pending.stretches, min(len(pending.stretches), WIDTH))
    heights = [int(part.max()) * len(BLOCKS) / max(1, pending.highest) for part in parts]
    return "".join(BLOCKS[max(0, ceil(height) - 1)] for height in heights)


def _fit_table(summary: DelaySummary) -> Table:
    table = _table("model", ("log-likelihood", "KS distance"))
    for fit in summary.fits:
        table.add_row(fit.text, f"{fit.log_likelihood:.3f}", f"{fit.distance:.3f}")
    return table


def _hint(summary: DelaySummary, trace: Trace, source: str) -> str:
    """Say how to play what was recorded, and the model that fits it better."""
    recorded = f"delaytron run --delay {quote(trace.text)}"
    if not trace.text.startswith(TRACE):  # names that would be read as something else
        recorded = f"dt.delays.Trace.from_file({source!r}, ...), with the columns that you named"
    models = [f"  delaytron run --delay {model}" for model in summary.models[:1]]
    first = f"To play these delays{', or the likelier model' if models else ''}:"
    return "\n".join([first, f"  {recorded}", *models])
