"""Inspection of a model: predictions, probabilities, explanations, counts; nothing of it changes the model."""

from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import CLASSES, FakeClock, refused, small_model

import delaytron as dt


def test_inspection_changes_nothing():
    model = dt.Model(CLASSES, learner="delaytron", bits=6, seed=1, gamma=0.3)
    for t in range(30):
        model.feedback(model.decide({"a": t % 3, "b": "x"}).id, correct=t % 2 == 0)
    before = model.digest()
    p = model.probabilities({"a": 1})
    assert sum(p.values()) == pytest.approx(1)
    assert max(p, key=p.get) == model.predict({"a": 1}) == model.explain({"a": 1}).label
    model.stats(), model.open_decisions(), repr(model), model.classes, model.at_risk
    assert model.digest() == before
    decision = model.decide({"a": 1})
    assert decision.prob == p[decision.label]
    refused(model, lambda: model.predict([1]), "dict")
    refused(model, lambda: model.explain({"a": float("inf")}), "finite")


@pytest.mark.parametrize(
    ("learner", "features"),
    [("bandit_logit", "hashed"), ("bandit_logit", ["a", "b"]), ("delaytron", "hashed"), ("ova_logistic", ["a", "b"])],
)
def test_an_explanation_sums_up_to_the_scores(learner, features):
    model = dt.Model(CLASSES, learner=learner, features=features, bits=8, seed=1)
    rng = np.random.default_rng(0)
    for t in range(60):
        x = {"a": rng.normal() * 100, "b": rng.normal()}
        model.feedback(model.decide(x).id, label=CLASSES[t % 3], reward=None)
    model.retire_class("medium")
    explanation = model.explain({"a": 30, "b": -1})
    assert set(explanation.features) == {"a", "b"}
    assert set(explanation.scores) == {"small", "large"}
    for name, score in explanation.scores.items():
        parts = [explanation.constant[name], *(part[name] for part in explanation.features.values())]
        assert sum(parts) == pytest.approx(score, abs=1e-9)
    assert max(explanation.scores, key=explanation.scores.get) == explanation.label
    spread = [np.ptp(list(part.values())) for part in explanation.features.values()]
    assert spread == sorted(spread, reverse=True)
    assert max(map(abs, explanation.scores.values())) > 0


def test_features_of_the_same_shown_name_are_both_explained():
    model = dt.Model(CLASSES, learner="delaytron", bits=10, seed=1)
    long = "n" * 250
    x = {long + "1": 1, long + "2": 2}
    model.feedback(model.decide(x).id, correct=False)
    model.decide(x)
    explanation = model.explain(x)
    assert len(explanation.features) == 2
    assert all(name.startswith("n" * 200 + " #") for name in explanation.features)


def test_stats_count_what_happened(clock):
    model = small_model(gamma=1.0, expire_after="1h")
    for t in range(6):
        model.decide([1, t], id=str(t))
        clock.pass_time(1)
    labels = [decision.label for decision in model.open_decisions()]
    model.feedback("0", reward=0.25)  # after 6 s
    model.feedback("1", correct=True)  # after 5 s
    model.cancel("2")
    clock.pass_time(3598)  # 3 has waited for an hour and 1 s
    model.digest()
    stats = model.stats()
    assert (stats.decisions, stats.open, stats.answered, stats.cancelled, stats.expired) == (6, 1, 2, 1, 2)
    assert (stats.corrected, stats.late) == (0, 0)
    assert stats.mean_reward == 0.625
    assert stats.oldest == 3599.0
    assert stats.waits == {2**33 / 1e9: 2}  # up to 8.6 s
    assert sum(of.played for of in stats.classes.values()) == 6
    assert stats.classes[labels[0]].answered >= 1
    (last,) = model.open_decisions()
    assert last == ("5", 6, labels[5], datetime.fromtimestamp(1_700_000_005, UTC), 3599.0)
    assert small_model().stats().mean_reward is None


def test_prediction_and_explanation_agree_with_the_learner():
    rng = np.random.default_rng(0)
    model = dt.Model(["a", "b", "c"], learner="delaytron", features=3, gamma=0.3)
    rows = rng.normal(size=(200, 3))
    for row in rows:
        decision = model.decide(row)
        model.feedback(decision.id, correct=decision.label == "abc"[int(np.argmax(row))])
    learner = model._engine.state.learner
    predicted = [model.predict(row) for row in rows]
    assert predicted == [model.explain(row).label for row in rows]
    assert predicted == ["abc"[k] for k in learner.predict(rows)]


