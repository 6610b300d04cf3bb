"""A thread for each model: it runs all that waits in one batch, so that requests share a sync of the disk."""

import asyncio
from collections.abc import Callable
from logging import getLogger
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from delaytron.errors import DelaytronError, JournalError
from delaytron.journal.clock import Moment
from delaytron.model.keeper import Keeper
from delaytron.service.problems import TooMany, Unavailable

MOST_AT_ONCE = 256  # operations in a batch
MOST_WAITING = 10_000  # operations that wait for the disk

log = getLogger("delaytron.service")
T = TypeVar("T")
Operation = Callable[[Moment], Any]


class _Waiting(NamedTuple):
    operation: Operation
    future: "asyncio.Future[Any]"


class ModelWorker:
    """Runs operations on a model for an event loop, in the order in which they came."""

    def __init__(self, keeper: Keeper, name: str) -> None:
        self.keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._work, name=f"model {name}", daemon=True)
        self._thread.start()

    async def run(self, operation: Callable[[Moment], T]) -> T:
        """Run an operation; return its result when that is on disk."""
        if self._closed:
            raise Unavailable("the service is stopping; try again")
        if self._queue.qsize() >= MOST_WAITING:
            raise TooMany(f"{MOST_WAITING:,} requests wait for the disk already; try again")
        waiting = _Waiting(operation, self._loop.create_future())
        self._queue.put(waiting)
        result: T = await waiting.future
        return result

    async def close(self) -> None:
        """Run what waits, then close the model."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            self._run_all(batch)
        self.keeper.close()

    def _next_batch(self) -> list[_Waiting] | None:
        """Return what waits, as soon as something does; None at the end."""
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < MOST_AT_ONCE:
            try:
                following = self._queue.get_nowait()
            except Empty:
                break
            if following is None:
                self._queue.put(None)  # it ends after this batch
                break
            batch.append(following)
        return batch

    def _run_all(self, batch: list[_Waiting]) -> None:
        try:
            outcomes = self.keeper.run_all([_guarded(waiting.operation) for waiting in batch])
        except Exception as problem:
            outcomes = [_failure(problem)] * len(batch)
        futures = [waiting.future for waiting in batch]
        self._loop.call_soon_threadsafe(_deliver, futures, outcomes)


def _guarded(operation: Operation) -> Operation:
    """Let an error that nobody foresaw be one of this operation only, if it has changed nothing."""

    def guarded(now: Moment) -> Any:
        try:
            return operation(now)
        except DelaytronError:
            raise
        except Exception as problem:
            raise _failure(problem) from problem

    return guarded


def _failure(problem: Exception) -> DelaytronError:
    """Return what all of a batch are told: nothing of it is on disk."""
    if isinstance(problem, JournalError):
        log.warning("%s", problem)  # it names a file, which is nobody else's business
        return Unavailable("the journal could not be written or read; nothing was acknowledged, try again")
    log.error("an operation failed", exc_info=problem)
    return Unavailable("something went wrong; nothing was acknowledged, try again")


def _deliver(futures: list["asyncio.Future[Any]"], outcomes: list[Any]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():  # whoever waited has gone
            continue
        if isinstance(outcome, DelaytronError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
