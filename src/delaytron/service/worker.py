"""Runs the operations of a model: all that waits in one batch, so that requests share a sync of the disk."""

import asyncio
from collections.abc import Callable
from logging import getLogger
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from delaytron.errors import DelaytronError, JournalError
from delaytron.journal.clock import Moment
from delaytron.journal.database import BusyError
from delaytron.model.keeper import Keeper
from delaytron.service.problems import FAILED, NOT_TAKEN, TooMany, Unavailable

MOST_AT_ONCE = 256  # operations in a batch
MOST_WAITING = 10_000  # operations that wait for the disk
MOST_HERE = 32  # operations of a batch in the event loop
SLOW = 0.01  # seconds: a batch in the event loop that took longer was slow
UNKEPT = "nothing is lost, and another one is made after more facts"  # of a snapshot that failed
LEAST_AWAY, MOST_AWAY = 0.05, 3.2  # seconds in the thread after a slow batch; twice as many after another one

log = getLogger("delaytron.service")
T = TypeVar("T")
Operation = Callable[[Moment], Any]


class _Waiting(NamedTuple):
    operation: Operation
    future: "asyncio.Future[Any]"
    short: bool


class ModelWorker:
    """Runs operations on a model for an event loop, in the order in which they came.

    Short ones that find nothing before them run in the event loop itself, as handing them to a thread and back takes
    longer than they do. All others run in a thread of the model; after a slow one, for a while, short ones as well.
    """

    def __init__(self, keeper: Keeper, name: str) -> None:
        self.keeper = keeper
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._arrived: list[_Waiting] = []  # in this turn of the event loop
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._queued = 0  # what the thread has not finished
        self._away_until, self._away = 0.0, LEAST_AWAY
        self._snapshot: asyncio.Task[None] | None = None  # that is being kept
        self._closed = False
        self._thread = Thread(target=self._work, name=f"model {name}", daemon=True)
        self._thread.start()

    async def run(self, operation: Callable[[Moment], T], *, short: bool = False) -> T:
        """Run an operation; return its result when that is on disk."""
        if self._closed:
            raise Unavailable("the service is stopping; try again")
        if self._queued + len(self._arrived) >= MOST_WAITING:
            raise TooMany(f"{MOST_WAITING:,} requests wait for the disk already; try again")
        waiting = _Waiting(operation, self._loop.create_future(), short)
        if not self._arrived:
            self._loop.call_soon(self._begin)
        self._arrived.append(waiting)
        result: T = await waiting.future
        return result

    async def close(self) -> None:
        """Run what waits, then close the model."""
        if self._snapshot is not None:
            await self._snapshot
        if not self._closed:
            self._closed = True
            self._begin()
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _begin(self) -> None:
        """Run what arrived in this turn of the event loop: here, or in the thread."""
        batch, self._arrived = self._arrived, []
        if not (self._can_run_here(batch) and self._run_here(batch)):
            self._hand_over(batch)

    def _can_run_here(self, batch: list[_Waiting]) -> bool:
        is_free = self._queued == 0 and monotonic() >= self._away_until
        return is_free and len(batch) <= MOST_HERE and all(waiting.short for waiting in batch)

    def _run_here(self, batch: list[_Waiting]) -> bool:
        """Run operations now; return False if another process writes, and nothing was done."""
        began = monotonic()
        try:
            outcomes = self._outcomes(batch, wait=False)
        except BusyError:
            return False
        self._stay_away(monotonic() - began)
        self._deliver(batch, outcomes)
        return True

    def _stay_away(self, seconds: float) -> None:
        """Leave the event loop to others for a while, if a batch in it took that many seconds."""
        if seconds <= SLOW:
            self._away = LEAST_AWAY
            return
        self._away_until = monotonic() + self._away
        self._away = min(2 * self._away, MOST_AWAY)

    def _hand_over(self, batch: list[_Waiting]) -> None:
        self._queued += len(batch)
        for waiting in batch:
            self._queue.put(waiting)

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            outcomes = self._outcomes(batch)
            self._loop.call_soon_threadsafe(self._take_over, batch, outcomes)
        try:
            self.keeper.close()
        except Exception:
            log.exception("model %r could not be closed in good order; what was acknowledged is on disk", self._name)

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

    def _take_over(self, batch: list[_Waiting], outcomes: list[Any]) -> None:
        self._queued -= len(batch)
        self._deliver(batch, outcomes)

    def _deliver(self, batch: list[_Waiting], outcomes: list[Any]) -> None:
        """Let those who wait have their results; see to a snapshot if it is time for one."""
        _deliver(batch, outcomes)
        if self._snapshot is None and self.keeper.wants_snapshot and not self._closed:
            self._snapshot = self._loop.create_task(self._keep_snapshot())

    async def _keep_snapshot(self) -> None:
        """Copy the model in one operation, pack it while others run, and keep it in another operation."""
        try:
            still = await self.run(lambda _: self.keeper.still())
            body = await asyncio.to_thread(still.packed)
            await self.run(lambda _: self.keeper.put_packed(still.seq, body))
        except DelaytronError as problem:
            log.warning("no snapshot of model %r was kept: %s; %s", self._name, problem, UNKEPT)
        except Exception:
            log.exception("no snapshot of model %r was kept; %s", self._name, UNKEPT)
        finally:
            self._snapshot = None

    def _outcomes(self, batch: list[_Waiting], *, wait: bool = True) -> list[Any]:
        operations = [_guarded(waiting.operation) for waiting in batch]
        try:
            return self.keeper.run_all(operations, wait=wait, snapshots=False)
        except BusyError:
            raise
        except Exception as problem:
            return [_failure(problem)] * len(batch)


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
        return Unavailable(f"the journal could not be written or read; {NOT_TAKEN}")
    log.error("an operation failed", exc_info=problem)
    return Unavailable(FAILED)


def _deliver(batch: list[_Waiting], outcomes: list[Any]) -> None:
    for waiting, outcome in zip(batch, outcomes, strict=True):
        if waiting.future.done():  # whoever waited has gone
            continue
        if isinstance(outcome, DelaytronError):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)
