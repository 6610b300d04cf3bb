"""The state of a model, made of its newest snapshot and the facts after it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from delaytron.journal.records import Fact, Snapshot
from delaytron.model.making import Recipe
from delaytron.service.postgres import queries
from delaytron.service.postgres.connections import Connection
from delaytron.service.postgres.folding import FoldedModel


async def fetch_rows(connection: Connection, sql: Any, *values: Any) -> list[tuple[Any, ...]]:
    """Return what a query finds."""
    return await (await connection.execute(sql, values, binary=True)).fetchall()


async def load_model(connection: Connection, number: int) -> FoldedModel:
    """Return the state of a model after its last fact, ready to go on."""
    ((recipe,),) = await fetch_rows(connection, queries.RECIPE, number)
    rows = await fetch_rows(connection, queries.NEWEST_SNAPSHOT, number)
    snapshot = Snapshot(*rows[0]) if rows else None
    model = await asyncio.to_thread(FoldedModel, number, Recipe.from_bytes(recipe), snapshot)
    await asyncio.to_thread(model.core.warm_up)
    async for page in pages(connection, number, model.seq):
        await asyncio.to_thread(model.replay, page)
    return model


async def pages(connection: Connection, number: int, after: int) -> AsyncIterator[list[Fact]]:
    """Iterate over the facts after a number, many at once."""
    while rows := await fetch_rows(connection, queries.FACTS_AFTER, number, after, queries.PAGE):
        yield [queries.as_fact(row) for row in rows]
        after = rows[-1][0]
