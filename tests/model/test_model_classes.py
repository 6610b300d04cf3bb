"""Classes of a model: names, added and retired classes, and which are allowed."""

from enum import Enum

import numpy as np
import pytest
from models import CLASSES, learner_of, refused, small_model

import delaytron as dt


def test_classes_may_be_integers():
    model = small_model()
    numbered = dt.Model([10, -20, 30], learner="delaytron", features=2, seed=3, gamma=0.5)
    for t in range(10):
        named = model.decide([1, t], id=str(t))
        decision = numbered.decide([1, t], id=str(t), allowed=np.array([10, -20, 30]))
        assert decision.label == [10, -20, 30][CLASSES.index(named.label)]
        assert type(decision.label) is int
        model.feedback(str(t), label="medium")
        assert numbered.feedback(str(t), label=np.int64(-20)) == "accepted"
    refused(numbered, lambda: numbered.decide([1, 0], allowed=["10"]), "no class '10'")
    refused(numbered, lambda: numbered.add_class(10), "a class 10 already")


def test_names_of_classes_are_distinguished_by_type():
    model = dt.Model([1, "1", 0], learner="delaytron", features=2, seed=3)
    assert model.decide([1, 0], allowed=["1"]).label == "1"
    assert model.decide([1, 0], allowed=[1]).label == 1
    for wrong in (True, False, 1.0, None, b"1", [1], {}):
        refused(model, lambda wrong=wrong: model.decide([1, 0], allowed=[wrong]), "no class")


class Colour(str, Enum):  # noqa: UP042 - its str() is not its value
    RED = "red"


def test_names_of_classes_become_plain():
    model = dt.Model([Colour.RED, np.str_("blue"), np.int32(3)], learner="delaytron", features=2)
    assert [type(name) for name in model.classes] == [str, str, int]
    assert model.classes == ["red", "blue", 3]
    decision = model.decide([1, 0], allowed=[Colour.RED])
    assert model.feedback(decision.id, label=Colour.RED) == "accepted"
    assert model.decision(decision.id).value == 1.0


@pytest.mark.parametrize(
    "classes",
    ["ab", b"ab", 5, None, [], ["a"], ["a", "a"], ["a", ""], ["a", "x" * 201], ["a", "b\n"], ["a", None]],
    ids=repr,
)
def test_invalid_classes_are_refused(classes):
    with pytest.raises(dt.InvalidInput, match=r"class") as caught:
        dt.Model(classes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [True, 1.5, 2**63, "\ud800", ["b"], "ä" * 101], ids=repr)
def test_invalid_names_of_classes_are_refused(name):
    with pytest.raises(dt.InvalidInput, match=r"a class must be named by .*; give it another name") as caught:
        dt.Model(["a", name])
    assert "\n" not in str(caught.value)


def test_a_class_can_be_added_while_decisions_are_open():
    model = small_model(gamma=1.0)
    ids = [model.decide([1, t]).id for t in range(5)]
    model.add_class("huge")
    assert model.classes == [*CLASSES, "huge"]
    labels = {model.decide([1, t]).label for t in range(100)}
    assert labels == {*CLASSES, "huge"}
    assert {model.feedback(issued, label="huge") for issued in ids} == {"accepted"}
    assert model.stats().mean_reward == 0.0
    model.decide([1, 0])
    assert model.probabilities([1, 0]) == dict.fromkeys([*CLASSES, "huge"], pytest.approx(0.25))


def test_a_retired_class_is_not_chosen_and_its_answers_are_taken():
    model = small_model(gamma=1.0)
    decisions = [model.decide([1, t]) for t in range(30)]
    model.retire_class("small")
    assert {model.decide([1, t]).label for t in range(50)} == {"medium", "large"}
    assert model.probabilities([1, 0]) == {"medium": 0.5, "large": 0.5}
    assert model.predict([1, 0]) in ("medium", "large")
    assert set(model.explain([1, 0]).scores) == {"medium", "large"}
    played = next(decision for decision in decisions if decision.label == "small")
    assert model.feedback(played.id, label="small") == "accepted"
    refused(model, lambda: model.decide([1, 0], allowed=["small"]), "'small' is retired")
    refused(model, lambda: model.retire_class("small"), "retired already")
    model.add_class("small")
    assert model.classes == CLASSES
    assert {model.decide([1, t]).label for t in range(50)} == set(CLASSES)
    assert learner_of(model).n_classes == 3
    assert model.stats().classes["small"].answered == 1


def test_the_last_class_cannot_be_retired():
    model = small_model()
    model.retire_class("small")
    model.retire_class("large")
    assert model.decide([1, 0]).prob == 1.0
    refused(model, lambda: model.retire_class("medium"), "the last one")


def test_what_cannot_be_added_or_retired_changes_nothing():
    model = small_model()
    refused(model, lambda: model.add_class("small"), "'small' already")
    refused(model, lambda: model.add_class(1.5), "1.5")
    refused(model, lambda: model.add_class(2**64), "integer")
    refused(model, lambda: model.retire_class("smal"), "did you mean small?")
    fixed = dt.Model(CLASSES, learner="newtron", features=2, seed=1)
    fixed.decide([1, 0])
    refused(fixed, lambda: fixed.add_class("huge"), "newtron cannot take another class")
    assert fixed.classes == CLASSES
    fixed.decide([1, 0])


def test_allowed_restricts_the_choice_and_the_probability():
    model = small_model(gamma=0.6)
    for t in range(40):
        decision = model.decide([1, t], allowed=["large", "small"])
        assert decision.label in ("small", "large")
        assert decision.greedy in ("small", "large")
        assert decision.prob == pytest.approx(0.7 if decision.label == decision.greedy else 0.3)
    one = model.decide([1, 0], allowed=iter(["medium"]))
    assert (one.label, one.prob) == ("medium", 1.0)
    assert model.probabilities([1, 0], allowed=("medium",)) == {"medium": 1.0}


@pytest.mark.parametrize("features", [2, ["a", "b"]], ids=["vectors", "named"])
def test_allowed_may_be_an_iterator_for_many_decisions(features):
    xs = [[1, 0]] * 3 if features == 2 else [{"a": 1}] * 3
    decisions = small_model(features=features).decide_many(xs, allowed=iter(["medium"]))
    assert [decision.label for decision in decisions] == ["medium"] * 3


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        ([], "at least one class"),
        ("small", "list of classes, got 'small'"),
        (3, "got 3"),
        (["tiny"], "no class 'tiny'"),
    ],
)
def test_wrong_allowed_is_refused(allowed, words):
    model = small_model()
    refused(model, lambda: model.decide([1, 0], allowed=allowed), words)
    refused(model, lambda: model.decide_many([[1, 0]], allowed=allowed), words)
    refused(model, lambda: model.probabilities([1, 0], allowed=allowed), words)
