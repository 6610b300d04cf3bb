"""The service over HTTP on PostgreSQL: three processes serve the same models."""

from contextlib import ExitStack

import pytest
from postgres_play import check_state

from services import serving


@pytest.fixture
def fronts(dsn):
    with ExitStack() as running:
        yield [running.enter_context(serving(None, "--postgres", dsn)) for _ in range(3)]


def said(reply):
    return reply.status_code, reply.json().get("result")


def test_any_front_end_accepts_an_answer_once(fronts, dsn):
    fronts[0].make("router", features=2)
    ids = [fronts[i % 3].decide([1.0, float(i)], "router").json()["id"] for i in range(30)]
    for i, one in enumerate(ids):
        assert said(fronts[(i + 1) % 3].feedback(one, "router", correct=True)) == (200, "accepted")
        assert said(fronts[(i + 2) % 3].feedback(one, "router", correct=True)) == (200, "duplicate")
        assert said(fronts[i % 3].feedback(one, "router", correct=False)) == (409, "conflict")
    assert said(fronts[1].feedback("never", "router", correct=True)) == (404, "unknown_decision")
    while any(front.client.get("/v1/models/router/stats").json()["answered"] < 30 for front in fronts):
        pass
    digests = {front.client.get("/v1/models/router/digest").json()["digest"] for front in fronts}
    assert len(digests) == 1
    check_state(dsn)


def test_another_process_takes_over_from_a_killed_learner(fronts, dsn):
    fronts[0].make("router", features=2)
    fronts[0].decide([1.0, 2.0], "router")
    fronts[0].kill()
    one = fronts[1].decide([1.0, 2.0], "router").json()["id"]
    assert said(fronts[2].feedback(one, "router", correct=True)) == (200, "accepted")
    while fronts[1].client.get("/v1/models/router/stats").json()["answered"] < 1:
        pass
    check_state(dsn)


def test_stats_have_the_staleness(fronts):
    fronts[0].make("router", features=2)
    stats = fronts[1].client.get("/v1/models/router/stats").json()
    assert stats["staleness"]["seconds"] >= 0
    assert stats["staleness"]["bound"]
