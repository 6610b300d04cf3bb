"""Who plays: threads of this process, processes of this machine."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from delaytron.checks import choice, whole
from delaytron.errors import InvalidInput

BACKENDS = ("threads", "processes")
TRIES = 3  # of a task whose worker died


class Workers(NamedTuple):
    """How many of what kind; all cores if no number is given."""

    backend: str = "threads"
    number: int | None = None

    @property
    def checked(self) -> "Workers":
        """The same, or an error where there are no such workers."""
        choice("backend", self.backend, BACKENDS)
        return self if self.number is None else self._replace(number=whole("workers", self.number, at_least=1))

    @property
    def side_by_side(self) -> int:
        """How many jobs are played at a time."""
        from joblib import cpu_count  # noqa: PLC0415 - slow to import

        return 1 if self.backend == "threads" else self.number or cpu_count()


THREADS = Workers()


def spread(work: Callable[[Any], Any], tasks: Iterable[Any], workers: Workers) -> Iterator[tuple[Any, Any]]:
    """Yield every task with what came of it, in any order; a worker that dies costs its tasks another try."""
    from joblib import Parallel, delayed  # noqa: PLC0415 - slow to import
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415

    left = dict(enumerate(tasks))
    for tries_left in reversed(range(TRIES)):
        calls = [delayed(_numbered)(work, number, task) for number, task in left.items()]
        try:
            for number, result in Parallel(workers.side_by_side, return_as="generator_unordered")(calls):
                yield left.pop(number), result
        except TerminatedWorkerError:
            if not tries_left:
                raise InvalidInput(f"a process died {TRIES} times; what was played is kept, run it again") from None
        else:
            return


def _numbered(work: Callable[[Any], Any], number: int, task: Any) -> tuple[int, Any]:
    """Do one task; it comes back with its number, as tasks end in any order."""
    return number, work(task)
