"""A model computes what its learner computes on the encoded rows, to the bit: labels, probabilities, weights."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import CLASSES, learner_of
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.model.encoders import make_encoder
from streams import by_learner, same_bits

BITS = 5
NAMED = ["a", "b"]
FORMS = {"hashed": "hashed", "named": NAMED, "vector": 2}
LEARNERS = [
    "bandit_logit",
    "banditron",
    "delaytron",
    "adaptive_delaytron",
    "soba",
    "confidit",
    "gap",
    "exp3",
    "exact_pa",
]
numbers = st.floats(-100, 100).map(lambda number: round(number, 3))


class Story(NamedTuple):
    """What happens: the features of each round, among which labels it chooses, when and what is answered."""

    form: str
    xs: list
    allowed: list
    waits: list  # rounds until the answer comes; 0 is never
    answers: list
    seed: int


@st.composite
def stories(draw):
    form = draw(st.sampled_from(list(FORMS)))
    texts = st.sampled_from(["x", "y", "some words", ""])
    each = {
        "hashed": st.dictionaries(st.sampled_from("abcde"), st.one_of(numbers, texts, st.none()), max_size=4),
        "named": st.fixed_dictionaries({"a": numbers}, optional={"b": numbers}),
        "vector": st.lists(numbers, min_size=2, max_size=2),
    }[form]
    some = st.none() | st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True).map(sorted)
    n = draw(st.integers(1, 40))

    def columns(strategy):
        return draw(st.lists(strategy, min_size=n, max_size=n))

    answers = st.sampled_from([0.0, 1.0, 0.25, 0.7])
    return Story(
        form, columns(each), columns(some), columns(st.integers(0, 8)), columns(answers), draw(st.integers(0, 99))
    )


def as_given(encoder, x):
    """Return the features as the learner alone is given them."""
    row = encoder.encode(x)
    if row.indices is None:
        return row.values
    return csr_array((row.values, row.indices.astype(np.int32), [0, row.values.size]), shape=(1, encoder.n_features))


def names_of(labels):
    return None if labels is None else [CLASSES[label] for label in labels]


def play(name, story, **options):
    """Play a story by a model and by the learner alone; compare all that they return; return both."""
    features = FORMS[story.form]
    model = dt.Model(CLASSES, learner=name, features=features, bits=BITS, seed=story.seed, **options)
    encoder = make_encoder(features, BITS)
    learner = dt.LEARNERS[name](3, encoder.n_features, seed=story.seed, **options)
    due = {}
    for t, (x, allowed, wait) in enumerate(zip(story.xs, story.allowed, story.waits, strict=True), start=1):
        for number in due.pop(t, []):
            answer(model, learner, number, story.answers[number - 1])
        expected = learner.decide(as_given(encoder, x), allowed)
        decision = model.decide(x, id=f"req-{t}", allowed=names_of(allowed))
        assert decision == (f"req-{t}", t, CLASSES[expected.label], CLASSES[expected.greedy], expected.prob)
        assert len(model.open_decisions()) == learner.pending
        if wait:
            due.setdefault(t + wait, []).insert(0, t)
    return model, learner


def answer(model, learner, number, value):
    if not learner.takes_rewards:
        value = round(value)
    given_answer = {"reward": value} if 0 < value < 1 else {"correct": bool(value)}
    assert model.feedback(f"req-{number}", **given_answer) == learner.feedback(number, **given_answer)


def assert_same(model, learner):
    own = learner_of(model)
    assert same_bits(own.weights, learner.weights)
    if own.sparse == learner.sparse:  # no decision was made otherwise
        assert all(map(same_bits, own.state, learner.state))


@pytest.mark.parametrize("name", by_learner(LEARNERS))
@settings(max_examples=12)
@given(story=stories())
def test_a_model_is_its_learner(name, story):
    assert_same(*play(name, story))


@pytest.mark.parametrize("name", by_learner(["bandit_logit", "delaytron", "ova_logistic"]))
@pytest.mark.parametrize("policy", ["drop", "wrong"])
@settings(max_examples=12)
@given(story=stories(), rounds=st.integers(1, 8))
def test_expiry_by_rounds_is_that_of_the_learner(name, policy, story, rounds):
    assert_same(*play(name, story, expire_after=rounds, on_expiry=policy))


@pytest.mark.parametrize("name", by_learner(["delaytron"]))
@pytest.mark.parametrize("options", [{"standardize": True}, {"ties": "random"}], ids=str)
@settings(max_examples=8)
@given(story=stories())
def test_common_parameters_reach_the_learner(name, options, story):
    assert_same(*play(name, story, **options))


@pytest.mark.parametrize("name", by_learner(["perceptron", "passive_aggressive"]))
@settings(max_examples=8)
@given(story=stories())
def test_a_model_is_its_learner_with_full_information(name, story):
    features = FORMS[story.form]
    model = dt.Model(CLASSES, learner=name, features=features, bits=BITS, seed=story.seed)
    encoder = make_encoder(features, BITS)
    learner = dt.LEARNERS[name](3, encoder.n_features, seed=story.seed)
    for t, x in enumerate(story.xs, start=1):
        assert model.decide(x, id=str(t)).label == CLASSES[learner.decide(as_given(encoder, x)).label]
        if t > 2:
            label = story.waits[t - 1] % 3
            assert model.feedback(str(t - 2), label=CLASSES[label]) == learner.feedback(t - 2, label=label)
    assert_same(model, learner)
