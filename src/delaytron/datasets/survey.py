"""What the columns of a table hold, found in one reading that keeps no more of it than its categories."""

import re
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from delaytron.datasets.cells import as_text, cell_number, is_missing
from delaytron.datasets.dates import date_parts, has_hours
from delaytron.datasets.encodings import column_dates, column_numbers, plain_numbers
from delaytron.datasets.ids import ENOUGH, FEWEST, MOST_CATEGORIES, is_called_id, looks_like_id
from delaytron.datasets.tables import Source
from delaytron.errors import InvalidInput

SURVEY_ROWS = 2**16  # read at a time
SLASHED = re.compile(r"\d{1,2}/\d{1,2}/\d{4}(\D|$)")  # a date, of which nobody knows whether the month comes first
MOST_ODD = 1000  # texts among numbers that are kept: a few tell all


class Wish(NamedTuple):
    """What is known of a column before it is read.

    Parameters
    ----------
    kind : str
        "categories" (also labels), "numbers", "dates", or "text", which may be any of them.
    keep : bool
        Whether it is to be kept even if it looks like an id.
    must_read : bool
        Whether its cells must be read before it is known what it becomes.
    hours : bool
        Of dates: whether they have a time of day.
    """

    name: str
    kind: str
    keep: bool
    must_read: bool = False
    hours: bool = False


class ColumnSurvey:
    """What is found in one column."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.texts: dict[str, None] = {}  # the different ones, in the order in which they come
        self.n_cells = 0  # that are not missing
        self.n_missing = 0
        self.n_numbers = 0
        self.n_dates = 0
        self.n_true = 0
        self.hours = False
        self.totals: list[float] = []
        self.whole: list[NDArray[Any]] = []  # numbers of a column that is called an id
        self.n_kept = 0
        self.first: float | None = None  # number
        self.counts = True  # whether each number so far is the one before it and 1

    def see(self, column: Any) -> None:
        """Take in some rows."""
        look = {"categories": self._texts, "numbers": self._numbers, "dates": self._dates}.get(
            self.wish.kind, self._any
        )
        n_missing = look(column)
        self.n_missing += n_missing
        self.n_cells += len(column) - n_missing

    def _any(self, column: Any) -> int:
        """Look at cells of text: plain numbers first, then dates, then whatever it is."""
        if not self.texts and not self.n_dates and plain_numbers(column) is not None:
            return self._numbers(column)
        if not self.texts and not self.n_numbers:
            found = column_dates(column)
            if found is not None and not found[1].all():
                return self._dates(column)
        counts = _counts(column)
        odd = {text: count for text, count in counts.items() if cell_number(text) is None}
        if len(odd) < sum(not is_missing(text) for text in counts):
            self._numbers(column)
        self.n_true += sum(count for text, count in odd.items() if text.lower() == "true")
        if not self.n_numbers or len(self.texts) < MOST_ODD:
            self.texts.update(dict.fromkeys(odd))
        return _n_missing(column, counts)

    def _texts(self, column: Any) -> int:
        counts = _counts(column)
        self.texts.update(dict.fromkeys(text for text in counts if not is_missing(text)))
        return _n_missing(column, counts)

    def _numbers(self, column: Any) -> int:
        values, missing = column_numbers(column)
        there = values[~missing]
        self.n_numbers += there.size
        self._add([there])
        self._count(there)
        if is_called_id(self.wish.name) and self.n_kept < ENOUGH:
            self.whole.append(there)
            self.n_kept += there.size
        return int(missing.sum())

    def _count(self, there: NDArray[Any]) -> None:
        """Note whether the numbers go on counting."""
        if self.counts and there.size:
            self.first = float(there[0]) if self.first is None else self.first
            start = self.first + self.n_numbers - there.size
            self.counts = bool((there == np.arange(start, start + there.size)).all())

    @property
    def counts_rows(self) -> bool:
        """Whether the column is 0, 1, 2, ..., from whatever number, in enough rows to tell."""
        return self.counts and not self.texts and self.n_numbers >= FEWEST

    def _dates(self, column: Any) -> int:
        found = column_dates(column)
        if found is None:  # typed dates always are
            return 0
        there = found[0][~found[1]]
        self.n_dates += there.size
        self.hours = self.hours or has_hours(there)
        self._add(date_parts(there, hours=True))
        return int(found[1].sum())

    def _add(self, parts: Sequence[NDArray[Any]]) -> None:
        """Add to the totals of the parts; a column that is now of dates and now of numbers has none."""
        before = self.totals or [0.0] * len(parts)
        if parts[0].size and len(before) == len(parts):
            with np.errstate(over="ignore"):
                self.totals = [total + float(part.sum()) for total, part in zip(before, parts, strict=True)]

    def means(self, hours: bool) -> tuple[float, ...]:
        """Return the means of the numbers, or of the parts of dates, with the hours or without."""
        means = [total / max(1, self.n_numbers or self.n_dates) for total in self.totals]
        return tuple(means if hours or len(means) < 2 else [means[0], *means[2:]])

    def check_id(self, source: Source) -> bool:
        """Raise if this looks like an id that nobody wants to keep; return whether one is kept."""
        n_distinct, n_cells, text = len(self.texts), self.n_cells, not self.n_numbers
        if self.whole:
            numbers = np.concatenate(self.whole)
            n_distinct = np.unique(numbers).size if (numbers == np.floor(numbers)).all() else 0
            n_cells = numbers.size
        if not looks_like_id(self.wish.name, n_cells, n_distinct, text):
            return False
        if not self.wish.keep:
            what = "may be of dates" if SLASHED.match(next(iter(self.texts), "")) else "looks like an id"
            refuse_id(source.name, self.wish.name, n_distinct, n_cells, what)
        return True


def _counts(column: Any) -> dict[str, int]:
    """Return how often each text occurs, in the order in which they come."""
    counts = as_text(column).value_counts().to_pylist()
    return {pair["values"]: pair["counts"] for pair in counts if pair["values"] is not None}


def _n_missing(column: Any, counts: Mapping[str, int]) -> int:
    return len(column) - sum(count for text, count in counts.items() if not is_missing(text))


def refuse_id(place: str, name: str, n_distinct: int, n_cells: int, what: str = "looks like an id") -> NoReturn:
    """Say of a column that it looks like an id, and what can be done."""
    advice = "write dates as 2024-05-31, " if what == "may be of dates" else ""
    raise InvalidInput(
        f"{place}: column {name!r} {what}: {n_distinct:,} of {n_cells:,} values differ; {advice}leave it out by "
        f"drop=[{name!r}] (--drop {quote(name)}) or keep it by keep=[{name!r}] (--keep {quote(name)})"
    )


def survey_columns(source: Source, wishes: Iterable[Wish]) -> tuple[dict[str, ColumnSurvey], int]:
    """Read these columns of a table once; return what is in them, and how many rows there are."""
    columns = {wish.name: ColumnSurvey(wish) for wish in wishes}
    n_rows = 0
    for table in source.read(list(columns), SURVEY_ROWS) if columns else ():
        for name, found in columns.items():
            found.see(table[name])
            _check_size(source, found)
        n_rows += table.num_rows
    return columns, n_rows


def _check_size(source: Source, found: ColumnSurvey) -> None:
    """Raise as soon as a column is an id: to find all its values would take memory without end."""
    if found.wish.kind != "text" or found.wish.keep or found.n_numbers or found.n_cells < ENOUGH:
        return
    found.check_id(source)
    if len(found.texts) > MOST_CATEGORIES:
        refuse_id(source.name, found.wish.name, len(found.texts), found.n_cells)
