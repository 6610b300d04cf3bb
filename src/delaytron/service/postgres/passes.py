"""What the learner does again and again: it takes what came, learns from it, and lets front ends know."""

import asyncio
from collections import defaultdict
from logging import getLogger
from time import monotonic
from typing import Any

from delaytron.journal.records import EXPIRED, OPEN
from delaytron.journal.requests import KEPT
from delaytron.model import facts
from delaytron.model.making import Recipe
from delaytron.service.postgres import queries
from delaytron.service.postgres.connections import Connection
from delaytron.service.postgres.folding import Arrived, FoldedModel
from delaytron.service.postgres.loading import fetch_rows, load_model
from delaytron.service.postgres.publishing import pack_names, pack_published
from delaytron.service.postgres.writing import columns

PUBLISH = 0.5  # seconds between two published states of a model, at least
SHARE = 0.25  # of the time may go into publishing
CLEAN = 60.0  # seconds between two looks for what is due though nothing comes
STUCK = 10.0  # seconds after which a model that could not be learned is tried again
MOST = 2000  # rows that are taken, or decisions that expire, at once
FACTS_A_SNAPSHOT = 20_000
KEPT_SNAPSHOTS = 2

log = getLogger("delaytron.service")


class _StuckError(Exception):
    """What came for a model cannot be learned."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Publication:
    """What is in the tables of the state of a model, and when the next state may be published."""

    def __init__(self, snapshot: int) -> None:
        self.snapshot = snapshot
        self.seq = -1
        self.due = 0.0


class Passes:
    """The states of models, as long as a connection lasts: it holds the lock, and writes all there is to write."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._models: dict[int, FoldedModel] = {}
        self._publications: dict[int, _Publication] = {}
        self._stuck: dict[int, float] = {}
        self._clean = 0.0

    async def run(self) -> bool:
        """Take what came; return whether that was so much that there may be more."""
        await self._load_waiting()
        if monotonic() >= self._clean:
            await self._clean_up()
        taken = 0
        try:
            taken = await self._fold()
        except _StuckError as problem:
            log.exception("model number %d cannot be learned; it is tried again in %g s", problem.number, STUCK)
            self._stuck[problem.number] = monotonic() + STUCK
            self._models.clear()  # nothing of this was committed
        for number in list(self._models):
            await self._publish(number)
        return taken == MOST

    async def _load_waiting(self) -> None:
        """Have the state of the models for which something came."""
        self._stuck = {number: until for number, until in self._stuck.items() if until > monotonic()}
        for (number,) in await self._rows(queries.WAITING, list(self._stuck), MOST):
            await self._load(number)

    async def _load(self, number: int) -> None:
        if number not in self._models and number not in self._stuck:
            model = await load_model(self._connection, number)
            self._models[number] = model
            self._publications[number] = _Publication(model.snapshot)

    async def _clean_up(self) -> None:
        """Forget old requests; have the states of models in which decisions expire, or that were not published."""
        self._clean = monotonic() + CLEAN
        await self._connection.execute(queries.DROP_REQUESTS, (KEPT,))
        for number, recipe in await self._rows(queries.MODELS):
            if Recipe.from_bytes(recipe).asked["expire_after"] is not None:
                await self._load(number)
        for (number,) in await self._rows(queries.UNPUBLISHED):
            await self._load(number)

    async def _fold(self) -> int:
        """Make facts of what came, in one transaction: all of it, or nothing; return how many rows were taken."""
        async with self._connection.transaction():
            taken = await self._rows(queries.TAKE, list(self._models), MOST)
            ((wall,),) = await self._rows(queries.CLOCK)
            arrived: dict[int, list[Arrived]] = defaultdict(list)
            for number, *row in sorted(taken, key=lambda row: row[1]):
                arrived[number].append(Arrived(*row))
            for number, rows in arrived.items():
                await self._fold_model(self._models[number], rows)
            for model in self._models.values():
                await self._expire(model, wall)
            await self._append()
        return len(taken)

    async def _fold_model(self, model: FoldedModel, rows: list[Arrived]) -> None:
        tokens = [row.id for row in rows if row.kind == facts.REDEEMED]
        rounds: Any = await self._rows(queries.ROUNDS, model.number, tokens) if tokens else ()
        try:
            await asyncio.to_thread(model.fold, rows, dict(rounds))
        except Exception as problem:
            raise _StuckError(model.number) from problem

    async def _expire(self, model: FoldedModel, wall: int) -> None:
        """Let decisions expire that nobody has answered; one that is being answered just now is left to that."""
        due = model.due(wall, MOST)
        if due:
            rows = await self._rows(queries.EXPIRE, model.number, due, OPEN, EXPIRED)
            expired = {name for (name,) in rows}
            model.expire([name for name in due if name in expired], wall)

    async def _append(self) -> None:
        """Write the new facts, and the rounds of new tokens."""
        told = [
            (model.number, fact.seq, fact.kind, fact.id, *fact.now, fact.body)
            for model in self._models.values()
            for fact in model.new
        ]
        issued = [(model.number, *token) for model in self._models.values() for token in model.issued.items()]
        if told:
            await self._connection.execute(queries.APPEND, columns(told, 7))
        if issued:
            await self._connection.execute(queries.ISSUE, columns(issued, 3))
        for model in self._models.values():
            model.new.clear()
            model.issued.clear()

    async def _publish(self, number: int, *, at_once: bool = False) -> None:
        """Let front ends have the newest state, and now and then the next learner."""
        model = self._models[number]
        known = self._publications[number]
        if model.seq > known.seq and (at_once or monotonic() >= known.due):
            started = monotonic()
            await self._write_published(model)
            known.seq = model.seq
            known.due = monotonic() + max(PUBLISH, (monotonic() - started) / SHARE)
        if model.seq - known.snapshot >= (1 if at_once else FACTS_A_SNAPSHOT):
            await self._write_snapshot(model)
            known.snapshot = model.seq

    async def _write_published(self, model: FoldedModel) -> None:
        ((wall,),) = await self._rows(queries.CLOCK)
        content = (model.core, model.recipe, model.stats(wall), model.seconds(wall))
        body = await asyncio.to_thread(pack_published, *content)
        names = await asyncio.to_thread(pack_names, model.core) if model.has_new_names else None
        await self._connection.execute(queries.PUBLISH, (model.number, model.seq, wall, body, names))
        model.has_new_names = False

    async def _write_snapshot(self, model: FoldedModel) -> None:
        body = await asyncio.to_thread(model.pack)
        async with self._connection.transaction():
            await self._connection.execute(queries.PUT_SNAPSHOT, (model.number, model.seq, body))
            await self._connection.execute(queries.DROP_SNAPSHOTS, (model.number, model.number, KEPT_SNAPSHOTS))

    async def finish(self) -> None:
        """Keep all states, so that the next learner begins where this one ends."""
        for number in list(self._models):
            await self._publish(number, at_once=True)

    async def _rows(self, sql: Any, *values: Any) -> list[tuple[Any, ...]]:
        return await fetch_rows(self._connection, sql, *values)
