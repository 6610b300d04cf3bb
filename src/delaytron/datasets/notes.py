"""What was done with a table, a line each: nothing that a user did not ask for happens in silence."""

from collections.abc import Collection, Mapping, Sequence
from shlex import quote

from delaytron.datasets.base import Block
from delaytron.datasets.encodings import Categories, Dates, Encoding
from delaytron.datasets.headers import listed
from delaytron.datasets.ids import FEWEST
from delaytron.datasets.survey import ColumnSurvey
from delaytron.datasets.tables import Source

MOST_LINES = 6  # about columns of one kind


def column_notes(
    dropped: Sequence[str],
    features: Sequence[Encoding],
    found: Mapping[str, ColumnSurvey],
    kept: Collection[str],
    source: Source,
) -> tuple[str, ...]:
    """Return what is to be said of the columns of a table."""
    notes = list(source.notes)
    if dropped:
        notes.append(f"left out: {'column' if len(dropped) == 1 else 'columns'} {listed(dropped)}")
    notes += _cut([f"column {one.name!r} read as date: {_columns(one)}" for one in features if isinstance(one, Dates)])
    notes += _cut([_category_note(one) for one in features if isinstance(one, Categories)])
    for name, column in found.items():
        if name in kept and column.wish.kind != "categories" and column.check_id(source):
            notes.append(f"column {name!r} looks like an id and is kept")
        elif name not in kept and column.counts_rows:
            without = f"drop=[{name!r}] (--drop {quote(name)})"
            notes.append(f"column {name!r} counts the rows; leave it out by {without} if that is all")
    return tuple(notes)


def label_notes(column: ColumnSurvey) -> tuple[str, ...]:
    """Return what is to be said of a column of labels: that it is hardly one, if most of its cells differ."""
    n_classes, n_cells = len(column.texts), column.n_cells
    if n_cells < FEWEST or n_classes <= n_cells / 2:
        return ()
    name = column.wish.name
    return (f"labels: {n_classes:,} classes in {n_cells:,} rows; if {name!r} is not the label, pass label (--label)",)


def _category_note(encoding: Categories) -> str:
    return f"column {encoding.name!r} read as categories: {_columns(encoding)}"


def _columns(encoding: Encoding) -> str:
    count = len(encoding.feature_names)
    return f"{count:,} column{'' if count == 1 else 's'}"


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"and so are {more} more columns"] if more > 1 else lines


def row_notes(block: Block, n_rows: int) -> tuple[str, ...]:
    """Return what is to be said of the rows that are left of so many.

    Examples
    --------
    >>> import numpy as np
    >>> row_notes(Block(np.zeros((3, 1)), np.zeros(3), dropped=1), 4)
    ('dropped 1 of 4 rows with a missing value',)
    """
    notes = list(block.notes)
    if block.filled:
        cells = "cell" if block.filled == 1 else "cells"
        how = "numbers by means, categories by one of their own; columns tell which"
        notes.append(f"filled {block.filled:,} missing {cells}: {how}")
    if block.dropped:
        notes.append(f"dropped {block.dropped:,} of {n_rows:,} rows with a missing value")
    return tuple(notes)
