"""The results folder: one Parquet file for each run, written whole or not at all; what is there is not played again."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from delaytron.errors import InvalidInput
from delaytron.experiments.runs import RunSpec
from delaytron.files.atomic import replace_file
from delaytron.records import Ints
from delaytron.simulation.results import Result
from delaytron.simulation.scenarios import checkpoints

if TYPE_CHECKING:
    import pyarrow as pa

CONTENT = b"delaytron"  # under this key a file says what was played


class Timing(msgspec.Struct, frozen=True):
    """What it took to play runs together: seconds by the clock, of which others on the machine had their share.

    Parameters
    ----------
    side_by_side : int
        How many such jobs were played at a time.
    memory : int
        The peak of the process so far, in bytes.
    """

    runs: tuple[str, ...]
    seconds: float
    side_by_side: int
    memory: int


def _read_line(line: bytes) -> Timing | None:
    try:
        return msgspec.json.decode(line, type=Timing)
    except msgspec.DecodeError:
        return None


class Store:
    """A folder of results; two processes may write to it at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "runs"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "spent.jsonl"
        self._errors: dict[str, float] = {}

    def has(self, run: RunSpec) -> bool:
        """Whether the run was played."""
        return self._path(run).is_file()

    def write(self, run: RunSpec, mistakes: Ints) -> None:
        """Keep the (runs, checkpoints, 2) mistakes of a run."""
        from pyarrow.parquet import write_table  # noqa: PLC0415 - slow to import

        content = BytesIO()
        write_table(_table(run, mistakes), content, compression="zstd")
        replace_file(self._path(run), content.getvalue())

    def read(self, run: RunSpec) -> Result:
        """Return what came out of a run."""
        from pyarrow import ArrowException  # noqa: PLC0415 - slow to import
        from pyarrow.parquet import read_table  # noqa: PLC0415

        path = self._path(run)
        try:
            table = read_table(path)
        except (OSError, ArrowException) as problem:
            raise InvalidInput(f"{path} cannot be read: {problem}; delete it and play again") from None
        if (table.schema.metadata or {}).get(CONTENT) != run.content.encode():
            raise InvalidInput(f"{path} holds another run than its name says; delete it and play again")
        return _result(run, table)

    def mean_error(self, run: RunSpec) -> float:
        """Return the mean final error of a run; a file is read for it only once."""
        if run.key not in self._errors:
            self._errors[run.key] = float(self.read(run).final_error.mean())
        return self._errors[run.key]

    def note(self, spent: Timing) -> None:
        """Append how long something took; a line that a crash cuts short is not read."""
        with self.log.open("ab") as file:
            file.write(b"\n" + msgspec.json.encode(spent))

    def spent(self) -> list[Timing]:
        """Return how long everything took that was played so far."""
        lines = self.log.read_bytes().splitlines() if self.log.exists() else []
        return [spent for line in lines if (spent := _read_line(line)) is not None]

    def _path(self, run: RunSpec) -> Path:
        return self.folder / f"{run.key}.parquet"


def _table(run: RunSpec, mistakes: Ints) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    rounds = checkpoints(run.rounds, run.checkpoints)
    columns = {
        "run": np.repeat(np.arange(run.runs), rounds.size),
        "round": np.tile(rounds, run.runs),
        "mistakes": mistakes[:, :, 0].ravel(),
        "greedy_mistakes": mistakes[:, :, 1].ravel(),
    }
    return pa.table(columns, metadata={CONTENT: run.content})


def _result(run: RunSpec, table: "pa.Table") -> Result:
    columns = [table[name].to_numpy().reshape(run.runs, -1) for name in ("mistakes", "greedy_mistakes")]
    return Result(
        learner=run.learner,
        dataset=run.data["name"],
        delay=run.delay,
        rounds=checkpoints(run.rounds, run.checkpoints),
        parameters=[run.parameters] * run.runs,
        run=np.arange(run.runs),
        mistakes=np.stack(columns, axis=2),
    )
