"""Answers from other processes: what they are told, and that the owner gets each once."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import decide, open_store

import delaytron as dt
from delaytron.journal import ANSWERED, CANCELLED, EXPIRED, OPEN, Journal, Status
from delaytron.journal.answers import Answering, read_value, reply

CLASSES = ["small", "medium", "large"]


@pytest.fixture
def make(tmp_path):
    """Open a store with this configuration, and a journal beside it."""
    opened = []

    def make(**config):
        store = open_store(tmp_path / "a.db", json.dumps({"classes": CLASSES, **config}).encode())
        journal = Journal(tmp_path / "a.db")
        opened.extend((journal, store))
        return store, journal

    yield make
    for each in opened:
        each.close()


def take(store):
    with store.batch():
        return store.inbox()


def test_an_answer_reaches_the_owner_once(make):
    store, journal = make(rewards=True)
    decide(store, "a")
    decide(store, "b")
    assert journal.feedback("b", reward=0.25) == "accepted"
    assert journal.feedback("a", True) == "accepted"
    assert store.status("b") == Status(ANSWERED, 0.25, 0, False)
    arrivals = take(store)
    assert [(arrival.id, arrival.value, arrival.revises) for arrival in arrivals] == [
        ("b", 0.25, False),
        ("a", 1.0, False),
    ]
    assert 0 <= store.now().clock - arrivals[0].now.clock < 60e9
    assert take(store) == []


def test_what_a_failed_batch_took_comes_again(make):
    store, journal = make()
    decide(store, "a")
    journal.feedback("a", correct=False)

    def attempt():
        with store.batch():
            assert len(store.inbox()) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt()
    assert [arrival.id for arrival in take(store)] == ["a"]


def test_the_same_again_and_another(make):
    store, journal = make()
    decide(store, "a")
    assert journal.feedback("a", correct=True) == "accepted"
    assert journal.feedback("a", correct=True) == "duplicate"
    assert journal.feedback("a", label="small") == "duplicate"
    with pytest.raises(dt.ConflictingFeedback, match="'a' was answered 'correct', now 'wrong' came"):
        journal.feedback("a", correct=False)
    assert len(take(store)) == 1
    with pytest.raises(dt.UnknownDecision, match="'b' was never issued"):
        journal.feedback("b", correct=True)
    assert take(store) == []


@pytest.mark.parametrize(("label", "value"), [("small", 0.0), ("medium", 1.0)])
def test_a_label_is_compared_with_the_one_that_was_played(make, label, value):
    store, journal = make()
    decide(store, "a", label=1)
    assert journal.feedback("a", label=label) == "accepted"
    assert take(store)[0].value == value


def test_where_labels_are_told_the_index_arrives(make):
    store, journal = make(feedback_type="label")
    decide(store, "a", label=1)
    with pytest.raises(dt.InvalidInput, match=r"one of label=\.\.\.; got correct=True"):
        journal.feedback("a", correct=True)
    assert journal.feedback("a", label="large") == "accepted"
    with pytest.raises(dt.ConflictingFeedback, match="'large', now 'small' came"):
        journal.feedback("a", label="small")
    assert take(store)[0].value == 2.0


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"correct": True, "label": "small"},
        {"correct": 2},
        {"correct": "yes"},
        {"label": "smal"},
        {"label": 0},
        {"reward": 0.5},
    ],
)
def test_what_is_not_an_answer_is_refused_and_changes_nothing(make, answer):
    store, journal = make()
    decide(store, "a")
    with pytest.raises(dt.InvalidInput) as caught:
        journal.feedback("a", **answer)
    assert "\n" not in str(caught.value)
    assert store.status("a").status == OPEN
    assert take(store) == []


@pytest.mark.parametrize("reward", [-0.1, 1.1, float("nan"), float("inf"), "1", True])
def test_a_reward_is_from_0_to_1(make, reward):
    store, journal = make(rewards=True)
    decide(store, "a")
    with pytest.raises(dt.InvalidInput, match="reward"):
        journal.feedback("a", reward=reward)
    assert take(store) == []


@pytest.mark.parametrize("id", ["", 7, None, "a\0"])
def test_what_is_not_an_id_is_refused(make, id):
    _, journal = make()
    with pytest.raises(dt.InvalidInput, match=r"^id must"):
        journal.feedback(id, correct=True)


@pytest.mark.parametrize(("on_expiry", "said"), [("drop", "expired"), ("wrong", "accepted")])
def test_a_late_answer_counts_where_silence_meant_wrong(make, on_expiry, said):
    store, journal = make(on_expiry=on_expiry)
    decide(store, "a")
    with store.batch():
        store.settle("a", EXPIRED)
    assert journal.feedback("a", correct=True) == said
    arrivals = take(store)
    assert [arrival.revises for arrival in arrivals] == ([True] if said == "accepted" else [])


def test_a_cancelled_decision_takes_no_answer(make):
    store, journal = make()
    decide(store, "a")
    with store.batch():
        store.settle("a", CANCELLED)
    assert journal.feedback("a", correct=True) == "cancelled"
    assert take(store) == []


def test_classes_that_came_later_are_known(make):
    store, journal = make()
    decide(store, "a", label=3)
    with pytest.raises(dt.InvalidInput, match="'huge'; known are small, medium, large"):
        journal.feedback("a", label="huge")
    with store.batch():
        store.set_classes([*CLASSES, "huge"])
    assert journal.feedback("a", label="huge") == "accepted"
    assert take(store)[0].value == 1.0


def test_classes_may_be_numbers_but_true_is_not_one():
    answering = Answering("label", False, (1, 2), False)
    assert read_value(answering, None, np.int64(2), None, None) == 1.0
    with pytest.raises(dt.InvalidInput):
        read_value(answering, None, True, None, None)


STATUSES = st.one_of(
    st.none(),
    st.builds(
        lambda status, value, purged: Status(status, value if status == ANSWERED else None, 0, purged),
        st.sampled_from([OPEN, ANSWERED, EXPIRED, CANCELLED]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.booleans(),
    ),
)


@given(STATUSES, st.sampled_from([0.0, 0.5, 1.0]), st.booleans())
def test_replies_are_those_of_the_table(known, value, late):
    """The same as a table: rows are tried from the top."""
    table = [
        (known is None, dt.UnknownDecision),
        (known is not None and known.status == OPEN, "accepted"),
        (known is not None and known.status == CANCELLED, "cancelled"),
        (known is not None and known.status == ANSWERED and known.value == value, "duplicate"),
        (known is not None and known.status == ANSWERED, dt.ConflictingFeedback),
        (late and not (known is not None and known.purged), "accepted"),
        (True, "expired"),
    ]
    expected = next(answer for applies, answer in table if applies)
    try:
        found = reply("a", known, value, Answering("correct", True, (), late))
    except dt.DelaytronError as problem:
        found = type(problem)
    assert found == expected
