"""The learner on PostgreSQL: one at a time, taken over when it is gone, and no row is missed or taken twice."""

import asyncio
from threading import Event
from time import monotonic

import psycopg
import pytest
from postgres_play import PATIENCE, ask, check_state, decide, feedback, make, run, serving, until, until_learned

from delaytron.answers import Status
from delaytron.errors import JournalError
from delaytron.model import facts
from delaytron.service import messages
from delaytron.service.postgres import learner as learning
from delaytron.service.postgres.backend import PostgresBackend
from delaytron.service.postgres.schema import CLOCK, LEARNING, LOCKS

pytestmark = pytest.mark.xdist_group("bandit_logit")

HOLDERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted"


def holders(dsn):
    return [pid for (pid,) in ask(dsn, HOLDERS, (LOCKS, LEARNING))]


async def until_one_learns(*backends):
    """Wait until one of them learns; return it, and how long that took."""
    started = monotonic()

    async def learns():
        return any(backend.is_learning for backend in backends)

    await until(learns, "learning")
    (learner,) = [backend for backend in backends if backend.is_learning]
    return learner, monotonic() - started


def test_one_process_learns_and_another_takes_over(dsn):
    async def scenario(first):
        async with serving(dsn) as second, serving(dsn) as third:
            backends = {first, second, third}
            await make(first)
            for number in range(3):
                learner, seconds = await until_one_learns(*backends)
                assert seconds < 10
                assert len(holders(dsn)) == 1
                await decide(third, f"x{number}")
                await until_learned(dsn)
                assert [backend.is_learning for backend in backends].count(True) == 1
                learner._learner.stop()
                backends.remove(learner)

                async def has_ended(learner=learner):
                    return not learner.is_learning

                await until(has_ended)
            assert holders(dsn) == []
            assert (await decide(second, "y")).id == "y"  # no process learns, and all can decide and answer
            assert await feedback(third, "y", True) == "accepted"
            await third._refresh()
            behind = (await third.stats("router")).staleness
            assert behind.decisions == 1
            assert behind.seconds > 0

    run(scenario, dsn)
    found = check_state(dsn)
    assert (found.facts, found.waiting) == (4, 2)


def test_a_learner_whose_connection_is_cut_starts_again(dsn):
    async def scenario(backend):
        await make(backend)
        for number in range(4):
            await until_one_learns(backend)
            await decide(backend, f"x{number}")
            ((ended,),) = ask(dsn, "SELECT pg_terminate_backend(%s)", holders(dsn))
            assert ended
            await feedback(backend, f"x{number}", True)
            await until_learned(dsn, backend)
        assert (await backend.stats("router")).answered == 4

    run(scenario, dsn)
    assert check_state(dsn).facts == 9


def test_a_transaction_that_commits_late_is_not_missed(dsn):
    """Its rows have lower places than those that were taken before."""

    async def scenario(backend):
        await make(backend)
        await decide(backend, "x0")
        await until_learned(dsn)
        ((body,),) = ask(dsn, "SELECT body FROM delaytron.facts WHERE id = 'x0'")
        with psycopg.connect(dsn) as slow:
            slow.execute("INSERT INTO delaytron.ids VALUES (1, 'slow', %s, NULL, 0)", (Status.OPEN,))
            slow.execute(
                "INSERT INTO delaytron.inbox (model, kind, id, body) VALUES (1, %s, 'slow', %s)", (facts.RECORDED, body)
            )
            for number in range(1, 5):
                await decide(backend, f"x{number}")
            await until_learned(dsn)
            slow.commit()
        assert await feedback(backend, "slow", True) == "accepted"
        await until_learned(dsn, backend)
        assert (await backend.stats("router")).decisions == 6

    run(scenario, dsn)
    ids = [name for (name,) in ask(dsn, "SELECT id FROM delaytron.facts WHERE kind = 2 ORDER BY seq")]
    assert ids == ["x0", "x1", "x2", "x3", "x4", "slow"]
    check_state(dsn)


def test_the_next_learner_begins_with_the_snapshot_and_the_facts_after_it(dsn, monkeypatch):
    monkeypatch.setattr(learning, "FACTS_A_SNAPSHOT", 7)
    monkeypatch.setattr(learning.Passes, "finish", lambda self: asyncio.sleep(0))  # as after a kill

    async def scenario(backend):
        for number in range(10):
            reply = await decide(backend)
            if number % 2:
                await feedback(backend, reply.id, number % 4 == 1)
            if number % 3 == 0:
                await until_learned(dsn)
        await until_learned(dsn)

    run(make, dsn)
    for part in range(1, 4):
        run(scenario, dsn)
        found = check_state(dsn)
        assert found.facts == 1 + 15 * part
    snapshots = [seq for (seq,) in ask(dsn, "SELECT seq FROM delaytron.snapshots ORDER BY seq")]
    assert len(snapshots) == learning.KEPT_SNAPSHOTS
    assert 46 - 16 < snapshots[-1] <= 46