class Ends:
    """How the decisions of a model can end: it is told the same up to a moment, and then one of the ends."""

    def __init__(self, steps, clock, on_expiry):
        self.clock = clock
        self.model = small_model(gamma=1.0, expire_after="10s", on_expiry=on_expiry)
        self.issued = 0
        for step, number, reward in steps:
            self.do(step, number, reward)
        self.model.digest()  # expires and releases what is due

    def do(self, step, number, reward):
        if step == "decide":
            self.model.decide([1, self.issued], id=f"r{self.issued}")
            self.issued += 1
        elif step == "pass":
            self.clock.pass_time(number)
        elif self.issued:
            name = f"r{number % self.issued}"
            with suppress(dt.ConflictingFeedback):
                self.model.feedback(name, reward=reward) if step == "answer" else self.model.cancel(name)

    def mean(self):
        """Return the mean reward over all decisions that are settled for good; None if there are none."""
        found = [self.model.decision(f"r{number}") for number in range(self.issued)]
        as_wrong = self.model._engine.state.book.expiry.as_wrong
        settled = [one.value for one in found if one.status == "answered"]
        settled += [0.0 for one in found if one.status == "expired" and as_wrong]
        return sum(settled) / len(settled) if settled else None


story = st.lists(
    st.tuples(
        st.sampled_from(["decide", "decide", "decide", "answer", "answer", "pass", "cancel"]),
        st.integers(0, 40),
        st.sampled_from([0.0, 0.25, 1.0]),
    ),
    max_size=40,
)


@given(steps=story, ends=st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=45, max_size=45))
@pytest.mark.parametrize("on_expiry", ["drop", "wrong"])
def test_the_accuracy_stays_within_its_bounds_however_it_ends(on_expiry, steps, ends):
    """`low` is what comes if all that is open is wrong, `high` if all that can be is right."""
    results = {}
    for name, given_ends in (("low", [0.0] * 45), ("high", [1.0] * 45), ("some", ends)):
        with FakeClock().used() as clock:
            life = Ends(steps, clock, on_expiry)
            accuracy = life.model.stats().accuracy
            mean, low, high = accuracy
            for number in range(life.issued):
                status = life.model.decision(f"r{number}").status
                can = status == "open" or (status == "expired" and f"r{number}" in life.model._engine.state.ids)
                if can and given_ends[number] is not None and (name != "low" or status == "open"):
                    life.model.feedback(f"r{number}", reward=given_ends[number])
            clock.pass_time(1000)  # the others expire
            life.model.digest()
            results[name] = life.mean()
    if low is None:
        assert set(results.values()) == {None}
        return
    assert results["low"] == pytest.approx(low)
    assert results["high"] == pytest.approx(high)
    assert low <= high <= 1.0
    assert mean is None or low - 1e-12 <= mean <= high + 1e-12
    if results["some"] is not None:
        assert low - 1e-12 <= results["some"] <= high + 1e-12


def test_an_expiry_as_wrong_counts_as_a_0_until_it_is_corrected(clock):
    model = small_model(gamma=1.0, expire_after="10s", on_expiry="wrong", correct_within="10s")
    assert model.stats().accuracy == (None, None, None)
    for number in range(4):
        model.decide([1, number], id=str(number))
    assert model.stats().accuracy == (None, 0.0, 1.0)
    model.feedback("0", correct=True)
    clock.pass_time(11)
    model.decide([1, 9], id="4")
    stats = model.stats()
    assert (stats.mean_reward, stats.expired) == (1.0, 3)
    assert stats.accuracy == (0.25, 0.2, 1.0)
    model.feedback("1", reward=0.5)
    assert model.stats().accuracy == (0.375, 0.3, 0.9)
    clock.pass_time(9.5)  # the others cannot be corrected any more
    model.decide([1, 9], id="5")
    assert model.stats().accuracy == (0.375, 1.5 / 6, 3.5 / 6)


def test_decisions_that_are_dropped_or_cancelled_leave_the_accuracy(clock):
    model = small_model(gamma=1.0, expire_after="10s")
    for number in range(4):
        model.decide([1, number], id=str(number))
    model.feedback("0", correct=True)
    model.cancel("1")
    assert model.stats().accuracy == (1.0, 1 / 3, 1.0)
    clock.pass_time(11)
    model.digest()
    assert model.stats().accuracy == (1.0, 1.0, 1.0)
    assert model.feedback("2", correct=False) == "late"
    assert model.stats().accuracy == (1.0, 1.0, 1.0)
