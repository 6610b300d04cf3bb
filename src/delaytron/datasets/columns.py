"""Columns of a table as numbers: what each is, found once, and then the rows in blocks of any size.

Numbers stay numbers, true and false are 1 and 0. A column of text in which no cell is a number, one that is typed as
categories, and any that the user names becomes one column of 0 and 1 for each of its values.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from delaytron.datasets.base import Block, class_name
from delaytron.datasets.cells import as_text, is_missing, keys, number_in
from delaytron.datasets.encoded import Cells, dense_matrix, empty_matrix, sparse_matrix
from delaytron.datasets.form import encodes_sparse
from delaytron.datasets.headers import Columns, check_header, find_columns
from delaytron.datasets.tables import Source
from delaytron.errors import InvalidInput
from delaytron.matrices import stack_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from delaytron.matrices import Matrix

SURVEY_ROWS = 2**16  # read at a time to find the categories
TRUTH = {"false": 0.0, "true": 1.0}


@dataclass(frozen=True)
class Encoding:
    """What the cells of one column become.

    Parameters
    ----------
    lookup : (texts, values), optional
        The different cells, and what each becomes: a number, the number of a category, a label. None for a column
        that holds numbers already.
    categories : tuple of str
        Their names; none where the column stays one column.
    """

    name: str
    lookup: tuple[Sequence[str], NDArray[Any]] | None = None
    categories: tuple[str, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns that this one becomes."""
        return tuple(f"{self.name}={category}" for category in self.categories) or (self.name,)

    def encode(self, table: "pa.Table", source: Source, first: int) -> NDArray[Any]:
        """Return what the cells of this column become; `first` is the row with which the table begins."""
        column = table[self.name]
        values, missing = _numbers(column) if self.lookup is None else _look_up(column, *self.lookup)
        if missing.any():
            row = first + int(missing.argmax())
            refuse(source, row, self.name, "the cell is empty or no finite number; fill it in or leave the row out")
        return values


