"""Columns of a table: their names, their cells as numbers, dates or categories, and the features they become.

Cells are Arrow arrays, text or typed, so pyarrow is installed: `needs("pyarrow")` is called where they are created.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from math import isfinite, nan
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import did_you_mean
from delaytron.datasets.dataset import class_name
from delaytron.errors import InvalidInput, Setting, Text
from delaytron.records import Array, Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa

Column = str | int  # the name of a column, or its position
Columns = Column | Iterable[Column]

LABELS = ("label", "class", "target", "y")
BOOLEANS = {"false": 0.0, "true": 1.0}
NOT_FINITE = ("nan", "inf", "infinity")
MISSING = {"", "na", "n/a", "#n/a", "null", *(sign + word for sign in ("", "+", "-") for word in NOT_FINITE)}
MARKS = {"?", "-", "--", ".", "none", "nat"}  # missing among numbers and dates; elsewhere they may be categories
IDENTIFIER = re.compile(r"[+-]?0\d")  # begins an identifier such as 01234, whose zero counts
DATE = r"^(\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d|\d{1,2}\.\d{1,2}\.\d{4})([T ].*)?$"
ISO_FORMS = (  # 2024/05/31 and 31.5.2024 as 2024-05-31
    (r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3"),
    (r"^(\d)\.", r"0\1."),
    (r"^(\d\d)\.(\d)\.", r"\1.0\2."),
    (r"^(\d\d)\.(\d\d)\.(\d{4})", r"\3-\2-\1"),
)
WITH_ZONE = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"  # a date alone has no zone
DAY = 86_400_000_000  # microseconds
MOST_CATEGORIES = 10_000  # of a column of text, unless the user keeps it: more of them is an id or prose
MOST_LISTED = 12  # names of columns in a message


class Source(NamedTuple):
    """A table that is read in pieces.

    Parameters
    ----------
    name : str
        Of the file or frame, for messages.
    types : dict
        The names of the columns and their Arrow types.
    n_rows : int
        Counted while fitting where `text` is true.
    read : callable
        Iterates over the given columns from the first row, in pieces.
    place : callable
        Returns where a row is, such as "line 7"; called for messages only, so it may read the file again.
    header : str
        Where the names of the columns are; by default `name`.
    text : bool
        Whether all cells are text, whose content says what they are.
    notes : tuple of str
        What was done to read it, a line each.
    """

    name: str
    types: "dict[str, pa.DataType]"
    n_rows: int
    read: "Callable[[Sequence[str]], Generator[pa.Table, None, None]]"
    place: Callable[[int], str] = "row {}".format
    header: str = ""
    text: bool = False
    notes: tuple[str, ...] = ()


class Feature:
    """A column of a table: `partial_fit` and `finish_fit` infer what its cells are, `encode` turns them into features.

    Parameters
    ----------
    kind : {"numbers", "dates", "categories", "text"}
        "text" may turn out to be any of the others.
    hours : bool
        Of dates: whether they have a time of day.
    most : int
        The largest number of categories.
    """

    def __init__(self, name: str, kind: str, hours: bool = False, most: float = MOST_CATEGORIES) -> None:
        self.name, self.kind, self.hours, self.most = name, kind, hours, most
        self.text = kind == "text"  # as it came; `finish_fit` infers the kind of such columns
        self.texts: Counter[str] = Counter()  # cells that are neither numbers nor dates, in the order of the file
        self.n_numbers = self.n_dates = self.n_missing = 0
        self.sums = np.zeros(1)  # of the numbers, or of the parts of the dates
        self.means: tuple[float, ...] = ()  # fill in missing cells, if any
        self.values: dict[str, float] = {}  # of booleans, and the codes of categories
        self.categories: tuple[str, ...] = ()
        self.fills = False  # whether the last category is that of missing cells

    def partial_fit(self, cells: Any) -> None:
        """Update the counts with some cells, in the first pass."""
        if self.kind == "categories":
            self._count_texts(as_text(cells))
        elif self.kind == "dates":
            self._count_dates(*as_microseconds(cells))
        else:
            values, is_text = numbers_in(cells)
            finite = np.isfinite(values)
            self.n_numbers += int(finite.sum())
            self.n_missing += int((~finite & ~is_text).sum())
            self._add([values[finite]])
            if is_text.any():
                texts = as_text(cells).filter(is_text)
                times, dated = dates_in(texts)
                if dated.any():
                    self._count_dates(times[dated], np.zeros(int(dated.sum()), np.bool_))
                    texts = texts.filter(~dated)
                self._count_texts(texts)

    def _count_texts(self, texts: Any) -> None:
        for pair in texts.value_counts().to_pylist():
            text, count = pair["values"], pair["counts"]
            if text is None or text.lower() in MISSING:
                self.n_missing += count
            else:
                self.texts[text] += count

    def _count_dates(self, times: Ints, missing: Bools) -> None:
        there = times[~missing]
        self.n_dates += there.size
        self.n_missing += int(missing.sum())
        self.hours = self.hours or bool((there % DAY != 0).any())
        self._add(date_parts(there))

    def _add(self, parts: Sequence[Array]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if parts[0].size:
                added = np.array([part.sum() for part in parts])
                # Numbers have one sum, dates four: another size is the first date of the column, or a mixture that is
                # refused.
                self.sums = self.sums + added if self.sums.size == added.size else added

    @property
    def fault(self) -> str:
        """What some cells are and others are not, "number" or "date"; empty if the cells agree."""
        among = "number" if self.n_numbers else "date" if self.n_dates else ""
        mixed = (self.n_numbers and self.n_dates) or any(text.lower() not in MARKS for text in self.texts)
        if self.kind != "text" or not among:
            return ""
        return among if mixed else ""

    def finish_fit(self, source: Source, impute: bool) -> None:
        """Decide after the first pass what the column becomes.

        Raises InvalidInput if missing cells cannot be imputed because there are no others, and at decimal commas.
        """
        if self.kind == "text":
            self._infer_kind(source)
        if self.kind == "categories":
            self.fills = impute and self.n_missing > 0
            self._rank(keys(list(self.texts)))
        elif impute and self.n_missing:
            count = self.n_numbers + self.n_dates
            if not count:
                raise InvalidInput(
                    f"{source.name}: column {self.name!r} has no value at all, so none can be filled in",
                    leave_out(self.name),
                )
            means = (self.sums / count).tolist()
            # Dates without a time of day have no feature for the hour, so no mean of it either.
            self.means = tuple(means if self.hours or len(means) == 1 else [means[0], *means[2:]])

    def _infer_kind(self, source: Source) -> None:
        first = next(iter(self.texts), "")
        lowered = {text.lower() for text in self.texts}
        if self.n_numbers or self.n_dates or not self.texts:
            self.kind = "dates" if self.n_dates else "numbers"
            self.n_missing += self.texts.total()  # marks
        elif "," in first and number_in(first.replace(",", ".")) is not None:
            refuse_text(source, self.name, "number")
        elif lowered <= BOOLEANS.keys():
            self.kind = "numbers"
            self.values = {text: BOOLEANS[text.lower()] for text in self.texts}
            self.n_numbers = self.texts.total()
            self.sums = np.array([float(sum(self.values[text] * count for text, count in self.texts.items()))])
        else:
            self.kind = "categories"

    def _rank(self, sort_keys: Sequence[Any]) -> None:
        """Number the categories in the order of their keys."""
        ranks = {key: rank for rank, key in enumerate(sorted(set(sort_keys)))}
        self.categories = (*map(class_name, ranks), *(["(missing)"] if self.fills else []))
        self.values = {text: ranks[key] for text, key in zip(self.texts, sort_keys, strict=True)}

    def finish_fit_label(self) -> NDArray[Any]:
        """Return the label of every code: sorted numbers if all of them are numbers, else text."""
        sort_keys = keys(list(self.texts))
        labels = np.array(sorted(set(sort_keys)), dtype=object if sort_keys and isinstance(sort_keys[0], str) else None)
        if labels.tolist() != sorted(set(sort_keys)):  # an integer beyond 2^53 beside a fraction would be rounded
            sort_keys = list(self.texts)
            labels = np.array(sorted(sort_keys), dtype=object)
        self._rank(sort_keys)
        return labels

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features that the column becomes."""
        if self.kind == "categories":
            return tuple(f"{self.name}={category}" for category in self.categories)
        parts = ("", ".hour", ".weekday", ".month") if self.hours else ("", ".weekday", ".month")
        names = [self.name + part for part in (parts if self.kind == "dates" else ("",))]
        return (*names, f"{self.name} missing") if self.means else tuple(names)

    @property
    def n_filled(self) -> int:
        """How many of these features may differ from 0 in a row."""
        return 1 if self.kind == "categories" else len(self.names)

    def encode(self, cells: Any) -> tuple[list[NDArray[Any]], Bools]:
        """Return the features, or the codes of categories, and which cells are missing, whether filled in or not."""
        if self.kind == "categories":
            codes = look_up(as_text(cells), self.values, -1).astype(np.int64)
            missing = codes < 0
            return [np.where(missing, len(self.categories) - 1, codes)], missing
        if self.kind == "dates":
            if self.text:
                times, dated = dates_in(as_text(cells))
                missing = ~dated
            else:
                times, missing = as_microseconds(cells)
            parts = date_parts(times)
            if not self.hours:
                del parts[1]
        else:
            parts = [look_up(as_text(cells), self.values, nan) if self.values else numbers_in(cells)[0]]
            missing = ~np.isfinite(parts[0])
        if self.means:
            parts = [np.where(missing, mean, part) for part, mean in zip(parts, self.means, strict=True)]
            parts.append(missing.astype(np.float64))
        return parts, missing


