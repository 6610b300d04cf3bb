"""What the cells of one column become: a number, the parts of a date, the number of a category, a label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.datasets.cells import as_text, cell_number, says_nothing
from delaytron.datasets.dates import PARTS, PARTS_OF_DAYS, as_microseconds, date_parts, parse_dates
from delaytron.records import Array, Bools, Ints

TOLD = " missing"  # the end of the name of a column that tells which cells were missing
NO_CATEGORY = "(missing)"


class Encoded(NamedTuple):
    """A column as numbers: an array for each column of X, which cells are missing, and how many were filled in."""

    parts: list[NDArray[Any]]
    missing: Bools
    n_filled: int = 0


class _Column:
    """A column that stays one, and another one that tells which cells were missing if `means` stand in for them."""

    name: str
    means: tuple[float, ...]
    one_hot = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns that this one becomes."""
        return (self.name, self.name + TOLD) if self.means else (self.name,)

    @property
    def n_filled(self) -> int:
        """How many numbers of a row may differ from 0."""
        return len(self.feature_names)


@dataclass(frozen=True)
class Numbers(_Column):
    """A column of numbers, which stays one column.

    Parameters
    ----------
    means : tuple of float
        What stands in for a missing cell, in which case another column tells where; none if nothing may.
    """

    name: str
    means: tuple[float, ...] = ()

    def encode(self, column: Any) -> Encoded:
        """Return what the cells of a column become."""
        values, missing = column_numbers(column)
        return _filled([values], missing, self.means)


@dataclass(frozen=True)
class Dates(_Column):
    """A column of dates, which becomes a column for each part of them; see `dates.date_parts`."""

    name: str
    hours: bool
    means: tuple[float, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns that this one becomes."""
        parts = tuple(self.name + part for part in (PARTS if self.hours else PARTS_OF_DAYS))
        return (*parts, self.name + TOLD) if self.means else parts

    def encode(self, column: Any) -> Encoded:
        """Return what the cells of a column become."""
        found = column_dates(column)
        if found is None:  # the file has changed since it was looked at
            return Encoded([np.zeros(len(column))] * len(self.feature_names), np.ones(len(column), np.bool_))
        return _filled(date_parts(found[0], self.hours), found[1], self.means)


@dataclass(frozen=True)
class Categories:
    """A column of categories, which becomes a column of 0 and 1 for each of them.

    Parameters
    ----------
    lookup : (texts, codes), optional
        The different cells, and the category of each.
    fill : bool
        Whether the last category is that of missing cells.
    """

    name: str
    categories: tuple[str, ...]
    lookup: tuple[Sequence[str], NDArray[Any]] | None = None
    fill: bool = False
    one_hot = True
    n_filled = 1

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns that this one becomes."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, column: Any) -> Encoded:
        """Return what the cells of a column become."""
        codes, missing = look_up(as_text(column), *(self.lookup or ((), np.zeros(0, np.int64))))
        if self.fill:
            return Encoded([np.where(missing, len(self.categories) - 1, codes)], none(missing), int(missing.sum()))
        return Encoded([codes], missing)


@dataclass(frozen=True)
class Values(_Column):
    """A column of a few texts each of which stands for a value: a label, or the truth."""

    name: str
    lookup: tuple[Sequence[str], NDArray[Any]]
    means: tuple[float, ...] = ()

    def encode(self, column: Any) -> Encoded:
        """Return what the cells of a column become."""
        values, missing = look_up(as_text(column), *self.lookup)
        return _filled([values], missing, self.means)


Encoding = Numbers | Dates | Categories | Values


def _filled(parts: list[NDArray[Any]], missing: Bools, means: Sequence[float]) -> Encoded:
    """Put the means into the places of missing cells, and add the column that tells which they are."""
    if not means:
        return Encoded(parts, missing)
    whole = [np.where(missing, mean, part) for part, mean in zip(parts, means, strict=True)]
    return Encoded([*whole, missing.astype(np.float64)], none(missing), int(missing.sum()))


def none(missing: Bools) -> Bools:
    """Return that no cell is missing."""
    return np.zeros(len(missing), np.bool_)


def look_up(texts: Any, known: Sequence[str], values: NDArray[Any]) -> tuple[NDArray[Any], Bools]:
    """Return what texts stand for, and which stand for nothing."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    places = compute.index_in(texts, value_set=pa.array(known, pa.large_string()))
    which = places.fill_null(len(known)).to_numpy()
    return values.take(which, mode="clip") if known else which, which == len(known)


def column_numbers(column: Any) -> tuple[Array, Bools]:
    """Return the numbers of an Arrow column, text or not, and which are missing: NaN, or no number at all."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
        microseconds, missing = as_microseconds(column)
        return microseconds / 1e6, missing
    values = plain_numbers(column)
    if values is None:
        texts = as_text(column)
        known = [text for text in texts.unique().to_pylist() if text is not None]
        numbers = [cell_number(text) for text in known]
        values = look_up(texts, known, np.array([np.nan if n is None else n for n in numbers]))[0].astype(np.float64)
        values = np.where(look_up(texts, known, np.zeros(len(known)))[1], np.nan, values)
    return values, ~np.isfinite(values)


def plain_numbers(column: Any) -> Array | None:
    """Return numbers that are written plainly, NaN for what is missing; None if a cell is anything else."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    try:
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
    except pa.ArrowInvalid:
        return None


def column_dates(column: Any) -> tuple[Ints, Bools] | None:
    """Return the dates of an Arrow column in microseconds, and which are missing; None if a text is no date."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if pa.types.is_temporal(column.type):
        return as_microseconds(column)
    texts = as_text(column)
    known = [text for text in texts.unique().to_pylist() if text is not None and not says_nothing(text)]
    parsed = parse_dates(pa.array(known, pa.large_string()))
    return None if parsed is None else look_up(texts, known, parsed[0])
