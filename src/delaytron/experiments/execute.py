"""Playing the missing runs of an experiment, job by job, on threads, processes or a cluster."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from threading import Thread
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from delaytron.checks import check_choice, check_integer, installed_memory
from delaytron.datasets import DATASETS
from delaytron.datasets.catalogue import CARDS, FASHION_PIXELS
from delaytron.datasets.named import find
from delaytron.delays import Delay, Fixed, as_delay
from delaytron.errors import InvalidInput, Setting
from delaytron.experiments.by_rounds import goes_by_rounds, play_by_rounds
from delaytron.experiments.clusters import TRIES, dask_cluster, ray_cluster, spread_on
from delaytron.experiments.entrants import plain_name
from delaytron.experiments.sources import PlayedData, load_source, noise_of
from delaytron.experiments.spec import Condition, RunSpec, recorded_delay
from delaytron.experiments.store import RunStore, Timing, encode_theory, missing_runs
from delaytron.experiments.theory import TheoryRow, TheorySpec, play_theory
from delaytron.learners.book import Expiry
from delaytron.records import Array, Ints, Scenarios
from delaytron.simulation.scenarios import (
    BYTES_PER_ROUND,
    Noise,
    SimulationConfig,
    bytes_per_round,
    make_scenarios,
)
from delaytron.simulation.simulate import MEMORY, Progress, labels_for, simulate_settings

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]


def peak_memory() -> int:
    """Return the peak memory of this process, in bytes; 0 where that is not known."""
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def check_memory(runs: Iterable[RunSpec], workers: int | None = None) -> None:
    """Raise InvalidInput if the longest of these runs, on all workers at a time, need more memory than there is."""
    installed = installed_memory()
    needed = 0
    delays: dict[str, Delay] = {}  # each is read only once: it may be a file
    for run in runs:
        if run.delay not in delays:
            delays[run.delay] = as_delay(run.delay)
        per_round = bytes_per_round(delays[run.delay], "expire_after" in run.parameters)
        needed = max(needed, run.rounds * per_round * min(run.runs, workers or os.cpu_count() or 1))
    if installed is not None and needed > installed:
        raise InvalidInput(
            f"the rounds take {needed / 1e9:.1f} GB, and this machine has {installed / 1e9:.1f} GB",
            ("take fewer rounds or ", Setting("workers")),
        )


def obtain_data(runs: Iterable[RunSpec]) -> None:
    """Download the named data sets that are missing; raise InvalidInput if that fails.

    Files of the user were found when their digests were taken.
    """
    described = {str(run.data): run.data for run in runs if run.data["name"] in DATASETS}
    for data in described.values():
        card = FASHION_PIXELS if data.get("features") == "pixels" else CARDS[data["name"]]
        if any(find(file) is None for files in card.files.values() for file in files):
            load_source(data)  # downloads it, or raises with a hint how to get it


BACKENDS = ("threads", "processes", "dask", "ray")
PARENT_INTERVAL = 0.5  # seconds between checks that the parent process is alive

Work = Callable[[Any], Any]


class Workers(NamedTuple):
    """Number and kind of workers; all cores by default.

    Of the cluster at an address (`tcp://host:8786` of a Dask scheduler, `host:6379` or `auto` for Ray) all threads
    are used, or `number` of them; without an address a local one is started.
    """

    backend: str = "threads"
    number: int | None = None
    address: str | None = None

    @property
    def checked(self) -> "Workers":
        """These workers; raises InvalidInput if the kind, the number or an address is not allowed."""
        check_choice("backend", self.backend, BACKENDS)
        if self.address is not None and self.backend not in ("dask", "ray"):
            raise InvalidInput(
                (Setting("address"), " needs ", Setting("backend"), f" dask or ray, got {self.backend!r}"),
                "leave it out, or choose one of them",
            )
        if self.number is None:
            return self
        return self._replace(number=check_integer("workers", self.number, at_least=1))


THREADS = Workers()


class WorkerPool(NamedTuple):
    """Workers that are ready: the number of tasks at a time, and a function that runs many.

    `spread` yields every task with its result, in order of completion, and retries the tasks of a worker that died.
    """

    side_by_side: int
    spread: Callable[[Work, Iterable[Any]], Iterator[tuple[Any, Any]]]


@contextmanager
def connect(workers: Workers) -> Iterator[WorkerPool]:
    """Start the workers, or connect to them; stop those that were started at the end."""
    from joblib import cpu_count  # noqa: PLC0415 - slow to import

    n_workers = workers.number or cpu_count()
    if workers.backend == "threads":
        yield WorkerPool(1, lambda work, tasks: ((task, work(task)) for task in tasks))
    elif workers.backend == "processes":
        try:
            yield WorkerPool(n_workers, partial(_spread_on_processes, n_workers))
        except BaseException:  # a signal, too: no process may be left behind
            from joblib.externals.loky import get_reusable_executor  # noqa: PLC0415 - slow to import

            get_reusable_executor().shutdown(wait=True, kill_workers=True)
            raise
    else:
        open_cluster = dask_cluster if workers.backend == "dask" else ray_cluster
        at_most = None if workers.address is None else workers.number
        with open_cluster(n_workers, workers.address) as cluster:
            size = max(1, cluster.size())
            yield WorkerPool(min(size, at_most or size), partial(spread_on, cluster, at_most))


def _spread_on_processes(n_processes: int, work: Work, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    from joblib import Parallel, delayed  # noqa: PLC0415 - slow to import
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415

    left = dict(enumerate(tasks))
    tries = TRIES
    while left:
        calls = [delayed(_numbered)(os.getpid(), work, number, task) for number, task in left.items()]
        try:
            for number, result in Parallel(n_processes, return_as="generator_unordered")(calls):
                yield left.pop(number), result
                tries = TRIES  # only deaths without a result between them count: the task itself may kill its process
        except TerminatedWorkerError:
            tries -= 1
            if not tries:
                raise InvalidInput(f"a process died {TRIES} times", "what was played is stored; run it again") from None
        else:
            return


def _numbered(parent: int, work: Work, number: int, task: Any) -> tuple[int, Any]:
    """Run one task in a worker process; return its number, too, as tasks end in any order."""
    if os.getpid() != parent:  # joblib starts no process if there is only one worker
        _end_with(parent)
    return number, work(task)


@lru_cache(maxsize=1)  # once per process
def _end_with(parent: int) -> None:
    """Let this process end when its parent does, even by SIGKILL; Ctrl-C is handled by the parent alone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_INTERVAL)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=watch, daemon=True).start()