def test_what_a_killed_learner_did_not_publish_is_published_by_the_next(dsn, monkeypatch):
    async def first(backend):
        await make(backend)
        await decide(backend, "x")

        async def folded():
            return ask(dsn, "SELECT count(*) FROM delaytron.facts") == [(2,)]

        await until(folded)

    async def second(backend):
        await until_learned(dsn, backend)
        assert (await backend.stats("router")).decisions == 1

    with monkeypatch.context() as patched:
        patched.setattr(learning.Passes, "_publish", lambda self, number, at_once=False: asyncio.sleep(0))
        run(first, dsn)
    run(second, dsn)


def test_a_damaged_row_stops_its_own_model_only(dsn, monkeypatch, caplog):
    monkeypatch.setattr(learning, "STUCK", 0.2)

    async def scenario(backend):
        await make(backend)
        await make(backend, "other")
        await decide(backend, "x")
        ask(dsn, "INSERT INTO delaytron.inbox (model, kind, id, body) VALUES (1, 3, 'nobody', '')")
        await decide(backend, "y")
        await decide(backend, "z", name="other")

        async def others_are_learned():
            return ask(dsn, "SELECT count(*) FROM delaytron.facts WHERE id = 'z'") == [(1,)]

        await until(others_are_learned)
        assert ask(dsn, "DELETE FROM delaytron.inbox WHERE id = 'nobody'") == 1
        await until_learned(dsn, backend)
        assert (await backend.stats("router")).decisions == 2

    run(scenario, dsn)
    check_state(dsn)
    check_state(dsn, "other")
    assert "model number 1 cannot be learned" in caplog.text


def test_a_damaged_fact_stops_its_own_model_only(dsn, monkeypatch, caplog):
    monkeypatch.setattr(learning, "STUCK", 0.2)
    monkeypatch.setattr(learning.Passes, "finish", lambda self: asyncio.sleep(0))  # no snapshot has the fact

    async def first(backend):
        await make(backend)
        await make(backend, "other")
        await decide(backend, "x")
        await until_learned(dsn)

    async def second(backend):
        await decide(backend, "y")
        await decide(backend, "z", name="other")

        async def others_are_learned():
            return ask(dsn, "SELECT count(*) FROM delaytron.facts WHERE id = 'z'") == [(1,)]

        await until(others_are_learned)
        assert ask(dsn, "UPDATE delaytron.facts SET wall = wall - 1 WHERE id = 'x'") == 1
        await until_learned(dsn, backend)
        assert (await backend.stats("router")).decisions == 2

    run(first, dsn)
    assert ask(dsn, "UPDATE delaytron.facts SET wall = wall + 1 WHERE id = 'x'") == 1
    with pytest.raises(JournalError, match="the checksum of fact 2 is wrong; restore the database from a backup"):
        check_state(dsn)
    run(second, dsn)
    check_state(dsn)
    check_state(dsn, "other")
    assert "model number 1 cannot be learned" in caplog.text


def test_many_models_are_learned_by_one(dsn):
    async def scenario(backend):
        names = [f"m{number}" for number in range(5)]
        for name in names:
            await make(backend, name)
        for number in range(20):
            replies = await asyncio.gather(*(decide(backend, name=name) for name in names))
            for name, reply in zip(names, replies, strict=True):
                await feedback(backend, reply.id, number % 2 == 0, name)
        await until_learned(dsn, backend)
        assert [(await backend.model(name)).decisions for name in names] == [20] * 5

    run(scenario, dsn)
    for number in range(5):
        assert check_state(dsn, f"m{number}").facts == 41


def test_what_is_learned_reaches_other_front_ends(dsn):
    """After ten right answers for one class and wrong ones for the others all front ends prefer it."""

    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend)
            for _ in range(10):
                for label in "abc":
                    reply = await decide(backend, allowed=[label])
                    await feedback(backend, reply.id, label == "b")
            await until_learned(dsn, other)
            replies = [await decide(other) for _ in range(40)]
            assert sum(reply.label == "b" for reply in replies) > 25
            stats = await other.stats("router")
            assert stats.decisions >= 30
            assert stats.decisions_per_second >= 0.5

    run(scenario, dsn)


def test_without_new_facts_there_is_no_staleness(dsn):
    async def scenario(backend):
        await make(backend)
        assert (await backend.stats("router")).staleness.seconds == 0
        reply = await decide(backend)
        await feedback(backend, reply.id, True)
        await until_learned(dsn, backend)
        stats = await backend.stats("router")
        assert (stats.staleness.seconds, stats.staleness.decisions) == (0, 0)
        assert (stats.decisions, stats.answered, stats.open) == (1, 1, 0)
        assert stats.classes[["a", "b", "c"].index(reply.label)].mean_reward == 1.0

    run(scenario, dsn)


