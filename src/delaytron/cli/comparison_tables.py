"""What the command line shows and writes of a comparison."""

import re
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from delaytron.cli.documents import ComparisonDocument, ComparisonRow
from delaytron.cli.tables import MAJORITY_LINES, exact, majority_cell, new_table, short
from delaytron.comparison.results import Comparison, Entry
from delaytron.formats import assignments, versions, with_margin


def comparison_document(comparison: Comparison) -> ComparisonDocument:
    """Return a comparison as plain values."""
    terms = comparison.terms
    return {
        "dataset": comparison.dataset,
        "rounds": terms.rounds,
        "runs": terms.runs,
        "tuning_runs": terms.tuning_runs,
        "budget": terms.budget,
        "seed": terms.seed,
        "tuning_seed": terms.tuning_seed,
        "results": [_comparison_row(entry) for entry in comparison.entries],
        "left_out": [{"learner": name, "reason": reason} for name, reason in comparison.left_out.items()],
        "versions": versions(),
    }


def _comparison_row(entry: Entry) -> ComparisonRow:
    result = entry.result
    return {
        "learner": entry.learner,
        "dataset": result.dataset,
        "form": result.form,
        "delay": entry.delay,
        "parameters": result.parameters[0],
        "tuned": list(entry.setting),
        "rounds": int(result.rounds[-1]),
        "runs": len(result.run),
        **result.errors(),
        "majority_error": result.majority_error,
        "final_errors": result.final_error.tolist(),
        "final_greedy_errors": result.greedy_error.tolist(),
        "seconds": entry.seconds,
        "settings_tried": entry.tried,
        "tuning_seconds": entry.tuning_seconds,
        "remark": entry.remark,
    }


def comparison_table(comparison: Comparison, drawn: str = "") -> Table:
    """Return the table of a comparison: a line per learner, the best at the largest delay first.

    Those whose errors mean something else, such as those that are told the true label, stand below the others.
    """
    delays = comparison.delays
    lines = [["learner", *(f"delay {delay}" for delay in delays), f"setting at {delays[-1]}", "s", "tune s"]]
    ranked = sorted(comparison.learners.items(), key=lambda item: bool(item[1][0].remark))
    lines += [[comparison.marked(name), *_comparison_cells(rows)] for name, rows in ranked]
    if _width(lines, unbroken=len(delays) + 1) > Console().width:
        lines = [[re.sub(r" (?=± )|(?<=^delay) ", "\n", cell) for cell in line] for line in lines]
    table = new_table(caption=_comparison_caption(comparison, drawn))
    for place, title in enumerate(lines[0]):
        is_text = place in (0, len(delays) + 1)
        table.add_column(escape(title), justify="left" if is_text else "right", overflow="fold", no_wrap=place == 0)
    usable = 1 + sum(not rows[0].remark for _, rows in ranked)
    for line in lines[1:usable]:
        table.add_row(*map(escape, line))
    table.add_row(MAJORITY_LINES, *(majority_cell(comparison.majority_error) for _ in delays))
    if lines[usable:]:
        table.add_section()
        table.add_row("for reference", style="bold")
    for line in lines[usable:]:
        table.add_row(*map(escape, line))
    return table


def _comparison_cells(entries: Sequence[Entry]) -> list[str]:
    rows = [entry.row() for entry in entries]
    chosen = entries[-1].setting.items()
    setting = {name: _shortest(value) for name, value in chosen if name != "standardize" or value}
    seconds = f"{sum(row['seconds'] for row in rows):.1f}"
    tuning_seconds = f"{sum(row['tuning_seconds'] for row in rows):.1f}"
    errors = [with_margin(row["error"], row["error_margin"]) for row in rows]
    return [*errors, assignments(setting) or "untuned", seconds, tuning_seconds]


def _width(lines: Sequence[Sequence[str]], unbroken: int) -> int:
    """Return how many characters wide a table is whose first columns are not broken, and others only between words."""
    widths = []
    for place, cells in enumerate(zip(*lines, strict=True)):
        pieces = cells if place < unbroken else [word for cell in cells for word in cell.split()]
        widths.append(max(map(len, pieces)) + 2)
    return sum(widths)


def _comparison_caption(comparison: Comparison, drawn: str) -> str:
    terms = comparison.terms
    lines = [
        f"error ± 95 %: {terms.runs} runs of {exact(terms.rounds)} rounds, seed {terms.seed}; tuned, if not "
        f"said otherwise, by {terms.tuning_runs} runs of at most {terms.budget} settings, seed {terms.tuning_seed}",
        *[drawn] * bool(drawn),
        *(f"{sign} {remark}" for remark, sign in comparison.marks.items()),
        *(f"{name} cannot play: {reason}" for name, reason in comparison.left_out.items()),
    ]
    return escape("\n".join(lines))


def _shortest(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1 else short(value)
