"""Decisions and answers on PostgreSQL: what is said to each, and that it is done once."""

import asyncio
from threading import Thread

import pytest
from postgres_play import PATIENCE, ask, check_state, decide, feedback, make, run, serving, until, until_learned

from delaytron.answers import Status
from delaytron.errors import ConflictingDecision, ConflictingFeedback, InvalidInput, UnknownDecision
from delaytron.service import messages
from delaytron.service.backend import Repeatable
from delaytron.service.postgres import learner, schema
from delaytron.service.postgres.frontend import DecisionWriter, GroupQueue
from delaytron.service.postgres.learner import purge_model
from delaytron.service.problems import Conflict, Gone, TooLarge, TooMany, Unavailable, UnknownModel
from delaytron.service.security import Limits

pytestmark = pytest.mark.xdist_group("bandit_logit")


def test_the_first_answer_is_accepted_the_same_is_a_duplicate_another_conflicts(dsn):
    async def scenario(backend):
        made, is_new = await make(backend)
        assert (made.classes, made.learner, made.decisions, is_new) == (["a", "b", "c"], "bandit_logit", 0, True)
        reply = await decide(backend, "x")
        assert (reply.id, reply.round) == ("x", 1)
        assert 0 < reply.prob <= 1
        assert await feedback(backend, "x", True) == "accepted"
        assert await feedback(backend, "x", True) == "duplicate"
        assert await feedback(backend, "x", reward=1.0) == "duplicate"
        with pytest.raises(ConflictingFeedback, match="answered 'correct', now 'wrong' came"):
            await feedback(backend, "x", False)
        with pytest.raises(UnknownDecision, match="'y' was never issued"):
            await feedback(backend, "y", False)
        with pytest.raises(InvalidInput, match="reward must be from 0"):
            await feedback(backend, "x", reward=2.0)
        with pytest.raises(InvalidInput, match="takes one of correct="):
            await feedback(backend, "x")
        with pytest.raises(InvalidInput, match="id must be a string"):
            await feedback(backend, None, True)
        await until_learned(dsn, backend)
        assert (await backend.stats("router")).answered == 1
        return (await backend.digest("router")).digest

    known = run(scenario, dsn)
    found = check_state(dsn)
    assert found.state == known
    assert (found.facts, found.after, found.waiting) == (3, 0, 0)


def test_a_retry_by_its_id_returns_the_stored_decision_after_its_class_was_retired(dsn):
    async def scenario(backend):
        await make(backend)
        first = await decide(backend, "x", allowed=["a", "b"])
        await backend.retire_class("router", "a")
        assert await decide(backend, "x", allowed=["b", "a"]) == first
        with pytest.raises(ConflictingDecision, match="issued before"):
            await decide(backend, "x", allowed=["a"])
        with pytest.raises(InvalidInput, match="'a' is retired"):
            await decide(backend, "y", allowed=["a", "b"])
        with pytest.raises(InvalidInput, match="'a' is retired"):
            await decide(backend, "\0", allowed=["a", "b"])

    run(scenario, dsn)
    assert ask(dsn, "SELECT count(*) FROM delaytron.ids") == [(1,)]


def test_a_retry_by_its_id_returns_the_stored_decision_at_the_limit_of_open_ones(dsn):
    async def scenario(backend):
        async with serving(dsn, limits=Limits(open_decisions=1), learns=False) as full:
            await make(backend)
            first = await decide(backend, "x")
            await until_learned(dsn, backend, full)
            assert await decide(full, "x") == first
            with pytest.raises(TooMany, match="1 decisions wait"):
                await decide(full, "y")

    run(scenario, dsn)


def test_retries_do_not_count_as_open_decisions(dsn):
    async def scenario(backend):
        await make(backend)
        key = Repeatable("key", b"body")
        by_id, by_key = await decide(backend, "x"), await decide(backend, repeatable=key)
        await until_learned(dsn, backend)
        for _ in range(6):  # no new state is published meanwhile
            assert await decide(backend, "x") == by_id
            assert await decide(backend, repeatable=key) == by_key
        assert (await decide(backend, "y")).id == "y"

    run(scenario, dsn, limits=Limits(open_decisions=4))


