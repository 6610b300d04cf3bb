"""Who plays: threads of this process, processes of this machine, or a cluster."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from delaytron.checks import check_choice, check_integer
from delaytron.errors import InvalidInput
from delaytron.experiments.clusters import TRIES, dask_cluster, ray_cluster, spread_on

BACKENDS = ("threads", "processes", "dask", "ray")

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
            raise InvalidInput(f"an address is that of a cluster, backend dask or ray; got backend {self.backend!r}")
        return self if self.number is None else self._replace(number=check_integer("workers", self.number, at_least=1))


THREADS = Workers()


class WorkerPool(NamedTuple):
    """Workers who are there: how many tasks they do at a time, and the way to have many done.

    `spread` yields every task with what came of it, as soon as it is there; a worker that dies costs its tasks another
    try.
    """

    side_by_side: int
    spread: Callable[[Work, Iterable[Any]], Iterator[tuple[Any, Any]]]


@contextmanager
def connect(workers: Workers) -> Iterator[WorkerPool]:
    """Start or connect to the workers, and leave behind what was there before."""
    from joblib import cpu_count  # noqa: PLC0415 - slow to import

    backend, number, address = workers
    if backend == "threads":
        yield WorkerPool(1, lambda work, tasks: ((task, work(task)) for task in tasks))
    elif backend == "processes":
        n_processes = number or cpu_count()
        yield WorkerPool(n_processes, partial(_spread_on_processes, n_processes))
    else:
        connect = dask_cluster if backend == "dask" else ray_cluster
        at_most = None if address is None else number
        with connect(number or cpu_count(), address) as cluster:
            size = max(1, cluster.size())
            yield WorkerPool(min(size, at_most or size), partial(spread_on, cluster, at_most))


def _spread_on_processes(n_processes: int, work: Work, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    from joblib import Parallel, delayed  # noqa: PLC0415 - slow to import
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415

    left, tries = dict(enumerate(tasks)), TRIES
    while left:
        calls = [delayed(_numbered)(work, number, task) for number, task in left.items()]
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


def _numbered(work: Work, number: int, task: Any) -> tuple[int, Any]:
    """Do one task; it comes back with its number, as tasks end in any order."""
    return number, work(task)