JOB_ROUNDS = 2 * 10**8  # rounds that an interruption can lose
SLOW_JOB_ROUNDS = 2 * 10**6  # the same of runs that are played round by round
KEPT_SCENARIOS = 6  # batches of runs in the cache, at most 28 MB each: joblib takes much more for a memory leak

NO_DELAY = Fixed(1)  # in the key of the cache, for delay models, which are not hashable; their text is

RunJob = tuple[RunSpec, ...]  # runs that differ in their parameters only, and share rows, delays and draws
Job = RunJob | TheorySpec


class Watch(NamedTuple):
    """Callbacks: `advance` with the number of rounds just played, `announce` with a description of the job."""

    advance: Progress | None = None
    announce: Callable[[str], object] = lambda _: None


UNWATCHED = Watch()


class Played(NamedTuple):
    """The outcome of a job (of runs, the mistakes by setting, run, checkpoint and kind), and its cost.

    Parameters
    ----------
    lost : array, optional
        Of a world the reward that was lost, by setting, run and checkpoint.
    """

    outcome: Ints | tuple[TheoryRow, ...]
    seconds: float
    memory: int
    lost: Array | None = None


def execute(
    conditions: Iterable[Condition],
    store: RunStore,
    workers: Workers = THREADS,
    watch: Watch = UNWATCHED,
    theory: Iterable[TheorySpec] = (),
) -> None:
    """Play and store the missing runs and studies; it may be interrupted and called again.

    The chosen settings are played after the tuning. Raises InvalidInput if data or workers are not available.
    """
    wanted = list(conditions)
    studies = list(theory)
    workers = workers.checked
    jobs = missing_jobs(wanted, store, studies)
    if not jobs:
        return  # without workers: a cluster may be gone by now
    if workers.address is None:  # else other machines need the memory and the data
        runs = [run for job in jobs if not isinstance(job, TheorySpec) for run in job]
        check_memory(runs, workers.number)
        obtain_data(runs)
    with connect(workers) as pool:
        while jobs:
            for job, played in _play_all(jobs, workers, pool, watch):
                if isinstance(job, TheorySpec):
                    store.theory.write(job, encode_theory(job, tuple(played.outcome)))
                    keys: tuple[str, ...] = (job.key,)
                else:
                    lost = [None] * len(job) if played.lost is None else played.lost
                    for run, mistakes, less in zip(job, played.outcome, lost, strict=True):
                        store.write(run, mistakes, less)
                    keys = tuple(run.key for run in job)
                store.note(Timing(keys, round(played.seconds, 3), pool.side_by_side, played.memory))
            jobs = missing_jobs(wanted, store, studies)


