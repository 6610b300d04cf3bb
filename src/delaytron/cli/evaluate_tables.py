"""What the screen shows of an evaluation."""

from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from delaytron.cli.tables import new_table
from delaytron.evaluation.results import Evaluation, Evaluations

NOTES = {"replay": "the effective size is the number of decisions that were accepted"}


def evaluation_table(found: Evaluations, log: Any) -> RenderableType:
    """Return the table, and a line for each warning."""
    first = found.entries[0]
    table = new_table("policy", first.quantity, "95 % interval", "effective size", caption=escape(_caption(first, log)))
    for column in table.columns[1:]:
        column.justify = "right"
    for entry in found.entries:
        interval = f"{entry.low:.4f} to {entry.high:.4f}"
        table.add_row(escape(entry.policy), f"{entry.value:.4f}", interval, f"{entry.effective_size:,.0f}")
    return Group(table, *(Text(line) for line in _warnings(found)))


def _caption(first: Evaluation, log: Any) -> str:
    counted = f"{first.method}; {first.n_rounds:,} of {len(log):,} decisions, {first.n_outcomes:,} with an outcome"
    return f"{counted}\n{NOTES[first.method]}" if first.method in NOTES else counted


def _warnings(found: Evaluations) -> list[str]:
    """Return each warning once, with the policies that it is about."""
    told: dict[str, list[str]] = {}
    for entry in found.entries:
        for message in entry.warnings:
            told.setdefault(message, []).append(entry.policy)
    return [f"warning, {', '.join(policies)}: {message}" for message, policies in told.items()]