def test_a_label_is_right_if_it_was_played(dsn):
    async def scenario(backend):
        await make(backend)
        assert (await decide(backend, "x", allowed=["b"])).label == "b"
        assert await feedback(backend, "x", label="b") == "accepted"
        assert await feedback(backend, "x", True) == "duplicate"
        with pytest.raises(ConflictingFeedback):
            await feedback(backend, "x", label="c")

    run(scenario, dsn)


def test_answers_of_one_batch_have_their_own_results(dsn):
    async def scenario(backend):
        await make(backend)
        await decide(backend, "x")
        given = [("x", True), ("x", True), ("x", False), ("y", True), ("x", True)]
        requests = [messages.FeedbackRequest(name, correct=right) for name, right in given]
        outcomes = await backend.feedback("router", requests)
        assert [outcome if isinstance(outcome, str) else type(outcome) for outcome in outcomes] == [
            "accepted",
            "duplicate",
            ConflictingFeedback,
            UnknownDecision,
            "duplicate",
        ]

    run(scenario, dsn)


def test_one_of_many_concurrent_answers_is_accepted(dsn):
    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend)
            for number in range(20):
                await decide(backend, f"x{number}")
                both = [feedback(front, f"x{number}", i % 2 == 0) for i in range(10) for front in (backend, other)]
                outcomes = await asyncio.gather(*both, return_exceptions=True)
                said = [outcome if isinstance(outcome, str) else type(outcome) for outcome in outcomes]
                assert said.count("accepted") == 1
                assert said.count("duplicate") == 9
                assert said.count(ConflictingFeedback) == 10
        await until_learned(dsn, backend)
        assert (await backend.stats("router")).answered == 20

    run(scenario, dsn)
    assert check_state(dsn).facts == 41


def test_a_cancelled_decision_ignores_its_answers(dsn):
    async def scenario(backend):
        await make(backend)
        await decide(backend, "x")
        assert await backend.cancel("router", "x") == "cancelled"
        assert await backend.cancel("router", "x") == "duplicate"
        assert await feedback(backend, "x", True) == "cancelled"
        await decide(backend, "y")
        await feedback(backend, "y", True)
        with pytest.raises(ConflictingFeedback, match="'y' was answered already"):
            await backend.cancel("router", "y")
        with pytest.raises(UnknownDecision):
            await backend.cancel("router", "z")
        await until_learned(dsn, backend)
        assert (await backend.stats("router")).cancelled == 1
        assert (await backend.decision("router", "x")).status == "cancelled"

    run(scenario, dsn)
    check_state(dsn)


def test_an_id_is_issued_once_and_a_batch_is_all_or_nothing(dsn):
    async def scenario(backend):
        await make(backend)
        await decide(backend, "x")
        with pytest.raises(ConflictingDecision, match="id 'x' was issued before, for other features"):
            await decide(backend, "x", (1.0, 3.0))
        with pytest.raises(ConflictingDecision, match="id 'x' was issued before, for other features"):
            await decide(backend, "x", allowed=["a", "b", "c"])
        batch = [messages.DecisionRequest([1.0, 2.0], name) for name in ("y", "x", "z")]
        other = [batch[0], messages.DecisionRequest([1.0, 3.0], "x"), batch[2]]
        with pytest.raises(ConflictingDecision, match="id 'x' was issued before"):
            await backend.decide("router", other, None)
        with pytest.raises(UnknownDecision):
            await backend.decision("router", "y")
        with pytest.raises(InvalidInput, match="all be different"):
            await backend.decide("router", [batch[0], batch[0]], None)
        with pytest.raises(InvalidInput, match="with 2 numbers"):
            await backend.decide("router", [batch[0], messages.DecisionRequest([1.0])], None)
        assert [reply.id for reply in await backend.decide("router", [batch[0], batch[2]], None)] == ["y", "z"]

    run(scenario, dsn)
    assert ask(dsn, "SELECT count(*) FROM delaytron.ids") == [(3,)]


