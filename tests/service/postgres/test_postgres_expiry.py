"""Expiry and classes on PostgreSQL: the learner decides, in facts, and nobody is contradicted."""

import asyncio

import psycopg
import pytest
from postgres_play import ask, check_state, decide, feedback, make, run, serving, until, until_learned

from delaytron.errors import ConflictingFeedback, InvalidInput
from delaytron.service import messages

pytestmark = pytest.mark.xdist_group("bandit_logit")


async def until_expired(backend, *ids):
    async def expired():
        states = [await backend.decision("router", name) for name in ids]
        return all(state.status == "expired" for state in states)

    await until(expired, "expiry")


def test_a_late_answer_is_recorded(dsn):
    async def scenario(backend):
        await make(backend, expire_after="0.3s")
        await decide(backend, "x")
        await decide(backend, "y")
        assert await feedback(backend, "y", True) == "applied"
        await until_expired(backend, "x")
        assert await feedback(backend, "x", True) == "late_recorded"
        assert await feedback(backend, "x", True) == "duplicate"
        with pytest.raises(ConflictingFeedback, match="after it expired"):
            await feedback(backend, "x", False)
        with pytest.raises(ConflictingFeedback, match="has expired already"):
            await backend.cancel("router", "x")
        assert (await backend.decision("router", "x")).value == 1.0
        await until_learned(dsn, backend)
        stats = await backend.stats("router")
        assert (stats.expired, stats.answered, stats.late, stats.open) == (1, 1, 0, 0)

    run(scenario, dsn)
    check_state(dsn)
    told = ask(dsn, "SELECT kind FROM delaytron.facts WHERE id = 'x' ORDER BY seq")
    assert told == [(7,), (3,), (10,)]


def test_a_late_answer_corrects(dsn):
    async def scenario(backend):
        await make(backend, expire_after="0.3s", on_expiry="wrong")
        await decide(backend, "x")
        await until_expired(backend, "x")
        assert await feedback(backend, "x", True) == "late_corrected"
        assert await feedback(backend, "x", True) == "duplicate"
        with pytest.raises(ConflictingFeedback):
            await feedback(backend, "x", False)
        await until_learned(dsn, backend)
        stats = await backend.stats("router")
        assert (stats.expired, stats.answered, stats.late) == (1, 1, 1)

    run(scenario, dsn)
    check_state(dsn)


def test_expiry_by_rounds(dsn):
    async def scenario(backend):
        await make(backend, expire_after=3)
        for number in range(4):
            await decide(backend, f"x{number}")
            await until_learned(dsn)
        await until_expired(backend, "x0")
        states = [(await backend.decision("router", f"x{number}")).status for number in range(4)]
        assert states == ["expired", "open", "open", "open"]

    run(scenario, dsn)
    check_state(dsn)


def test_what_is_due_expires_though_nothing_comes_and_after_a_restart(dsn):
    async def first(backend):
        await make(backend, expire_after="0.5s")
        await decide(backend, "x")
        await until_learned(dsn)

    async def second(backend):
        await until_expired(backend, "x")

    run(first, dsn)
    run(second, dsn)
    check_state(dsn)


def test_who_is_being_answered_does_not_expire(dsn):
    """A transaction that answers holds the row: the learner neither waits for it nor contradicts it."""

    async def scenario(backend):
        await make(backend, expire_after="0.2s")
        with psycopg.connect(dsn) as held:
            await decide(backend, "x")
            await decide(backend, "y")
            held.execute("UPDATE delaytron.ids SET status = 1, value = 1 WHERE id = 'x'")
            await until_expired(backend, "y")
            held.execute(
                "INSERT INTO delaytron.inbox (model, kind, id, body) VALUES (1, 2, 'x', %s)",
                (b"\xcb\x3f\xf0" + bytes(6),),
            )
            held.commit()
        await until_learned(dsn, backend)
        stats = await backend.stats("router")
        assert (stats.answered, stats.expired, stats.open) == (1, 1, 0)

    run(scenario, dsn)
    check_state(dsn)


def test_classes_come_and_go_for_all_front_ends(dsn):
    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend)
            await decide(backend, "x", allowed=["a"])
            assert (await other.add_class("router", messages.NewClass("d"))).classes == ["a", "b", "c", "d"]
            assert (await decide(other, allowed=["d"])).label == "d"
            assert (await backend.retire_class("router", "a")).classes == ["b", "c", "d"]
            assert await feedback(other, "x", True) == "applied"
            with pytest.raises(InvalidInput, match="'a' is retired"):
                await decide(backend, allowed=["a"])
            await until_learned(dsn, backend, other)
            for front in (backend, other):
                assert (await front.model("router")).classes == ["b", "c", "d"]
                assert (await decide(front, allowed=["d"])).label == "d"
            with pytest.raises(InvalidInput, match="there is a class 'd' already"):
                await backend.add_class("router", messages.NewClass("d"))
            with pytest.raises(InvalidInput, match="'a' is retired already"):
                await other.retire_class("router", "a")
            assert (await other.add_class("router", messages.NewClass("a"))).classes == ["a", "b", "c", "d"]
            await until_learned(dsn, backend, other)
            stats = await backend.stats("router")
            assert [(known.name, known.retired) for known in stats.classes] == [(name, False) for name in "abcd"]

    run(scenario, dsn)
    check_state(dsn)


def test_classes_are_added_by_many_at_once(dsn):
    """All front ends agree on which label is which, in spite of decisions for classes the learner has not heard of."""

    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend, classes=["a", 1])
            fronts = [(backend, number) for number in range(2, 6)] + [(other, number) for number in range(6, 10)]
            await asyncio.gather(*(front.add_class("router", messages.NewClass(n)) for front, n in fronts))
            for front, number in fronts:
                assert (await decide(front, f"x{number}", allowed=[number])).label == number
            await until_learned(dsn, backend, other)
            assert (await backend.model("router")).classes == (await other.model("router")).classes
            for _, number in fronts:
                assert (await backend.decision("router", f"x{number}")).label == number
            assert (await backend.retire_class("router", "7")).classes.count(7) == 0

    run(scenario, dsn)
    check_state(dsn)


def test_a_learner_that_cannot_grow_says_so(dsn):
    async def scenario(backend):
        await make(backend, learner="newtron")
        with pytest.raises(InvalidInput, match="newtron cannot take another class"):
            await backend.add_class("router", messages.NewClass("d"))
        assert (await backend.model("router")).classes == ["a", "b", "c"]

    run(scenario, dsn)
    assert ask(dsn, "SELECT count(*) FROM delaytron.inbox") == [(0,)]
