"""Columns of a table as numbers: what each is, found once, and then the rows in blocks of any size.

Numbers stay numbers, true and false are 1 and 0, dates become their parts. A column of text in which no cell is a
number, one that is typed as categories, and any that the user names becomes a column of 0 and 1 for each of its values.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_choice
from delaytron.datasets.base import Block
from delaytron.datasets.encoded import Cells, dense_matrix, empty_matrix, sparse_matrix
from delaytron.datasets.encodings import Encoding
from delaytron.datasets.form import encodes_sparse
from delaytron.datasets.headers import Column, Columns, check_header, find_columns
from delaytron.datasets.kinds import choose_encoding, label_encoding, refuse_cell, wish_for
from delaytron.datasets.notes import column_notes, label_notes
from delaytron.datasets.survey import survey_columns
from delaytron.datasets.tables import Source
from delaytron.errors import InvalidInput
from delaytron.matrices import stack_rows
from delaytron.records import Bools

if TYPE_CHECKING:
    import pyarrow as pa

    from delaytron.matrices import Matrix

MISSING = ("error", "drop", "impute")
EMPTY = "the cell is empty or no finite number; fill it in, or pass missing='drop' or 'impute' (--missing)"


class TableOptions(TypedDict, total=False):
    """What a user may ask of any table; see `files.load_file`."""

    label: Column | None
    categorical: Columns
    drop: Columns
    keep: Columns
    missing: str


class Encoder(NamedTuple):
    """How the rows of a table become numbers.

    Parameters
    ----------
    missing : {"error", "drop", "impute"}
        What becomes of a row that has no value in a column for which there is no mean.
    notes : tuple of str
        What was found and decided, a line each.
    """

    source: Source
    features: tuple[Encoding, ...]
    label: Encoding | None
    missing: str = "error"
    notes: tuple[str, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of X."""
        return tuple(name for encoding in self.features for name in encoding.feature_names)

    @property
    def n_filled(self) -> int:
        """How many numbers of a row may differ from 0."""
        return sum(encoding.n_filled for encoding in self.features)

    @property
    def sparse(self) -> bool:
        """Whether X is made as CSR, because few of its numbers can differ from 0."""
        return encodes_sparse(self.n_filled, len(self.feature_names))

    @property
    def wanted(self) -> list[str]:
        """The columns that are read."""
        return [encoding.name for encoding in (*self.features, self.label) if encoding is not None]

    def blocks(self, n_bytes: int) -> Iterator[Block]:
        """Iterate over the rows, about so many bytes of X at a time."""
        width = self.n_filled if self.sparse else len(self.feature_names)
        return self._encode(self.source.read(self.wanted, max(1, n_bytes // (8 * width))))

    def whole(self) -> Block:
        """Return all rows; what the source holds in memory is freed while they are made."""
        blocks = self._encode(self.source.drain(self.wanted))
        if self.sparse:
            parts = list(blocks)
            return _joined(parts, stack_rows([part.X for part in parts]))
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
        return _joined(parts, X[:first])

    def _encode(self, tables: Any) -> Iterator[Block]:
        first = 0
        n_left = 0
        with closing(tables):  # a file with an error in it is closed now, not when its error is forgotten
            for table in tables:
                self._check_count(first + table.num_rows <= self.source.n_rows)
                if table.num_rows:
                    block = self._block(table, first)
                    n_left += block.X.shape[0]
                    yield block
                first += table.num_rows
        self._check_count(first == self.source.n_rows)
        if not n_left:
            why = f"all {first:,} rows have a missing value" if first else "got none"
            raise InvalidInput(f"{self.source.name}: there must be at least one row, {why}")

    def _check_count(self, right: bool) -> None:
        if not right:
            raise InvalidInput(f"{self.source.name}: must have {self.source.n_rows} rows as it says, got more or fewer")

    def _block(self, table: "pa.Table", first: int) -> Block:
        """Encode some rows, and leave out those that have no value where one is needed."""
        lost = np.zeros(table.num_rows, np.bool_)
        columns: list[Cells] = []
        place = 0
        n_told = 0
        for encoding in self.features:
            encoded = encoding.encode(table[encoding.name])
            self._note_missing(encoding.name, encoded.missing, lost, first)
            columns += [Cells(place + i, encoding.one_hot, part) for i, part in enumerate(encoded.parts)]
            place += len(encoding.feature_names)
            n_told += encoded.n_filled
        labels: NDArray[Any] = np.empty(0)
        if self.label is not None:
            (labels,), missing, _ = self.label.encode(table[self.label.name])
            self._note_missing(self.label.name, missing, lost, first)
        return self._without(lost, columns, labels)._replace(filled=n_told)

    def _note_missing(self, name: str, missing: Bools, lost: Bools, first: int) -> None:
        if missing.any() and self.missing == "error":
            refuse_cell(self.source, first + int(missing.argmax()), name, EMPTY)
        lost |= missing

    def _without(self, lost: Bools, columns: list[Cells], labels: NDArray[Any]) -> Block:
        n_lost = int(lost.sum())
        if n_lost:
            columns = [cells._replace(cells=cells.cells[~lost]) for cells in columns]
            labels = labels[~lost] if self.label is not None else labels
        shape = (lost.size - n_lost, len(self.feature_names))
        X = sparse_matrix(columns, shape, len(columns)) if self.sparse else dense_matrix(columns, shape)
        return Block(X, labels, self.feature_names, self.notes, n_lost)


def _joined(parts: Sequence[Block], X: "Matrix") -> Block:
    """Return blocks as one, with this X."""
    labels = parts[0].labels if len(parts) == 1 else np.concatenate([part.labels for part in parts])
    dropped = sum(part.dropped for part in parts)
    return parts[0]._replace(X=X, labels=labels, dropped=dropped, filled=sum(part.filled for part in parts))


def plan_columns(
    source: Source,
    label: str | None,
    categorical: Columns = (),
    drop: Columns = (),
    keep: Columns = (),
    missing: str = "error",
) -> Encoder:
    """Find out what every column of a table becomes; only those that are not plain numbers are read for it."""
    names = list(source.types)
    one_hot = find_columns(source.name, names, categorical, "categorical")
    kept = [*find_columns(source.name, names, keep, "keep"), *one_hot]
    check_choice("missing", missing, MISSING)
    left = _left(source, names, label, find_columns(source.name, names, drop, "drop"))
    impute = missing == "impute"
    wishes = [wish_for(source, name, name == label or name in one_hot, name == label or name in kept) for name in left]
    found, n_rows = survey_columns(source, [wish for wish in wishes if source.is_text or impute or wish.must_read])
    if source.is_text:
        source = source._replace(n_rows=n_rows)
    features = tuple(
        choose_encoding(source, wish, found.get(wish.name), impute) for wish in wishes if wish.name != label
    )
    labels = None if label is None else label_encoding(label, list(found[label].texts))
    notes = column_notes([name for name in names if name not in left], features, found, set(kept), source)
    notes += () if label is None else label_notes(found[label])
    plan = Encoder(source, features, labels, missing, notes)
    check_header(source.name, plan.feature_names)
    return plan


def _left(source: Source, names: Sequence[str], label: str | None, dropped: Sequence[str]) -> list[str]:
    if label in dropped:
        raise InvalidInput(f"{source.name}: column {label!r} is the label, so it cannot be dropped; pass another label")
    left = [name for name in names if name not in dropped]
    if not [name for name in left if name != label]:
        raise InvalidInput(f"{source.name}: there must be at least one column besides the label, got none")
    return left
