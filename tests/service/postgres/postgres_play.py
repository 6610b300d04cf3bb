"""What tests do with a backend on PostgreSQL."""

import asyncio
from contextlib import asynccontextmanager
from time import monotonic

import psycopg

from delaytron.service import messages
from delaytron.service.postgres.backend import PostgresBackend
from delaytron.service.postgres.learner import verify_model

PATIENCE = 60  # seconds that something may take at most: machines are slow and busy
SETTLED = """
SELECT NOT EXISTS (SELECT 1 FROM delaytron.inbox) AND NOT EXISTS (
    SELECT 1 FROM delaytron.facts LEFT JOIN delaytron.published USING (model)
    GROUP BY model, published.seq HAVING max(facts.seq) > greatest(1, published.seq))
"""


@asynccontextmanager
async def serving(dsn, **options):
    backend = PostgresBackend(dsn, **options)
    try:
        await backend.start()
        yield backend
    finally:
        await backend.stop()


def run(scenario, dsn, **options):
    """Run a test with a backend that is started and stopped for it; return what the test returns."""

    async def played():
        async with serving(dsn, **options) as backend:
            return await asyncio.wait_for(scenario(backend), 2 * PATIENCE)

    return asyncio.run(played())


async def make(backend, name="router", classes=("a", "b", "c"), features=2, **more):
    return await backend.create(messages.NewModel(name, list(classes), features=features, **more))


async def decide(backend, id=None, x=(1.0, 2.0), name="router", repeatable=None, **more):
    (reply,) = await backend.decide(name, [messages.DecisionRequest(list(x), id, **more)], repeatable)
    return reply


async def feedback(backend, id, correct=None, name="router", **more):
    """Return the result of an answer; raise its error."""
    (outcome,) = await backend.feedback(name, [messages.FeedbackRequest(id, correct=correct, **more)])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def until(holds, what="it"):
    """Wait until an asynchronous condition holds."""
    end = monotonic() + PATIENCE
    while not await holds():
        assert monotonic() < end, f"{what} did not happen"
        await asyncio.sleep(0.02)


async def until_learned(dsn, *fronts):
    """Wait until the inbox is empty and everything is published; let front ends load it."""

    async def settled():
        return ask(dsn, SETTLED)[0][0]

    await until(settled, "learning")
    for front in fronts:
        await front._refresh()


def ask(dsn, sql, values=()):
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql, values)
        return cursor.fetchall() if cursor.description else cursor.rowcount


def check_state(dsn, name="router"):
    """Raise if the state is not the replay of the facts; return what was found."""
    found = verify_model(dsn, name)
    assert found.state == found.replayed
    return found
