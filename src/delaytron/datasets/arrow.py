"""Tables of columns: Parquet and Feather files, and frames of pandas, polars or anything else that speaks Arrow."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delaytron.datasets.base import Block
from delaytron.datasets.columns import Encoder, Source, plan_columns, table_source
from delaytron.datasets.headers import Column, Columns, check_header, find_label
from delaytron.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = "a Parquet file"
BLOCK_BYTES = 4 * 2**20  # of the features in one block
READ_BYTES = 2**18  # of a column at a time: by default pyarrow reads all of the file ahead


def read_parquet(path: Path, label: Column | None = None, categorical: Columns = ()) -> Block:
    """Read a whole Parquet file."""
    return _only(_plan(_parquet_source(path), label, categorical))


def open_parquet(path: Path, label: Column | None = None, categorical: Columns = ()) -> Callable[[], Iterator[Block]]:
    """Return what goes through a Parquet file, some megabytes at a time; columns of text are read once before."""
    return partial(_plan(_parquet_source(path), label, categorical).blocks, BLOCK_BYTES)


def read_feather(path: Path, label: Column | None = None, categorical: Columns = ()) -> Block:
    """Read a whole Feather or Arrow file."""
    with _reading(str(path), "a Feather file"):
        table = _read_ipc(path)
    return _only(_plan(_table_source(str(path), table), label, categorical))


def read_frame(frame: Any, label: Column | None = None, categorical: Columns = ()) -> Block:
    """Read a frame with the labels in one of its columns."""
    return _only(_plan(_frame_source(frame), label, categorical))


def read_features(frame: Any) -> Block:
    """Read a frame that holds features only; the block has no labels."""
    return _only(plan_columns(_frame_source(frame), None))


def _plan(source: Source, label: Column | None, categorical: Columns) -> Encoder:
    return plan_columns(source, find_label(source.name, list(source.types), label), categorical)


def _only(plan: Encoder) -> Block:
    (block,) = plan.blocks()
    return block


def _parquet_source(path: Path) -> Source:
    from pyarrow.parquet import read_schema  # noqa: PLC0415 - slow to import

    with _reading(str(path), PARQUET):
        schema = read_schema(path)
    return Source(str(path), _types(str(path), schema), partial(_read_parquet, path), "row {}".format)


def _read_parquet(path: Path, names: Sequence[str], n_rows: int | None) -> "Iterator[pa.Table]":
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    with _reading(str(path), PARQUET), ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False) as file:
        if n_rows is None:
            yield file.read(list(names))
            return
        for batch in file.iter_batches(n_rows, columns=list(names)):
            yield pa.Table.from_batches([batch])


def _frame_source(frame: Any) -> Source:
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    with _reading("the frame", "a table", TypeError, ValueError):
        table = pa.table(frame)
    return _table_source("the frame", table)


def _table_source(name: str, table: "pa.Table") -> Source:
    return table_source(name, table.select(list(_types(name, table.schema))), "row {}".format)


def _types(name: str, schema: "pa.Schema") -> "dict[str, pa.DataType]":
    """Return the columns; the index of a pandas frame is not one of them."""
    check_header(name, schema.names)
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {column: kind for column, kind in zip(schema.names, schema.types, strict=True) if column not in index}


def _read_ipc(path: Path) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import ipc  # noqa: PLC0415

    with pa.memory_map(str(path)) as file:
        try:
            return ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
            return ipc.open_stream(file).read_all()


@contextmanager
def _reading(name: str, kind: str, *problems: type[Exception]) -> Iterator[None]:
    """Say of something that cannot be read which it is."""
    from pyarrow.lib import ArrowException  # noqa: PLC0415 - slow to import

    try:
        yield
    except InvalidInput:
        raise
    except (ArrowException, OSError, *problems) as problem:
        said = " ".join(map(str, problem.args))
        raise InvalidInput(f"{name} cannot be read as {kind}: {said}") from None
