"""The models of a folder without a network: which requests share a commit, and what each gets when something fails."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager
from threading import Event, current_thread, main_thread
from time import sleep

import httpx
import pytest

import delaytron as dt
from delaytron import service
from delaytron.errors import ConflictingFeedback, JournalError, UnknownDecision
from delaytron.journal import database
from delaytron.journal import writer as writer_module
from delaytron.journal.view import JournalView
from delaytron.model import engine as engine_module
from delaytron.model import facts
from delaytron.model.snapshots import pack_state
from delaytron.model.verify import verify_journal
from delaytron.records import Moment
from delaytron.service import messages
from delaytron.service.app import make_app
from delaytron.service.backend import Rates, Repeatable
from delaytron.service.models import Models, ServedModel
from delaytron.service.problems import TooMany, Unavailable
from delaytron.service.security import ApiKeys, Limits

DAY = 24 * 3600 * 10**9  # ns
DEFAULT_LIMITS = Limits()


def run(folder, use, limits=DEFAULT_LIMITS, **options):
    """Run `use(models, served)` in an event loop, with the model "m"; return what it returns."""

    async def play():
        models = Models(folder, limits)
        await models.start()
        try:
            asked = {"learner": "delaytron", "features": 2, "seed": 0, **options}
            await models.create(messages.NewModel("m", ["a", "b"], **asked))
            return await asyncio.wait_for(use(models, models._served["m"]), 60)
        finally:
            await models.stop()

    return asyncio.run(play())


def wanted(id=None, features=(1.0, 2.0)):
    return [messages.DecisionRequest(list(features), id)]


def answer(id, correct=True):
    return [messages.FeedbackRequest(id, correct=correct)]


def deciding(models, *ids):
    """Begin a decision for each id; return the tasks, whose operations are queued."""
    return [asyncio.ensure_future(models.decide("m", wanted(one), None)) for one in ids]


async def all_of(tasks):
    return await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def busy(served):
    """Occupy the writer, so that all that comes meanwhile waits for one transaction."""
    begun, go_on = Event(), Event()

    def wait(now):
        begun.set()
        assert go_on.wait(30)

    waiting = served.engine.writer.submit(wait, asyncio.get_running_loop())
    assert await asyncio.to_thread(begun.wait, 30)
    try:
        yield
        await asyncio.sleep(0.01)  # what was begun is queued by now
    finally:
        go_on.set()
        await waiting


def count_commits(served, monkeypatch, seconds=0.0):
    """Return a list that gets an entry for each commit, which takes some time."""
    commits, commit = [], served.engine.store.commit

    def counted():
        sleep(seconds)
        commit()
        commits.append(served.engine.store.last_seq)

    monkeypatch.setattr(served.engine.store, "commit", counted)
    return commits


def decided(folder):
    """Return the ids of the decisions in the journal, in their order."""
    with JournalView(folder / "m.db") as view:
        return [fact.id for fact in view.facts() if fact.kind == facts.DECIDED]


def test_concurrent_requests_share_commits(tmp_path, monkeypatch):
    async def use(models, served):
        commits = count_commits(served, monkeypatch, seconds=0.01)
        made = await asyncio.gather(*deciding(models, *map(str, range(100))))
        answers = [messages.FeedbackRequest(str(number), correct=True) for number in range(100)]
        assert await models.feedback("m", answers) == ["accepted"] * 100
        return commits, [decision.round for (decision,) in made]

    commits, rounds = run(tmp_path, use)
    assert len(commits) <= 10
    assert rounds == list(range(1, 101))  # in the order in which they came
    assert decided(tmp_path) == list(map(str, range(100)))


@pytest.mark.parametrize("most", [1, 4, 7])
def test_requests_that_do_not_fit_into_a_transaction_are_run_by_the_next_one(tmp_path, monkeypatch, most):
    monkeypatch.setattr(writer_module, "MOST_AT_ONCE", most)

    async def use(models, served):
        commits = count_commits(served, monkeypatch)
        async with busy(served):
            tasks = deciding(models, *map(str, range(28)))
        rounds = [decision.round for (decision,) in await asyncio.gather(*tasks)]
        return rounds, len(commits) - 1

    rounds, commits = run(tmp_path, use)
    assert rounds == list(range(1, 29))
    assert commits == 28 / most


def test_requests_that_wait_for_one_another_get_a_commit_each(tmp_path, monkeypatch):
    async def use(models, served):
        commits = count_commits(served, monkeypatch)
        for number in range(5):
            await models.decide("m", wanted(f"{number}"), None)
            assert await models.feedback("m", answer(f"{number}")) == ["accepted"]
        return len(commits)

    assert run(tmp_path, use) == 10


def test_operations_run_in_the_thread_of_the_writer_in_the_order_in_which_they_came(tmp_path):
    order, threads = [], set()

    async def use(models, served):
        def noting(number):
            def operation(served, now):
                sleep(0.005 * (number % 7 == 0))
                order.append(number)
                threads.add(current_thread())

            return operation

        tasks = []
        for number in range(40):
            tasks.append(asyncio.ensure_future(models._run("m", noting(number))))
            await asyncio.sleep(0.0005 * (number % 3))
        await asyncio.gather(*tasks)
        return served.engine.writer._shared.thread

    writer = run(tmp_path, use)
    assert order == list(range(40))
    assert threads == {writer}
    assert writer is not main_thread()


def test_the_event_loop_does_not_wait_for_another_process_that_writes(tmp_path):
    async def use(models, served):
        other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        (waiting,) = deciding(models, "a")
        for _ in range(100):
            await asyncio.sleep(0.001)
        was_done = waiting.done()
        other.execute("ROLLBACK")
        other.close()
        return was_done, (await waiting)[0].round

    assert run(tmp_path, use) == (False, 1)


# What fails


def test_a_failing_commit_fails_all_of_its_operations_and_nothing_else(tmp_path, monkeypatch, caplog):
    async def use(models, served):
        await asyncio.gather(*deciding(models, "before"))
        store, commit = served.engine.store, served.engine.store.commit

        def fail():
            monkeypatch.setattr(store, "commit", commit)
            raise JournalError(f"{tmp_path}/m.db could not be written: disk full", "make room")

        async with busy(served):
            tasks = deciding(models, "x", "y")
            tasks.append(asyncio.ensure_future(models.feedback("m", answer("before"))))
            tasks.append(asyncio.ensure_future(models.stats("m")))
            await asyncio.sleep(0)
            # The transaction of `busy` has no fact; this is the commit of what waits.
            monkeypatch.setattr(store, "commit", lambda: (commit(), monkeypatch.setattr(store, "commit", fail)))
        x, y, (answered,), stats = await all_of(tasks)
        for problem in (x, y, answered, stats):
            assert type(problem) is Unavailable
            assert str(problem).startswith("the journal could not be written or read; nothing was acknowledged")
            assert str(tmp_path) not in str(problem)
        (after,) = await asyncio.gather(*deciding(models, "after"))
        assert await models.feedback("m", answer("before", correct=False)) == ["accepted"]  # the first one is void
        return after[0].round, (await models.stats("m")).decisions, (await models.digest("m")).digest

    *counts, digest = run(tmp_path, use)
    assert counts == [2, 2]
    assert decided(tmp_path) == ["before", "after"]
    assert verify_journal(tmp_path / "m.db").hash == digest
    assert f"{tmp_path}/m.db could not be written: disk full" in caplog.text  # the log has the path


def test_an_unexpected_error_before_a_change_fails_its_operation_only(tmp_path, monkeypatch, caplog):
    find = ServedModel.find

    def fail(served, id):
        return 1 // 0 if id == "x" else find(served, id)

    monkeypatch.setattr(ServedModel, "find", fail)

    async def use(models, served):
        await asyncio.gather(*deciding(models, "x", "y"))
        async with busy(served):
            tasks = [asyncio.ensure_future(models.decision("m", one)) for one in ("x", "y", "never")]
            tasks += deciding(models, "z")
        return await all_of(tasks)

    failed, found, unknown, made = run(tmp_path, use)
    assert type(failed) is Unavailable
    assert str(failed).startswith("the service failed; nothing was acknowledged")
    assert found.id == "y"
    assert type(unknown) is UnknownDecision
    assert made[0].round == 3
    assert "ZeroDivisionError" in caplog.text


def test_an_unexpected_error_after_a_change_rolls_back_its_transaction(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("a secret")

    async def use(models, served):
        await asyncio.gather(*deciding(models, "before"))
        before = (await models.digest("m")).digest
        async with busy(served):
            monkeypatch.setattr(Rates, "count", fail)  # called when the decision is made, but not committed
            tasks = [asyncio.ensure_future(models.feedback("m", answer("before"))), *deciding(models, "x")]
        (answered,), failed = await all_of(tasks)
        monkeypatch.undo()
        assert type(answered) is type(failed) is Unavailable
        assert "secret" not in f"{answered} {failed}"
        assert (await models.digest("m")).digest == before  # restored from the journal
        (made,) = await asyncio.gather(*deciding(models, "x"))
        assert await models.feedback("m", answer("before")) == ["accepted"]
        return made[0].round

    assert run(tmp_path, use) == 2
    assert verify_journal(tmp_path / "m.db").mismatch is None


def test_a_refused_operation_does_not_affect_the_others(tmp_path):
    async def use(models, served):
        await asyncio.gather(*deciding(models, "x"))
        async with busy(served):
            given = [*answer("x"), *answer("x", correct=False), *answer("never"), *answer("x")]
            task = asyncio.ensure_future(models.feedback("m", given))
        return await task

    first, conflict, unknown, same = run(tmp_path, use)
    assert (first, same) == ("accepted", "duplicate")
    assert (type(conflict), type(unknown)) == (ConflictingFeedback, UnknownDecision)


@asynccontextmanager
async def talking_to(models):
    """A client of the application, without a network."""
    transport = httpx.ASGITransport(make_app(models, ApiKeys()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


def problem_in(reply, folder):
    assert reply.headers["content-type"] == "application/problem+json"
    assert str(folder) not in reply.text
    assert "m.db" not in reply.text
    return reply.status_code, reply.json()["result"], reply.headers["retry-after"]


def test_retries_get_their_decisions_above_a_limit_of_open_ones_that_was_lowered(tmp_path):
    async def decide(models, served):
        return [await models.decide("m", wanted(one), None) for one in "ab"]

    async def retry(models, served):
        assert [await models.decide("m", wanted(one), None) for one in "ab"] == made
        with pytest.raises(TooMany, match="1 decisions wait for an answer already"):
            await models.decide("m", wanted("c"), None)

    made = run(tmp_path, decide)
    run(tmp_path, retry, limits=Limits(open_decisions=1))


def test_a_journal_that_cannot_be_written_is_a_503_without_a_path(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.02)
    decision, feedback = "/v1/models/m/decisions", "/v1/models/m/feedback"

    async def use(models, served):
        async with talking_to(models) as client:
            assert (await client.post(decision, json={"features": [1, 2], "id": "a"})).status_code == 200
            other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            refused = [
                await client.post(decision, json={"features": [1, 2]}),
                await client.post(feedback, json={"id": "a", "correct": True}),
                await client.delete(f"{decision}/a"),
                await client.post("/v1/models/m/classes", json={"name": "c"}),
            ]
            batch = await client.post(feedback, json={"feedback": [{"id": "a", "correct": True}]})
            other.execute("ROLLBACK")
            other.close()
            assert (await client.post(feedback, json={"id": "a", "correct": True})).json() == {"result": "accepted"}
        return refused, batch

    refused, batch = run(tmp_path, use)
    assert [problem_in(reply, tmp_path) for reply in refused] == [(503, "unavailable", "1")] * 4
    assert batch.json()["results"][0]["status"] == 503
    assert str(tmp_path) not in batch.text
    assert decided(tmp_path) == ["a"]


def test_metrics_count_the_requests_while_a_journal_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.02)

    async def use(models, served):
        async with talking_to(models) as client:
            other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            assert (await client.post("/v1/models/m/decisions", json={"features": [1, 2]})).status_code == 503
            failing = await client.get("/metrics")
            other.execute("ROLLBACK")
            other.close()
            return failing, await client.get("/metrics")

    failing, working = run(tmp_path, use)
    assert failing.status_code == 200
    assert 'requests_total{route="/v1/models/{name}/decisions",status="503"} 1' in failing.text
    assert 'decisions_total{model="m"} 0' in working.text


def test_too_many_queued_operations_are_a_429(tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "MOST_WAITING", 3)

    async def use(models, served):
        async with talking_to(models) as client:
            async with busy(served):
                tasks = deciding(models, "a", "b", "c")
                await asyncio.sleep(0)
                with pytest.raises(TooMany, match="too many requests wait for the disk already; try again"):
                    await models.decide("m", wanted("d"), None)
                refused = await client.post("/v1/models/m/decisions", json={"features": [1, 2]})
                batch = await client.post("/v1/models/m/feedback", json={"feedback": [{"id": "a", "correct": True}]})
            rounds = [decision.round for (decision,) in await asyncio.gather(*tasks)]
            after = await client.post("/v1/models/m/decisions", json={"features": [1, 2], "id": "d"})
            assert after.status_code == 200
        return rounds, refused, batch

    rounds, refused, batch = run(tmp_path, use)
    assert rounds == [1, 2, 3]
    assert problem_in(refused, tmp_path) == (429, "too_many", "1")
    assert [one["status"] for one in batch.json()["results"]] == [429]
    assert decided(tmp_path) == ["a", "b", "c", "d"]


# Who goes away


def test_a_request_that_is_cancelled_before_it_begins_is_withdrawn(tmp_path):
    async def use(models, served):
        async with busy(served):
            first, gone, last = deciding(models, "first", "gone", "last")
            await asyncio.sleep(0)
            gone.cancel()
        outcomes = await all_of([first, gone, last])
        assert isinstance(outcomes[1], asyncio.CancelledError)
        assert [outcomes[place][0].round for place in (0, 2)] == [1, 2]

    run(tmp_path, use)
    assert decided(tmp_path) == ["first", "last"]


def test_a_request_that_is_cancelled_after_it_has_begun_is_finished_and_found_by_a_retry(tmp_path, monkeypatch):
    async def use(models, served):
        begun, commit = Event(), served.engine.store.commit
        monkeypatch.setattr(served.engine.store, "commit", lambda: (begun.set(), sleep(0.05), commit()))
        (gone,) = deciding(models, "gone")
        assert await asyncio.to_thread(begun.wait, 30)
        gone.cancel()
        (again,), (new,) = await asyncio.gather(*deciding(models, "gone", "new"))
        assert gone.cancelled()
        return again.round, new.round

    assert run(tmp_path, use) == (1, 2)
    assert decided(tmp_path) == ["gone", "new"]


# Snapshots

EXPIRING = {
    "corrected": {"learner": "bandit_logit", "expire_after": 15, "on_expiry": "wrong"},
    "released": {"learner": "bandit_logit", "expire_after": 5, "on_expiry": "wrong", "correct_within": 4},
    "dropped": {"learner": "newtron", "expire_after": 9, "on_expiry": "drop"},
}
PLAIN = {name: {"learner": name} for name, cls in dt.LEARNERS.items() if cls.rule.restricts}


@pytest.mark.parametrize("options", [*EXPIRING.values(), *PLAIN.values()], ids=[*EXPIRING, *PLAIN])
def test_snapshots_are_packed_beside_running_requests(tmp_path, monkeypatch, options):
    """Each is the state after its fact, as `verify` replays the facts, though much happens while it is packed."""
    monkeypatch.setattr(engine_module, "FACTS_A_SNAPSHOT", 20)
    compress = engine_module.compress
    monkeypatch.setattr(engine_module, "compress", lambda packed: (sleep(0.01), compress(packed))[1])
    label = dt.LEARNERS[options["learner"]].feedback_type == "label"

    async def use(models, served):
        for number in range(300):
            await models.decide("m", wanted(f"{number}"), None)
            if number % 3:
                given = {"label": "b"} if label else {"correct": True}
                (result,) = await models.feedback("m", [messages.FeedbackRequest(f"{number - number % 4}", **given)])
                assert not isinstance(result, Exception)
        packer = served.engine.writer._packer
        await asyncio.to_thread(packer.join, 30)
        return (await models.digest("m")).digest

    digest = run(tmp_path, use, **options)
    found = verify_journal(tmp_path / "m.db")
    assert (found.mismatch, found.snapshots, found.hash) == (None, 2, digest)


def test_stored_replies_are_dropped_with_a_snapshot_after_a_day(tmp_path, monkeypatch):
    """Also by the snapshots of a service that is never stopped."""
    monkeypatch.setattr(engine_module, "FACTS_A_SNAPSHOT", 10)

    async def use(models, served):
        store = served.engine.store

        def keep(served, now):
            store.keep_reply("old", b"hash", b"reply", Moment(now.wall, now.clock - DAY - 10**9))

        await models._run("m", keep)
        await models.decide("m", wanted("a"), Repeatable("new", b"hash"))
        for number in range(10):
            await models.decide("m", wanted(f"{number}"), None)
        await asyncio.to_thread(served.engine.writer._packer.join, 30)
        return store.snapshot() is not None, store.stored_reply("old"), store.stored_reply("new") is not None

    assert run(tmp_path, use) == (True, None, True)


def test_a_snapshot_that_fails_is_logged_and_the_requests_go_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(engine_module, "FACTS_A_SNAPSHOT", 2)
    compress = engine_module.compress

    async def use(models, served):
        def fail(packed):
            raise MemoryError

        monkeypatch.setattr(engine_module, "compress", fail)
        for number in range(4):
            await models.decide("m", wanted(f"{number}"), None)
        await asyncio.to_thread(served.engine.writer._packer.join, 30)
        monkeypatch.setattr(engine_module, "compress", compress)
        return (await models.stats("m")).decisions

    assert run(tmp_path, use) == 4
    assert "no snapshot was stored; another one is made after more facts" in caplog.text
    assert "MemoryError" in caplog.text


def test_a_copy_of_a_state_packs_to_the_same_bytes_and_stays_as_it_was():
    model = dt.Model(["a", "b"], seed=1)
    for number in range(20):
        model.feedback(model.decide({"word": f"w{number}"}).id, correct=True)
        model.decide({"word": f"open{number}"})
    engine = model._engine

    def pack(state, names):
        return pack_state(state, engine.recipe, {"names": names})

    copied, names = engine._copy()
    before = pack(engine.state, engine.state.encoder.names())
    assert pack(copied, names) == before
    for decision in model.open_decisions():
        model.feedback(decision.id, correct=False)
    model.add_class("c")
    model.decide({"another": 1})
    assert pack(copied, names) == before != pack(engine.state, engine.state.encoder.names())


# The end


def test_stop_finishes_what_has_begun_and_refuses_what_comes_later(tmp_path, monkeypatch):
    async def use(models, served):
        count_commits(served, monkeypatch, seconds=0.02)
        tasks = deciding(models, *map(str, range(30)))
        await asyncio.sleep(0)
        stopping = asyncio.ensure_future(models.stop())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="the service is stopping; try again"):
            await models.decide("m", wanted("late"), None)
        with pytest.raises(Unavailable, match="the service is stopping; try again"):
            await models.create(messages.NewModel("n", ["a", "b"]))
        await stopping
        assert all(task.done() for task in tasks)
        return [decision.round for (decision,) in await asyncio.gather(*tasks)]

    assert run(tmp_path, use) == list(range(1, 31))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.db"]
    assert decided(tmp_path) == list(map(str, range(30)))
    assert verify_journal(tmp_path / "m.db").mismatch is None


def test_a_journal_that_cannot_be_closed_cleanly_is_logged_and_the_others_are_closed(tmp_path, monkeypatch, caplog):
    async def use(models, served):
        await models.create(messages.NewModel("other", ["a", "b"], learner="delaytron", features=2))
        monkeypatch.setattr(served.engine, "put_snapshot", lambda: 1 // 0)
        await asyncio.gather(*deciding(models, "a"))
        await models.stop()
        return [one.engine.writer.is_closed for one in models._served.values()]

    assert run(tmp_path, use) == [True, True]
    assert "a journal was not closed cleanly; what was acknowledged is on disk" in caplog.text
    assert decided(tmp_path) == ["a"]
    with dt.Model.open(tmp_path / "m.db") as model:
        assert model.stats().decisions == 1


# The application over a folder, for any ASGI server


def test_the_application_keeps_models_in_the_folder(tmp_path):
    folder = tmp_path / "new" / "shop"

    async def decide():
        app = service.make_app(folder)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                while (await client.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.01)
                small = {"name": "m", "classes": ["a", "b"], "learner": "delaytron", "features": 2, "seed": 1}
                assert (await client.post("/v1/models", json=small)).status_code in (200, 201)
                reply = await client.post("/v1/models/m/decisions", json={"features": [1, 0]})
                return reply.json()["round"]

    assert [asyncio.run(decide()), asyncio.run(decide())] == [1, 2]
    assert (folder / "m.db").exists()


def test_importing_the_package_loads_no_extra():
    code = "import sys, delaytron.service; sys.exit('starlette' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