# Columns by name or position, and messages about them


def check_names(place: str, names: Sequence[str]) -> None:
    """Raise InvalidInput if two columns have the same name."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InvalidInput(
            f"{place}: no two columns may have the same name, got {twice!r} more than once", "rename one of them"
        )


def find_label(place: str, names: Sequence[str], label: Column | None) -> str:
    """Return the column with the labels: the one asked for, or the only one called label, class, target or y.

    Raises InvalidInput if there is no such column, or more than one.

    Examples
    --------
    >>> find_label("iris.csv", ["width", "Class"], None), find_label("iris.csv", ["width", "species"], -1)
    ('Class', 'species')
    """
    if not names:
        raise InvalidInput(f"{place}: there must be at least two columns, got none", "give a table with columns")
    if label is not None:
        return find_column(place, names, label, "label")
    called = [name for name in names if name.lower() in LABELS]
    if len(called) == 1:
        return called[0]
    usual = f"{', '.join(LABELS[:-1])} or {LABELS[-1]}"
    problem = f"{listed(called)} may all be the label" if called else f"no column is called {usual}"
    hint = ("pass ", Setting("label", "COLUMN"), f", one of {listed(names)}")
    raise InvalidInput(f"{place}: {problem}", hint, parameter="label")


def find_column(place: str, names: Sequence[str], wanted: Column, option: str) -> str:
    """Return the name of a column that is given by its name or its position; a negative one counts from the end.

    Raises InvalidInput, about the `option` that names it, if there is no such column.
    """
    if str(wanted) in names and not isinstance(wanted, bool):
        return str(wanted)  # the columns of a frame may have numbers for names, in any order
    digits = isinstance(wanted, str) and wanted.removeprefix("-").isdecimal()
    if digits or (isinstance(wanted, Integral) and not isinstance(wanted, bool)):
        position = int(wanted)
        if -len(names) <= position < len(names):
            return names[position]
    allowed = f"one of the columns {listed(names)}"
    raise InvalidInput(
        (f"{place}: ", Setting(option), f" must be {allowed}, got {wanted!r}"),
        did_you_mean(str(wanted), names) or "give its name, or its position from 0",
        parameter=option,
        value=wanted,
        allowed=allowed,
    )


def find_columns(place: str, names: Sequence[str], wanted: Columns, option: str) -> list[str]:
    """Return the names of the columns that an option lists; a single one need not be in a list.

    Raises InvalidInput, about the `option`, if one of them does not exist.
    """
    several = wanted if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
    return [find_column(place, names, one, option) for one in several]


def listed(names: Sequence[str]) -> str:
    """Return names for a message, a few of them: a table may have thousands."""
    more = len(names) - MOST_LISTED
    shown_names = (" ".join(name.split()) for name in names[:MOST_LISTED])
    return ", ".join(shown_names) + (f" and {more} more" if more > 0 else "")


def leave_out(name: str) -> tuple[str | Setting, ...]:
    """Return the hint to drop a column."""
    return "leave it out by ", Setting("drop", repr(name))


def refuse_cell(source: Source, row: int, column: str, problem: str, hint: Text) -> NoReturn:
    """Raise InvalidInput about a cell, with its place."""
    raise InvalidInput(f"{source.name}, {source.place(row)}, column {column!r}: {problem}", hint)


def refuse_text(source: Source, name: str, kind: str) -> NoReturn:
    """Raise InvalidInput about the first cell that is not a "number" or a "date"; the column is read again for it."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    def is_wrong(text: str) -> bool:
        if text.lower() in MISSING | MARKS:
            return False
        return number_or_missing(text) is None if kind == "number" else not dates_in(pa.array([text]))[1][0]

    row, text = 0, ""
    with closing(source.read([name])) as pieces:
        for piece in pieces:
            known, which = distinct(as_text(piece[name]))
            wrong = np.array([*map(is_wrong, known), False])[which]
            if wrong.any():
                row += int(wrong.argmax())
                text = known[which[wrong.argmax()]]
                break
            row += piece.num_rows
    categories = ("to take the column as categories pass ", Setting("categorical", repr(name)), ", or ")
    refuse_cell(source, row, name, f"{text[:40]!r} is not a {kind}", (*categories, *leave_out(name)))