def missing_jobs(conditions: Iterable[Condition], store: RunStore, theory: Iterable[TheorySpec]) -> list[Job]:
    """Return the jobs that are not in the store yet and can be played now."""
    runs = {run.key: run for condition in conditions for run in missing_runs(condition, store)}
    groups: dict[str, list[RunSpec]] = {}
    for run in runs.values():
        groups.setdefault(msgspec.structs.replace(run, parameters={}).content, []).append(run)
    jobs: list[Job] = []
    # Jobs that share a data set follow each other, and among these those that share rows, delays and draws: see the
    # caches of `_load` and `_drawn`.
    for group in sorted(groups.values(), key=lambda group: (str(group[0].data), group[0].delay, group[0].seed)):
        most = max(1, (SLOW_JOB_ROUNDS if goes_by_rounds(group[0]) else JOB_ROUNDS) // group[0].n_rounds)
        jobs += [tuple(group[first : first + most]) for first in range(0, len(group), most)]
    return [*jobs, *(spec for spec in theory if not store.theory.has(spec))]


def _describe(job: Job) -> str:
    if isinstance(job, TheorySpec):
        return f"regret and bounds on {job.dataset}, delay {job.delay}, {job.runs} runs"
    run = job[0]
    return f"{plain_name(run.learner)} on {run.data['name']}, delay {run.delay}, {len(job)} settings x {run.runs} runs"


def _play_all(jobs: list[Job], workers: Workers, pool: WorkerPool, watch: Watch) -> Iterator[tuple[Job, Played]]:
    """Play one job at a time with its runs on all threads, or several jobs, each on one thread of a worker."""
    if workers.backend == "threads":
        for job in jobs:
            watch.announce(_describe(job))
            yield job, play(job, workers.number, watch.advance)
        return
    for job, played in pool.spread(play, jobs):
        yield job, played
        watch.announce(_describe(job))
        if watch.advance is not None:
            watch.advance(job.n_rounds if isinstance(job, TheorySpec) else sum(run.n_rounds for run in job))


def play(job: Job, n_jobs: int | None = 1, progress: Progress | None = None) -> Played:
    """Play a job, its runs on `n_jobs` threads."""
    start = perf_counter()
    if isinstance(job, TheorySpec):
        return Played(play_theory(job, n_jobs, progress), perf_counter() - start, peak_memory())
    first = job[0]
    source = _load(msgspec.json.encode(first.data))
    if goes_by_rounds(first):
        mistakes, lost = play_by_rounds(job, source, progress)
        own = lost if source.rewards is not None else None
        return Played(mistakes, perf_counter() - start, peak_memory(), own)
    result = simulate_settings(
        first.learner,
        source.data,
        [run.parameters | noise_of(first.data) for run in job],
        delay=recorded_delay(first.delay, first.recorded),
        rounds=first.rounds,
        runs=first.runs,
        seed=first.seed,
        sampling=first.sampling,
        n_jobs=n_jobs,
        progress=progress,
        n_checkpoints=first.checkpoints,
        scenarios=partial(_scenarios, first),
    )
    mistakes = result.mistakes.reshape(len(job), first.runs, -1, 2)
    return Played(mistakes, perf_counter() - start, peak_memory())


def _scenarios(
    run: RunSpec, runs: Sequence[int], config: SimulationConfig, expiry: Expiry, noise: Noise
) -> tuple[Scenarios, int]:
    """Return the scenarios of runs, cached: drawing them takes longer than playing a learner, and jobs share them."""
    if config.n_rounds * BYTES_PER_ROUND > MEMORY:
        return make_scenarios(runs, config, expiry, noise)  # too long for the cache
    data = b"" if config.labelled is None else msgspec.json.encode(run.data)
    plain = config._replace(delay=NO_DELAY, n_checkpoints=0, labelled=None)
    return _drawn(run.delay, data, tuple(runs), plain, expiry, noise)


@lru_cache(maxsize=KEPT_SCENARIOS)
def _drawn(
    delay: str, data: bytes, runs: tuple[int, ...], config: SimulationConfig, expiry: Expiry, noise: Noise
) -> tuple[Scenarios, int]:
    """Draw scenarios; `data` describes the data set where delays depend on its rows, else it is empty."""
    model = as_delay(delay)
    labelled = labels_for(model, _load(data).data, config.n_rounds) if data else None
    return make_scenarios(runs, config._replace(delay=model, labelled=labelled), expiry, noise)


@lru_cache(maxsize=1)
def _load(described: bytes) -> PlayedData:
    """Load a data set, cached: jobs are ordered by it. Raise InvalidInput if its file has changed."""
    return load_source(msgspec.json.decode(described))
