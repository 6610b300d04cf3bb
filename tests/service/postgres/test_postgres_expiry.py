"""Expiry and classes on PostgreSQL: the learner decides, in facts, and no reply is contradicted."""

import asyncio
from threading import Event

import psycopg
import pytest
from postgres_play import PATIENCE, ask, check_state, decide, feedback, make, run, serving, until, until_learned

from delaytron.answers import Status
from delaytron.errors import ConflictingFeedback, InvalidInput
from delaytron.model import facts
from delaytron.service import messages
from delaytron.service.postgres import backend as postgres
from delaytron.service.postgres import frontend
from delaytron.service.postgres.learner import purge_model

pytestmark = pytest.mark.xdist_group("bandit_logit")


async def until_expired(backend, *ids):
    async def expired():
        states = [await backend.decision("router", name) for name in ids]
        return all(state.status == "expired" for state in states)

    await until(expired, "expiry")


def test_an_answer_after_a_dropped_expiry_is_late(dsn):
    async def scenario(backend):
        await make(backend, expire_after="0.3s")
        await decide(backend, "x")
        await decide(backend, "y")
        assert await feedback(backend, "y", True) == "accepted"
        await until_expired(backend, "x")
        assert await feedback(backend, "x", True) == "late"
        assert await feedback(backend, "x", True) == "duplicate"
        with pytest.raises(ConflictingFeedback, match="answered 'correct', now 'wrong' came"):
            await feedback(backend, "x", False)
        with pytest.raises(ConflictingFeedback, match="has expired already"):
            await backend.cancel("router", "x")
        assert (await backend.decision("router", "x")).value == 1.0
        await until_learned(dsn, backend)
        stats = await backend.stats("router")
        assert (stats.expired, stats.answered, stats.corrected, stats.late, stats.open) == (1, 1, 0, 1, 0)

    run(scenario, dsn)
    check_state(dsn)
    kinds = ask(dsn, "SELECT kind FROM delaytron.facts WHERE id = 'x' ORDER BY seq")
    assert kinds == [(facts.RECORDED,), (facts.EXPIRED,), (facts.ANSWERED_LATE,)]


def test_an_answer_after_an_expiry_as_wrong_corrects(dsn):
    async def scenario(backend):
        await make(backend, expire_after="0.3s", on_expiry="wrong")
        await decide(backend, "x")
        await until_expired(backend, "x")
        assert await feedback(backend, "x", True) == "corrected"
        assert await feedback(backend, "x", True) == "duplicate"
        with pytest.raises(ConflictingFeedback):
            await feedback(backend, "x", False)
        await until_learned(dsn, backend)
        stats = await backend.stats("router")
        assert (stats.expired, stats.answered, stats.corrected, stats.late) == (1, 1, 1, 0)

    run(scenario, dsn)
    check_state(dsn)


RELEASED = "SELECT status, correctable, value FROM delaytron.ids WHERE id = 'x'"


def test_an_answer_after_the_release_is_late(dsn):
    """A decision that expired as wrong can be corrected for a while; then its row is released, by a fact."""

    async def scenario(backend):
        await make(backend, expire_after=1, on_expiry="wrong", correct_within=2)
        await decide(backend, "x")
        for number in range(2):
            await until_learned(dsn)
            await decide(backend, f"y{number}")
        await until_expired(backend, "x")
        assert ask(dsn, RELEASED) == [(Status.EXPIRED, True, None)]
        for number in range(2, 4):
            await until_learned(dsn)
            await decide(backend, f"y{number}")

        async def released():
            return ask(dsn, RELEASED) == [(Status.EXPIRED, False, None)]

        await until(released, "release")
        assert await feedback(backend, "x", True) == "late"
        assert await feedback(backend, "x", True) == "duplicate"
        with pytest.raises(ConflictingFeedback, match="answered 'correct', now 'wrong' came"):
            await feedback(backend, "x", False)
        assert ask(dsn, RELEASED) == [(Status.EXPIRED, False, 1.0)]
        await until_learned(dsn, backend)
        stats = await backend.stats("router")
        assert (stats.answered, stats.corrected, stats.late) == (0, 0, 1)

    run(scenario, dsn)
    check_state(dsn)
    assert ask(dsn, "SELECT kind FROM delaytron.facts WHERE id = 'x' ORDER BY seq") == [
        (facts.RECORDED,),
        (facts.EXPIRED,),
        (facts.RELEASED,),
        (facts.ANSWERED_LATE,),
    ]


