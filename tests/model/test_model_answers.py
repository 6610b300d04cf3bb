"""Answers to the decisions of a model: right or wrong, labels, rewards; the replies, and what is refused."""

import numpy as np
import pytest
from models import CLASSES, learner_of, refused, small_model

import delaytron as dt

NO_REWARDS = [name for name, cls in dt.LEARNERS.items() if not cls.takes_rewards and cls.feedback_type == "correct"]


def test_the_same_answer_again_is_a_duplicate_and_another_one_a_conflict():
    model = small_model()
    model.decide([1, 0], id="a")
    assert model.feedback("a", correct=True) == "accepted"
    before = model.digest()
    assert model.feedback("a", correct=True) == "duplicate"
    assert model.feedback("a", reward=1.0) == "duplicate"
    assert model.feedback("a", reward=1) == "duplicate"
    assert model.digest() == before
    for other in ({"correct": False}, {"reward": 0.5}):
        refused(model, lambda other=other: model.feedback("a", **other), "'a'", error=dt.ConflictingFeedback)


def test_an_unknown_id_is_unknown():
    model = small_model()
    refused(model, lambda: model.feedback("a", correct=True), "'a' was never issued", error=dt.UnknownDecision)
    refused(model, lambda: model.cancel("a"), "'a' was never issued", error=dt.UnknownDecision)


def test_a_cancelled_decision_says_so_and_teaches_nothing():
    model = small_model()
    model.decide([1, 0], id="a")
    weights = learner_of(model).weights
    assert model.cancel("a") == "cancelled"
    assert model.cancel("a") == "duplicate"
    assert model.feedback("a", correct=False) == "cancelled"
    model.decide([1, 0], id="b")
    np.testing.assert_array_equal(learner_of(model).weights, weights)
    model.feedback("b", correct=True)
    refused(model, lambda: model.cancel("b"), "'b' was answered already", error=dt.ConflictingFeedback)
    assert model.stats().cancelled == 1


def test_an_expired_decision_says_so(clock):
    model = small_model(expire_after=1)
    model.decide([1, 0], id="a")
    model.decide([1, 0], id="b")
    assert model.feedback("a", correct=True) == "late"
    assert (model.stats().late, model.stats().answered) == (1, 0)
    refused(model, lambda: model.cancel("a"), "'a' has expired", error=dt.ConflictingFeedback)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "got nothing"),
        ({"correct": True, "reward": 0.5}, "got correct=True, reward=0.5"),
        ({"correct": 2}, "correct"),
        ({"correct": "yes"}, "correct"),
        ({"reward": 1.5}, "from 0 (wrong) to 1 (right), got 1.5"),
        ({"reward": -0.1}, "got -0.1"),
        ({"reward": float("nan")}, "finite"),
        ({"reward": "0.5"}, "finite number"),
        ({"reward": True}, "finite number"),
        ({"label": "huge"}, "name of a class, got 'huge'"),
        ({"label": "smal"}, "did you mean small?"),
        ({"label": 0}, "got 0"),
        ({"label": ["small"]}, "got ['small']"),
        ({"label": np.array(["small", "large"])}, "name of a class, got array("),
    ],
)
def test_invalid_answers_are_refused(answer, words):
    model = small_model()
    model.decide([1, 0], id="a")
    refused(model, lambda: model.feedback("a", **answer), words)
    assert model.feedback("a", correct=np.bool_(True)) == "accepted"


@pytest.mark.parametrize("true", CLASSES)
def test_a_label_is_right_if_it_was_played(true):
    by_label, by_correct = small_model(), small_model()
    for t in range(20):
        decision = by_label.decide([1, t], id=str(t))
        by_correct.decide([1, t], id=str(t))
        assert by_label.feedback(str(t), label=true) == "accepted"
        assert by_correct.feedback(str(t), correct=decision.label == true) == "accepted"
        assert by_label.feedback(str(t), label=decision.label) == "duplicate" if decision.label == true else True
    np.testing.assert_array_equal(learner_of(by_label).weights, learner_of(by_correct).weights)


def test_full_information_learners_take_the_label_only():
    model = dt.Model(CLASSES, learner="perceptron", features=2, seed=1)
    twin = dt.Perceptron(3, 2, seed=1)
    for t in range(12):
        name = CLASSES[t % 3]
        assert model.decide([1, t], id=str(t)).label == CLASSES[twin.decide([1, t]).label]
        refused(model, lambda: model.feedback(str(t), correct=True), "label=", "got correct=True")  # noqa: B023
        assert model.feedback(str(t), label=name) == "accepted"
        assert model.feedback(str(t), label=name) == "duplicate"
        assert twin.feedback(t + 1, label=t % 3) == "accepted"
        other = CLASSES[(t + 1) % 3]
        refused(model, lambda: model.feedback(str(t), label=other), repr(name), error=dt.ConflictingFeedback)  # noqa: B023
    np.testing.assert_array_equal(learner_of(model).weights, twin.weights)
    assert model.stats().answered == 12


@pytest.mark.parametrize("name", NO_REWARDS)
def test_learners_without_rewards_say_so(name):
    model = dt.Model(CLASSES, learner=name, features=2, seed=1)
    decision = model.decide([1, 2])
    refused(model, lambda: model.feedback(decision.id, reward=0.5), "correct=..., label=...", "got reward=0.5")
    assert model.feedback(decision.id, label=decision.label) == "accepted"
    model.decide([1, 2])