# Cells


def as_text(column: Any) -> Any:
    """Return the cells of an Arrow column as text without spaces around it."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    if pa.types.is_dictionary(column.type):  # by hand: pyarrow cannot cast the dictionaries of polars
        chunks = [chunk.dictionary.cast(pa.large_string()).take(chunk.indices) for chunk in column.chunks]
        return compute.utf8_trim_whitespace(pa.chunked_array(chunks, pa.large_string()))
    return compute.utf8_trim_whitespace(column if pa.types.is_string(column.type) else column.cast(pa.large_string()))


def look_up(texts: Any, values: Mapping[str, float], nothing: float) -> NDArray[Any]:
    """Return the value of every text; `nothing` for one without a value."""
    known, which = distinct(texts)
    return np.array([*(values.get(text, nothing) for text in known), nothing])[which]


def distinct(texts: Any) -> tuple[list[str], Ints]:
    """Return the distinct texts, and the index of each cell among them; a null has the index after the last."""
    coded = texts.combine_chunks().dictionary_encode() if hasattr(texts, "chunks") else texts.dictionary_encode()
    known = coded.dictionary.to_pylist()
    return known, coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)


def numbers_in(column: Any) -> tuple[Array, Bools]:
    """Return the numbers of a column, NaN for missing ones, and which cells are text that is not a number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> values, not_number = numbers_in(pa.chunked_array([["7", " -2e3", "n/a", "1e999", "seven"]]))
    >>> values.tolist(), not_number.tolist()
    ([7.0, -2000.0, nan, inf, nan], [False, False, False, False, True])
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
        microseconds, missing = as_microseconds(column)
        return np.where(missing, nan, microseconds / 1e6), np.zeros(len(column), np.bool_)
    is_text = pa.types.is_string(column.type)
    cells = as_text(column) if is_text else column
    try:
        return _flat(cells.cast(pa.float64(), safe=False)), np.zeros(len(column), np.bool_)
    except pa.ArrowInvalid:
        known, which = distinct(cells)
        numbers = [*map(number_or_missing, known), nan]
        not_number = np.array([number is None for number in numbers])
        return np.array([nan if number is None else number for number in numbers])[which], not_number[which]


