"""Tables that can be read again and again: held in memory piece by piece, or left in their file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from delaytron.extras import needs

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 32 * 2**20  # of the numbers that a piece becomes: few pieces, none of them large


class Source(NamedTuple):
    """A table that can be read again and again, and a last time."""

    name: str  # in errors
    types: "dict[str, pa.DataType]"  # of the columns
    n_rows: int
    read: "Callable[[Sequence[str], int | None], Iterable[pa.Table]]"  # these columns, at most so many rows at a time
    drain: "Callable[[Sequence[str]], Iterable[pa.Table]]"  # these columns, and free the memory on the way
    place: Callable[[int], str]  # says where a row stands
    is_text: bool = False  # all cells, which are to be read to know what they are, and how many
    notes: tuple[str, ...] = ()  # what was done to read it, a line each


def table_source(name: str, table: "pa.Table", place: Callable[[int], str]) -> Source:
    """Return a table in memory as a source; the caller keeps no reference to it, so that it can be freed."""
    held = _Held(table)
    types = dict(zip(table.column_names, table.schema.types, strict=True))
    return Source(name, types, table.num_rows, held.read, held.drain, place)


def cut_rows(table: "pa.Table", most: int | None) -> "Iterator[pa.Table]":
    """Cut a table into pieces of at most so many rows, without copying it."""
    step = most or max(1, table.num_rows)
    for first in range(0, table.num_rows, step):
        yield table.slice(first, step)


def rows_per_piece(n_columns: int) -> int:
    """Return how many rows of so many numbers to read at a time."""
    return max(1, PIECE_BYTES // (8 * max(1, n_columns)))


class _Held:
    """A table in pieces of neighbouring rows."""

    def __init__(self, table: "pa.Table") -> None:
        self.pieces = list(_cut(table))

    def read(self, names: Sequence[str], _: int | None) -> "Iterator[pa.Table]":
        for piece in self.pieces:
            yield piece.select(list(names))

    def drain(self, names: Sequence[str]) -> "Iterator[pa.Table]":
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        while self.pieces:
            yield self.pieces.pop(0).select(list(names))
            pa.default_memory_pool().release_unused()  # a piece before it; by itself it would keep the memory


def _cut(table: "pa.Table") -> "Iterator[pa.Table]":
    """Put neighbouring batches together, without copying them, until a piece has its size."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    most = rows_per_piece(table.num_columns)
    together: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in table.to_batches(max_chunksize=most):
        if together and n_rows + batch.num_rows > most:
            yield pa.Table.from_batches(together)
            together, n_rows = [], 0
        together.append(batch)
        n_rows += batch.num_rows
    if together:
        yield pa.Table.from_batches(together)
