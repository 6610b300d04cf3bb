"""Many decisions in one call: the same as one by one, to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import delaytron as dt
from forms import everything

K, D = 4, 6
LEARNERS = ("bandit_logit", "delaytron", "adaptive_delaytron", "hinge_delaytron", "newtron", "exp3", "dilute")


def pair(name, **options):
    return (dt.LEARNERS[name](K, D, seed=5, **options) for _ in range(2))


def rows(count, seed, is_sparse):
    X = np.random.default_rng(seed).normal(size=(count, D))
    return sparse.csr_array(X * (X > 0)) if is_sparse else X


def one_by_one(learner, X, allowed=None):
    return [learner.decide(X[i : i + 1] if sparse.issparse(X) else X[i], allowed) for i in range(X.shape[0])]


def answer(learners, decisions, random):
    for decision in decisions:
        if random.random() < 0.6:
            right = random.random() < 0.5
            for learner in learners:
                learner.feedback(decision.id, correct=right)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("options", [{}, {"expire_after": 3}, {"expire_after": 3, "on_expiry": "wrong"}])
def test_equal_to_one_by_one(name, is_sparse, options):
    one, many = pair(name, **options)
    random = np.random.default_rng(1)
    for count in (1, 7, 5, 2):
        X = rows(count, count, is_sparse)
        decisions = one_by_one(one, X)
        assert many.decide_many(X) == decisions
        assert everything(one) == everything(many)
        answer((one, many), decisions, random)


@pytest.mark.parametrize("options", [{"standardize": True}, {"ties": "random"}])
def test_with_options(options):
    one, many = pair("delaytron", **options)
    for seed in range(3):
        X = rows(6, seed, is_sparse=False)
        decisions = one_by_one(one, X)
        assert many.decide_many(X) == decisions
        answer((one, many), decisions[::2], np.random.default_rng(seed))
    assert everything(one) == everything(many)
    np.testing.assert_array_equal(one.weights, many.weights)


def test_among_allowed_labels():
    one, many = pair("bandit_logit")
    X = rows(20, 0, is_sparse=False)
    decisions = one_by_one(one, X, [1, 3])
    assert many.decide_many(X, allowed=[1, 3]) == decisions
    assert {decision.label for decision in decisions} <= {1, 3}


def test_a_pool_decides_one_by_one():
    one, many = (dt.Bold(dt.Banditron(K, D, seed=2)) for _ in range(2))
    X = rows(5, 0, is_sparse=False)
    assert many.decide_many(X) == one_by_one(one, X)
    assert many.instances == one.instances == 5


@given(st.lists(st.integers(0, 14), unique=True), st.booleans())
def test_what_is_open_of_them_is_saved(tmp_path_factory, answered, is_sparse):
    learner = dt.Delaytron(K, D, seed=1)
    decisions = learner.decide_many(rows(10, 1, is_sparse)) + one_by_one(learner, rows(5, 2, is_sparse))
    for number in answered:
        learner.feedback(decisions[number].id, correct=True)
    path = tmp_path_factory.mktemp("saved") / "a"
    learner.flush()
    learner.save(path)
    again = dt.load(path)
    assert everything(again) == everything(learner)
    left = [decision for i, decision in enumerate(decisions) if i not in answered]
    for one in (learner, again):
        for decision in left:
            assert one.feedback(decision.id, correct=False) == "accepted"
        one.flush()
    np.testing.assert_array_equal(again.weights, learner.weights)
    again.save(path)
    assert everything(dt.load(path)) == everything(learner)


def test_the_rows_are_kept_as_they_were():
    learner, other = pair("delaytron")
    X = rows(5, 0, is_sparse=False)
    decisions = learner.decide_many(X)
    other.decide_many(X.copy())
    X[:] = 7.0
    for one in (learner, other):
        for decision in decisions:
            one.feedback(decision.id, correct=True)
        one.flush()
    np.testing.assert_array_equal(learner.weights, other.weights)


@pytest.mark.parametrize("bad", [[[1.0] * (D - 1)], [[np.nan] * D], "text", [[1.0] * D, [np.inf] * D]])
def test_errors_change_nothing(bad):
    learner = dt.BanditLogit(K, D, seed=1)
    learner.decide([1.0] * D)
    before = everything(learner)
    with pytest.raises(dt.InvalidInput):
        learner.decide_many(bad)
    assert everything(learner) == before