def test_a_conflicting_id_does_not_fail_the_others_of_its_group(dsn):
    async def scenario(backend):
        await make(backend)
        await decide(backend, "x0")
        calls = [decide(backend, f"x{number % 12}", (1.0, 3.0 + number)) for number in range(48)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(outcome, messages.DecisionReply) for outcome in outcomes) == 11
        assert sum(isinstance(outcome, ConflictingDecision) for outcome in outcomes) == 37

    run(scenario, dsn)


def test_the_same_id_with_the_same_input_gets_the_same_decision(dsn):
    """Concurrently on two front ends, before and after the learner has the decision, alone and in a batch."""

    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend)
            for number in range(8):
                calls = [decide(front, f"x{number}", (1.0, number)) for front in (backend, other) * 4]
                replies = [(reply.label, reply.prob) for reply in await asyncio.gather(*calls)]
                assert len(set(replies)) == 1
                await until_learned(dsn, backend, other)
                again = await decide(other, f"x{number}", (1.0, number))
                assert [(again.label, again.prob)] == replies[:1]
                assert again.round == (await backend.decision("router", f"x{number}")).round
            await feedback(backend, "x0", True)
            batch = [messages.DecisionRequest([1.0, float(n)], f"x{n}") for n in (9, 0, 8)]
            key = Repeatable("key", b"batch")
            first = await backend.decide("router", batch, key)
            assert [reply.id for reply in first] == ["x9", "x0", "x8"]
            stored = await backend.decision("router", "x0")
            assert (first[1].label, first[1].prob) == (stored.label, stored.prob)
            assert await other.decide("router", batch, key) == first
            await until_learned(dsn)

    run(scenario, dsn)
    assert ask(dsn, "SELECT count(*) FROM delaytron.ids") == [(10,)]
    assert check_state(dsn).facts == 12


def test_the_same_idempotency_key_returns_the_stored_reply(dsn):
    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend)
            key = Repeatable("key-1", b"one")
            first = await decide(backend, repeatable=key)
            assert await decide(other, repeatable=key) == first
            calls = [decide(front, "x", repeatable=Repeatable("key-2", b"two")) for front in (backend, other) * 8]
            assert len({reply.label for reply in await asyncio.gather(*calls)}) == 1
            with pytest.raises(Conflict, match="another body"):
                await decide(other, repeatable=Repeatable("key-1", b"other"))
            with pytest.raises(ConflictingDecision, match="issued before"):
                await decide(other, "x", (2.0, 2.0), repeatable=Repeatable("key-3", b"three"))
            await backend.retire_class("router", first.label)
            again = await decide(backend, repeatable=key, allowed=[first.label])
            assert again == first
        await until_learned(dsn)

    run(scenario, dsn)
    assert ask(dsn, "SELECT count(*) FROM delaytron.ids") == [(2,)]


def test_an_item_that_is_added_while_a_writer_ends_is_written():
    """Items are added in the step of the loop in which a writer ends, and some steps later."""

    async def write(items):
        for _ in range(items[0] % 3):
            await asyncio.sleep(0)
        return items

    async def client(queue, pause):
        for number in range(200):
            assert await queue.add(pause + number) == pause + number
            for _ in range((pause * number) % 5):
                await asyncio.sleep(0)

    async def scenario():
        queue = GroupQueue(write)
        await asyncio.wait_for(asyncio.gather(*(client(queue, pause) for pause in range(4))), PATIENCE)
        await queue.close()
        with pytest.raises(Unavailable, match="stopping"):
            await queue.add(1)

    asyncio.run(scenario())


