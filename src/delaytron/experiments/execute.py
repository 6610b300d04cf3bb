"""Playing an experiment: what is missing, job by job, each kept as soon as it is there."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import NamedTuple

import msgspec
import numpy as np

from delaytron.datasets import Dataset, load
from delaytron.delays import Delay, Fixed, as_delay
from delaytron.errors import InvalidInput
from delaytron.experiments.runs import Condition, RunSpec, delays_digest, file_digest
from delaytron.experiments.selection import missing_runs
from delaytron.experiments.store import Store, Timing
from delaytron.experiments.workers import THREADS, WorkerPool, Workers, connect
from delaytron.learners.feedback import FeedbackModel
from delaytron.matrices import as_kind
from delaytron.records import Ints, Scenarios
from delaytron.simulation.batches import Progress
from delaytron.simulation.scenarios import SimulationConfig, make_scenarios
from delaytron.simulation.simulate import simulate_settings

JOB_ROUNDS = 2 * 10**8  # what is lost at most when an experiment is interrupted
KEPT_SCENARIOS = 6  # batches of runs, at most 28 MB each; joblib takes much more for a leak of memory
SPARSE_BELOW = 0.2  # measured: CSR is three times faster at a share of 0.15 non-zeros, and even at 0.3

NO_DELAY = Fixed(1)  # in the place of models that cannot be looked up; their text can

Job = tuple[RunSpec, ...]  # runs that differ in their parameters only, so that they share rows, delays and draws


class Watch(NamedTuple):
    """Who is told how far it is: the rounds played, and in words what is played."""

    advance: Progress | None = None
    announce: Callable[[str], object] = lambda _: None


NOBODY = Watch()


class Played(NamedTuple):
    """What came of a job: mistakes (settings, runs, checkpoints, 2), and what it took."""

    mistakes: Ints
    seconds: float
    memory: int


def execute(conditions: Iterable[Condition], store: Store, workers: Workers = THREADS, watch: Watch = NOBODY) -> None:
    """Play what is missing and keep it, whatever ends it in the middle.

    Settings that only the tuning can name are played after it.
    """
    wanted = list(conditions)
    workers = workers.checked
    jobs = missing_jobs(wanted, store)
    if not jobs:
        return  # a cluster may be gone by now
    with connect(workers) as pool:
        while jobs:
            for job, played in _play_all(jobs, workers, pool, watch):
                for run, mistakes in zip(job, played.mistakes, strict=True):
                    store.write(run, mistakes)
                names = tuple(run.key for run in job)
                store.note(Timing(names, round(played.seconds, 3), pool.side_by_side, played.memory))
            jobs = missing_jobs(wanted, store)


def missing_jobs(conditions: Iterable[Condition], store: Store) -> list[Job]:
    """Return what is not in the store yet and can be played by now, put together."""
    runs = {run.key: run for condition in conditions for run in missing_runs(condition, store)}
    groups: dict[str, list[RunSpec]] = {}
    for run in runs.values():
        groups.setdefault(msgspec.structs.replace(run, parameters={}).content, []).append(run)
    together = sorted(groups.values(), key=_order)
    return [job for group in together for job in _cut(group)]


def _order(group: list[RunSpec]) -> tuple[str, str, int]:
    """Let jobs follow each other that share a data set, and among these those that share rows, delays and draws."""
    return str(group[0].data), group[0].delay, group[0].seed


def _cut(group: list[RunSpec]) -> Iterator[Job]:
    most = max(1, JOB_ROUNDS // group[0].n_rounds)
    for first in range(0, len(group), most):
        yield tuple(group[first : first + most])


def _play_all(jobs: list[Job], workers: Workers, pool: WorkerPool, watch: Watch) -> Iterator[tuple[Job, Played]]:
    """Play one job at a time, its runs on all threads; or several, each on one thread of a worker."""
    if workers.backend == "threads":
        for job in jobs:
            watch.announce(_describe(job))
            yield job, play(job, workers.number, watch.advance)
        return
    for job, played in pool.spread(play, jobs):
        yield job, played
        watch.announce(_describe(job))
        if watch.advance is not None:
            watch.advance(sum(run.n_rounds for run in job))


def _describe(job: Job) -> str:
    run = job[0]
    return f"{run.learner} on {run.data['name']}, delay {run.delay}, {len(job)} settings x {run.runs} runs"


def play(job: Job, n_jobs: int | None = 1, progress: Progress | None = None) -> Played:
    """Play the runs of a job side by side."""
    first, start = job[0], perf_counter()
    result = simulate_settings(
        first.learner,
        _load(msgspec.json.encode(first.data)),
        [run.parameters for run in job],
        delay=_delay(first),
        rounds=first.rounds,
        runs=first.runs,
        seed=first.seed,
        sampling=first.sampling,
        n_jobs=n_jobs,
        progress=progress,
        n_checkpoints=first.checkpoints,
        scenarios=partial(_scenarios, first.delay),
    )
    mistakes = result.mistakes.reshape(len(job), first.runs, -1, 2)
    return Played(mistakes, perf_counter() - start, getrusage(RUSAGE_SELF).ru_maxrss * 1024)


def _scenarios(
    delay: str, runs: Sequence[int], config: SimulationConfig, feedback_model: FeedbackModel
) -> tuple[Scenarios, int]:
    """Return the worlds of runs: drawing them takes longer than playing one learner in them, and they are the same."""
    return _drawn(delay, tuple(runs), config._replace(delay=NO_DELAY, n_checkpoints=0), feedback_model)


@lru_cache(maxsize=KEPT_SCENARIOS)
def _drawn(
    delay: str, runs: tuple[int, ...], config: SimulationConfig, feedback_model: FeedbackModel
) -> tuple[Scenarios, int]:
    return make_scenarios(runs, config._replace(delay=as_delay(delay)), feedback_model)


def _delay(run: RunSpec) -> Delay:
    delay = as_delay(run.delay)
    if delays_digest(delay) != run.recorded:
        raise InvalidInput(f"{run.delay} is not what it was when the experiment began, or not the same on a worker")
    return delay


@lru_cache(maxsize=1)
def _load(described: bytes) -> Dataset:
    """Load a data set; jobs come ordered by it, so that the last one is often the next one."""
    options = msgspec.json.decode(described)
    name, digest = options.pop("name"), options.pop("sha256", None)
    if digest is not None and file_digest(Path(name)) != digest:
        raise InvalidInput(f"{name} is not the file that it was when the experiment began, or not the same on a worker")
    return quickest(load(name, **options))


def quickest(data: Dataset) -> Dataset:
    """Return the same data set in the form in which it is played faster: few non-zeros as CSR.

    Examples
    --------
    >>> quickest(Dataset(np.eye(9), np.arange(9), "tiny", tuple("123456789")))
    Dataset('tiny', 9 rows, 9 features, 9 classes, sparse)
    """
    if data.sparse or np.count_nonzero(np.asarray(data.X)) > SPARSE_BELOW * data.n_rows * data.n_features:
        return data
    return replace(data, X=as_kind(data.X, sparse=True))
