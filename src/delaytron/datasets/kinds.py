"""What a column is: numbers, dates, categories; told by its type, by the user, or by what was found in it."""

import re
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from delaytron.datasets.base import class_name
from delaytron.datasets.cells import MARKS, as_text, keys, number_in
from delaytron.datasets.dates import parse_dates
from delaytron.datasets.encodings import NO_CATEGORY, Categories, Dates, Encoding, Numbers, Values
from delaytron.datasets.ids import is_called_id
from delaytron.datasets.survey import SURVEY_ROWS, ColumnSurvey, Wish
from delaytron.datasets.tables import Source
from delaytron.errors import InvalidInput

TRUTH = {"false": 0.0, "true": 1.0}
DATED = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")  # how an ISO date begins


def wish_for(source: Source, name: str, one_hot: bool, keep: bool) -> Wish:
    """Return what the type of a column and the user tell of it."""
    from pyarrow import types  # noqa: PLC0415 - slow to import

    kind = source.types[name]
    if any(is_a(kind) for is_a in (types.is_string, types.is_large_string, types.is_string_view, types.is_null)):
        return Wish(name, "categories" if one_hot else "text", keep, must_read=True)
    if any(is_a(kind) for is_a in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)):
        counts = types.is_integer(kind) and is_called_id(name)
        return Wish(name, "categories" if one_hot else "numbers", keep, must_read=one_hot or counts)
    if types.is_dictionary(kind) or (one_hot and types.is_temporal(kind)):
        return Wish(name, "categories", keep, must_read=True)
    if types.is_time(kind) or types.is_duration(kind):
        return Wish(name, "numbers", keep)
    if types.is_date(kind) or types.is_timestamp(kind):
        return Wish(name, "dates", keep, hours=types.is_timestamp(kind))
    return refuse_cell(
        source, 0, name, f"must hold numbers, text, dates or true and false, not {kind}; {_or_drop(name)}"
    )


def choose_encoding(source: Source, wish: Wish, found: ColumnSurvey | None, impute: bool) -> Encoding:
    """Return what a column becomes."""
    if found is None:
        return Dates(wish.name, wish.hours) if wish.kind == "dates" else Numbers(wish.name)
    if wish.kind == "categories":
        return _categories(wish.name, list(found.texts), impute and found.n_missing > 0)
    if wish.kind == "text":
        return _of_text(source, found, impute)
    found.check_id(source)
    means = _means(source, found, impute)
    return Dates(wish.name, wish.hours, means) if wish.kind == "dates" else Numbers(wish.name, means)


def _of_text(source: Source, found: ColumnSurvey, impute: bool) -> Encoding:
    """Return what a column of text becomes: numbers, dates, truth or categories."""
    name = found.wish.name
    texts = list(found.texts)
    if found.n_numbers or found.n_dates:
        odd = [text for text in texts if text.lower() not in MARKS]
        if odd:
            _refuse_mixed(source, name, odd[0], "number" if found.n_numbers else "date")
        found.check_id(source)
        means = _means(source, found, impute)
        return Numbers(name, means) if found.n_numbers else Dates(name, found.hours, means)
    if texts and _with_comma(texts[0]):
        _refuse_mixed(source, name, texts[0], "number")
    _check_dates(source, name, texts)
    if texts and TRUTH.keys() >= {text.lower() for text in texts}:
        values = np.array([TRUTH[text.lower()] for text in texts])
        share = (found.n_true / found.n_cells,) if impute and found.n_missing else ()
        return Values(name, (texts, values), share)
    found.check_id(source)
    if not texts:
        return Numbers(name, _means(source, found, impute))
    return _categories(name, texts, impute and found.n_missing > 0)


def _means(source: Source, found: ColumnSurvey, impute: bool) -> tuple[float, ...]:
    """Return the means where they stand in for missing cells."""
    if not impute or not (found.n_missing or found.texts):
        return ()
    means = found.means(found.hours or found.wish.hours)
    if not means:
        name = found.wish.name
        raise InvalidInput(
            f"{source.name}: column {name!r} has no value at all, so nothing can be filled in; {_or_drop(name)}"
        )
    return means


def _categories(name: str, texts: list[str], fill: bool) -> Categories:
    meant = keys(texts)
    ranks = {key: rank for rank, key in enumerate(sorted(set(meant)))}
    names = (*map(class_name, ranks), *([NO_CATEGORY] if fill else []))
    return Categories(name, names, (texts, np.array([ranks[key] for key in meant], np.int64)), fill)


def label_encoding(name: str, texts: list[str]) -> Values:
    """Return what labels become: numbers if all are, else as they are written."""
    meant = keys(texts)
    values = np.array(texts if meant is texts else meant, dtype=object if meant is texts else None)
    exact = values.tolist() == list(meant)  # integers beyond 2^53 beside fractions are not
    return Values(name, (texts, values if exact else np.array(texts, dtype=object)))


def _with_comma(text: str) -> bool:
    """Whether a text would be a number if its comma were a point."""
    return "," in text and number_in(text.replace(",", ".")) is not None


def _check_dates(source: Source, name: str, texts: Sequence[str]) -> None:
    """Raise if some texts are dates and others are not."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    dated = [text for text in texts if DATED.match(text)]
    if not dated or parse_dates(pa.array(dated[:1])) is None:
        return
    other = next((text for text in texts if not DATED.match(text) and text.lower() not in MARKS), None)
    wrong = other or next((text for text in dated if parse_dates(pa.array([text])) is None), dated[0])
    _refuse_mixed(source, name, wrong, "date")


def _refuse_mixed(source: Source, name: str, text: str, kind: str) -> NoReturn:
    row = 0
    for table in source.read([name], SURVEY_ROWS):
        place = as_text(table[name]).index(text).as_py()
        if place >= 0:
            row += place
            break
        row += table.num_rows
    categories = f"to take the column as categories pass categorical=[{name!r}] (--categorical {name})"
    refuse_cell(source, row, name, f"{text[:40]!r} is not a {kind}; {categories}, or {_or_drop(name)}")


def refuse_cell(source: Source, row: int, column: str, problem: str) -> NoReturn:
    """Say what is wrong with a cell, and where it stands."""
    raise InvalidInput(f"{source.name}, {source.place(row)}, column {column!r}: {problem}")


def _or_drop(name: str) -> str:
    return f"leave it out by drop=[{name!r}] (--drop {name})"
