"""Predictions, probabilities and contributions: those of `decide`, without side effects."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import delaytron as dt
from delaytron.kernels.loop import BEGUN
from forms import (
    FORMS,
    PLAYS_SETS,
    ROWS,
    TRUE,
    D,
    K,
    choice_of,
    decide_by,
    everything,
    forms,
    fresh,
    row,
    taught,
    teach,
)
from streams import same_bits

SINGLE = [form for form in FORMS if form not in PLAYS_SETS]
kinds = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
POOLS = ["delaytron", "bandit_logit", "standardized"]


def look(learner, x):
    """Call every method that looks at a row and returns something about it; return the learner."""
    learner.contributions(x)
    learner.scores(x)
    learner.predict(x)
    if learner.rule.restricts:
        learner.probabilities(x)
        learner.probabilities(x, [0, 2])
    return learner


@kinds
@pytest.mark.parametrize("form", forms())
def test_looking_changes_nothing(form, sparse, tmp_path):
    learner = taught(form, sparse=sparse)
    learner.feedback(40, **{learner.feedback_type: True if learner.feedback_type == "correct" else 2})
    learner.save(tmp_path / "before")
    before = everything(learner)
    twin = deepcopy(learner)
    for t in range(50, 60):
        look(learner, row(t, sparse))
        look(learner, row(t, not sparse))
    learner.save(tmp_path / "after")
    assert everything(learner) == before
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    assert [learner.decide(x) for x in ROWS] == [twin.decide(x) for x in ROWS]


@pytest.mark.parametrize("form", forms())
def test_looking_before_the_first_decision_changes_nothing(form):
    learner = look(fresh(form), row(0, sparse=True))
    assert everything(learner) == everything(fresh(form))
    assert everything(teach(learner, sparse=True)) == everything(taught(form, sparse=True))


def without_clock(learner):
    """Mark the clock as ticked, so that the next round finds the state as it is."""
    learner.flush()
    learner.book.marks[BEGUN] = learner.book.rounds + 1
    return learner


@kinds
@pytest.mark.parametrize("form", forms(SINGLE))
def test_probabilities_are_those_with_which_decide_plays(form, sparse):
    learner = without_clock(taught(form, sparse=sparse))
    for t, allowed in ((50, None), (51, [1]), (52, [0, 2, 4])):
        p = learner.probabilities(row(t, sparse), allowed)
        probs = choice_of(learner, row(t, sparse), allowed).probs
        assert {r: p[r] for r in probs} == probs
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        assert p.shape == (K,)
        assert all(p[r] == 0 for r in range(K) if allowed is not None and r not in allowed)


@pytest.mark.parametrize("form", forms(["delaytron", "exp3", "gap", "standardized"]))
def test_probabilities_share_ties_as_decide_does(form):
    learner = fresh(form, ties="random")
    assert learner.probabilities(ROWS[0]) == pytest.approx([1 / K] * K, rel=1e-12)
    assert learner.probabilities(ROWS[0], [1, 4])[[1, 4]] == pytest.approx([0.5, 0.5], rel=1e-12)


@pytest.mark.parametrize("make", [lambda: fresh("dilute"), lambda: dt.Bold(fresh("dilute"))], ids=["dilute", "pool"])
def test_sets_have_no_probabilities_of_labels(make):
    with pytest.raises(dt.InvalidInput, match="dilute plays sets of labels: a single label has no probability"):
        make().probabilities(ROWS[0])


def assert_adds_up(learner, x, n_parts):
    """The constant and the parts are the scores."""
    constant, parts = learner.contributions(x)
    assert constant.shape == (K,)
    assert parts.shape == (K, n_parts)
    np.testing.assert_allclose(constant + parts.sum(axis=1), learner.scores(x)[0], rtol=1e-9, atol=1e-9)
    return constant, parts


@kinds
@pytest.mark.parametrize("form", forms())
def test_contributions_add_up_to_the_scores(form, sparse):
    learner = taught(form, sparse=sparse)
    for t in range(50, 60):
        assert_adds_up(learner, row(t, sparse), D - 1 if sparse else D)


@pytest.mark.parametrize("form", forms(["delaytron", "ova_logistic"]))
def test_without_statistics_a_part_is_a_weight_times_its_feature(form):
    learner = taught(form)
    constant, parts = learner.contributions(ROWS[50])
    assert not constant.any()
    np.testing.assert_array_equal(parts, learner.weights * ROWS[50])


@kinds
@pytest.mark.parametrize("form", forms(["bandit_logit", "standardized"]))
def test_contributions_after_some_hundred_answers(form, sparse):
    """Statistics are brought up to date many times, and sparse rows have steps that wait to be put into the weights."""
    rng = np.random.default_rng(2)
    learner = fresh(form)
    scales = np.array([1.0, 1e3, 1e-3, 1.0])
    for t in range(400):
        x = (rng.normal(size=D) + 2.0) * scales * (rng.random(D) < 0.7)
        given_row = csr_matrix(x) if sparse else x
        learner.feedback(learner.decide(given_row).id, reward=float(rng.random()))
        if t % 23 == 0:
            assert_adds_up(learner, given_row, int(np.count_nonzero(x)) if sparse else D)


def test_exp3_has_only_a_constant():
    learner = taught("exp3 eta")
    constant, parts = learner.contributions(ROWS[50])
    assert not parts.any()
    assert same_bits(constant + 0.0, learner.weights[:, 0])
    constant[:] = 7.0  # a copy
    assert not (learner.weights == 7.0).any()


@pytest.mark.parametrize("form", forms(POOLS))
def test_a_pool_answers_for_the_instance_that_plays_next(form):
    pool = teach(dt.Bold(fresh(form)))
    pool.feedback(39, correct=bool(TRUE[38]))
    pool.feedback(40, correct=bool(TRUE[39]))
    pool.flush()
    before = everything(pool)
    assert_adds_up(pool, ROWS[50], D)
    p = pool.probabilities(ROWS[50])
    assert everything(pool) == before
    if form != "bandit_logit":  # that one may bring its statistics up to date first
        decision = decide_by(pool, ROWS[50], 0.5)
        assert p[decision.label] == decision.prob


@given(x=st.lists(st.floats(-1e3, 1e3), min_size=D, max_size=D))
def test_any_row_adds_up(x):
    assert_adds_up(taught("bandit_logit"), np.where(np.abs(x) < 1e-40, 0.0, x), D)


@pytest.mark.parametrize("call", ["probabilities", "contributions"])
def test_a_bad_row_is_refused(call):
    learner = taught("delaytron")
    with pytest.raises(dt.InvalidInput, match="x must be 1-D with 4 numbers"):
        getattr(learner, call)([1.0])
