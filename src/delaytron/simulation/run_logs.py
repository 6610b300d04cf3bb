"""Logs of runs as they are played: a Parquet file for each, some thousand rounds at a time."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.checks import check_path
from delaytron.datasets import Dataset, FileStream
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.advice import with_advice
from delaytron.files.atomic import replacing
from delaytron.formats import assignments
from delaytron.learners import Dilute, Learner
from delaytron.logs.feature_columns import dense_column, sparse_column
from delaytron.logs.schema import DENSE, SPARSE, About, log_schema
from delaytron.records import Array, Bools, Ints, RoundRing, Scenarios, Stream
from delaytron.simulation.results import Setting
from delaytron.simulation.scenarios import SimulationConfig, draw_delays
from delaytron.simulation.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa

SECOND = 10**9  # nanoseconds: a round takes one second
PIECE_BYTES = 2**23  # of the features of the rounds that are written at once
MOST_ROUNDS, LEAST_ROUNDS = 8192, 64  # in one piece


@dataclass(frozen=True)
class LogPlan:
    """Which file the log of each run goes to, and what all of them share."""

    paths: dict[tuple[int, int], Path]  # by run and entry of the parameter grid
    about: About
    learners: Sequence[str]
    sparse: bool
    n_rounds: int  # in one piece


def plan_logs(
    target: str | Path,
    data: Dataset | FileStream,
    learners: Sequence[Learner],
    settings: Sequence[Setting],
    runs: int,
    n_rounds: int,
) -> LogPlan:
    """Return where logs go: one run to the file that is named, several to files of a folder; or raise."""
    for learner in learners:
        if isinstance(getattr(learner, "base", learner), Dilute):
            raise InvalidInput(f"a log has one label for each decision, {learner.name} plays several; leave out log")
    path = check_path("log", target)
    keys = [(run, entry) for entry in range(len(settings)) for run in range(runs)]
    if len(keys) == 1:
        paths = {keys[0]: path}
    else:
        paths = {(run, entry): path / _name(run, entry, len(settings)) for run, entry in keys}
        _make_folder(path, len(keys))
    names = [
        f"{learner.name} {assignments(setting)}".strip() for learner, setting in zip(learners, settings, strict=True)
    ]
    about = About(data.class_names, data.n_features, n_rounds * SECOND)
    width = data.n_bytes / data.n_rows if isinstance(data, Dataset) else data.n_features * 8
    piece = int(min(MOST_ROUNDS, max(LEAST_ROUNDS, PIECE_BYTES / width)))
    return LogPlan(paths, about, names, data.sparse, piece)


def _name(run: int, entry: int, n_settings: int) -> str:
    return f"run-{run}.parquet" if n_settings == 1 else f"setting-{entry}-run-{run}.parquet"


def _make_folder(path: Path, count: int) -> None:
    if path.suffix.lower() == ".parquet" or path.is_file():
        raise InvalidInput(f"log must be a folder, since each of the {count} runs has a file; got {str(path)!r}")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput(f"cannot make the folder {str(path)!r}: {with_advice(problem)}") from None


class RunLogs:
    """The open logs of runs that are played side by side; after an error there are none."""

    def __init__(self, plan: LogPlan, jobs: Sequence[tuple[int, int]], config: SimulationConfig) -> None:
        self.plan = plan
        self.jobs = jobs
        self.config = config
        self.schema = log_schema(SPARSE if plan.sparse else DENSE, plan.about)
        self.delays = {run: draw_delays(config.delay, config.n_rounds, config.seed, run) for run, _ in jobs}
        self.files = ExitStack()
        self.writers: list[Any] = []

    def __enter__(self) -> "RunLogs":
        needs("pyarrow")
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - slow to import

        with ExitStack() as opened:
            for job in self.jobs:
                file = opened.enter_context(replacing(self.plan.paths[job]))
                self.writers.append(opened.enter_context(ParquetWriter(file, self.schema)))
            self.files = opened.pop_all()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.files.__exit__(*problem)

    def write(self, window: Window, scenario_of: Ints, columns: RoundRing, span: tuple[int, int]) -> None:
        """Write rounds that were just played: those of the span, of every run."""
        rounds = np.arange(*span)
        places = rounds & (columns.label.shape[1] - 1)
        for r, writer in enumerate(self.writers):
            chosen = columns.label[r, places], columns.prob[r, places]
            writer.write_table(self._table(self.jobs[r], window, scenario_of[r], rounds, chosen))

    def _table(
        self, job: tuple[int, int], window: Window, w: int, rounds: Ints, chosen: tuple[Any, Array]
    ) -> "pa.Table":
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        run, entry = job
        labels, probs = chosen
        rows = window.scenarios.rows[w, rounds]
        due = rounds + 1 + np.minimum(self.delays[run][rounds], self.config.n_rounds + 1)
        came = due <= self.config.n_rounds
        right = _heard(labels == window.stream.y[rows], window.scenarios, w, rounds)
        time = self.schema.field("decided_at").type
        columns = {
            "id": [f"{entry}.{run}.{t + 1}" for t in rounds],
            "decided_at": pa.array((rounds + 1) * SECOND, time),
            "features": _features(window.stream, rows),
            "label": labels,
            "prob": probs,
            "learner": [self.plan.learners[entry]] * rounds.size,
            "outcome": pa.array(right.astype(np.float64), mask=~came),
            "occurred_at": pa.array(due * SECOND, time, mask=~came),
            "received_at": pa.array(due * SECOND, time, mask=~came),
        }
        empty = [None] * rounds.size
        arrays = [pa.array(columns.get(field.name, empty), field.type) for field in self.schema]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _heard(right: Bools, scenarios: Scenarios, w: int, rounds: Ints) -> Bools:
    """Return what the feedback says, which may be turned round."""
    if not scenarios.flips.shape[1]:
        return right
    return np.asarray(right ^ (scenarios.flips[w, rounds] >> right & 1).astype(np.bool_))


def _features(stream: Stream, rows: Any) -> "pa.Array":
    if stream.indptr is None:
        return dense_column(stream.values[rows])
    begins = stream.indptr[rows].astype(np.int64)
    lengths = stream.indptr[rows + np.uint32(1)] - begins
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(begins - starts[:-1], lengths) + np.arange(starts[-1])
    return sparse_column(starts, stream.indices[places].astype(np.int32), stream.values[places])
