"""The client over a bad network: replies are lost, connections cut, a proxy says 503, and the service is killed."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain, repeat
from random import Random
from threading import Event

import pytest
from bad_network import FAULTS, LOST, BadNetwork
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import delaytron as dt
from delaytron.client import NoConnection, Unavailable
from delaytron.journal.view import JournalView
from delaytron.model import facts
from delaytron.model.verify import verify_journal
from delaytron.service.client import client as client_module
from services import serving

LABELS = ["small", "medium", "large"]
KINDS = (facts.DECIDED, facts.ANSWERED, facts.CANCELLED)
PATIENT = {"timeout": 0.25, "retries": 400}  # a reply that takes longer is one more that is lost


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(client_module, "LONGEST_WAIT", 0.005)


@pytest.fixture(scope="module")
def service(shop):
    with dt.Client(shop.url) as client:
        client.create_model("router", LABELS, bits=8, seed=1)
    yield shop
    assert verify_journal(shop.folder / "router.db").mismatch is None


@pytest.fixture
def folder(service):
    return service.folder


def facts_of(path):
    """Return how often each decision was made and answered, by (kind, id)."""
    with JournalView(path) as view:
        return Counter((fact.kind, fact.id) for fact in view.facts())


def taken(network, action):
    """Return the result of an action, and how many of its requests the service received completely."""
    before = network.seen["taken"]
    said = action()
    return said, network.seen["taken"] - before


def totals(found):
    """Return the numbers of decisions, answers and cancellations."""
    return [sum(n for (kind, _), n in found.items() if kind == known) for known in KINDS]


QUICK = [fault for fault in FAULTS if fault != "late reply"]  # which takes long
plans = st.lists(st.sampled_from([None, None, *QUICK]), min_size=30, max_size=60)


@settings(max_examples=15, phases=[Phase.generate])  # a smaller plan would explain no more, and takes long to find
@given(plans, st.integers(0, 40), st.randoms(use_true_random=False))
def test_every_request_is_processed_once_and_its_result_says_so(service, folder, faults, late, random):
    plan = chain(faults[:late], ["late reply"], faults[late:], repeat(None))
    before = facts_of(folder / "router.db")
    with BadNetwork(service.url, lambda: next(plan)) as network, dt.Client(network.url, **PATIENT) as client:
        router = client.model("router")
        made = [router.decide({"n": 1}), *router.decide_many([{"n": number} for number in range(6)])]
        random.shuffle(made)
        for decision in made[:3]:
            word, times = taken(network, lambda name=decision.id: router.feedback(name, reward=0.5))
            assert word == ("accepted" if times == 1 else "known")
        words, times = taken(network, lambda: router.feedback_many([{"id": d.id, "correct": True} for d in made[3:5]]))
        assert words == ["accepted" if times == 1 else "known"] * 2
        word, times = taken(network, lambda: router.cancel(made[5].id))
        assert word == ("cancelled" if times == 1 else "known")
        states = [router.decision(decision.id) for decision in made]
    assert [state.status for state in states] == [*["answered"] * 5, "cancelled", "open"]
    assert [(state.label, state.prob) for state in states] == [(d.label, d.prob) for d in made]
    found = facts_of(folder / "router.db") - before
    assert totals(found) == [7, 5, 1]
    assert all(found[facts.DECIDED, decision.id] == 1 for decision in made)
    assert [found[facts.ANSWERED, decision.id] for decision in made] == [1] * 5 + [0, 0]


def count_decisions(url):
    with dt.Client(url) as client:
        return client.model("router").stats().decisions


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_reply_leaves_no_second_decision(service, fault):
    before = count_decisions(service.url)
    plan = chain([fault] * 3, repeat(None))
    with BadNetwork(service.url, lambda: next(plan)) as network, dt.Client(network.url, **PATIENT) as client:
        decision = client.model("router").decide({"n": 1})
        assert client.model("router").decision(decision.id).status == "open"
        assert network.seen["taken"] == (5 if fault in LOST else 2)
        assert network.seen[fault] == 3
    assert count_decisions(service.url) == before + 1


@pytest.mark.parametrize("fault", FAULTS)
def test_the_error_after_the_last_retry_says_whether_it_may_have_been_accepted(service, fault):
    with BadNetwork(service.url, lambda: fault) as network, dt.Client(network.url, timeout=0.3, retries=2) as client:
        router = client.model("router")
        name = f"given up after {fault}"
        with pytest.raises((Unavailable, dt.client.TooMany)) as caught:
            router.decide({"n": 1}, id=name)
        assert isinstance(caught.value, NoConnection) == (fault not in ("503", "429", "503 for it", "504 for it"))
        assert ("may have been decided: look for the id" in str(caught.value)) == (fault != "429")
        assert sum(network.seen[one] for one in FAULTS) == 3
        network.next_fault = lambda: None
        if fault in LOST:
            assert router.decision(name).status == "open"
        else:
            with pytest.raises(dt.UnknownDecision):
                router.decision(name)


def test_a_request_that_is_not_idempotent_is_not_retried_once_it_may_be_accepted(service):
    with dt.Client(service.url) as client:
        direct = client.create_model("changing-once", LABELS, seed=1)
    plan = iter(["429", "drop reply"])
    with BadNetwork(service.url, lambda: next(plan, None)) as network, dt.Client(network.url, **PATIENT) as client:
        with pytest.raises(NoConnection, match="it may have been done: look at describe"):
            client.model("changing-once").add_class("huge")
        assert network.seen == {"429": 1, "drop reply": 1, "taken": 1}
        assert client.model("changing-once").describe().classes == [*LABELS, "huge"]
    assert direct.name == "changing-once"


def test_a_duplicate_after_a_lost_reply_is_known(service):
    plan = iter([])
    with BadNetwork(service.url, lambda: next(plan, None)) as network, dt.Client(network.url, **PATIENT) as client:
        router = client.model("router")
        router.decide({"n": 1}, id="answered by two")
        assert router.feedback("answered by two", correct=True) == "accepted"
        plan = iter(["429", "503"])
        assert router.feedback("answered by two", correct=True) == "known"  # a 503 promises nothing
        plan = iter(["429", "429"])
        assert router.feedback("answered by two", correct=True) == "duplicate"
        plan = iter(["drop reply"])
        with pytest.raises(dt.ConflictingFeedback):
            router.feedback("answered by two", correct=False)


def faulty(seed, share):
    """Return a function that draws a fault for a share of the requests."""
    random = Random(seed)
    return lambda: random.choice(FAULTS) if random.random() < share else None


def test_many_tasks_over_a_bad_network_are_processed_once(service, folder):
    async def work(model, task):
        done = []
        for number in range(6):
            decision = await model.decide({"task": task, "n": number})
            done.append((decision, await model.feedback(decision.id, reward=number / 5)))
        return done

    async def play(url):
        async with dt.AsyncClient(url, **PATIENT) as client:
            model = await client.create_model("tasks", LABELS, bits=8, seed=1)
            done = await asyncio.gather(*(work(model, task) for task in range(32)))
            return [pair for pairs in done for pair in pairs], await model.stats()

    with BadNetwork(service.url, faulty(seed=1, share=0.2)) as network:
        done, stats = asyncio.run(play(network.url))
    assert set(FAULTS) <= network.seen.keys()
    assert (stats.decisions, stats.answered) == (192, 192)
    assert len({decision.id for decision, _ in done}) == len({decision.round for decision, _ in done}) == 192
    assert {word for _, word in done} == {"accepted", "known"}
    assert verify_journal(folder / "tasks.db").mismatch is None
    found = facts_of(folder / "tasks.db")
    decided = {(facts.DECIDED, decision.id) for decision, _ in done}
    answered = {(facts.ANSWERED, decision.id) for decision, _ in done}
    assert {key: n for key, n in found.items() if key[0] in (facts.DECIDED, facts.ANSWERED)} == dict.fromkeys(
        decided | answered, 1
    )


def test_nothing_is_lost_or_done_twice_over_kills_and_restarts(tmp_path, monkeypatch):
    monkeypatch.setattr(client_module, "LONGEST_WAIT", 0.2)  # so that all tries together outlast a restart
    started = Event()

    def work(router, thread):
        done = []
        for number in range(60):
            decision = router.decide({"thread": thread, "n": number}, id=f"{thread}-{number}")
            done.append((decision, router.feedback(decision.id, correct=number % 2 == 0)))
            started.set()
        return done

    with ExitStack() as ending:
        service = ending.enter_context(serving(tmp_path))
        network = ending.enter_context(BadNetwork(service.url, faulty(seed=2, share=0.05)))
        client = ending.enter_context(dt.Client(network.url, **PATIENT))
        pool = ending.enter_context(ThreadPoolExecutor(4))
        router = client.create_model("router", LABELS, bits=8, seed=1)
        futures = [pool.submit(work, router, thread) for thread in range(4)]
        for end in ("kill", "stop"):
            assert started.wait(60)
            started.clear()
            getattr(service, end)()
            service = ending.enter_context(serving(tmp_path))
            network.target = service.url
        done = [pair for future in futures for pair in future.result(120)]
        stats = router.stats()
        assert router.digest() == verify_journal(tmp_path / "router.db").hash
    assert (stats.decisions, stats.answered) == (240, 240)
    assert sorted(decision.round for decision, _ in done) == list(range(1, 241))
    assert {word for _, word in done} <= {"accepted", "known"}
    found = facts_of(tmp_path / "router.db")
    assert {found[kind, decision.id] for decision, _ in done for kind in (facts.DECIDED, facts.ANSWERED)} == {1}


def test_without_a_service_no_connection_is_raised():
    with dt.Client("http://127.0.0.1:9", retries=2) as client:
        with pytest.raises(
            NoConnection, match=r"no reply from http://127\.0\.0\.1:9: .*; start the service, or check the"
        ):
            client.models()
        with pytest.raises(NoConnection, match="start the service"):
            client.model("router").add_class("x")
