"""Tasks on a Dask or Ray cluster, the user's or a temporary local one.

Their own futures are used and not joblib: joblib 1.6 waits forever for a task that Dask has given up, and its backend
for Ray returns nothing before everything is done. Every worker reads the data itself: files, and the folder
`DELAYTRON_DATA`, must be there under the same path.
"""

import logging
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from importlib import import_module
from itertools import islice
from threading import Thread
from traceback import format_exc
from typing import Any, NamedTuple

from delaytron._version import __version__
from delaytron.errors import InvalidInput, Setting
from delaytron.extras import needs

TRIES = 3  # of a task whose worker died
CONNECT_TIMEOUT = 20.0  # seconds; Dask and Ray would try for minutes where another service answers
POLL_INTERVAL = 20.0  # seconds between checks that the cluster is there
NO_WORKERS_TIMEOUT = 300.0  # seconds that a cluster may be without workers: machines take a while to start
IGNORE_SIGINT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # the main process stops the workers

Call = Callable[[], Any]


class Cluster(NamedTuple):
    """A connection: the number of tasks that run at a time now, and how to submit one."""

    kind: str
    size: Callable[[], int]
    submit: Callable[[Call], "Future[Any]"]


def spread_on(
    cluster: Cluster, at_most: int | None, work: Callable[[Any], Any], tasks: Iterable[Any]
) -> Iterator[tuple[Any, Any]]:
    """Yield every task with its result, in order of completion; at most `at_most` are submitted at a time."""
    calls = ((task, partial(_answer, __version__, work, task)) for task in tasks)
    waiting = {cluster.submit(call): task for task, call in islice(calls, at_most)}
    while waiting:
        for future in _first_done(cluster, waiting):
            task = waiting.pop(future)
            waiting |= {cluster.submit(call): other for other, call in islice(calls, 1)}
            with _cluster_errors(cluster):
                answer = future.result()
            if isinstance(answer, Exception):
                raise answer
            yield task, answer


def _answer(version: str, work: Callable[[Any], Any], task: Any) -> Any:
    """Run a task on a worker; return its exception, so that what a future raises is due to the cluster."""
    if version != __version__:
        return InvalidInput(
            f"a worker has delaytron {__version__}, here it is {version}", "install the same version on both"
        )
    try:
        return work(task)
    except Exception as problem:
        problem.add_note(format_exc())
        return problem


def _first_done(cluster: Cluster, waiting: Iterable["Future[Any]"]) -> set["Future[Any]"]:
    """Wait for results; raise InvalidInput if the cluster is gone: Dask and Ray would wait for new workers forever."""
    without_workers = 0.0
    while not (done := wait(waiting, POLL_INTERVAL, FIRST_COMPLETED).done):
        with _cluster_errors(cluster):
            without_workers = 0.0 if cluster.size() else without_workers + POLL_INTERVAL
            if without_workers >= NO_WORKERS_TIMEOUT:
                raise TimeoutError(f"no workers for {NO_WORKERS_TIMEOUT:.0f} s")
    return done


@contextmanager
def _cluster_errors(cluster: Cluster) -> Iterator[None]:
    """Raise exceptions of the block as InvalidInput about the cluster."""
    try:
        yield
    except Exception as problem:
        raise InvalidInput(
            f"{cluster.kind} failed: {_first_sentences(problem)}", "what was played is kept, run it again"
        ) from None


def _first_sentences(problem: Exception) -> str:
    """Return at most two sentences of a message; tracebacks and links follow them."""
    message = str(getattr(problem, "cause", problem)).partition("\ntraceback:")[0] or type(problem).__name__
    sentences = re.split(r"\.(?: (?=[A-Z])|$)", " ".join(message.split()))
    return ". ".join(sentences[:2])


@contextmanager
def dask_cluster(number: int | None, address: str | None) -> Iterator[Cluster]:
    """Connect to a Dask scheduler; without an address, start a local one with `number` processes.

    Raises InvalidInput if there is none, or Dask is not installed.
    """
    needs("distributed")
    distributed = import_module("distributed")
    with ExitStack() as stack:
        if address is None:
            local = distributed.LocalCluster(
                processes=True,
                n_workers=number,
                threads_per_worker=1,
                memory_limit=0,
                dashboard_address="127.0.0.1:0",
                preload=IGNORE_SIGINT,
                silence_logs=logging.ERROR,
            )
            address = str(stack.enter_context(local).scheduler_address)
        connect = partial(distributed.Client, address, timeout=CONNECT_TIMEOUT, set_as_default=False)
        client = stack.enter_context(_connected("Dask", address, connect))
        yield Cluster("Dask", lambda: sum(client.nthreads().values()), client.get_executor(pure=False).submit)


@contextmanager
def ray_cluster(number: int | None, address: str | None) -> Iterator[Cluster]:
    """Connect to a Ray cluster; without an address, start a local one with `number` CPUs.

    A process has only one connection: an existing one is used and left open. Raises InvalidInput if there is no such
    cluster, or Ray is not installed.
    """
    needs("ray")
    ray = import_module("ray")
    connected_before = ray.is_initialized()
    with redirect_stdout(sys.stderr):  # Ray reports dead workers on stdout, which is for the results
        if not connected_before:
            start = partial(ray.init, log_to_driver=False, logging_level=logging.ERROR)
            if address is None:
                start("local", num_cpus=number, include_dashboard=False, object_store_memory=10**8)
            else:
                _connected("Ray", address, partial(start, address))
        try:
            remote = ray.remote(num_cpus=1, max_retries=TRIES - 1)(_call)
            yield Cluster(
                "Ray", lambda: int(ray.cluster_resources().get("CPU", 0)), lambda call: remote.remote(call).future()
            )
        finally:
            if not connected_before:
                ray.shutdown()


def _call(call: Call) -> Any:
    return call()


def _connected(kind: str, address: str, connect: Callable[[], Any]) -> Any:
    """Return a connection; raise InvalidInput if there is none within the timeout."""
    outcome: Future[Any] = Future()

    def attempt() -> None:
        try:
            outcome.set_result(connect())
        except BaseException as problem:
            outcome.set_exception(problem)

    try:
        if address != "auto":  # Ray's word for the cluster on this machine
            _probe(address)
        Thread(target=attempt, daemon=True).start()  # a thread, since an attempt cannot be cancelled, only abandoned
        try:
            return outcome.result(CONNECT_TIMEOUT)
        except TimeoutError:
            raise TimeoutError(f"no answer within {CONNECT_TIMEOUT:.0f} s") from None
    except Exception as problem:
        raise InvalidInput(
            f"there is no {kind} cluster at {address!r}: {_first_sentences(problem)}",
            ("start it, or leave out ", Setting("address")),
        ) from None


def _probe(address: str) -> None:
    """Raise ValueError if nothing listens at host:port; Dask and Ray take long to find that out."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal() and int(port) < 2**16):
        raise ValueError("the address must be host:port")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT / 4).close()
    except OSError as problem:
        raise ValueError(problem.strerror or problem) from None
