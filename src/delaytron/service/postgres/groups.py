"""What several tasks want to write at the same time, written together: one transaction, one sync of the disk."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from delaytron.service.problems import TooMany, Unavailable

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

MOST_TOGETHER = 256
MOST_WAITING = 10_000
AT_ONCE = 2  # groups that are being written: while one waits for the disk, the next one is on its way


class Groups(Generic[Item, Outcome]):
    """Collects what comes while groups are being written.

    `write` returns an outcome for each item of a group, or an exception for it; one that it raises is for all of them.
    """

    def __init__(self, write: Callable[[list[Item]], Awaitable[Sequence[Outcome | Exception]]]) -> None:
        self._write = write
        self._waiting: list[tuple[Item, asyncio.Future[Outcome]]] = []
        self._writers: set[asyncio.Task[None]] = set()
        self._closed = False

    async def add(self, item: Item) -> Outcome:
        """Write an item with others; return its outcome, or raise it."""
        return await self._add(item)

    async def add_all(self, items: Sequence[Item]) -> list[Outcome | Exception]:
        """Write several; each has its outcome or its exception."""
        outcomes: Any = await asyncio.gather(*[self._add(item) for item in items], return_exceptions=True)
        return list(outcomes)

    def _add(self, item: Item) -> "asyncio.Future[Outcome]":
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(Unavailable("the service is stopping; try again"))
        elif len(self._waiting) >= MOST_WAITING:
            future.set_exception(TooMany(f"{MOST_WAITING:,} requests wait for the database already; try again"))
        else:
            self._waiting.append((item, future))
            if len(self._writers) < AT_ONCE:
                writer = asyncio.create_task(self._work())
                self._writers.add(writer)
                writer.add_done_callback(self._writers.discard)
        return future

    async def _work(self) -> None:
        while self._waiting:
            group = self._waiting[:MOST_TOGETHER]
            del self._waiting[:MOST_TOGETHER]
            for (_, future), outcome in zip(group, await self._outcomes([item for item, _ in group]), strict=True):
                if future.done():  # whoever waited has gone
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)

    async def _outcomes(self, items: list[Item]) -> Sequence[Outcome | Exception]:
        try:
            return await self._write(items)
        except Exception as problem:
            return [problem] * len(items)

    async def close(self) -> None:
        """Write what waits, and take nothing more."""
        self._closed = True
        while self._writers:
            await asyncio.gather(*self._writers)
