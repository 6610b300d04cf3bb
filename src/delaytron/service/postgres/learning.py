"""The learner: one process at a time, for all models of a database. Another one takes over when it is gone."""

import asyncio
from contextlib import suppress
from logging import getLogger
from typing import Any

import psycopg

from delaytron.errors import DelaytronError
from delaytron.service.postgres.connections import Connection, connect
from delaytron.service.postgres.loading import fetch_rows
from delaytron.service.postgres.passes import Passes
from delaytron.service.postgres.tables import LEARNING, LOCKS

PAUSE = 0.05  # seconds between two looks into the inbox
TRY_AGAIN = 0.5  # seconds between two attempts to become the learner
SESSION = {  # a learner that hangs, or whose machine is gone, loses its lock
    "statement_timeout": "60s",
    "idle_session_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}
TAKE_LOCK = "SELECT pg_try_advisory_lock(%s, %s)"

log = getLogger("delaytron.service")


class LearnerTask:
    """Learns whenever no other process does.

    The lock belongs to the connection by which everything is written: who has lost the one has lost the other.
    """

    def __init__(self, parameters: dict[str, Any]) -> None:
        self._parameters = parameters
        self._stopping = asyncio.Event()
        self.is_learning = False

    async def run(self) -> None:
        """Try to become the learner, and learn, until it is stopped."""
        while not self._stopping.is_set():
            try:
                async with await connect(self._parameters, SESSION) as connection:
                    await self._use(connection)
            except (psycopg.Error, OSError, DelaytronError) as problem:
                log.warning("the learner starts again: %s", " ".join(str(problem).split()))
            finally:
                self.is_learning = False
            await self._pause(TRY_AGAIN)

    def stop(self) -> None:
        """Let it end after what it is doing."""
        self._stopping.set()

    async def _use(self, connection: Connection) -> None:
        while not self._stopping.is_set():
            ((is_ours,),) = await fetch_rows(connection, TAKE_LOCK, LOCKS, LEARNING)
            if is_ours:
                await self._learn(connection)
            await self._pause(TRY_AGAIN)

    async def _learn(self, connection: Connection) -> None:
        log.info("this process is the learner now")
        self.is_learning = True
        passes = Passes(connection)
        while not self._stopping.is_set():
            if not await passes.run():
                await self._pause(PAUSE)
        await passes.finish()

    async def _pause(self, seconds: float) -> None:
        """Wait, unless it is stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
