"""Logs of simulated runs: a Parquet file for each, written in pieces while they are played."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.checks import check_path
from delaytron.datasets import Dataset, FileStream
from delaytron.errors import InvalidInput
from delaytron.errors import Setting as Mention
from delaytron.extras import needs
from delaytron.files.atomic import cannot, replacing
from delaytron.formats import assignments
from delaytron.learners import Dilute, Learner
from delaytron.logs.schema import DENSE, SPARSE, About, dense_column, log_schema, sparse_column
from delaytron.records import Array, Ints, RoundRing, Stream
from delaytron.simulation.results import Setting
from delaytron.simulation.scenarios import SimulationConfig, draw_outcomes
from delaytron.simulation.simulate import Window

if TYPE_CHECKING:
    import pyarrow as pa

SECOND = 10**9  # nanoseconds: a round takes one second
PIECE_BYTES = 2**23  # of the features in one piece
MOST_ROUNDS, LEAST_ROUNDS = 8192, 64  # in one piece


@dataclass(frozen=True)
class LogPlan:
    """The file of the log of each run, and what all of them have in common."""

    paths: dict[tuple[int, int], Path]  # by run and entry of the parameter grid
    about: About
    learners: Sequence[str]
    sparse: bool
    n_rounds: int  # in one piece

    def open(self, jobs: Sequence[tuple[int, int]], config: SimulationConfig) -> "RunLogs":
        """Return the logs of some of the runs, which are files within a `with` block."""
        return RunLogs(self, jobs, config)


def plan_logs(
    target: str | Path,
    data: Dataset | FileStream,
    learners: Sequence[Learner],
    settings: Sequence[Setting],
    runs: int,
    n_rounds: int,
) -> LogPlan:
    """Return the files of the logs: `target` for one run, a file in that folder for each of several.

    Raises InvalidInput if a learner plays several labels, or the folder cannot be created.
    """
    for learner in learners:
        if isinstance(getattr(learner, "base", learner), Dilute):
            problem = f"a log has one label for each decision, {learner.name} plays several"
            raise InvalidInput(problem, ("leave out ", Mention("log")))
    path = check_path("log", target)
    keys = [(run, entry) for entry in range(len(settings)) for run in range(runs)]
    if len(keys) == 1:
        paths = {keys[0]: path}
    else:
        named = "setting-{entry}-run-{run}.parquet" if len(settings) > 1 else "run-{run}.parquet"
        paths = {(run, entry): path / named.format(run=run, entry=entry) for run, entry in keys}
        if path.suffix.lower() == ".parquet" or path.is_file():
            raise InvalidInput.of("log", f"a folder, since each of the {len(keys)} runs has a file", str(path))
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise cannot("create the folder", path, problem) from None
    names = [
        f"{learner.name} {assignments(setting)}".strip() for learner, setting in zip(learners, settings, strict=True)
    ]
    about = About(data.class_names, data.n_features, n_rounds * SECOND)
    width = data.n_bytes / data.n_rows if isinstance(data, Dataset) else data.n_features * 8
    piece = int(min(MOST_ROUNDS, max(LEAST_ROUNDS, PIECE_BYTES / width)))
    return LogPlan(paths, about, names, data.sparse, piece)


class RunLogs:
    """The open logs of runs that are played side by side; after an error no file is left."""

    def __init__(self, plan: LogPlan, jobs: Sequence[tuple[int, int]], config: SimulationConfig) -> None:
        self.plan = plan
        self.jobs = jobs
        self.config = config
        self.schema = log_schema(SPARSE if plan.sparse else DENSE, plan.about)
        self.delays = {run: draw_outcomes(config, run) for run, _ in jobs}
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
        """Write the rounds of a span, which were just played, of every run."""
        rounds = np.arange(*span)
        places = rounds & (columns.label.shape[1] - 1)  # the length of the ring is a power of two
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
        right = labels == window.stream.y[rows]
        # Bit 0 of a flip is for a wrong answer, bit 1 for a right one; the log has the answers that the learner gets.
        if window.scenarios.flips.shape[1]:
            right = np.asarray(right ^ (window.scenarios.flips[w, rounds] >> right & 1).astype(np.bool_))
        if_right, if_wrong = self.delays[run]
        due = rounds + 1 + np.minimum(np.where(right, if_right[rounds], if_wrong[rounds]), self.config.n_rounds + 1)
        came = due <= self.config.n_rounds
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


def _features(stream: Stream, rows: Any) -> "pa.Array":
    if stream.indptr is None:
        return dense_column(stream.values[rows])
    begins = stream.indptr[rows].astype(np.int64)
    lengths = stream.indptr[rows + np.uint32(1)] - begins
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(begins - starts[:-1], lengths) + np.arange(starts[-1])
    return sparse_column(starts, stream.indices[places].astype(np.int32), stream.values[places])