def test_a_decision_that_is_being_corrected_is_not_released(dsn):
    """A transaction that corrects holds the row: the learner releases others, and then takes the answer."""

    async def scenario(backend):
        await make(backend, expire_after="0.1s", on_expiry="wrong", correct_within="0.3s")
        await decide(backend, "x")
        await decide(backend, "y")
        with psycopg.connect(dsn) as held:
            await until_expired(backend, "x", "y")
            held.execute("UPDATE delaytron.ids SET status = 1, value = 1, correctable = false WHERE id = 'x'")
            await decide(backend, "z")  # with its round the expiries are applied

            async def released():
                return ask(dsn, "SELECT correctable FROM delaytron.ids WHERE id = 'y'") == [(False,)]

            await until(released, "release")
            held.execute(
                "INSERT INTO delaytron.inbox (model, kind, id, body) VALUES (1, %s, 'x', %s)",
                (facts.ANSWERED, facts.encode(1.0)),
            )
            held.commit()
        await until_learned(dsn, backend)
        stats = await backend.stats("router")
        assert (stats.answered, stats.corrected, stats.late) == (1, 1, 0)
        assert await feedback(backend, "y", True) == "late"

    run(scenario, dsn)
    check_state(dsn)


def test_a_correctable_decision_is_not_purged(dsn):
    async def scenario(backend):
        await make(backend, expire_after="0.1s", on_expiry="wrong")
        await decide(backend, "x")
        await until_expired(backend, "x")
        await until_learned(dsn)

    async def afterwards(backend):
        assert await feedback(backend, "x", True) == "corrected"
        await until_learned(dsn)

    run(scenario, dsn)
    assert purge_model(dsn, "router", "0.000001s") == 0
    run(afterwards, dsn)
    check_state(dsn)


def test_decisions_expire_by_rounds(dsn):
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


def test_decisions_expire_without_requests_and_after_a_restart(dsn):
    async def first(backend):
        await make(backend, expire_after="0.5s")
        await decide(backend, "x")
        await until_learned(dsn)

    async def second(backend):
        await until_expired(backend, "x")

    run(first, dsn)
    run(second, dsn)
    check_state(dsn)


def test_a_decision_that_is_being_answered_does_not_expire(dsn):
    """A transaction that answers holds the row: the learner neither waits for it nor contradicts it."""

    async def scenario(backend):
        await make(backend, expire_after="0.2s")
        with psycopg.connect(dsn) as held:
            await decide(backend, "x")
            await decide(backend, "y")
            held.execute("UPDATE delaytron.ids SET status = 1, value = 1 WHERE id = 'x'")
            await until_expired(backend, "y")
            held.execute(
                "INSERT INTO delaytron.inbox (model, kind, id, body) VALUES (1, %s, 'x', %s)",
                (facts.ANSWERED, facts.encode(1.0)),
            )
            held.commit()
        await until_learned(dsn, backend)
        stats = await backend.stats("router")
        assert (stats.answered, stats.expired, stats.open) == (1, 1, 0)

    run(scenario, dsn)
    check_state(dsn)


def test_classes_are_added_and_retired_for_all_front_ends(dsn):
    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend)
            await decide(backend, "x", allowed=["a"])
            assert (await other.add_class("router", messages.NewClass("d"))).classes == ["a", "b", "c", "d"]
            assert (await decide(other, allowed=["d"])).label == "d"
            assert (await backend.retire_class("router", "a")).classes == ["b", "c", "d"]
            assert await feedback(other, "x", True) == "accepted"
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


