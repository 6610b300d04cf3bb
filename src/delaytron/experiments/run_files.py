"""The file of one run: mistakes as Parquet, with a digest of all its bytes, and every number checked on reading."""

import re
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.experiments.runs import RunSpec
from delaytron.extras import needs
from delaytron.records import Ints
from delaytron.simulation.results import Result
from delaytron.simulation.scenarios import checkpoints

if TYPE_CHECKING:
    import pyarrow as pa

CONTENT = b"delaytron"  # under this key a file says what was played
DIGEST = b"digest"  # under this key stands its digest
KEYS_BEFORE_DIGESTS = {CONTENT}  # of files that were written without one
COLUMNS = ("run", "round", "mistakes", "greedy_mistakes")
NO_DIGEST = b"sha256:" + b"0" * 64  # in the place of the digest while it is computed
WITH_DIGEST = re.compile(rb"sha256:[0-9a-f]{64}")


def encode_run(run: RunSpec, mistakes: Ints) -> bytes:
    """Return the content of the file that keeps the (runs, checkpoints, 2) mistakes of a run."""
    needs("pyarrow")
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - slow to import

    table = _table(run, mistakes)
    file = BytesIO()
    with ParquetWriter(file, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({CONTENT: run.content, DIGEST: NO_DIGEST})
    before, _, after = file.getvalue().rpartition(NO_DIGEST)
    return before + _digest(before, after) + after


def decode_run(run: RunSpec, content: bytes) -> Result:
    """Return what a file says about a run; raise if it is damaged or about another run."""
    _check_digest(content)
    table = _read_table(run, content)
    columns = {name: table[name].to_numpy().reshape(run.runs, -1) for name in COLUMNS}
    rounds = checkpoints(run.rounds, run.checkpoints)
    if (columns["run"] != np.arange(run.runs)[:, None]).any() or (columns["round"] != rounds).any():
        raise InvalidInput("the numbers of its runs or rounds are not those of the run")
    mistakes = np.stack([columns["mistakes"], columns["greedy_mistakes"]], axis=2)
    _check_counts(mistakes, rounds)
    return Result(
        learner=run.learner,
        dataset=run.data["name"],
        delay=run.delay,
        rounds=rounds,
        parameters=[run.parameters] * run.runs,
        run=np.arange(run.runs),
        mistakes=mistakes,
    )


def _table(run: RunSpec, mistakes: Ints) -> "pa.Table":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    rounds = checkpoints(run.rounds, run.checkpoints)
    columns = {
        "run": np.repeat(np.arange(run.runs), rounds.size),
        "round": np.tile(rounds, run.runs),
        "mistakes": mistakes[:, :, 0].ravel(),
        "greedy_mistakes": mistakes[:, :, 1].ravel(),
    }
    return pa.table(columns)


def _digest(before: bytes, after: bytes) -> bytes:
    """Return the digest of a file, which stands between these two parts of it."""
    return b"sha256:" + sha256(before + NO_DIGEST + after).hexdigest().encode()


def _check_digest(content: bytes) -> None:
    """Raise if a file has a digest, and another one than it had when it was written."""
    found = list(WITH_DIGEST.finditer(content))
    if found and _digest(content[: found[-1].start()], content[found[-1].end() :]) != found[-1].group():
        raise InvalidInput("its digest is not that of its content")


def _read_table(run: RunSpec, content: bytes) -> "pa.Table":
    """Read the Parquet file, no more of it than it should have."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    try:
        file = ParquetFile(pa.BufferReader(content))
        _check_form(run, file)
        table = file.read()
        table.validate(full=True)
    except InvalidInput:
        raise
    except Exception as problem:  # pyarrow has many for what a damaged file may lead to
        raise InvalidInput(f"it cannot be read: {' '.join(str(problem).split())}") from None
    if any(column.null_count for column in table.columns):
        raise InvalidInput("counts are missing in it")
    return table


def _check_form(run: RunSpec, file: "pa.parquet.ParquetFile") -> None:
    """Raise if a file is not about this run, or has other columns or rows than it should have."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    written = {key: value for key, value in (file.metadata.metadata or {}).items() if key != b"ARROW:schema"}
    if written.get(CONTENT) != run.content.encode():
        raise InvalidInput("it holds another run than its name says")
    if written.keys() != KEYS_BEFORE_DIGESTS and not WITH_DIGEST.fullmatch(written.get(DIGEST, b"")):
        raise InvalidInput("its digest is damaged")
    columns = [(field.name, field.type) for field in file.schema_arrow]
    if columns != [(name, pa.int64()) for name in COLUMNS]:
        raise InvalidInput(f"it must have the columns {', '.join(COLUMNS)}, all of integers")
    n_rows = run.runs * checkpoints(run.rounds, run.checkpoints).size
    if file.metadata.num_rows != n_rows:
        raise InvalidInput(f"it must have {n_rows} rows, got {file.metadata.num_rows}")


def _check_counts(mistakes: Ints, rounds: Ints) -> None:
    """Raise if mistakes become fewer, or more than there are rounds between two checkpoints."""
    added = np.diff(mistakes, axis=1, prepend=0)
    possible = np.diff(rounds, prepend=0)[:, None]
    if ((added < 0) | (added > possible)).any():
        raise InvalidInput("its counts of mistakes are impossible: negative, falling, or above the rounds")
