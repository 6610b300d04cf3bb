"""The same requests to journals in a folder and to PostgreSQL have the same replies and the same final state."""

import asyncio
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_play import check_state, serving, until_learned

from delaytron.service import messages
from delaytron.service.backend import Repeatable
from delaytron.service.models import Models
from delaytron.service.problems import problem_of

pytestmark = pytest.mark.xdist_group("bandit_logit")

IDS = st.sampled_from([f"r{number}" for number in range(6)])
CLASSES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.one_of(
    st.booleans().map(lambda right: {"correct": right}),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]).map(lambda reward: {"reward": reward}),
    CLASSES.map(lambda label: {"label": label}),
    st.just({}),
)
REQUESTS = st.one_of(
    st.tuples(st.just("decide"), IDS, CLASSES, st.sampled_from([None, None, "k1", "k2"])),
    st.tuples(st.just("feedback"), IDS, VALUES),
    st.tuples(st.just("feedback"), IDS, VALUES),
    st.tuples(st.just("cancel"), IDS),
    st.tuples(st.just("add"), CLASSES),
    st.tuples(st.just("retire"), CLASSES),
)
NUMBERS = count()


async def ask_one(backend, name, request):
    """Return the part of a reply that both backends must agree on; only one class is allowed in each decision."""
    what, *rest = request
    if what == "decide":
        issued, label, key = rest
        wanted = messages.DecisionRequest([1.0, 2.0], issued, [label])
        repeatable = None if key is None else Repeatable(key, repr((issued, label)).encode())
        (reply,) = await backend.decide(name, [wanted], repeatable)
        return reply.label, reply.prob, reply.id
    if what == "feedback":
        (outcome,) = await backend.feedback(name, [messages.FeedbackRequest(id=rest[0], **rest[1])])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
    if what == "cancel":
        return await backend.cancel(name, rest[0])
    if what == "add":
        return (await backend.add_class(name, messages.NewClass(rest[0]))).classes
    return (await backend.retire_class(name, rest[0])).classes


async def said(backend, name, request):
    try:
        return await ask_one(backend, name, request)
    except Exception as problem:
        reply = problem_of(problem)
        return reply.status, reply.kind


async def known(backend, name):
    states = []
    for number in range(6):
        try:
            state = await backend.decision(name, f"r{number}")
        except KeyError:
            continue
        states.append((state.id, state.status, state.label, state.value, state.prob, state.greedy, state.allowed))
    stats = await backend.stats(name)
    counts = (stats.decisions, stats.open, stats.answered, stats.cancelled)
    return states, counts, stats.classes, stats.accuracy


@settings(max_examples=20)
@given(requests=st.lists(REQUESTS, min_size=5, max_size=40))
def test_both_backends_have_the_same_replies_and_state(dsn, requests):
    """`dsn` is one database for all examples."""
    asyncio.run(compare(dsn, f"model-{next(NUMBERS)}", requests))
    check_state(dsn, f"model-{next(NUMBERS) - 1}")


async def compare(dsn, name, requests):
    wanted = messages.NewModel(name, ["a", "b", "c"], features=2)
    with TemporaryDirectory() as folder:
        journals = Models(Path(folder))
        await journals.start()
        try:
            async with serving(dsn) as postgres, serving(dsn, learns=False) as other:
                await asyncio.gather(journals.create(wanted), postgres.create(wanted))
                await other._refresh()
                for number, request in enumerate(requests):
                    front = (postgres, other)[number % 2]
                    if request[0] in ("decide", "add", "retire"):
                        await front._refresh()  # the classes that the other front end changed
                    expected = await said(journals, name, request)
                    assert await said(front, name, request) == expected, request
                await until_learned(dsn, postgres, other)
                assert await known(other, name) == await known(journals, name)
        finally:
            await journals.stop()
