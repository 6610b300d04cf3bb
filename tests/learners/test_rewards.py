"""Rewards between wrong and right: what they do, when they come late, and who takes none."""

from copy import deepcopy
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_online import everything

import delaytron as dt
from delaytron.kernels.loop import EXPIRED
from delaytron.learners.ledger import LAPSED
from forms import ROWS, TRUE, D, K, forms, fresh, state_bits, taught

AFFINE = [
    "banditron",
    "delaytron",
    "adaptive_delaytron",
    "hinge_delaytron",
    "gap",
    "confidit",
    "confidit diagonal",
    "rcnbf",
    "dilute",
    "dilute set",
    "exp3",
    "exp3 eta",
    "standardized",
]
SOFT = ["ova_logistic", "ova_logistic squarecb", "bandit_logit", "bandit_logit replay"]
NONE = ["soba", "newtron", "pab", "exact_pa", "perceptron", "passive_aggressive", "rcnbf estimate"]
rewards = st.floats(0.0, 1.0, exclude_min=True, exclude_max=True)


def answered(learner, number, **answer):
    """Return a copy of the learner that has taken this answer."""
    twin = deepcopy(learner)
    assert twin.feedback(number, **answer) == "accepted"
    twin.flush()
    return twin


def numbers(learner):
    """Return all numbers that last of a state."""
    fields = {name: field for name, field in learner.state._asdict().items() if name not in learner.rule.scratch}
    fields.pop("change", None)  # the room of dilute
    return np.concatenate([np.ravel(field).astype(float) for field in fields.values()])


def test_every_learner_is_in_one_of_the_lists():
    assert {form.split()[0] for form in AFFINE + SOFT} - {"standardized"} == {
        name for name, cls in dt.LEARNERS.items() if cls.takes_rewards
    }
    assert {form for form in NONE if not fresh(form).takes_rewards} == set(NONE)


