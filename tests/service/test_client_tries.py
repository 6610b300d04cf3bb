"""Retries and their waits, and features as JSON; without a network."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from delaytron.client import TooLarge, TooMany, Unauthorized, Unavailable, UnexpectedReply
from delaytron.model.encoders import make_encoder
from delaytron.service.client import client as client_module
from delaytron.service.client import protocol
from delaytron.service.client.client import HttpReply, NoReply, Tries, parse_retry_after
from delaytron.service.client.protocol import as_sent

GET = protocol.stats("router")
CHANGE = protocol.add_class("router", "huge")
BUSY = HttpReply(503, {}, b"")
LOST = NoReply("timed out", sent=True)
REFUSED = NoReply("refused", sent=False)


def waits(request, *outcomes, retries=4):
    made = Tries(request, "http://here", retries)
    return [made.take(outcome) for outcome in outcomes]


@pytest.mark.parametrize("outcome", [LOST, REFUSED, BUSY, *(HttpReply(s, {}, b"") for s in (408, 429, 502, 504))])
def test_waits_double_up_to_a_limit(monkeypatch, outcome):
    monkeypatch.setattr(client_module, "random", lambda: 1.0)
    assert waits(GET, *[outcome] * 9, retries=8) == [0.25, 0.5, 1, 2, 4, 8, 10, 10, None]
    monkeypatch.setattr(client_module, "random", lambda: 0.0)
    assert waits(GET, outcome, outcome) == [0, 0]


def test_thousands_of_retries_do_not_overflow():
    assert all(0 <= wait <= 10 for wait in waits(GET, *[REFUSED] * 3000, retries=3000))


def test_waits_are_spread_over_their_whole_range():
    first = [waits(GET, BUSY)[0] for _ in range(2000)]
    counts, _ = np.histogram(first, bins=10, range=(0, 0.25))
    assert counts.sum() == 2000
    assert counts.min() > 130  # 200 are expected of each, give or take 13


def test_other_statuses_are_not_retried():
    for status in (200, 201, 301, 400, 401, 403, 404, 409, 410, 413, 422, 500):
        assert waits(GET, HttpReply(status, {"retry-after": "0"}, b"")) == [None]
    assert waits(GET, BUSY, retries=0) == [None]


def test_retry_after_is_a_lower_bound_of_the_wait(monkeypatch):
    monkeypatch.setattr(client_module, "random", lambda: 0.5)
    assert waits(GET, HttpReply(429, {"retry-after": "3"}, b"")) == [3.125]
    assert waits(GET, HttpReply(503, {"retry-after": "61"}, b"")) == [None]
    assert waits(GET, HttpReply(503, {"retry-after": "soon"}, b"")) == [0.125]


def test_retry_after_may_be_a_date():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 28 < parse_retry_after(later) <= 30
    unread = ("", "x", "-1", "1.5", "Wed, 99 Oct 2015 07:28:00 GMT", "\u0663", f"Wed, 21 Oct {10**20} 07:28:00 GMT")
    for header in unread:
        assert parse_retry_after(header) in (0.0, 3.0)


@pytest.mark.parametrize(
    ("outcome", "again"),
    [(REFUSED, True), (HttpReply(429, {}, b""), True), (LOST, False), (BUSY, False), (HttpReply(502, {}, b""), False)],
)
def test_a_change_is_retried_only_if_it_was_not_accepted(outcome, again):
    assert (waits(CHANGE, outcome)[0] is not None) == again


def result_of(request, *outcomes):
    made = Tries(request, "http://here", 4)
    for outcome in outcomes:
        made.take(outcome)
    return made.result()


def refusal(status, word):
    problem = {"type": "", "title": "", "status": status, "detail": "wrong", "hint": "do this", "result": word}
    return HttpReply(status, {}, json.dumps(problem).encode())


@pytest.mark.parametrize(
    ("replies", "kind", "said"),
    [
        ([refusal(429, "too_many")], TooMany, "wrong; do this"),
        ([LOST, refusal(429, "too_many")], TooMany, "wrong; do this; tries: 2; try again, or check the url"),
        ([BUSY], Unavailable, "http://here answered 503; tries: 1; try again, or check the url"),
        ([LOST, refusal(422, "invalid")], dt.InvalidInput, "wrong; do this"),
        ([LOST, refusal(404, "unknown_decision")], dt.UnknownDecision, "wrong; do this"),
        ([refusal(418, "teapot")], UnexpectedReply, "wrong; check the url"),
        ([HttpReply(401, {}, b"")], Unauthorized, "http://here answered 401; give a key that is known there"),
        ([HttpReply(413, {}, b"")], TooLarge, "http://here answered 413; send less at once"),
        (
            [HttpReply(200, {}, b"<html>\n<p>")],
            UnexpectedReply,
            "GET http://here/v1/models/router/stats answered 200 '<html> <p>', which is no reply of this service; "
            "check the url",
        ),
    ],
)
def test_errors_say_what_the_service_said(replies, kind, said):
    with pytest.raises(kind) as caught:
        result_of(GET, *replies)
    assert type(caught.value) is kind
    assert str(caught.value) == said


def test_every_call_has_an_idempotency_key_of_its_own():
    first, second = (protocol.decide("router", {"n": 1}, None, None) for _ in range(2))
    assert first.body == second.body
    assert first.idempotency_key != second.idempotency_key
    assert first.idempotent


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
machine_numbers = st.one_of(
    st.floats(width=64),
    st.floats(width=32).map(np.float32),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.booleans(),
    st.booleans().map(np.bool_),
)
numbers = st.one_of(
    machine_numbers,
    st.integers(-(2**70), 2**70),
    st.fractions(max_denominator=9),
    st.decimals(allow_nan=False, places=2, min_value=-9, max_value=9),
)
others = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.lists(names, max_size=3),
    st.sets(names, max_size=3),
    st.lists(names, max_size=3).map(np.array),
    names.map(np.str_),
    st.sampled_from([date(2024, 1, 1), b"x", timedelta(1), pd.NA, pd.NaT, np.datetime64("NaT"), 1j, object()]),
)
values = st.one_of(numbers, others, st.dictionaries(names, numbers, max_size=2))


def rows(features, xs):
    """Yield the encoded row of each input, None for one that is refused."""
    for x in xs:
        try:
            yield [part.tolist() for part in make_encoder(features, 10).encode(x()) if part is not None]
        except dt.InvalidInput:
            yield None


def sent(x):
    return json.loads(protocol.encode({"x": as_sent(x)}))["x"]


@given(st.dictionaries(names, values, max_size=4))
def test_features_arrive_as_a_model_would_take_them(x):
    own, arrived = rows("hashed", [lambda: x, lambda: sent(x)])
    assert own == arrived


@given(st.lists(machine_numbers, min_size=3, max_size=3), st.sampled_from([list, tuple, np.array]))
def test_vectors_arrive_as_a_model_would_take_them(x, kind):
    own, arrived = rows(3, [lambda: kind(x), lambda: sent(kind(x))])
    assert own == arrived


@pytest.mark.parametrize(
    "x",
    [
        pd.Series({"a": 1, "b": "x"}),
        pd.DataFrame({"a": [1.5], "b": ["two words"]}),
        pl.DataFrame({"a": [1.5], "b": [["x", "y"]]}),
        {"a": Fraction(1, 3), "b": Decimal("0.1"), "c": {"d": {"e": None}}},
    ],
)
def test_frames_arrive_as_a_model_would_take_them(x):
    own, arrived = rows("hashed", [lambda: x, lambda: sent(x)])
    assert own == arrived
    assert own is not None