def test_only_allowed_classes_are_chosen(dsn):
    async def scenario(backend):
        await make(backend)
        for _ in range(20):
            assert (await decide(backend, allowed=["c", "a"])).label in ("a", "c")
        await decide(backend, "x", allowed=["c"])
        assert (await backend.decision("router", "x")).allowed == ["c"]
        with pytest.raises(InvalidInput, match="no class 'd'"):
            await decide(backend, allowed=["d"])
        await until_learned(dsn)
        assert (await backend.decision("router", "x")).allowed == ["c"]

    run(scenario, dsn)
    check_state(dsn)


def test_every_front_end_finds_every_model(dsn):
    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend, seed=3)
            again, is_new = await make(other)
            assert (again.name, is_new) == ("router", False)
            with pytest.raises(Conflict, match="was made with classes="):
                await make(other, classes=("a", "b"))
            with pytest.raises(UnknownModel, match="no model 'rooter'"):
                await decide(other, name="rooter")
            with pytest.raises(InvalidInput, match="a parameter of bandit_logit must be one of"):
                await make(other, name="b", parameters={"gama": 1})
            await make(other, name="a")
            assert [model.name for model in await backend.models()] == ["a", "router"]
            assert (await backend.model("a")).features == 2
            assert (await decide(backend, name="a")).round == 1

    run(scenario, dsn)


def test_requests_above_the_limits_are_refused(dsn):
    async def scenario(backend):
        await make(backend)
        await make(backend, name="b")
        with pytest.raises(TooMany, match="2 models already"):
            await make(backend, name="c")
        with pytest.raises(TooLarge):
            await backend.decide("router", [messages.DecisionRequest([1.0, 2.0])] * 4, None)
        with pytest.raises(TooLarge):
            await backend.feedback("router", [messages.FeedbackRequest("x", correct=True)] * 4)
        await backend.decide("router", [messages.DecisionRequest([1.0, 2.0])] * 3, None)
        with pytest.raises(TooMany, match="4 decisions wait"):
            await backend.decide("router", [messages.DecisionRequest([1.0, 2.0])] * 2, None)
        with pytest.raises(InvalidInput, match="3 classes at most"):
            await backend.add_class("router", messages.NewClass("d"))

    run(scenario, dsn, limits=Limits(models=2, batch=3, open_decisions=4, classes=3))


def test_decisions_that_could_not_be_written_do_not_count_as_open(dsn, monkeypatch):
    """Otherwise a front end would refuse every decision after a short failure of the database."""

    async def scenario(backend):
        await make(backend)
        with monkeypatch.context() as patched:

            async def away(self, group):
                raise Unavailable("away", "try again")

            patched.setattr(DecisionWriter, "_write", away)
            backend._decisions._queue._write = backend._decisions._write
            for _ in range(5):
                with pytest.raises(Unavailable):
                    await decide(backend)
        backend._decisions._queue._write = backend._decisions._write
        assert (await decide(backend, "x")).id == "x"

    run(scenario, dsn, limits=Limits(open_decisions=3))


def test_a_late_answer_during_a_purge_is_kept(dsn):
    async def before(backend):
        await make(backend, expire_after="0.2s")
        await decide(backend, "late")

        async def has_expired():
            return ask(dsn, "SELECT status FROM delaytron.ids") == [(Status.EXPIRED,)]

        await until(has_expired)

    async def answers(backend):
        assert await feedback(backend, "late", True) == "late"
        await until_learned(dsn)

    run(before, dsn)  # a snapshot is kept at the end
    values = {"model": ask(dsn, "SELECT number FROM delaytron.models")[0][0], "age": 0}
    with schema.reading(dsn) as connection:
        connection.execute(schema.PURGEABLE, values)
        thread = Thread(target=run, args=(answers, dsn))
        thread.start()
        thread.join()
        connection.execute(schema.MARK_PURGED, values)
        assert connection.execute(schema.DROP_FACTS, values).rowcount == 2
    check_state(dsn)


