"""Adding a class while decisions are open."""

import pickle
from copy import deepcopy

import numpy as np
import pytest

import delaytron as dt
from delaytron.learners.learner import WIDENED
from forms import FORMS, ROWS, D, K, answer_to, choice_of, everything, forms, fresh, row, taught, teach

GROWING = [form for form in FORMS if fresh(form).rule.grows and form != "soba full"]
kinds = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
KEEPS = ["banditron", "delaytron", "adaptive_delaytron", "ova_logistic", "rcnbf", "confidit", "lin_ts", "logistic_ts"]
KEEPS.append("standardized")


def grown(learner, times=1):
    """Return the learner with `times` more classes."""
    for _ in range(times):
        assert learner.add_class() == learner.n_classes - 1
    return learner


def lasting(learner):
    """Return the bits of all fields of the state but scratch."""
    return {
        name: field.tobytes() for name, field in learner.state._asdict().items() if name not in learner.rule.scratch
    }


@kinds
@pytest.mark.parametrize("form", forms(GROWING))
@pytest.mark.parametrize("times", [1, 4, WIDENED], ids=["one", "padding", "many"])  # 5 to 9: the padding grows as well
def test_the_old_classes_keep_their_scores(form, sparse, times):
    learner = taught(form, sparse=sparse)
    learner.flush()
    X = np.array([row(t) for t in range(40, 60)])
    scores, weights = learner.scores(X), learner.weights
    grown(learner, times)
    assert learner.n_classes == K + times
    assert learner.scores(X).shape == (20, K + times)
    np.testing.assert_array_equal(learner.weights[:K], weights)
    exact = times == 1 or (sparse and form != "standardized")  # for more classes, dense rows are summed in other lanes
    tolerance = 0.0 if exact else 1e-13
    np.testing.assert_allclose(learner.scores(X)[:, :K], scores, rtol=tolerance, atol=tolerance)


@kinds
@pytest.mark.parametrize("form", forms(GROWING))
def test_a_new_class_has_the_state_of_an_untrained_one(form, sparse):
    learner = grown(taught(form, sparse=sparse))
    new = learner.scores(row(50, sparse))[0, K]
    assert new == (max(learner.scores(row(50, sparse))[0, :K]) if form.startswith("exp3") else 0.0)
    other = fresh(form, n_classes=K + 1)
    other._reset_state(sparse)
    for name, field in learner.state._asdict().items():
        if name in ("inverse", "B", "G", "U", "V", "plays", "confirmations", "power", "bias", "spread"):
            begun = getattr(other.state, name)
            part = (slice(None), K) if field.ndim == 2 and sparse and field.shape[0] == D else K
            np.testing.assert_array_equal(field[part], begun[part])


@kinds
@pytest.mark.parametrize("form", forms(GROWING))
def test_open_decisions_are_answered_and_all_labels_are_played(form, sparse):
    learner = taught(form, sparse=sparse)
    open_ones = [learner.decide(row(t, sparse)) for t in range(40, 45)]
    learner.feedback(open_ones[0].id, **answer_to(learner, open_ones[0], 1))
    grown(learner)
    for decision in open_ones[1:]:
        assert learner.feedback(decision.id, **answer_to(learner, decision, 2)) == "accepted"
    for t in range(45, 60):
        choice = choice_of(learner, row(t, sparse))
        assert choice.greedy in range(K + 1)
        decision = learner.decide(row(t, sparse))
        learner.feedback(decision.id, **answer_to(learner, decision, K))
    assert np.isfinite(learner.scores(ROWS)).all()
    explores = not form.startswith(("confidit", "lin_ucb", "perceptron", "passive"))
    assert not explores or K in choice_of(learner, row(0, sparse)).probs


@pytest.mark.parametrize("form", forms(KEEPS))
@kinds
def test_adding_a_class_equals_having_it_from_the_start_without_being_allowed_to_play_it(form, sparse):
    """Where the update touches only labels that were played, the two have the same bits."""
    late, early = fresh(form), fresh(form, n_classes=K + 1)
    for t in range(30):
        if t >= 2:
            for learner in (late, early):
                learner.feedback(t - 1, correct=t % 3 == 0)
        one, other = late.decide(row(t, sparse)), early.decide(row(t, sparse), range(K))
        assert one == other
    late.add_class()
    assert lasting(late) == lasting(early)
    for t in range(30, 50):
        for learner in (late, early):
            learner.feedback(t - 1, correct=t % 3 == 0)
        assert late.decide(row(t, sparse)) == early.decide(row(t, sparse))
    assert lasting(late) == lasting(early)


