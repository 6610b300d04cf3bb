"""Inspection of a model: predictions, probabilities, explanations, counts; nothing of it changes the model."""

from datetime import UTC, datetime

import numpy as np
import pytest
from models import CLASSES, refused, small_model

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
