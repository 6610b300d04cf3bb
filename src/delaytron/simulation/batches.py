"""Batches: runs played side by side, as many as fit the memory, on all cores."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.checks import check_integer
from delaytron.datasets import Dataset, FileStream
from delaytron.learners import Learner
from delaytron.learners.feedback import FeedbackModel
from delaytron.learners.scoring import new_scratch
from delaytron.records import Array, Ints, Scenarios, Span
from delaytron.simulation.scenarios import (
    BYTES_PER_EXPIRING_ROUND,
    BYTES_PER_ROUND,
    SimulationConfig,
    checkpoints,
    empty_log,
    make_scenarios,
    max_open_rounds,
)
from delaytron.simulation.windows import Window, windows

if TYPE_CHECKING:
    from delaytron.simulation.run_logs import LogPlan, RunLogs

MEMORY = 56 * 2**20  # bytes that the runs being played may take, all threads together
MEMORY_OF_STREAM = 192 * 2**20  # the same where every batch reads the file again
BATCH_RUNS = 32
MOST_THREADS = 1024
CACHE_BYTES = 4 * 2**20
AHEAD = 4  # rounds: far enough for the memory to answer, near enough to be cached still

Progress = Callable[[int], object]
Job = tuple[int, int]  # run, and entry of the parameter grid


@dataclass(frozen=True)
class BatchPlan:
    """What all batches of a simulation share."""

    data: Dataset | FileStream
    config: SimulationConfig
    progress: Progress | None
    make_scenarios: Callable[[Sequence[int], SimulationConfig, FeedbackModel], tuple[Scenarios, int]] = make_scenarios
    logs: "LogPlan | None" = None

    @property
    def memory(self) -> int:
        """How many bytes the runs being played may take."""
        return MEMORY_OF_STREAM if isinstance(self.data, FileStream) else MEMORY

    @property
    def ahead(self) -> int:
        """How early to ask the memory for rows: only rows drawn from more than the caches hold are worth it."""
        large = isinstance(self.data, Dataset) and self.data.n_bytes > CACHE_BYTES
        return AHEAD if large and self.config.n_rounds > self.data.n_rows else 0


def play_all(plan: BatchPlan, learners: list[Learner], jobs: list[Job], n_jobs: int | None) -> tuple[Ints, Array]:
    """Play all jobs; return the mistakes and the losses of each in the order of the jobs."""
    from joblib import Parallel, cpu_count, delayed  # noqa: PLC0415 - slow to import

    all_cores = n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs == -1)
    threads = cpu_count() if all_cores else check_threads("n_jobs", n_jobs)
    if isinstance(plan.data, FileStream):
        threads = 1  # reading takes longer than playing, so as many runs as possible share it
    batches = [batch for group in _groups(learners, jobs) for batch in _batches(plan, learners, group, threads)]
    played = Parallel(threads, require="sharedmem")(delayed(_play)(plan, learners, batch) for batch in batches)
    place = {job: i for i, job in enumerate(job for batch in batches for job in batch)}
    order = [place[job] for job in jobs]
    mistakes, losses = (np.concatenate(parts)[order] for parts in zip(*played, strict=True))
    return mistakes, losses


def check_threads(name: str, threads: Any) -> int:
    """Return a number of threads, or raise."""
    return check_integer(name, threads, at_least=1, at_most=MOST_THREADS)


def _groups(learners: list[Learner], jobs: list[Job]) -> list[list[Job]]:
    """Put together the jobs that one compiled loop can play side by side: same rule, same kind of feedback."""
    groups: dict[Any, list[Job]] = {}
    for run, entry in jobs:
        groups.setdefault((id(learners[entry].rule), learners[entry].feedback_model), []).append((run, entry))
    return list(groups.values())


def _batches(plan: BatchPlan, learners: list[Learner], jobs: list[Job], threads: int) -> Iterator[list[Job]]:
    """Cut the jobs into batches that fit the memory, keep every thread busy and have runs side by side."""
    pattern = learners[jobs[0][1]]
    most = min(BATCH_RUNS, -(-len(jobs) // threads))
    if pattern.rule.per_round_state:  # how much that takes is known only when it is played
        most = 1
    bytes_per_round = BYTES_PER_EXPIRING_ROUND if pattern.feedback_model.expires else BYTES_PER_ROUND
    scenario_bytes = plan.config.n_rounds * bytes_per_round
    state_bytes = pattern._state_bytes(plan.data.sparse)
    batch: list[Job] = []
    for job in jobs:
        scenarios = len({run for run, _ in [*batch, job]})
        size = scenarios * scenario_bytes + (len(batch) + 1) * state_bytes
        if batch and (len(batch) >= most or size > plan.memory / threads):
            yield batch
            batch = []
        batch.append(job)
    yield batch


def _play(plan: BatchPlan, learners: list[Learner], jobs: list[Job]) -> tuple[Ints, Array]:
    """Play one batch; return mistakes and losses (see `RoundRing`) of every run at every checkpoint."""
    pattern = learners[jobs[0][1]]
    rule = pattern.rule
    scratch = new_scratch(plan.data.n_classes)
    runs = sorted({run for run, _ in jobs})
    scenarios, longest = plan.make_scenarios(runs, plan.config, pattern.feedback_model)
    scenario_of = np.searchsorted(runs, [run for run, _ in jobs])
    params = rule.params(*map(np.array, zip(*(learners[entry].params for _, entry in jobs), strict=True)))
    size = pattern.size(plan.data.sparse)._replace(n_open=max_open_rounds(scenarios) if rule.per_round_state else 1)
    piece = None if plan.logs is None else plan.logs.n_rounds
    log = empty_log(len(jobs), max(longest, piece or 0), len(rule.extras), plan.config.losses)
    states = rule.init(params, size)
    stops = checkpoints(plan.config.n_rounds, plan.config.n_checkpoints).tolist()
    noted = []
    with _opened(plan, jobs) as logs:
        for window in windows(plan.data, scenarios, longest):
            logged = window.begin
            for begin, end in _spans(window, stops, piece):
                span = Span(begin, end, plan.ahead)
                rule.play(window.stream, window.scenarios, scenario_of, log, states, params, scratch, (0, 0), span)
                if end in stops:
                    noted.append((log.mistakes.copy(), log.losses.copy()))
                if logs is not None and (end - logged == piece or end == window.end):
                    logs.write(window, scenario_of, log, (logged, end))
                    logged = end
                if plan.progress is not None:
                    plan.progress((end - begin) * len(jobs))
    mistakes, losses = (np.stack(parts, axis=1) for parts in zip(*noted, strict=True))
    return mistakes, losses


def _opened(plan: BatchPlan, jobs: list[Job]) -> "AbstractContextManager[RunLogs | None]":
    """Return the logs of runs, to be opened; None if nobody asks for them."""
    if plan.logs is None:
        return nullcontext()
    from delaytron.simulation.run_logs import RunLogs  # noqa: PLC0415 - slow to import, seldom needed

    return RunLogs(plan.logs, jobs, plan.config)


def _spans(window: Window, stops: list[int], piece: int | None) -> Iterator[tuple[int, int]]:
    """Cut the rounds of a window at the checkpoints and, for a log, into pieces of so many rounds."""
    inside = {stop for stop in stops if window.begin < stop < window.end}
    inside.update(range(window.begin, window.end, piece or window.end - window.begin))
    return pairwise([*sorted(inside), window.end])
