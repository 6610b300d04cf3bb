"""`delaytron verify`, `export` and `compact`: what can be done with the journal of a `dt.Model`."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from delaytron.cli.options import Json
from delaytron.cli.outputs import Target, busy, check_target, naming, progress_bar, show
from delaytron.cli.tables import new_table
from delaytron.errors import InvalidInput
from delaytron.model.documents import CompactDocument, ExportDocument, VerifyDocument

if TYPE_CHECKING:
    from delaytron.model.retention import Compaction
    from delaytron.model.verify import Verification

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
    """Play all facts of a journal again, and compare every decision and every snapshot to the bit.

    The exit code is 0 if they agree, and 1 if they do not; then the fact is
    named. Nothing is changed, and the process that decides may go on meanwhile.
    """
    from delaytron.model.verify import verify_journal  # noqa: PLC0415 - `--help` needs none of it

    with ExitStack() as bars:
        found = verify_journal(journal, started_bar(bars, "facts"))
    show(verify_document(journal, found), Group(_verify_table(found), *_verdict(found)), json)
    if found.mismatch is not None:
        raise typer.Exit(1)


def export(journal: File, file: Out, json: Json = False) -> None:
    """Write the decisions of a journal to a Parquet file: a row each, with its probability and its outcome.

    The process that decides may go on meanwhile.
    """
    from delaytron.model.export import export_journal  # noqa: PLC0415

    if file.suffix.lower() != ".parquet":
        raise InvalidInput(f"export writes Parquet: give a file that ends in .parquet; got {str(file)!r}")
    check_target(Target("parquet", file))
    with ExitStack() as bars, naming(file):
        written = export_journal(journal, file, started_bar(bars, "decisions"))
    size = file.stat().st_size
    document: ExportDocument = {
        "journal": str(journal),
        "file": str(file),
        "decided": written.decided,
        "purged": written.purged,
        "bytes": size,
    }
    left = f"; {written.purged:,} more were dropped by `delaytron compact`" if written.purged else ""
    show(document, Text(f"wrote {written.decided:,} decisions, {file_size(size)}, to {file}{left}"), json)


def compact(journal: File, older_than: Age, json: Json = False) -> None:
    """Drop the facts of decisions that are settled and old; what became of each decision stays known.

    No other process may own the journal meanwhile. What is dropped cannot be
    exported any more: run `delaytron export` first if you want to keep it.
    """
    from delaytron.model.retention import compact_journal  # noqa: PLC0415

    with busy(f"compacting {journal}"):
        found = compact_journal(journal, older_than)
    show(compact_document(journal, found), _compact_table(found), json)


def started_bar(bars: ExitStack, unit: str) -> Callable[[int], Advance]:
    """Return what shows a bar as soon as it is known how much there is to do."""

    def started(total: int) -> Advance:
        return bars.enter_context(progress_bar(max(1, total), unit)) or (lambda _: None)

    return started


def verify_document(journal: Path, found: "Verification") -> VerifyDocument:
    """Return what was found as plain values."""
    mismatch = found.mismatch
    return {
        "journal": str(journal),
        "agrees": mismatch is None,
        "facts": found.facts,
        "replayed_after": found.after,
        "replayed": found.replayed,
        "snapshots": found.snapshots,
        "decided": found.decided,
        "answered": found.answered,
        "expired": found.expired,
        "cancelled": found.cancelled,
        "open": found.open,
        "purged": found.purged,
        "hash": found.hash,
        "mismatch": None if mismatch is None else {"fact": mismatch.fact, "reason": mismatch.reason},
    }


def _verify_table(found: "Verification") -> Table:
    """Return the counts; after a mismatch, those up to there."""
    table = new_table("journal", "")
    table.columns[1].justify = "right"
    for kind, count in found.facts.items():
        table.add_row(f"facts: {kind}", f"{count:,}")
    start = "the first" if not found.after else f"the snapshot after {found.after:,}"
    table.add_row(f"facts replayed, from {start}", f"{found.replayed:,}")
    table.add_section()
    for name in ("decided", "answered", "expired", "cancelled", "open", "purged"):
        table.add_row(f"decisions: {name}", f"{getattr(found, name):,}")
    table.add_row("snapshots checked", f"{found.snapshots:,}")
    table.add_row("hash", "-" if found.hash is None else f"{found.hash[:32]}\n{found.hash[32:]}")
    return table


def _verdict(found: "Verification") -> list[Text]:
    if found.mismatch is None:
        return [Text("the journal and the state agree")]
    return [Text(f"the journal and the state do not agree: {found.mismatch.reason}")]


def compact_document(journal: Path, found: "Compaction") -> CompactDocument:
    """Return what was done as plain values."""
    return {
        "journal": str(journal),
        "facts_before": found.facts_before,
        "facts_after": found.facts_after,
        "bytes_before": found.bytes_before,
        "bytes_after": found.bytes_after,
    }


def _compact_table(found: "Compaction") -> Table:
    table = new_table("", "before", "after")
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("facts", f"{found.facts_before:,}", f"{found.facts_after:,}")
    table.add_row("size", *map(escape, map(file_size, (found.bytes_before, found.bytes_after))))
    return table


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