def number_or_missing(text: str) -> float | None:
    """Return the number that a text is, NaN if it marks a missing one, else None."""
    if text.lower() in MISSING:
        return nan
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def number_in(text: str) -> float | None:
    """Return the finite number that a text is, exact if it is an integer, else None.

    Examples
    --------
    >>> number_in("17"), number_in("-2.5e3"), number_in("1_000"), number_in("inf")
    (17, -2500.0, None, None)
    """
    for kind in (int, float):
        with suppress(ValueError, OverflowError):  # the latter of an integer that is too large
            value = kind(text)
            return value if isfinite(value) and "_" not in text else None
    return None


def keys(texts: Sequence[str]) -> Sequence[Any]:
    """Return sort keys of categories: numbers if all are numbers, so that 2 comes before 10; else the texts.

    Examples
    --------
    >>> keys(["10", "2.0"]), keys(["10", "ten"]), keys(["01", "1"])
    ([10, 2.0], ['10', 'ten'], ['01', '1'])
    """
    numbers = [None if IDENTIFIER.match(text) else number_in(text) for text in texts]
    exact = [number for number in numbers if number is not None]
    return exact if len(exact) == len(texts) else texts


def dates_in(texts: Any) -> tuple[Ints, Bools]:
    """Return dates and times as microseconds since 1970, and which texts are dates; without a zone they are UTC.

    Examples
    --------
    >>> import pyarrow as pa
    >>> times, dated = dates_in(pa.chunked_array([["1970-01-02", "1970-01-01T02:00+01:00", "2.1.1970", "soon"]]))
    >>> times[dated].tolist(), dated.tolist()
    ([86400000000, 3600000000, 86400000000], [True, True, True, False])
    """
    from pyarrow import compute  # noqa: PLC0415 - slow to import

    dated = _flat(compute.match_substring_regex(texts, DATE).fill_null(False))
    times = np.zeros(len(texts), np.int64)
    if dated.any():
        dates = texts.filter(dated)
        for pattern, form in ISO_FORMS:
            dates = compute.replace_substring_regex(dates, pattern=pattern, replacement=form)
        times[dated], dated[dated] = _parse_iso(dates)  # in this order: the second assignment changes the mask
    return times, dated