class Encoder(NamedTuple):
    """How the rows of a table become numbers."""

    source: Source
    features: tuple[Encoding, ...]
    label: Encoding | None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of X."""
        return tuple(name for encoding in self.features for name in encoding.feature_names)

    @property
    def sparse(self) -> bool:
        """Whether X is made as CSR, because few of its numbers can differ from 0."""
        return encodes_sparse(len(self.features), len(self.feature_names))

    @property
    def wanted(self) -> list[str]:
        """The columns that are read."""
        return [encoding.name for encoding in (*self.features, self.label) if encoding is not None]

    def blocks(self, n_bytes: int) -> Iterator[Block]:
        """Iterate over the rows, about so many bytes of X at a time."""
        width = len(self.features if self.sparse else self.feature_names)
        return self._encode(self.source.read(self.wanted, max(1, n_bytes // (8 * width))))

    def whole(self) -> Block:
        """Return all rows; what the source holds in memory is freed while they are made."""
        blocks = self._encode(self.source.drain(self.wanted))
        if self.sparse:
            parts = list(blocks)
            return Block(stack_rows([part.X for part in parts]), _joined(parts), self.feature_names)
        return self._filled(blocks)

    def _filled(self, blocks: Iterator[Block]) -> Block:
        """Put dense rows into their places: to stack them would take their memory twice."""
        self._check_count(self.source.n_rows >= 0)
        X = empty_matrix(self.source.name, self.source.n_rows, len(self.feature_names))
        parts: list[Block] = []
        first = 0
        for block in blocks:
            last = first + block.X.shape[0]
            X[first:last] = np.asarray(block.X)
            parts.append(block._replace(X=X[:0]))
            first = last
        return Block(X[:first], _joined(parts), self.feature_names)

    def _encode(self, tables: "Iterable[pa.Table]") -> Iterator[Block]:
        names = self.feature_names
        first = 0
        for table in tables:
            self._check_count(first + table.num_rows <= self.source.n_rows)
            if table.num_rows:
                yield Block(self._matrix(table, first), self._labels(table, first), names)
            first += table.num_rows
        if not first:
            raise InvalidInput(f"{self.source.name}: there must be at least one row, got none")
        self._check_count(first == self.source.n_rows)

    def _check_count(self, right: bool) -> None:
        if not right:
            raise InvalidInput(f"{self.source.name}: must have {self.source.n_rows} rows as it says, got more or fewer")

    def _matrix(self, table: "pa.Table", first: int) -> "Matrix":
        widths = [len(encoding.feature_names) for encoding in self.features]
        begins = np.cumsum([0, *widths]).tolist()
        shape = (table.num_rows, begins[-1])
        columns = (
            Cells(begin, bool(encoding.categories), encoding.encode(table, self.source, first))
            for begin, encoding in zip(begins, self.features, strict=False)
        )
        return sparse_matrix(columns, shape, len(widths)) if self.sparse else dense_matrix(columns, shape)

    def _labels(self, table: "pa.Table", first: int) -> NDArray[Any]:
        return np.empty(0) if self.label is None else self.label.encode(table, self.source, first)


def _joined(parts: Sequence[Block]) -> NDArray[Any]:
    """Return the labels of blocks as one array."""
    return parts[0].labels if len(parts) == 1 else np.concatenate([part.labels for part in parts])


def plan_columns(source: Source, label: str | None, categorical: Columns = ()) -> Encoder:
    """Find out what every column of a table becomes; only those that are not plain numbers are read for it."""
    asked = find_columns(source.name, list(source.types), categorical, "categorical")
    one_hot = {name: _is_one_hot(source, name, name in asked or name == label) for name in source.types}
    texts = _texts(source, [name for name, known in one_hot.items() if known is not False])
    features = [_encoding(source, name, known, texts.get(name)) for name, known in one_hot.items() if name != label]
    if not features:
        raise InvalidInput(f"{source.name}: there must be at least one column besides the label, got none")
    plan = Encoder(source, tuple(features), None if label is None else _labels(label, texts[label]))
    check_header(source.name, plan.feature_names)
    return plan


def refuse(source: Source, row: int, column: str, problem: str) -> NoReturn:
    """Say what is wrong with a cell, and where it stands."""
    raise InvalidInput(f"{source.name}, {source.place(row)}, column {column!r}: {problem}")


def _numbers(column: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the numbers of a column, and which are missing."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    values = column.cast(pa.float64(), safe=False).to_numpy()
    return values, ~np.isfinite(values)


def _look_up(column: Any, texts: Sequence[str], values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return what the texts of a column stand for, and which are missing."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    places = compute.index_in(as_text(column), value_set=pa.array(texts, pa.large_string()))
    which = places.fill_null(len(texts)).to_numpy()
    return values.take(which, mode="clip") if texts else which, which == len(texts)


def _is_one_hot(source: Source, name: str, asked: bool) -> bool | None:
    """Whether the values of a column are categories; None where only its cells can tell."""
    from pyarrow import types  # noqa: PLC0415 - slow to import

    kind = source.types[name]
    if any(is_a(kind) for is_a in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)):
        return asked
    if any(is_a(kind) for is_a in (types.is_string, types.is_large_string, types.is_string_view, types.is_null)):
        return True if asked else None
    if types.is_dictionary(kind) or (asked and types.is_temporal(kind)):
        return True
    if types.is_temporal(kind):
        refuse(source, 0, name, f"dates and times must be written as numbers, e.g. days since the first; {_or(name)}")
    return refuse(source, 0, name, f"must hold numbers, text or true and false, not {kind}; leave the column out")


def _texts(source: Source, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the different cells of these columns in the order in which they come, without the missing ones."""
    found: dict[str, dict[str | None, None]] = {name: {} for name in names}
    for table in source.read(names, SURVEY_ROWS) if names else ():
        for name, seen in found.items():
            seen.update(dict.fromkeys(as_text(table[name]).unique().to_pylist()))
    return {name: [text for text in seen if text is not None and not is_missing(text)] for name, seen in found.items()}


def _encoding(source: Source, name: str, one_hot: bool | None, texts: list[str] | None) -> Encoding:
    if texts is None:
        return Encoding(name)
    if not one_hot:
        numbers = [number_in(text) for text in texts]
        if None not in numbers:
            return Encoding(name, (texts, np.array(numbers, np.float64)))
        if any(number is not None for number in numbers) or _with_comma(texts[0]):
            _refuse_mixed(source, name, texts[numbers.index(None)])
        if TRUTH.keys() >= {text.lower() for text in texts}:
            return Encoding(name, (texts, np.array([TRUTH[text.lower()] for text in texts])))
    meant = keys(texts)
    ranks = {key: rank for rank, key in enumerate(sorted(set(meant)))}
    return Encoding(name, (texts, np.array([ranks[key] for key in meant])), tuple(map(class_name, ranks)))


def _labels(name: str, texts: list[str]) -> Encoding:
    meant = keys(texts)
    values = np.array(texts if meant is texts else meant, dtype=object if meant is texts else None)
    exact = values.tolist() == list(meant)  # integers beyond 2^53 beside fractions are not
    return Encoding(name, (texts, values if exact else np.array(texts, dtype=object)))


def _with_comma(text: str) -> bool:
    """Whether a text would be a number if its comma were a point."""
    return "," in text and number_in(text.replace(",", ".")) is not None


def _refuse_mixed(source: Source, name: str, text: str) -> NoReturn:
    row = 0
    for table in source.read([name], SURVEY_ROWS):
        place = as_text(table[name]).index(text).as_py()
        if place >= 0:
            row += place
            break
        row += table.num_rows
    refuse(source, row, name, f"{text[:40]!r} is not a number; {_or(name)}")


def _or(name: str) -> str:
    return f"to take the column as categories pass categorical=[{name!r}] (--categorical {name})"
