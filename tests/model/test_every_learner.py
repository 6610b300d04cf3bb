"""Every learner in a model with a journal: restarts, crashes and snapshots leave no trace in its bits."""

import numpy as np
import pytest
from models import CLASSES, abandon, clock_fixture, learner_of, replayed_digest  # noqa: F401

import delaytron as dt
from delaytron.model import keeper
from streams import by_learner

LEARNERS = [name for name, cls in dt.LEARNERS.items() if cls.rule.restricts]


def play(models, start, stop, seed):
    """Let the same happen to all models: decisions, and answers to some of them, late and out of order."""
    rng = np.random.default_rng(seed)
    takes = models[0]._keeper.core.answering
    for t in range(start, stop):
        x = rng.normal(size=2).round(2)
        allowed = CLASSES[:2] if rng.random() < 0.2 else None
        first, *others = [model.decide(x, id=str(t), allowed=allowed) for model in models]
        assert all(other == first for other in others)
        waiting = [decision.id for decision in models[0].open_decisions()]
        if rng.random() < 0.7:
            issued = waiting[rng.integers(len(waiting))]
            answer = {"label": CLASSES[rng.integers(3)]}
            if takes.rewards and rng.random() < 0.5:
                answer = {"reward": round(rng.random(), 2)}
            assert {model.feedback(issued, **answer) for model in models} == {"accepted"}


def check_restarts(path, name, **options):
    given = {"learner": name, "features": 2, "seed": 5, **options}
    twin = dt.Model(CLASSES, **given)
    for number, leave in enumerate((abandon, dt.Model.close, abandon)):
        model = dt.Model(CLASSES, journal=path, **given)
        assert model.digest() == twin.digest()
        play([model, twin], number * 15, number * 15 + 15, seed=number)
        assert model.digest() == twin.digest()
        leave(model)
    assert replayed_digest(path) == twin.digest()
    with dt.Model.open(path) as model:
        assert learner_of(model).weights.tobytes() == learner_of(twin).weights.tobytes()


@pytest.mark.parametrize("name", by_learner(LEARNERS))
@pytest.mark.parametrize("on_expiry", ["drop", "wrong"])
def test_a_restart_leaves_no_trace(tmp_path, monkeypatch, clock, name, on_expiry):
    if dt.LEARNERS[name].feedback_type == "label":
        on_expiry = "drop"
    monkeypatch.setattr(keeper, "FACTS_A_SNAPSHOT", 11)
    check_restarts(tmp_path / "a.db", name, expire_after=6, on_expiry=on_expiry)


@pytest.mark.parametrize("name", by_learner(["delaytron"]))
@pytest.mark.parametrize("options", [{"average": True}, {"noise": (0.2, 0.1)}, {"ties": "random"}], ids=str)
def test_a_restart_leaves_no_trace_of_common_parameters(tmp_path, monkeypatch, clock, name, options):
    monkeypatch.setattr(keeper, "FACTS_A_SNAPSHOT", 11)
    check_restarts(tmp_path / "a.db", name, **options)


@pytest.mark.parametrize("name", by_learner(["perceptron", "bandit_logit"]))
def test_other_processes_answer_as_the_learner_wants(tmp_path, clock, name):
    path = tmp_path / "a.db"
    model, twin = (dt.Model([1, 2, 3], learner=name, features=2, seed=5, **where) for where in ({"journal": path}, {}))
    with model, dt.Journal(path) as journal:
        for t in range(12):
            model.decide([1, t], id=str(t))
            twin.decide([1, t], id=str(t))
            assert journal.feedback(str(t), label=t % 3 + 1) == twin.feedback(str(t), label=t % 3 + 1) == "accepted"
            if name == "perceptron":
                with pytest.raises(dt.InvalidInput, match="label="):
                    journal.feedback(str(t), correct=True)
        assert model.digest() == twin.digest()