def _parse_iso(texts: Any) -> tuple[Ints, Bools]:
    """Return times in microseconds, and which texts could be read; one that cannot is found by halving."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    zoned = compute.match_substring_regex(texts, WITH_ZONE)
    try:
        plain = compute.if_else(zoned, None, texts).cast(pa.timestamp("us")).cast(pa.int64())
        utc = compute.if_else(zoned, texts, None).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    except pa.ArrowInvalid:
        half = len(texts) // 2
        if not half:
            return np.zeros(1, np.int64), np.zeros(1, np.bool_)
        (times, right), (more, more_right) = _parse_iso(texts[:half]), _parse_iso(texts[half:])
        return np.concatenate([times, more]), np.concatenate([right, more_right])
    return _flat(compute.coalesce(plain, utc)), np.ones(len(texts), np.bool_)


def as_microseconds(column: Any) -> tuple[Ints, Bools]:
    """Return an Arrow column of dates, times of day or durations in microseconds, and which are missing."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"))
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_time(kind):
        column = column.cast(pa.time64("us"), safe=False)
    else:
        column = column.cast(pa.duration("us"), safe=False)
    numbers = column.cast(pa.int64())
    return _flat(numbers.fill_null(0)), _flat(numbers.is_null())


def date_parts(microseconds: Ints) -> list[Array]:
    """Return seconds since 1970, the hour of the day with its fraction, the weekday (0 is Monday), and the month.

    Examples
    --------
    >>> [part.tolist() for part in date_parts(np.array([1_700_000_000_000_000]))]
    [[1700000000.0], [22.22222222222222], [1.0], [11.0]]
    """
    days = microseconds // DAY
    months = microseconds.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64) % 12 + 1
    seconds = microseconds // 1_000_000 + microseconds % 1_000_000 / 1e6  # exact but for the last rounding
    return [seconds, (microseconds % DAY) / 3.6e9, ((days + 3) % 7).astype(float), months.astype(float)]


def _flat(column: Any) -> NDArray[Any]:
    """Return a column without nulls as an array that may be written into."""
    array: NDArray[Any] = column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)
    return array if array.flags.writeable else array.copy()