def test_old_idempotency_keys_are_dropped_a_few_at_a_time(dsn, monkeypatch):
    monkeypatch.setattr(learner, "MOST_REPLIES", 2)

    async def scenario(backend):
        await make(backend)
        day = 24 * 3600 * 10**9
        ask(
            dsn,
            "INSERT INTO delaytron.replies SELECT 1, number::text, '', '', delaytron.now() - 2 * %s "
            "FROM generate_series(1, 5) AS number",
            (day,),
        )
        ask(dsn, "INSERT INTO delaytron.replies VALUES (1, 'new', '', '')")

    run(scenario, dsn, learns=False)

    async def learns(backend):
        async def are_dropped():
            return ask(dsn, "SELECT key FROM delaytron.replies") == [("new",)]

        await until(are_dropped)

    run(learns, dsn)


def test_any_front_end_finds_and_explains_decisions(dsn):
    async def scenario(backend):
        async with serving(dsn, learns=False) as other:
            await make(backend, features="hashed", bits=10)
            for number in range(6):
                x = {"tokens": float(number), "tenant": "abc"[number % 3]}
                await backend.decide("router", [messages.DecisionRequest(x, f"x{number}")], None)
            await feedback(other, "x3", reward=0.25)
            for _ in range(2):
                recent = await other.recent("router", 4)
                assert [state.id for state in recent] == ["x5", "x4", "x3", "x2"]
                assert [state.status for state in recent] == ["open", "open", "answered", "open"]
                assert recent[2] == await backend.decision("router", "x3")
                assert recent[2].value == 0.25
                await until_learned(dsn, backend, other)
            assert [state.round for state in recent] == [6, 5, 4, 3]
            explained = await other.explain("router", "x1")
            assert set(explained.features) == {"tokens", "tenant=b"}
            named = set((await other.weights("router")).features) - {"(constant)"}
            assert {"tenant=a"} <= named <= {"tenant=a", "tenant=b", "tenant=c", "tokens"}
            with pytest.raises(UnknownDecision):
                await backend.decision("router", "y")
            with pytest.raises(UnknownDecision):
                await backend.explain("router", "y")

    run(scenario, dsn)


def test_an_answer_after_a_purge_is_gone(dsn):
    async def scenario(backend):
        await make(backend)
        for name in ("x", "y", "z"):
            await decide(backend, name)
        await feedback(backend, "x", True)
        await backend.cancel("router", "y")
        await until_learned(dsn)

    run(scenario, dsn)  # a snapshot is kept at the end
    before = check_state(dsn)
    with pytest.raises(InvalidInput, match="older_than"):
        purge_model(dsn, "router", "never")
    with pytest.raises(InvalidInput, match="no model 'shop'"):
        purge_model(dsn, "shop", "1s")
    assert purge_model(dsn, "router", "1h") == 0
    assert purge_model(dsn, "router", "0.000001s") == 4

    async def afterwards(backend):
        with pytest.raises(ConflictingFeedback, match="was answered"):
            await backend.cancel("router", "x")
        assert await backend.cancel("router", "y") == "duplicate"
        for name in ("x", "y"):
            with pytest.raises(Gone, match="purged"):
                await feedback(backend, name, True)
            with pytest.raises(Gone):
                await backend.explain("router", name)
            for x in ((1.0, 2.0), (0.0, 0.0)):
                with pytest.raises(ConflictingDecision, match="issued before, and its decision was purged"):
                    await decide(backend, name, x)
        state = await backend.decision("router", "x")
        assert (state.purged, state.status, state.value, state.round) == (True, "answered", 1.0, None)
        assert await feedback(backend, "z", True) == "accepted"
        await decide(backend, "v")
        await until_learned(dsn)

    run(afterwards, dsn)
    after = check_state(dsn)
    assert (after.after, after.facts) == (before.facts, 2)
