"""Who plays: threads of this process, processes of this machine, or a cluster."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from threading import Thread
from typing import Any, NamedTuple

from delaytron.checks import check_choice, check_integer
from delaytron.errors import InvalidInput
from delaytron.experiments.clusters import TRIES, dask_cluster, ray_cluster, spread_on

BACKENDS = ("threads", "processes", "dask", "ray")
PARENT_INTERVAL = 0.5  # seconds after which a process looks if the one that started it still is there

Work = Callable[[Any], Any]


class Workers(NamedTuple):
    """How many of what kind; all cores if no number is given.

    Of the cluster at an address (`tcp://host:8786` of a Dask scheduler, `host:6379` or `auto` for Ray) all threads
    play, or `number` of them; without an address a local one is started.
    """

    backend: str = "threads"
    number: int | None = None
    address: str | None = None

    @property
    def checked(self) -> "Workers":
        """The same, or an error where there are no such workers."""
        check_choice("backend", self.backend, BACKENDS)
        if self.address is not None and self.backend not in ("dask", "ray"):
            raise InvalidInput(
                f"address needs backend dask or ray, got {self.backend!r}; leave it out, or choose one of them"
            )
        if self.number is None:
            return self
        return self._replace(number=check_integer("workers", self.number, at_least=1))


THREADS = Workers()


class WorkerPool(NamedTuple):
    """Workers that are ready: how many tasks they do at a time, and the way to have many done.

    `spread` yields every task with what came of it, as soon as it is there; a worker that dies costs its tasks another
    try.
    """

    side_by_side: int
    spread: Callable[[Work, Iterable[Any]], Iterator[tuple[Any, Any]]]


@contextmanager
def connect(workers: Workers) -> Iterator[WorkerPool]:
    """Start or connect to the workers, and leave behind what was there before."""
    from joblib import cpu_count  # noqa: PLC0415 - slow to import

    n_workers = workers.number or cpu_count()
    if workers.backend == "threads":
        yield WorkerPool(1, lambda work, tasks: ((task, work(task)) for task in tasks))
    elif workers.backend == "processes":
        with _no_process_left():
            yield WorkerPool(n_workers, partial(_spread_on_processes, n_workers))
    else:
        open_cluster = dask_cluster if workers.backend == "dask" else ray_cluster
        at_most = None if workers.address is None else workers.number
        with open_cluster(n_workers, workers.address) as cluster:
            size = max(1, cluster.size())
            yield WorkerPool(min(size, at_most or size), partial(spread_on, cluster, at_most))


@contextmanager
def _no_process_left() -> Iterator[None]:
    """Stop the processes at once if the block ends by an exception, also one that a signal raises."""
    try:
        yield
    except BaseException:
        from joblib.externals.loky import get_reusable_executor  # noqa: PLC0415 - slow to import

        get_reusable_executor().shutdown(wait=True, kill_workers=True)
        raise


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
                tries = TRIES
        except TerminatedWorkerError:
            tries -= 1
            if not tries:
                raise InvalidInput(f"a process died {TRIES} times; what was played is kept, run it again") from None
        else:
            return


def _numbered(parent: int, work: Work, number: int, task: Any) -> tuple[int, Any]:
    """Do one task; it comes back with its number, as tasks end in any order."""
    if os.getpid() != parent:  # joblib starts no process for one at a time
        _live_with(parent)
    return number, work(task)


@lru_cache(maxsize=1)
def _live_with(parent: int) -> None:
    """Let this process end with the one that started it, however that ends; Ctrl-C is for that one alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_INTERVAL)
    os._exit(1)
