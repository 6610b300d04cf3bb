"""Logs as Parquet files, written and read some thousand rows at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.atomic import replacing
from delaytron.logs.log import Log, check_log
from delaytron.logs.schema import EXPECTED

ROWS = 10_000  # of a row group
DAMAGED = (OSError, ValueError, TypeError, LookupError, RuntimeError, MemoryError)  # beside what pyarrow calls its own


def write_parquet(log: Log, path: str | Path) -> None:
    """Write a log to a Parquet file; after an error the file is as it was.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> log = dt.logs.from_arrays(features=[[1.0]], labels=[0], probs=[0.5], rewards=[1], classes=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dt.logs.write_parquet(log, Path(folder, "log.parquet"))
    ...     dt.logs.read_parquet(Path(folder, "log.parquet")).table == log.table
    True
    """
    check_log(log)
    needs("pyarrow")
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - slow to import

    with replacing(Path(path)) as file, ParquetWriter(file, log.table.schema) as writer:
        writer.write_table(log.table, row_group_size=ROWS)


def read_parquet(path: str | Path) -> Log:
    """Read a log that this package wrote, or any Parquet file of the schema in docs/howto/logs.md.

    Examples
    --------
    >>> read_parquet("nowhere.parquet")
    Traceback (most recent call last):
    delaytron.errors.InvalidInput: there is no file 'nowhere.parquet'; check the name
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    if not Path(path).is_file():
        raise InvalidInput(f"there is no file {str(path)!r}; check the name")
    with _reading(Path(path)), ParquetFile(Path(path), pre_buffer=False) as file:
        table = pa.Table.from_batches(file.iter_batches(ROWS), file.schema_arrow)
        table.validate(full=True)  # a damaged file must not reach compiled code
        return Log(table)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say in one line which file it is that cannot be read."""
    needs("pyarrow")
    from pyarrow.lib import ArrowException  # noqa: PLC0415 - slow to import

    try:
        yield
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {problem}") from None
    except (ArrowException, *DAMAGED) as problem:
        said = " ".join(" ".join(map(str, problem.args)).split())
        raise InvalidInput(f"{path} cannot be read as a log: {said.rstrip('.')}; {EXPECTED}") from None