def test_a_damaged_published_state_leaves_the_previous_one_in_use(dsn, caplog):
    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend)
            await make(backend, "other")
            await decide(other)
            await until_learned(dsn, other)
            backend._learner.stop()
            ask(dsn, "UPDATE delaytron.published SET seq = 100, body = 'damaged' WHERE model = 1")
            await other._refresh()
            assert other.unready() is None
            assert (await decide(other)).round == 2
            assert (await decide(other, name="other")).round == 1

    run(scenario, dsn)
    assert "the state of model 'router' is damaged" in caplog.text


def test_idempotency_keys_are_dropped_when_they_are_old(dsn, monkeypatch):
    monkeypatch.setattr(learning, "CLEAN", 0.0)

    async def scenario(backend):
        await make(backend)
        sql = "INSERT INTO delaytron.replies VALUES (1, %s, '', '', delaytron.now() - %s)"
        for key, age in (("old", learning.REPLIES_KEPT + 10**9), ("young", learning.REPLIES_KEPT - 10**12)):
            ask(dsn, sql, (key, age))

        async def forgotten():
            return ask(dsn, "SELECT key FROM delaytron.replies") == [("young",)]

        await until(forgotten)

    run(scenario, dsn)


def test_a_learner_that_hangs_loses_its_lock(dsn, monkeypatch):
    """It can write nothing when it goes on, because another process has taken over."""
    monkeypatch.setitem(learning.SESSION, "idle_session_timeout", "300ms")
    gate = asyncio.Event()
    hung = []

    async def hang(self, number, at_once=False):
        if not hung:
            hung.append(self)
            await gate.wait()
        await publish(self, number, at_once=at_once)

    publish = learning.Passes._publish
    monkeypatch.setattr(learning.Passes, "_publish", hang)

    async def scenario(first):
        await make(first)
        await until_one_learns(first)
        async with serving(dsn) as second:
            await decide(second, "x")

            async def took_over():
                return second.is_learning

            await until(took_over, "taking over")
            assert first.is_learning  # it does not know yet
            await decide(first, "y")
            await until_learned(dsn)
            gate.set()

            async def noticed():
                return not first.is_learning

            await until(noticed)

    run(scenario, dsn)
    assert check_state(dsn).facts == 3


def test_stopping_writes_the_decisions_that_wait(dsn):
    async def scenario(backend):
        await make(backend)
        calls = [asyncio.create_task(decide(backend, f"x{number}")) for number in range(40)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await backend.stop()
        done = await asyncio.gather(*calls, return_exceptions=True)
        return [reply.id for reply in done if isinstance(reply, messages.DecisionReply)]

    written = asyncio.run(asyncio.wait_for(_alone(scenario, dsn), PATIENCE))
    assert {name for (name,) in ask(dsn, "SELECT id FROM delaytron.ids")} == set(written)
    assert len(written) == 40


async def _alone(scenario, dsn):
    backend = PostgresBackend(dsn)
    await backend.start()
    return await scenario(backend)


def test_a_model_that_this_version_cannot_load_does_not_stop_the_others(dsn):
    """A newer version may have created it, with a learner that this version does not have."""

    async def make_both(backend):
        for name in ("router", "newer"):
            await make(backend, name=name, learner="delaytron")
            await decide(backend, "x", name=name)

    run(make_both, dsn, learns=False)
    ask(
        dsn,
        "UPDATE delaytron.models SET recipe = convert_to("
        "replace(convert_from(recipe, 'UTF8'), '\"delaytron\"', '\"unheard\"'), 'UTF8') WHERE name = 'newer'",
    )
    counted = "SELECT count(*) FROM delaytron.facts JOIN delaytron.models ON model = number "
    counted += f"WHERE name = 'router' AND kind = {facts.RECORDED}"

    async def scenario(backend):
        async def is_learned():
            return ask(dsn, counted) == [(1,)]

        await until(is_learned)
        assert backend.is_learning

    run(scenario, dsn)
    check_state(dsn)


def test_the_connection_is_used_while_a_thread_works(monkeypatch):
    """PostgreSQL ends a session that is idle for long."""
    asked, enough = [], Event()

    async def fetch(connection, sql):
        asked.append((connection, sql))
        if len(asked) == 3:
            enough.set()

    monkeypatch.setattr(learning, "fetch", fetch)
    monkeypatch.setattr(learning, "ALIVE", 0.01)
    assert asyncio.run(learning.in_thread("connection", lambda: enough.wait(PATIENCE)))
    assert asked[:3] == [("connection", CLOCK)] * 3
    with pytest.raises(ZeroDivisionError):
        asyncio.run(learning.in_thread("connection", lambda: 1 / 0))
