"""Playing an experiment: what is missing, job by job, each kept as soon as it is there."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from delaytron.batches import Progress
from delaytron.checks import choice
from delaytron.datasets import Dataset, load
from delaytron.errors import InvalidInput
from delaytron.experiments.runs import Line, Run
from delaytron.experiments.store import Store
from delaytron.matrices import as_kind
from delaytron.records import Ints
from delaytron.simulate import simulate_settings

JOB_ROUNDS = 2 * 10**8  # what is lost at most when an experiment is interrupted
BACKENDS = ("threads", "processes")
SPARSE_BELOW = 0.2  # measured: CSR is three times faster at a share of 0.15 non-zeros, and even at 0.3
TRIES = 3  # of a job whose worker died

Job = tuple[Run, ...]  # runs that differ in their parameters only, so that they share rows, delays and draws


def missing_jobs(lines: Iterable[Line], store: Store) -> list[Job]:
    """Return what is not in the store yet, put together."""
    runs = {run.key: run for line in lines for run in (*line.tuning, *line.reported)}
    groups: dict[str, list[Run]] = {}
    for run in runs.values():
        if not store.has(run):
            groups.setdefault(msgspec.structs.replace(run, parameters={}).content, []).append(run)
    return [job for group in groups.values() for job in _cut(group)]


def _cut(group: list[Run]) -> Iterator[Job]:
    most = max(1, JOB_ROUNDS // group[0].n_rounds)
    for first in range(0, len(group), most):
        yield tuple(group[first : first + most])


def execute(
    jobs: Iterable[Job],
    store: Store,
    backend: str = "threads",
    workers: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Play jobs and keep what comes out, whatever ends it in the middle.

    Parameters
    ----------
    backend : {"threads", "processes"}
        One job at a time, its runs on all threads; or several jobs at a time, each in a process of its own. A process
        that dies costs its job another try.
    workers : int, optional
        Threads or processes; all cores by default.
    """
    choice("backend", backend, BACKENDS)
    played = _in_threads(jobs, workers, progress) if backend == "threads" else _in_processes(jobs, workers, progress)
    for job, mistakes in played:
        for run, part in zip(job, mistakes, strict=True):
            store.write(run, part)


def play(job: Job, n_jobs: int | None = 1, progress: Progress | None = None) -> Ints:
    """Return the mistakes of every run of a job: (settings, runs, checkpoints, 2)."""
    first = job[0]
    how: dict[str, Any] = {"rounds": first.rounds, "runs": first.runs, "seed": first.seed, "sampling": first.sampling}
    data = _load(msgspec.json.encode(first.data))
    settings = [run.parameters for run in job]
    result = simulate_settings(
        first.learner, data, settings, delay=first.delay, n_jobs=n_jobs, progress=progress, **how
    )
    return result.mistakes.reshape(len(job), first.runs, -1, 2)


@lru_cache(maxsize=1)
def _load(described: bytes) -> Dataset:
    """Load a data set; jobs come ordered by it, so that the last one is often the next one."""
    options = msgspec.json.decode(described)
    options.pop("sha256", None)
    return quickest(load(options.pop("name"), **options))


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


def _in_threads(jobs: Iterable[Job], workers: int | None, progress: Progress | None) -> Iterator[tuple[Job, Ints]]:
    for job in jobs:
        yield job, play(job, workers, progress)


def _in_processes(jobs: Iterable[Job], workers: int | None, progress: Progress | None) -> Iterator[tuple[Job, Ints]]:
    from joblib import Parallel, cpu_count, delayed  # noqa: PLC0415 - slow to import
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415

    left = {job[0].key: job for job in jobs}
    for tries_left in reversed(range(TRIES)):
        calls = [delayed(_play_apart)(job) for job in left.values()]
        try:
            for key, mistakes in Parallel(workers or cpu_count(), return_as="generator_unordered")(calls):
                job = left.pop(key)
                yield job, mistakes
                if progress is not None:
                    progress(sum(run.n_rounds for run in job))
        except TerminatedWorkerError:
            if not tries_left:
                raise InvalidInput(f"a process died {TRIES} times; what was played is kept, run it again") from None
        else:
            return


def _play_apart(job: Job) -> tuple[str, Ints]:
    """Play a job in another process; it comes back with its name, as jobs end in any order."""
    return job[0].key, play(job)
