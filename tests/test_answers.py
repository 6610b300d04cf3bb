"""Answers: which values a model takes, and the one table of replies."""

from enum import StrEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from delaytron.answers import Answering, Known, Status, read_answering, read_value, reply, reply_to_cancel

CORRECT = Answering("correct", False, ("small", "medium", "large"))
REWARDS = CORRECT._replace(rewards=True)
LABEL = CORRECT._replace(feedback_type="label")
VALUES = [0.0, 0.5, 1.0]


class Size(StrEnum):
    LARGE = "large"


def outcome(action):
    """Return what an action returns, or the type of what it raises."""
    try:
        return action()
    except dt.DelaytronError as problem:
        return type(problem)


def expected_reply(known, value):
    if known is None:
        return dt.UnknownDecision
    if known.status == Status.CANCELLED:
        return "cancelled"
    if known.value is not None:
        return "duplicate" if known.value == value else dt.ConflictingFeedback
    return {
        (Status.OPEN, False): "accepted",
        (Status.EXPIRED, True): "corrected",
        (Status.EXPIRED, False): "late",
    }[known.status, known.correctable]


@st.composite
def known_ids(draw):
    status = draw(st.sampled_from(Status))
    value = draw(st.sampled_from(VALUES)) if status == Status.ANSWERED else None
    correctable = status == Status.EXPIRED and draw(st.booleans())
    if status == Status.EXPIRED and not correctable:
        value = draw(st.sampled_from([None, *VALUES]))
    return Known(status, value, 0, correctable, purged=draw(st.booleans()))


@given(st.one_of(st.none(), known_ids()), st.sampled_from(VALUES))
def test_replies_are_those_of_the_table(known, value):
    assert outcome(lambda: reply("a", known, value, REWARDS)) == expected_reply(known, value)


@given(st.one_of(st.none(), known_ids()))
def test_only_an_open_decision_can_be_cancelled(known):
    expected = {None: dt.UnknownDecision, Status.OPEN: "cancelled", Status.CANCELLED: "duplicate"}
    status = None if known is None else known.status
    assert outcome(lambda: reply_to_cancel("a", known)) == expected.get(status, dt.ConflictingFeedback)


def test_the_stored_numbers_of_statuses():
    assert [(status.name, int(status)) for status in Status] == [
        ("OPEN", 0),
        ("ANSWERED", 1),
        ("EXPIRED", 2),
        ("CANCELLED", 3),
    ]


def test_conflicts_show_both_answers():
    with pytest.raises(dt.ConflictingFeedback, match="'a' was answered 'correct', now 'wrong' came"):
        reply("a", Known(Status.ANSWERED, 1.0, 0), 0.0, CORRECT)
    with pytest.raises(dt.ConflictingFeedback, match=r"reward 0\.25, now 'wrong' came"):
        reply("a", Known(Status.ANSWERED, 0.25, 0), 0.0, REWARDS)
    with pytest.raises(dt.ConflictingFeedback, match="'large', now 'small' came"):
        reply("a", Known(Status.ANSWERED, 2.0, 0), 0.0, LABEL)
    with pytest.raises(dt.UnknownDecision, match="'a' was never issued"):
        reply("a", None, 0.0, CORRECT)


@pytest.mark.parametrize(
    ("answering", "answer", "value"),
    [
        (CORRECT, {"correct": True}, 1.0),
        (CORRECT, {"correct": 0}, 0.0),
        (CORRECT, {"correct": np.bool_(True)}, 1.0),
        (CORRECT, {"label": "medium"}, 1.0),
        (CORRECT, {"label": "small"}, 0.0),
        (REWARDS, {"reward": 0.25}, 0.25),
        (REWARDS, {"correct": False}, 0.0),
        (LABEL, {"label": "large"}, 2.0),
        (LABEL, {"label": np.str_("large").item()}, 2.0),
        (LABEL, {"label": Size.LARGE}, 2.0),
        (LABEL._replace(classes=(1, 2)), {"label": np.int64(2)}, 1.0),
        (LABEL._replace(classes=(1, 2)), {"label": np.array(2)}, 1.0),
    ],
)
def test_answers_become_numbers(answering, answer, value):
    given = {"correct": None, "label": None, "reward": None, **answer}
    assert read_value(answering, **given, played=1) == value


@pytest.mark.parametrize(
    ("answering", "answer", "words"),
    [
        (CORRECT, {}, "one of correct=..., label=...; got nothing"),
        (CORRECT, {"correct": True, "label": "small"}, "got correct=True, label='small'"),
        (CORRECT, {"correct": 2}, "correct must be True or False"),
        (CORRECT, {"correct": "yes"}, "correct must be True or False"),
        (CORRECT, {"label": "smal"}, "did you mean small?"),
        (CORRECT, {"label": "huge"}, "'huge'; known are small, medium, large"),
        (CORRECT, {"label": 0}, "label must be the name of a class"),
        (CORRECT, {"label": np.array([1, 2])}, "label must be the name of a class"),
        (CORRECT, {"reward": 0.5}, "right or wrong only"),
        (LABEL, {"correct": True}, "one of label=...; got correct=True"),
        (LABEL._replace(classes=(1, 2)), {"label": True}, "label must be the name of a class"),
        (LABEL._replace(classes=(1, 2)), {"label": 1.0}, "label must be the name of a class"),
        (LABEL._replace(rewards=True), {"reward": 0.5}, "one of label=..."),
        *[(REWARDS, {"reward": bad}, "reward") for bad in (-0.1, 1.1, float("nan"), float("inf"), "1", True)],
    ],
)
def test_anything_else_is_refused_in_one_line(answering, answer, words):
    given = {"correct": None, "label": None, "reward": None, **answer}
    with pytest.raises(dt.InvalidInput) as caught:
        read_value(answering, **given, played=1)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_present_classes_replace_those_of_the_configuration():
    config = b'{"classes": ["a"], "feedback_type": "label"}'
    assert read_answering(config) == Answering("label", False, ("a",))
    assert read_answering(config, b'["a", "b"]').classes == ("a", "b")
