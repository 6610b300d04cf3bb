"""Tables of columns: Parquet and Feather files, and frames of pandas, polars or anything else that speaks Arrow."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from delaytron.datasets.base import Block
from delaytron.datasets.columns import Encoder, TableOptions, plan_columns
from delaytron.datasets.headers import check_header, find_label
from delaytron.datasets.tables import Source, rows_per_piece, table_source
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.compressed import check_ratio

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = "a Parquet file"
TABLE = "a table"
DAMAGED = (OSError, ValueError, TypeError, LookupError, RuntimeError, MemoryError)  # beside what pyarrow calls its own
BLOCK_BYTES = 4 * 2**20  # of the features in one block
READ_BYTES = 2**18  # of a column at a time: by default pyarrow reads all of the file ahead


def read_parquet(path: Path, **options: Unpack[TableOptions]) -> Block:
    """Read a whole Parquet file, unless it would take far more memory than it has bytes."""
    source = _parquet_source(path)
    check_ratio(path, 8 * source.n_rows * len(source.types), path.stat().st_size, "read it in blocks (--stream)")
    return _plan(source, options).whole()


def open_parquet(path: Path, **options: Unpack[TableOptions]) -> Callable[[], Iterator[Block]]:
    """Return what goes through a Parquet file, some megabytes at a time; columns of text are read once before."""
    return partial(_plan(_parquet_source(path), options).blocks, BLOCK_BYTES)


def read_feather(path: Path, **options: Unpack[TableOptions]) -> Block:
    """Read a whole Feather or Arrow file."""
    with _reading(str(path), "a Feather file"):
        source = _table_source(str(path), _validated(_read_ipc(path)))
    return _plan(source, options).whole()


def read_frame(frame: Any, **options: Unpack[TableOptions]) -> Block:
    """Read a frame with the labels in one of its columns."""
    return _plan(_frame_source(frame), options).whole()


def read_features(frame: Any) -> Block:
    """Read a frame that holds features only; the block has no labels."""
    return plan_columns(_frame_source(frame), None).whole()


def _plan(source: Source, options: TableOptions) -> Encoder:
    label = find_label(source.name, list(source.types), options.get("label"))
    rest: Any = {name: value for name, value in options.items() if name != "label"}
    return plan_columns(source, label, **rest)


def _parquet_source(path: Path) -> Source:
    needs("pyarrow")
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - slow to import

    with _reading(str(path), PARQUET), ParquetFile(path) as file:
        types = _types(str(path), file.schema_arrow)
        n_rows = file.metadata.num_rows
        unpacked = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
    check_ratio(path, unpacked, path.stat().st_size, "write it anew in smaller pieces if you trust it")
    read = partial(_read_parquet, path)
    return Source(str(path), types, n_rows, read, read, "row {}".format)


def _read_parquet(path: Path, names: Sequence[str], n_rows: int | None = None) -> "Iterator[pa.Table]":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    at_a_time = n_rows or rows_per_piece(len(names))
    with _reading(str(path), PARQUET), ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False) as file:
        for batch in file.iter_batches(at_a_time, columns=list(names)):
            yield _validated(pa.Table.from_batches([batch]))


def _frame_source(frame: Any) -> Source:
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    with _reading("the frame", TABLE):
        return _table_source("the frame", pa.table(frame))


def _table_source(name: str, table: "pa.Table") -> Source:
    return table_source(name, table.select(list(_types(name, table.schema))), "row {}".format)


def _types(name: str, schema: "pa.Schema") -> "dict[str, pa.DataType]":
    """Return the columns; the index of a pandas frame is not one of them."""
    check_header(name, schema.names)
    index = _index_columns(schema)
    return {column: kind for column, kind in zip(schema.names, schema.types, strict=True) if column not in index}


def _index_columns(schema: "pa.Schema") -> list[Any]:
    about = schema.pandas_metadata or {}
    index = about.get("index_columns", []) if isinstance(about, dict) else None
    if not isinstance(index, list):
        raise ValueError("what pandas noted of its index cannot be understood")  # noqa: TRY004 - the file is wrong
    return index


def _read_ipc(path: Path) -> "pa.Table":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import ipc  # noqa: PLC0415

    with pa.memory_map(str(path)) as file:
        try:
            return ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
            return ipc.open_stream(file).read_all()


def _validated(table: "pa.Table") -> "pa.Table":
    """Return a table whose offsets, indices and letters are all as they should be: others end the process."""
    table.validate(full=True)
    return table


@contextmanager
def _reading(name: str, kind: str) -> Iterator[None]:
    """Say of something that cannot be read which it is, in one line."""
    needs("pyarrow")
    from pyarrow.lib import ArrowException  # noqa: PLC0415 - slow to import

    try:
        yield
    except InvalidInput:
        raise
    except (ArrowException, *DAMAGED) as problem:
        said = " ".join(" ".join(map(str, problem.args)).split())
        advice = "convert or drop the column" if kind == TABLE else "write it again, or pass another format= (--format)"
        raise InvalidInput(f"{name} cannot be read as {kind}: {said.rstrip('.')}; {advice}") from None
