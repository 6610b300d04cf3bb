"""What `delaytron import` says: the document, the table and the lines below it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from delaytron.cli.log_files import in_flags
from delaytron.cli.tables import new_table
from delaytron.formats import with_margin
from delaytron.model.documents import ImportDocument

if TYPE_CHECKING:
    from collections import Counter

    from delaytron.model.log_import import Imported

OMITTED = {
    "duplicate": "its id stands in an earlier line",
    "not_activated": "its action was deferred and never taken",
    "other_class": "its action is not among the classes",
    "unnamed_action": "an action has no name of its own",
    "no_label": "no action is said to be taken",
    "no_probability": "no probability above 0 and up to 1",
    "no_actions": "no list of actions",
    "features": "no row can be made of its features",
    "bad_id": "its id is not of 1 to 200 bytes",
    "wrong_type": "a value of a wrong type",
    "damaged": "not valid JSON",
    "too_long": "a line longer than 16 MB",
    "other": "neither an event nor an outcome",
}
UNUSED = {
    "no_event": "there is no such event",
    "again": "the event was answered already",
    "conflicting": "the event was answered otherwise",
    "no_number": "the outcome is no number",
}
MOST_NAMES = 8  # classes that are named


def import_document(logs: list[Path], journal: Path, found: "Imported") -> ImportDocument:
    """Return what was done as plain values."""
    counts = found.counts
    return {
        "journal": str(journal),
        "logs": [str(log) for log in logs],
        "events": counts.events,
        "imported": counts.imported,
        "imported_before": counts.before,
        "answered": counts.answered,
        "answered_after_expiry": counts.expired,
        "open": found.open,
        "omitted": _in_order(counts.left_out, OMITTED),
        "unused_answers": _in_order(counts.unused, UNUSED),
        "class_names": list(found.classes),
        "classes_by": found.way,
        "varying_actions": len(found.varying),
        "reward_scale": [found.terms.low, found.terms.high],
        "mean_reward": found.mean_reward,
        "mean_reward_margin": found.mean_reward_margin,
        "warnings": in_flags(found.warnings),
    }


def _in_order(counts: "Counter[str]", words: dict[str, str]) -> dict[str, int]:
    return {reason: counts[reason] for reason in words if counts[reason]}


def import_table(found: "Imported") -> Table:
    """Return the counts."""
    counts = found.counts
    table = new_table("log", "")
    table.columns[1].justify = "right"
    table.add_row("events imported", f"{counts.imported:,}")
    if counts.before:
        table.add_row("events that were in the journal", f"{counts.before:,}")
    table.add_row("events answered", f"{counts.answered:,}")
    table.add_row("decisions open now", f"{found.open:,}")
    table.add_section()
    for title, count, words in (("left out", counts.left_out, OMITTED), ("answers not used", counts.unused, UNUSED)):
        for reason, number in _in_order(count, words).items():
            table.add_row(f"{title}: {words[reason]}", f"{number:,}")
    table.add_section()
    table.add_row(f"classes, by {escape(found.way)}", f"{len(found.classes):,}")
    table.add_row("mean reward of the logged policy", _mean(found))
    return table


def _mean(found: "Imported") -> str:
    if found.mean_reward is None:
        return "-"
    return with_margin(found.mean_reward, found.mean_reward_margin)


def import_notes(journal: Path, found: "Imported") -> Iterator[Text]:
    """Iterate over what the counts alone do not say."""
    names = ", ".join(map(str, found.classes[:MOST_NAMES])) + ", ..." * (len(found.classes) > MOST_NAMES)
    yield Text(f"classes, told apart by {found.way}: {names}")
    for way, place in found.lost.items():
        yield Text(f"not by {way}: {place} has an action without one of its own")
    if found.varying:
        yield Text(_about_varying(found))
    counts = found.counts
    if counts.unnamed:
        yield Text(f"{counts.unnamed:,} events have no EventId; they are named by their file and line")
    if counts.apprenticed:
        yield Text(f"{counts.apprenticed:,} rewards say whether the service chose as its caller: it was an apprentice")
    if counts.dropped:
        yield Text(f"{counts.dropped:,} events stand for several, of which all others were dropped (pdrop)")
    if counts.expired:
        yield Text(f"{counts.expired:,} answers came after their decisions had expired, and were recorded only")
    yield Text(f"the model is in {journal}: dt.Model.open({str(journal)!r})")


def _about_varying(found: "Imported") -> str:
    count = len(found.varying)
    those = f"the own features of {count:,} {'class' if count == 1 else 'classes'} vary between events"
    if found.terms.action_features:
        return f"{those}; rows have them under _action"
    return f"{those}, and are left out; --action-features adds them to the rows"
