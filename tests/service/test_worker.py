"""Where the operations of a model run: in the event loop or in its thread, always in the order in which they came."""

import asyncio
import sqlite3
from functools import partial
from threading import current_thread, main_thread
from time import monotonic, sleep

import pytest

import delaytron as dt
from delaytron.errors import InvalidInput
from delaytron.model import keeper as keeping
from delaytron.model import still
from delaytron.model.deciding import check
from delaytron.model.making import read_recipe
from delaytron.model.opening import open_keeper
from delaytron.model.snapshots import pack_core
from delaytron.model.verify import verify_journal
from delaytron.service.problems import Unavailable
from delaytron.service.worker import LEAST_AWAY, MOST_HERE, SLOW, ModelWorker

SHAPE = {"features": 2, "bits": 18, "ngrams": 1}
WAITING = {"expire_after": None, "on_expiry": "drop"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.db"


def with_worker(path, use, *, learner="bandit_logit", waiting=WAITING, parameters=None):
    """Run `use(worker)` in an event loop, with a model of its own."""

    async def run():
        recipe = read_recipe(["a", "b"], learner, SHAPE, waiting, 0, parameters or {})
        worker = ModelWorker(open_keeper(recipe, path, "full", {}), "model")
        try:
            return await asyncio.wait_for(use(worker), 60)
        finally:
            await worker.close()

    return asyncio.run(run())


def here(now):
    """Return whether this runs in the event loop."""
    return current_thread() is main_thread()


def test_short_operations_run_in_the_event_loop_and_others_in_the_thread(path):
    async def use(worker):
        return [await worker.run(here, short=short) for short in (True, False, True)]

    assert with_worker(path, use) == [True, False, True]


def test_a_batch_with_one_that_is_not_short_runs_in_the_thread_as_a_whole(path):
    async def use(worker):
        return await asyncio.gather(*(worker.run(here, short=short) for short in (True, False, True)))

    assert with_worker(path, use) == [False] * 3


@pytest.mark.parametrize(("count", "expected"), [(MOST_HERE, True), (MOST_HERE + 1, False)])
def test_many_at_once_run_in_the_thread(path, count, expected):
    async def use(worker):
        return await asyncio.gather(*(worker.run(here, short=True) for _ in range(count)))

    assert with_worker(path, use) == [expected] * count


def test_they_run_in_the_order_in_which_they_came(path):
    """Short ones that come while the thread works do not overtake what waits for it."""
    order = []

    def noting(number, seconds=0.0):
        def operation(now):
            sleep(seconds)
            order.append(number)

        return operation

    async def use(worker):
        tasks = []
        for number in range(40):
            slow = number % 7 == 0
            tasks.append(asyncio.ensure_future(worker.run(noting(number, 0.005 * slow), short=not slow)))
            await asyncio.sleep(0.0005 * (number % 3))
        await asyncio.gather(*tasks)

    with_worker(path, use)
    assert order == list(range(40))


def test_after_a_slow_one_the_thread_takes_all_for_a_while(path):
    async def use(worker):
        await worker.run(lambda now: sleep(2 * SLOW), short=True)
        soon = await worker.run(here, short=True)
        await asyncio.sleep(1.1 * LEAST_AWAY)
        return soon, await worker.run(here, short=True)

    assert with_worker(path, use) == (False, True)


def test_what_is_slow_again_and_again_stays_away_longer_and_longer(path):
    async def use(worker):
        away = []
        for seconds in (2 * SLOW, 2 * SLOW, 2 * SLOW, 0.0, 2 * SLOW):
            worker._away_until = 0.0
            await worker.run(lambda now, seconds=seconds: sleep(seconds), short=True)
            away.append(round((worker._away_until - monotonic()) / LEAST_AWAY) if seconds else 0)
        return away

    assert with_worker(path, use) == [1, 2, 4, 0, 1]


def test_the_event_loop_does_not_wait_for_another_process_that_writes(path):
    """What finds the journal busy is run by the thread, and meanwhile the loop turns."""

    async def use(worker):
        await worker.run(here, short=True)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(worker.run(here, short=True))
        for _ in range(100):
            await asyncio.sleep(0.001)
        was_done = waiting.done()
        other.execute("ROLLBACK")
        other.close()
        return was_done, await waiting

    assert with_worker(path, use) == (False, False)


OPTIONS = {
    "average": ("delaytron", WAITING, {"gamma": 0.3, "average": True}),
    "corrected": ("bandit_logit", {"expire_after": 15, "on_expiry": "wrong"}, {}),
    "dropped": ("newtron", {"expire_after": 9, "on_expiry": "drop"}, {}),
    "noise": ("banditron", WAITING, {"gamma": 0.3, "noise": (0.1, 0.2)}),
}
PLAIN = {name: (name, WAITING, {}) for name, cls in dt.LEARNERS.items() if cls.rule.restricts}


@pytest.mark.parametrize(
    ("learner", "waiting", "parameters"), [*OPTIONS.values(), *PLAIN.values()], ids=[*OPTIONS, *PLAIN]
)
def test_snapshots_are_packed_while_the_model_goes_on(path, monkeypatch, learner, waiting, parameters):
    """Each is the state after its fact, as `verify` plays the facts again, though much happens while it is packed."""
    monkeypatch.setattr(keeping, "FACTS_A_SNAPSHOT", 20)
    monkeypatch.setattr(still.Still, "packed", _packed_slowly(still.Still.packed))

    async def use(worker):
        keeper = worker.keeper
        for number in range(300):
            await worker.run(partial(_decide, keeper, f"decision-{number}"), short=True)
            if number % 3:
                await worker.run(partial(_answer, keeper, f"decision-{number}"), short=True)
        await asyncio.sleep(0.05)

    with_worker(path, use, learner=learner, waiting=waiting, parameters=parameters)
    found = verify_journal(path)
    assert found.mismatch is None
    assert found.snapshots == 2


@pytest.mark.parametrize(
    ("error", "told"), [(InvalidInput("no room"), "was kept: no room; nothing is lost"), (MemoryError(), "MemoryError")]
)
def test_a_snapshot_that_fails_is_logged_and_the_model_goes_on(path, monkeypatch, caplog, error, told):
    """Also by an error that is none of ours: else asyncio alone would tell of it, and `close` would raise it."""
    monkeypatch.setattr(keeping, "FACTS_A_SNAPSHOT", 2)

    def fail(copied):
        raise error

    monkeypatch.setattr(still.Still, "packed", fail)

    async def use(worker):
        for number in range(4):
            await worker.run(partial(_decide, worker.keeper, f"decision-{number}"), short=True)
        return await worker.run(here, short=True)

    with_worker(path, use)
    assert "no snapshot of model 'model' was kept" in caplog.text
    assert told in caplog.text
    assert "never retrieved" not in caplog.text


def test_a_model_that_cannot_be_closed_is_logged(path, monkeypatch, caplog):
    async def use(worker):
        monkeypatch.setattr(worker.keeper, "put_snapshot", lambda: 1 / 0)
        await worker.run(partial(_decide, worker.keeper, "decision"), short=True)

    with_worker(path, use)
    assert "model 'model' could not be closed in good order; what was acknowledged is on disk" in caplog.text


def test_a_still_copy_packs_to_the_same_bytes_and_stays_as_it_was():
    model = dt.Model(["a", "b"], seed=1)
    for number in range(20):
        model.feedback(model.decide({"word": f"w{number}"}).id, correct=True)
        model.decide({"word": f"open{number}"})
    keeper = model._keeper
    copied = keeper.still()
    before = keeper.pack()
    assert pack_core(copied.core, copied.recipe, {"names": copied.names}) == before
    for decision in model.open_decisions():
        model.feedback(decision.id, correct=False)
    model.add_class("c")
    model.decide({"another": 1})
    assert pack_core(copied.core, copied.recipe, {"names": copied.names}) == before != keeper.pack()


def _packed_slowly(packed):
    """Pack after a while in which the model has learned."""

    def slowly(copied):
        sleep(0.01)
        return packed(copied)

    return slowly


def _answer(keeper, name, now):
    if name in keeper.core.open:
        keeper.answer(name, 1.0, now)  # right, or the label 1


def _decide(keeper, name, now):
    checked = check(keeper, [1.0, 2.0], None, None)
    keeper.decide(name, checked.row, checked.labels, now, restricted=False)


@pytest.mark.parametrize("short", [True, False])
def test_errors_come_back_to_the_one_who_asked(path, short):
    def refuse(now):
        raise InvalidInput("no")

    def fail(now):
        raise RuntimeError("nobody foresaw this")

    async def use(worker):
        runs = (worker.run(operation, short=short) for operation in (refuse, fail, here))
        return await asyncio.gather(*runs, return_exceptions=True)

    refused, failed, ran = with_worker(path, use)
    assert isinstance(refused, InvalidInput)
    assert isinstance(failed, Unavailable)
    assert ran is short


def test_what_waits_when_it_is_closed_is_run(path):
    async def use(worker):
        waiting = [asyncio.ensure_future(worker.run(here, short=short)) for short in (True, False)]
        await asyncio.sleep(0)
        await worker.close()
        with pytest.raises(Unavailable):
            await worker.run(here)
        return await asyncio.gather(*waiting)

    assert with_worker(path, use) == [False, False]