@pytest.mark.parametrize("form", forms(GROWING))
def test_a_class_added_before_the_first_decision_was_there_from_the_start(form):
    for sparse in (False, True):
        learner, other = grown(fresh(form)), fresh(form, n_classes=K + 1)
        assert everything(learner) == everything(other)
        assert everything(teach(learner, sparse=sparse)) == everything(teach(other, sparse=sparse))


@kinds
@pytest.mark.parametrize("form", forms(GROWING))
def test_a_grown_learner_is_saved_and_copied(form, sparse, tmp_path):
    learner = grown(taught(form, sparse=sparse))
    learner.save(tmp_path / "a")
    copies = [dt.load(tmp_path / "a"), deepcopy(learner), pickle.loads(pickle.dumps(learner))]  # noqa: S301
    for twin in copies:
        assert everything(twin) == everything(learner)
        assert repr(twin) == repr(learner)
        assert f"n_classes={K + 1}" in repr(twin)
    for t in range(40, 60):
        decisions = [one.decide(row(t, sparse)) for one in (learner, *copies)]
        for one, decision in zip((learner, *copies), decisions, strict=True):
            one.feedback(decision.id, **answer_to(one, decision, t % (K + 1)))
        assert len(set(decisions)) == 1
    assert all(everything(twin) == everything(learner) for twin in copies)


def test_a_replay_continues_with_the_added_class():
    learner = grown(taught("delaytron"))
    y, delays, draws = np.arange(20) % (K + 1), np.full(20, 2), np.linspace(0, 0.99, 20)
    run = dt.replay(learner, ROWS[40:], y, delays, draws)
    assert run.weights.shape == (K + 1, D)
    assert K in run.labels


def test_an_answer_and_allowed_may_name_the_new_class():
    learner = taught("perceptron")
    with pytest.raises(dt.InvalidInput, match=r"label must be in 0\.\.4, got 5"):
        learner.feedback(40, label=5)
    learner.add_class()
    assert learner.feedback(40, label=5) == "accepted"
    learner.flush()
    assert learner.weights[5].any()
    with pytest.raises(dt.InvalidInput, match=r"allowed must be a list of labels in 0\.\.5"):
        learner.decide(ROWS[0], [6])
    assert learner.decide(ROWS[0], [5]).label == 5


REFUSED = {
    "newtron": (lambda: taught("newtron"), "newtron cannot take another class .*; make a new one with n_classes="),
    "newtron full": (lambda: taught("newtron full"), "cannot take another class while it learns"),
    "dilute": (lambda: taught("dilute"), "dilute cannot take another class while it learns"),
    "pool": (lambda: teach(dt.Bold(fresh("delaytron"))), r"bold\(delaytron\) cannot take another class"),
    "soba full": (lambda: taught("soba full"), "with these settings cannot take another class; use matrix='diagonal'"),
    "padded": (lambda: dt.Soba(3, 2, matrix="full"), "cannot take another class; use matrix='diagonal'"),
    "floor": (lambda: dt.BanditLogit(3, 2, explore_floor=0.3), "explore_floor must be from 0 to 1/K = 0.25"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_learner_that_cannot_grow_refuses_and_does_not_change(what):
    make, message = REFUSED[what]
    learner = make()
    before, shown = everything(learner), repr(learner)
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        learner.add_class()
    assert "\n" not in str(caught.value)
    assert everything(learner) == before
    assert repr(learner) == shown


def test_a_full_matrix_of_one_feature_grows():
    """Its rows are those of the classes then."""
    learner = dt.Soba(3, 1, gamma=0.5, matrix="full", seed=1)
    plain = dt.Soba(4, 1, gamma=0.5, matrix="full", seed=1)
    learner.add_class()
    for t in range(30):
        assert learner.decide([ROWS[t, 0]]) == plain.decide([ROWS[t, 0]])
        for one in (learner, plain):
            one.feedback(t + 1, correct=t % 2 == 0)
    scores = learner.scores([[1.0]])
    learner.add_class()
    np.testing.assert_allclose(learner.scores([[1.0]])[0, :4], scores[0], rtol=1e-12)
    assert learner.decide([1.0]).label in range(5)