def test_classes_that_are_added_concurrently_have_one_label_each(dsn):
    """Front ends agree on the labels, also for decisions before the learner has the fact of the class."""

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


def test_a_front_end_finds_decisions_for_a_class_that_another_one_added(dsn, monkeypatch):
    monkeypatch.setattr(postgres, "REFRESH", 1000.0)

    async def scenario(backend):
        await make(backend)
        for number, use in enumerate((find, find_recent)):
            async with serving(dsn, learns=False) as other:
                await decide(other, f"w{number}")
                await backend.add_class("router", messages.NewClass(number))
                await decide(backend, f"x{number}", allowed=[number])
                assert (await use(other, f"x{number}")).label == number

    async def find(backend, id):
        return await backend.decision("router", id)

    async def find_recent(backend, id):
        (state,) = await backend.recent("router", 1)
        assert state.id == id
        return state

    run(scenario, dsn, learns=False)


def test_a_class_that_is_added_while_a_state_is_loaded_is_kept(dsn, monkeypatch):
    monkeypatch.setattr(postgres, "REFRESH", 1000.0)
    begun, go_on = Event(), Event()
    unpublished = frontend.unpublished

    def slow(recipe):
        begun.set()
        assert go_on.wait(PATIENCE)
        return unpublished(recipe)

    async def scenario(backend):
        await make(backend)
        (await backend._models.find("router")).version = frontend.NO_VERSION
        monkeypatch.setattr(frontend, "unpublished", slow)
        loading = asyncio.create_task(backend._refresh())
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        await backend.add_class("router", messages.NewClass("d"))
        go_on.set()
        await loading
        assert (await decide(backend, allowed=["d"])).label == "d"

    run(scenario, dsn, learns=False)


def test_an_answer_may_be_a_class_that_another_front_end_added(dsn, monkeypatch):
    monkeypatch.setattr(postgres, "REFRESH", 1000.0)

    async def scenario(backend):
        await make(backend)
        async with serving(dsn, learns=False) as other:
            await decide(other, "x")
            await backend.add_class("router", messages.NewClass("d"))
            assert await feedback(other, "x", label="d") == "accepted"
            with pytest.raises(InvalidInput, match="got 'e'; known are a, b, c, d"):
                await feedback(other, "x", label="e")

    run(scenario, dsn, learns=False)


def test_an_answer_with_a_class_of_another_front_end_does_not_fail_its_group(dsn, monkeypatch):
    monkeypatch.setattr(postgres, "REFRESH", 1000.0)

    async def scenario(backend):
        await make(backend, learner="perceptron")
        async with serving(dsn, learns=False) as other:
            for name in ("x", "y"):
                await decide(other, name)
            await backend.add_class("router", messages.NewClass("d"))
            assert await feedback(backend, "x", label="d") == "accepted"
            both = [messages.FeedbackRequest(name, label="a") for name in ("x", "y")]
            conflict, accepted = await other.feedback("router", both)
            assert "are being loaded" in str(conflict)
            assert accepted == "accepted"

    run(scenario, dsn, learns=False)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"learner": "newtron"}, "newtron cannot take another class"),
        ({"parameters": {"explore_floor": 0.3}}, "explore_floor must be from 0 to 1/K = 0.25"),
    ],
)
def test_a_class_is_refused_if_the_learner_cannot_take_it(dsn, asked, message):
    async def scenario(backend):
        await make(backend, **asked)
        with pytest.raises(InvalidInput, match=message):
            await backend.add_class("router", messages.NewClass("d"))
        assert (await backend.model("router")).classes == ["a", "b", "c"]

    run(scenario, dsn)
    assert ask(dsn, "SELECT count(*) FROM delaytron.inbox") == [(0,)]