@pytest.mark.parametrize("form", forms(AFFINE))
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@given(reward=rewards, rounds=st.integers(20, 40))
def test_a_reward_is_a_mixture_of_wrong_and_right(form, sparse, reward, rounds):
    learner = taught(form, rounds, sparse)
    between = answered(learner, rounds, reward=reward)
    wrong = answered(learner, rounds, correct=False)
    right = answered(learner, rounds, correct=True)
    mixed = (1 - reward) * numbers(wrong) + reward * numbers(right)
    np.testing.assert_allclose(numbers(between), mixed, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", forms(AFFINE))
def test_wrong_and_right_differ(form):
    """In some rounds they do not: where a margin is large, or a "wrong" was drawn to count as a "right"."""
    learners = [(taught(form, rounds), rounds) for rounds in range(20, 30)]
    moved = [numbers(answered(one, t, correct=True)) - numbers(answered(one, t, correct=False)) for one, t in learners]
    assert np.any(moved)


@pytest.mark.parametrize("form", forms(AFFINE + SOFT))
def test_one_and_zero_are_right_and_wrong_to_the_bit(form):
    told, rewarded = fresh(form), fresh(form)
    decisions = []
    for t in range(40):
        if t >= 3:
            right = t % 3 == 0
            told.feedback(t - 2, correct=right)
            rewarded.feedback(t - 2, reward=(0.0, 1.0)[right] if t % 2 else int(right))
        decisions.append((told.decide(ROWS[t]), rewarded.decide(ROWS[t])))
    assert all(one == other for one, other in decisions)
    assert state_bits(told) == state_bits(rewarded)
    assert told.ledger.answers == rewarded.ledger.answers


@pytest.mark.parametrize("form", forms(AFFINE))
@given(reward=rewards)
def test_a_late_reward_is_exact(form, reward):
    learner = taught(form, expire_after=1000, on_expiry="wrong")
    late = deepcopy(learner)
    late._end_wait(40, EXPIRED, LAPSED)
    late.flush()
    np.testing.assert_allclose(
        numbers(answered(late, 40, reward=reward)),
        numbers(answered(learner, 40, reward=reward)),
        rtol=1e-12,
        atol=1e-12,
    )


@pytest.mark.parametrize("form", forms(["delaytron", "gap", "hinge_delaytron", "exp3 eta", "ova_logistic"]))
@pytest.mark.parametrize("correct_late", [False, True])
def test_an_instance_of_a_pool_takes_a_reward_as_its_base_does(form, correct_late):
    """Without delay a pool has one instance, which is the base."""
    base = fresh(form, expire_after=1, on_expiry="wrong")
    pool = dt.Bold(fresh(form), expire_after=1, on_expiry="wrong")
    for t in range(30):
        assert base.decide(ROWS[t]) == pool.decide(ROWS[t])
        for learner in (base, pool):
            if not correct_late:
                learner.feedback(t + 1, reward=t % 7 / 6)
            elif t:
                learner.feedback(t, reward=t % 7 / 6)
                learner.flush()
    np.testing.assert_allclose(pool.weights, base.weights, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", forms(["banditron", "gap", "ova_logistic", "confidit diagonal", "dilute"]))
@pytest.mark.parametrize("wait", [{}, {"expire_after": 2, "on_expiry": "wrong"}], ids=["waits", "expires"])
def test_the_average_is_the_mean_of_the_weights_of_all_rounds(form, wait):
    learner, seen = fresh(form, average=True, **wait), []
    for t in range(30):
        if t >= 4:
            learner.feedback(t - 3, reward=t % 5 / 4)
        learner.decide(ROWS[t])
        seen.append(learner.weights_of(learner.state))
    np.testing.assert_allclose(learner.weights, np.mean(seen, axis=0), rtol=1e-9, atol=1e-9)
    assert np.abs(seen[-1]).max() > 0


@pytest.mark.parametrize("form", forms(NONE))
def test_who_takes_none_says_so(form):
    learner = taught(form)
    before = everything(learner)
    word = learner.feedback_type
    message = rf"{type(learner).__name__} takes feedback\(id, {word}=\.\.\.\); got "
    with pytest.raises(dt.InvalidInput, match=message):
        learner.feedback(40, reward=0.5)
    assert everything(learner) == before


def test_a_pool_takes_what_its_base_takes():
    pool = dt.Bold(dt.Pab(K, D, seed=0))
    pool.decide(ROWS[0])
    with pytest.raises(dt.InvalidInput, match=r"Bold takes feedback\(id, correct=\.\.\.\); got "):
        pool.feedback(1, reward=0.5)


BAD = [
    ({"reward": -0.1}, r"reward must be from 0 \(wrong\) to 1 \(right\), got -0.1"),
    ({"reward": 1.5}, "got 1.5"),
    ({"reward": float("nan")}, "reward must be a finite number, got nan"),
    ({"reward": "0.5"}, "reward must be a finite number, got '0.5'"),
    ({"reward": True}, "reward must be a finite number, got True"),
    ({"reward": np.array([0.5])}, "reward must be a finite number"),
    (
        {"reward": 0.5, "correct": True},
        r"takes feedback\(id, correct=...\) or feedback\(id, reward=...\); got ",
    ),
    ({"reward": 0.5, "label": 1}, "; got label=1, reward=0.5"),
]


@pytest.mark.parametrize(("answer", "message"), BAD)
def test_what_is_no_reward_is_refused_and_changes_nothing(answer, message):
    learner = taught("delaytron")
    before = everything(learner)
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        learner.feedback(40, **answer)
    assert "\n" not in str(caught.value)
    assert everything(learner) == before


def test_noise_flips_right_and_wrong_and_refuses_what_is_between():
    learner = taught("delaytron", noise=(0.1, 0.2))
    before = everything(learner)
    with pytest.raises(dt.InvalidInput, match=r"give correct=True or False, got reward=0\.5"):
        learner.feedback(40, reward=0.5)
    assert everything(learner) == before
    assert learner.feedback(40, reward=1.0) == "accepted"
    assert learner.feedback(39, reward=0) == "accepted"


def test_a_second_reward_must_agree():
    learner = taught("delaytron")
    assert learner.feedback(40, reward=0.25) == "accepted"
    assert learner.feedback(40, reward=0.25) == "duplicate"
    with pytest.raises(dt.ConflictingFeedback, match=r"was answered reward 0\.25, now 'correct' came"):
        learner.feedback(40, correct=True)
    learner.flush()
    with pytest.raises(dt.ConflictingFeedback, match=r"was answered reward 0\.25, now reward 0\.5 came"):
        learner.feedback(40, reward=0.5)


def test_the_estimate_of_a_reward_is_unbiased():
    """Over all draws of one round, Banditron's step with rewards r has the mean sum_k r_k e_k - e_greedy, times x."""
    told, mean, end = [0.1, 0.9, 0.0, 0.4, 1.0], np.zeros((K, D)), 0.0
    learner = taught("banditron")
    before = answered(learner, 40, correct=bool(TRUE[39])).weights
    while end < 1 - 1e-12:
        twin = answered(learner, 40, correct=bool(TRUE[39]))
        twin._draws = type("Fixed", (), {"random": lambda self, u=end: u})()
        decision = twin.decide(ROWS[50])
        mean += decision.prob * (answered(twin, decision.id, reward=told[decision.label]).weights - before)
        end += decision.prob
    expected = np.outer(told, ROWS[50])
    expected[decision.greedy] -= ROWS[50]
    np.testing.assert_allclose(mean, expected, atol=1e-12)
    assert sqrt(np.square(expected).sum()) > 1
