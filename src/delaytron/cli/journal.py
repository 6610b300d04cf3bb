"""`delaytron verify`, `export` and `compact`: commands on the journal of a `dt.Model`."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.text import Text

from delaytron.cli.documents import CompactDocument, DriftPart, ExportDocument, MismatchDocument, VerifyDocument
from delaytron.cli.options import Json
from delaytron.cli.outputs import Target, busy, check_target, naming, new_table, progress_bar, show
from delaytron.errors import InvalidInput

if TYPE_CHECKING:
    from delaytron.model.drift import Drift

VERIFY_EXAMPLES = """
Examples

delaytron verify router.db
delaytron verify router.db --json
"""
EXPORT_EXAMPLES = """
Examples

delaytron export router.db decisions.parquet
"""
COMPACT_EXAMPLES = """
Examples

delaytron compact router.db --older-than 30d
"""
UNITS = ("bytes", "kB", "MB", "GB")

File = Annotated[Path, typer.Argument(metavar="JOURNAL", help="The file that dt.Model(journal=...) writes.")]
Out = Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, which ends in .parquet.")]
Age = Annotated[str, typer.Option(metavar="TIME", help="Settled longer ago than this: 12h, 30d, 8w.")]

Advance = Callable[[int], object]


def verify(journal: File, json: Json = False) -> None:
    """Replay all facts of a journal, and compare every decision and every snapshot bit for bit.

    The exit code is 0 if they agree, and 1 if they do not; then the fact is
    named. Nothing is changed, and the process that decides may keep running.
    """
    from delaytron.model.verify import verify_journal  # noqa: PLC0415 - `--help` needs none of it

    with ExitStack() as bars:
        found = verify_journal(journal, started_bar(bars, "facts"))
    mismatch = found.mismatch
    document = VerifyDocument(
        journal=str(journal),
        agrees=mismatch is None,
        facts=found.facts,
        replayed_after=found.after,
        replayed=found.replayed,
        snapshots=found.snapshots,
        decided=found.decided,
        answered=found.answered,
        expired=found.expired,
        cancelled=found.cancelled,
        open=found.open,
        purged=found.purged,
        accuracy=found.accuracy.mean,
        accuracy_low=found.accuracy.low,
        accuracy_high=found.accuracy.high,
        drift=None if found.drift is None else drift_part(found.drift),
        hash=found.hash,
        mismatch=None if mismatch is None else MismatchDocument(fact=mismatch.fact, reason=mismatch.reason),
    )
    table = new_table("journal", "")  # after a mismatch, the counts up to it
    table.columns[1].justify = "right"
    for kind, count in found.facts.items():
        table.add_row(f"facts: {kind}", f"{count:,}")
    start = "the first" if not found.after else f"the snapshot after {found.after:,}"
    table.add_row(f"facts replayed, from {start}", f"{found.replayed:,}")
    table.add_section()
    for name in ("decided", "answered", "expired", "cancelled", "open", "purged"):
        table.add_row(f"decisions: {name}", f"{getattr(found, name):,}")
    for name, share in zip(("", ", all open ones wrong", ", all open ones right"), found.accuracy, strict=True):
        table.add_row(f"accuracy so far{name}", "-" if share is None else f"{share:.4f}")
    if found.drift is not None:
        for name in ("born", "won", "dropped"):
            table.add_row(f"challengers: {name}", f"{getattr(found.drift, name):,}")
    table.add_row("snapshots checked", f"{found.snapshots:,}")
    table.add_row("hash", "-" if found.hash is None else f"{found.hash[:32]}\n{found.hash[32:]}")
    verdict = "the journal and the state agree"
    if mismatch is not None:
        verdict = f"the journal and the state do not agree: {mismatch.reason}"
    show(document, Group(table, Text(verdict)), json)
    if mismatch is not None:
        raise typer.Exit(1)


def export(journal: File, file: Out, json: Json = False) -> None:
    """Write the decisions of a journal to a Parquet file: a row each, with its probability and its outcome.

    The process that decides may keep running.
    """
    from delaytron.model.export import export_journal  # noqa: PLC0415

    if file.suffix.lower() != ".parquet":
        raise InvalidInput(f"export writes Parquet, got the file {str(file)!r}", "give one that ends in .parquet")
    check_target(Target("parquet", file))
    with ExitStack() as bars, naming(file):
        written = export_journal(journal, file, started_bar(bars, "decisions"))
    size = file.stat().st_size
    document = ExportDocument(
        journal=str(journal),
        file=str(file),
        decided=written.decided,
        purged=written.purged,
        bytes=size,
    )
    left = f"; {written.purged:,} more were dropped by `delaytron compact`" if written.purged else ""
    show(document, Text(f"wrote {written.decided:,} decisions, {file_size(size)}, to {file}{left}"), json)


def compact(journal: File, older_than: Age, json: Json = False) -> None:
    """Drop the facts of decisions that are settled and old; the status and the answer of each stay known.

    A decision that expired as wrong is settled when it cannot be corrected any
    more. No other process may own the journal while this runs. What is dropped
    cannot be exported later: run `delaytron export` first to keep it.
    """
    from delaytron.model.verify import compact_journal  # noqa: PLC0415

    with busy(f"compacting {journal}"):
        found = compact_journal(journal, older_than)
    document = CompactDocument(
        journal=str(journal),
        facts_before=found.facts_before,
        facts_after=found.facts_after,
        bytes_before=found.bytes_before,
        bytes_after=found.bytes_after,
    )
    table = new_table("", numbers=("before", "after"))
    table.add_row("facts", f"{found.facts_before:,}", f"{found.facts_after:,}")
    table.add_row("size", file_size(found.bytes_before), file_size(found.bytes_after))
    show(document, table, json)


def drift_part(drift: "Drift") -> DriftPart:
    """Return the counts of challengers for a document."""
    at = drift.changed_at
    return DriftPart(**drift._asdict() | {"changed_at": None if at is None else at.isoformat()})


def started_bar(bars: ExitStack, unit: str) -> Callable[[int], Advance]:
    """Return a callback that shows a bar once the total is known; it returns the one that advances the bar."""

    def started(total: int) -> Advance:
        return bars.enter_context(progress_bar(max(1, total), unit)) or (lambda _: None)

    return started


def file_size(count: int) -> str:
    """Return a number of bytes in the largest unit of which it has one.

    Examples
    --------
    >>> file_size(512), file_size(4096), file_size(2_500_000)
    ('512 bytes', '4.1 kB', '2.5 MB')
    """
    size = float(count)
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            break
        size /= 1000
    return f"{count} bytes" if unit == UNITS[0] else f"{size:.1f} {unit}"
