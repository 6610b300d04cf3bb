"""The connection of the learner is cut before and after each of its statements: the next one goes on exactly."""

import asyncio

import psycopg
import pytest
from postgres_play import ask, check_state, decide, feedback, make, serving, until_learned

from delaytron.service.postgres import learner as learning

pytestmark = pytest.mark.xdist_group("bandit_logit")

STATEMENTS = 30  # more than a learner needs that begins, learns from what came, publishes it and keeps a snapshot


class Cutter:
    """Cuts connections of learners at a statement."""

    def __init__(self, monkeypatch):
        self.left = 0
        self.after = False
        self.connect = learning.connect
        monkeypatch.setattr(learning, "connect", self.connect_and_cut)

    async def connect_and_cut(self, parameters, settings):
        connection = await self.connect(parameters, settings)
        execute = connection.execute

        async def cut(*args, **kwargs):
            self.left -= 1
            if self.left == 0 and not self.after:
                self.end(connection)
            result = await execute(*args, **kwargs)
            if self.left == 0:
                self.end(connection)
            return result

        connection.execute = cut
        return connection

    def end(self, connection):
        connection.pgconn.finish()
        raise psycopg.OperationalError("it was cut")


@pytest.mark.parametrize("after", [False, True])
def test_a_connection_cut_at_any_statement_loses_nothing(dsn, monkeypatch, after):
    monkeypatch.setattr(learning, "RETRY", 0.01)
    monkeypatch.setattr(learning, "FACTS_A_SNAPSHOT", 5)
    monkeypatch.setattr(learning, "PUBLISH", 0.0)
    monkeypatch.setattr(learning, "SHARE", 1000.0)
    cutter = Cutter(monkeypatch)
    cutter.after = after

    async def scenario():
        cuts = 0
        async with serving(dsn, learns=False) as front:
            await make(front, expire_after=6)
            for number in range(1, STATEMENTS + 1):
                reply = await decide(front, f"x{number}")
                await feedback(front, reply.id, number % 2 == 0)
                await feedback(front, (await decide(front)).id, True)
                await decide(front, f"y{number}")
                cutter.left = number
                cuts += await learn_to_the_end(front)
            await front._refresh()
            stats = await front.stats("router")
            assert stats.answered == 2 * STATEMENTS
            assert stats.expired + stats.open == STATEMENTS
        return cuts

    async def learn_to_the_end(front):
        learner = learning.LearnerTask(front._connections.parameters)
        task = asyncio.create_task(learner.run())
        await until_learned(dsn)
        learner.stop()
        await task
        return cutter.left <= 0

    cuts = asyncio.run(asyncio.wait_for(scenario(), 300))
    assert 15 < cuts < STATEMENTS, "the last ones must not be reached: then all others were"
    check_state(dsn)
    twice = "SELECT id, kind FROM delaytron.facts WHERE id IS NOT NULL GROUP BY id, kind HAVING count(*) > 1"
    assert ask(dsn, twice) == []
    assert ask(dsn, "SELECT count(*) FROM delaytron.inbox") == [(0,)]
