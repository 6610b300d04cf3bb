"""Playing an experiment: what is missing, job by job, each kept as soon as it is there."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import msgspec

from delaytron.datasets import Dataset, load
from delaytron.delays import Fixed, as_delay
from delaytron.errors import InvalidInput
from delaytron.experiments.memory import check_memory, peak_memory
from delaytron.experiments.obtain import obtain_data
from delaytron.experiments.runs import Condition, RunSpec, file_digest, recorded_delay
from delaytron.experiments.selection import missing_runs
from delaytron.experiments.store import Store, Timing
from delaytron.experiments.theory import TheoryRow, TheorySpec, encode_theory, play_theory
from delaytron.experiments.workers import THREADS, WorkerPool, Workers, connect
from delaytron.learners.feedback import FeedbackModel
from delaytron.records import Ints, Scenarios
from delaytron.simulation.batches import MEMORY, Progress
from delaytron.simulation.scenarios import BYTES_PER_ROUND, SimulationConfig, make_scenarios
from delaytron.simulation.simulate import simulate_settings

JOB_ROUNDS = 2 * 10**8  # what is lost at most when an experiment is interrupted
KEPT_SCENARIOS = 6  # batches of runs, at most 28 MB each; joblib takes much more for a leak of memory

NO_DELAY = Fixed(1)  # in the place of models that cannot be looked up; their text can

RunJob = tuple[RunSpec, ...]  # runs that differ in their parameters only, so that they share rows, delays and draws
Job = RunJob | TheorySpec


class Watch(NamedTuple):
    """Who follows the playing: called with the rounds just played, and with what is played in words."""

    advance: Progress | None = None
    announce: Callable[[str], object] = lambda _: None


NOBODY = Watch()


class Played(NamedTuple):
    """What came of a job, and what it took: of runs their mistakes (settings, runs, checkpoints, 2)."""

    outcome: Ints | tuple[TheoryRow, ...]
    seconds: float
    memory: int


def execute(
    conditions: Iterable[Condition],
    store: Store,
    workers: Workers = THREADS,
    watch: Watch = NOBODY,
    theory: Iterable[TheorySpec] = (),
) -> None:
    """Play what is missing and keep it, whatever ends it in the middle.

    Settings that only the tuning can name are played after it.
    """
    wanted = list(conditions)
    studies = list(theory)
    workers = workers.checked
    jobs = missing_jobs(wanted, store, studies)
    if not jobs:
        return  # a cluster may be gone by now
    if workers.address is None:  # else others have the memory and the data
        check_memory(_runs_of(jobs), workers.number)
        obtain_data(_runs_of(jobs))
    with connect(workers) as pool:
        while jobs:
            for job, played in _play_all(jobs, workers, pool, watch):
                _keep(job, played, store)
                store.note(Timing(_keys(job), round(played.seconds, 3), pool.side_by_side, played.memory))
            jobs = missing_jobs(wanted, store, studies)


def missing_jobs(conditions: Iterable[Condition], store: Store, theory: Iterable[TheorySpec] = ()) -> list[Job]:
    """Return what is not in the store yet and can be played by now, put together."""
    runs = {run.key: run for condition in conditions for run in missing_runs(condition, store)}
    groups: dict[str, list[RunSpec]] = {}
    for run in runs.values():
        groups.setdefault(msgspec.structs.replace(run, parameters={}).content, []).append(run)
    together = sorted(groups.values(), key=_order)
    return [
        *(job for group in together for job in _cut(group)),
        *(spec for spec in theory if not store.theory.has(spec)),
    ]


def _order(group: list[RunSpec]) -> tuple[str, str, int]:
    """Let jobs follow each other that share a data set, and among these those that share rows, delays and draws."""
    return str(group[0].data), group[0].delay, group[0].seed


def _cut(group: list[RunSpec]) -> Iterator[RunJob]:
    most = max(1, JOB_ROUNDS // group[0].n_rounds)
    for first in range(0, len(group), most):
        yield tuple(group[first : first + most])


def _runs_of(jobs: Iterable[Job]) -> list[RunSpec]:
    return [run for job in jobs if not isinstance(job, TheorySpec) for run in job]


def _keys(job: Job) -> tuple[str, ...]:
    return (job.key,) if isinstance(job, TheorySpec) else tuple(run.key for run in job)


def _n_rounds(job: Job) -> int:
    return job.n_rounds if isinstance(job, TheorySpec) else sum(run.n_rounds for run in job)


def _describe(job: Job) -> str:
    if isinstance(job, TheorySpec):
        return f"regret and bounds on {job.dataset}, delay {job.delay}, {job.runs} runs"
    run = job[0]
    return f"{run.learner} on {run.data['name']}, delay {run.delay}, {len(job)} settings x {run.runs} runs"


def _keep(job: Job, played: Played, store: Store) -> None:
    if isinstance(job, TheorySpec):
        store.theory.write(job, encode_theory(job, tuple(played.outcome)))
        return
    for run, mistakes in zip(job, played.outcome, strict=True):
        store.write(run, mistakes)


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
            watch.advance(_n_rounds(job))


def play(job: Job, n_jobs: int | None = 1, progress: Progress | None = None) -> Played:
    """Play a job, its runs side by side."""
    start = perf_counter()
    outcome = play_theory(job, n_jobs, progress) if isinstance(job, TheorySpec) else _play_runs(job, n_jobs, progress)
    return Played(outcome, perf_counter() - start, peak_memory())


def _play_runs(job: RunJob, n_jobs: int | None, progress: Progress | None) -> Ints:
    first = job[0]
    result = simulate_settings(
        first.learner,
        _load(msgspec.json.encode(first.data)),
        [run.parameters for run in job],
        delay=recorded_delay(first.delay, first.recorded),
        rounds=first.rounds,
        runs=first.runs,
        seed=first.seed,
        sampling=first.sampling,
        n_jobs=n_jobs,
        progress=progress,
        n_checkpoints=first.checkpoints,
        scenarios=partial(_scenarios, first.delay),
    )
    return result.mistakes.reshape(len(job), first.runs, -1, 2)


def _scenarios(
    delay: str, runs: Sequence[int], config: SimulationConfig, feedback_model: FeedbackModel
) -> tuple[Scenarios, int]:
    """Return what happens to runs: drawing it takes longer than playing one learner in it, and others share it."""
    if config.n_rounds * BYTES_PER_ROUND > MEMORY:
        return make_scenarios(runs, config, feedback_model)  # too long to be kept
    return _drawn(delay, tuple(runs), config._replace(delay=NO_DELAY, n_checkpoints=0), feedback_model)


@lru_cache(maxsize=KEPT_SCENARIOS)
def _drawn(
    delay: str, runs: tuple[int, ...], config: SimulationConfig, feedback_model: FeedbackModel
) -> tuple[Scenarios, int]:
    return make_scenarios(runs, config._replace(delay=as_delay(delay)), feedback_model)


@lru_cache(maxsize=1)
def _load(described: bytes) -> Dataset:
    """Load a data set; jobs come ordered by it, so that the last one is often the next one."""
    options = msgspec.json.decode(described)
    name, digest = options.pop("name"), options.pop("sha256", None)
    if digest is not None and file_digest(Path(name)) != digest:
        raise InvalidInput(
            f"{name} is not the file that it was when the experiment began, or not the same on a worker;"
            " bring it back, or begin in another folder"
        )
    return load(name, **options)
