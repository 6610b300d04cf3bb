"""Rewards between wrong and right: their effect, late ones, and learners that take none."""

from copy import deepcopy
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
import paper_logit
import paper_thompson
from delaytron.files.tensors import pack_tensors, read_tensors
from delaytron.kernels.standardize import CENTRE, INVERSE, ZERO
from delaytron.learners.book import Book
from forms import FORMS, ROWS, TRUE, D, K, everything, forms, fresh, state_bits, taught
from paper import sample
from streams import known_rounds

TAKING = [form for form in FORMS if fresh(form).takes_rewards]
AFFINE = [form for form in TAKING if fresh(form).rule.corrects_exactly]  # a reward mixes "wrong" and "right"
SOFT = [form for form in TAKING if form not in AFFINE]
NONE = [form for form in FORMS if form not in TAKING]
DOCUMENTED = [
    "bandit_logit",
    "gated_logit",
    "banditron",
    "delaytron",
    "adaptive_delaytron",
    "hinge_delaytron",
    "gap",
    "confidit",
    "rcnbf",
    "dilute",
    "exp3",
    "lin_ucb",
    "lin_ts",
    "logistic_ts",
    "ova_logistic",
    "standardized",
]
rewards = st.floats(0.0, 1.0, exclude_min=True, exclude_max=True)


def test_the_learners_that_take_rewards_are_those_of_the_docs():
    """The other tests ask a learner itself: one that took a reward for "right" by mistake would not be noticed."""
    assert {form for form in TAKING if form in DOCUMENTED} == set(DOCUMENTED)
    assert {form.split()[0] for form in TAKING} == set(DOCUMENTED)
    assert {form.split()[0] for form in SOFT} == {
        "bandit_logit",
        "gated_logit",
        "logistic_ts",
        "ova_logistic",
    }  # compared by a formula below


def answered(learner, number, **answer):
    """Return a copy of the learner that has taken this answer."""
    twin, known = deepcopy(learner), learner.book.known(number)
    assert twin.feedback(number, **answer) == ("corrected" if known.correctable else "accepted")
    twin.flush()
    return twin


def numbers(learner):
    """Return all numbers of a state but those of buffers."""
    fields = {name: field for name, field in learner.state._asdict().items() if name not in learner.rule.scratch}
    fields.pop("change", None)  # a buffer of dilute
    return np.concatenate([np.ravel(field).astype(float) for field in fields.values()])


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
    plain, rewarded = fresh(form), fresh(form)
    decisions = []
    for t in range(40):
        if t >= 3:
            right = t % 3 == 0
            plain.feedback(t - 2, correct=right)
            rewarded.feedback(t - 2, reward=(0.0, 1.0)[right] if t % 2 else int(right))
        decisions.append((plain.decide(ROWS[t]), rewarded.decide(ROWS[t])))
    assert all(one == other for one, other in decisions)
    assert state_bits(plain) == state_bits(rewarded)
    assert known_rounds(plain) == known_rounds(rewarded)


@pytest.mark.parametrize("form", forms(AFFINE))
@given(reward=rewards)
def test_a_late_reward_is_exact(form, reward):
    learner = taught(form, expire_after=1000, on_expiry="wrong")
    late = deepcopy(learner)
    late.end(Book.expire, 40)
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


@pytest.mark.parametrize("form", forms(NONE))
def test_learners_without_rewards_refuse_them(form):
    learner = taught(form)
    before = everything(learner)
    word = learner.feedback_type
    message = rf"{type(learner).__name__} was given reward=0\.5; use feedback\(id, {word}=\.\.\.\)$"
    with pytest.raises(dt.InvalidInput, match=message):
        learner.feedback(40, reward=0.5)
    assert everything(learner) == before


def test_a_pool_takes_what_its_base_takes():
    pool = dt.Bold(dt.Pab(K, D, seed=0))
    pool.decide(ROWS[0])
    with pytest.raises(dt.InvalidInput, match=r"Bold was given reward=0\.5; use feedback\(id, correct=\.\.\.\)$"):
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
        r"was given correct=True, reward=0\.5; use feedback\(id, correct=...\) or feedback\(id, reward=...\)",
    ),
    ({"reward": 0.5, "label": 1}, "was given label=1, reward=0.5; use "),
]


@pytest.mark.parametrize(("answer", "message"), BAD)
def test_what_is_no_reward_is_refused_and_changes_nothing(answer, message):
    learner = taught("delaytron")
    before = everything(learner)
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        learner.feedback(40, **answer)
    assert "\n" not in str(caught.value)
    assert everything(learner) == before


def test_a_second_reward_must_agree():
    learner = taught("delaytron")
    assert learner.feedback(40, reward=0.25) == "accepted"
    assert learner.feedback(40, reward=0.25) == "duplicate"
    assert learner.feedback(39, reward=1) == "accepted"
    assert learner.feedback(39, correct=True) == "duplicate"
    with pytest.raises(dt.ConflictingFeedback, match=r"was answered reward 0\.25, now 'correct' came"):
        learner.feedback(40, correct=True)
    learner.flush()
    with pytest.raises(dt.ConflictingFeedback, match=r"was answered reward 0\.25, now reward 0\.5 came"):
        learner.feedback(40, reward=0.5)


def test_the_estimate_of_a_reward_is_unbiased():
    """Over all draws of one round, Banditron's step with rewards r has the mean sum_k r_k e_k - e_greedy, times x."""
    given_rewards, mean, end = [0.1, 0.9, 0.0, 0.4, 1.0], np.zeros((K, D)), 0.0
    learner = taught("banditron")
    before = answered(learner, 40, correct=bool(TRUE[39])).weights
    while end < 1 - 1e-12:
        twin = answered(learner, 40, correct=bool(TRUE[39]))
        twin._draws = type("Fixed", (), {"random": lambda self, u=end: u})()
        decision = twin.decide(ROWS[50])
        mean += decision.prob * (answered(twin, decision.id, reward=given_rewards[decision.label]).weights - before)
        end += decision.prob
    expected = np.outer(given_rewards, ROWS[50])
    expected[decision.greedy] -= ROWS[50]
    np.testing.assert_allclose(mean, expected, atol=1e-12)
    assert sqrt(np.square(expected).sum()) > 1


# Rewards in files.


@pytest.mark.parametrize("form", forms(TAKING))
def test_rewards_are_saved_applied_or_not(form, tmp_path):
    learner = taught(form)
    learner.feedback(40, reward=0.3)
    learner.save(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    assert everything(again) == everything(learner)
    for t, x in enumerate(ROWS[40:]):
        assert learner.decide(x) == again.decide(x)
        for one in (learner, again):
            assert one.feedback(40, reward=0.3) == "duplicate"
            assert one.feedback(41 + t, reward=t / 20) == "accepted"
    assert everything(again) == everything(learner)


def test_a_reward_in_a_file_of_right_and_wrong_is_refused(tmp_path):
    learner = taught("perceptron")
    learner.feedback(40, label=2)
    learner.save(tmp_path / "a")
    texts, tensors = read_tensors(tmp_path / "a")
    for value in (0.5, 5.0):
        changed = tensors | {"ended.value": np.full(tensors["ended.value"].size, value)}
        (tmp_path / "a").write_bytes(b"".join(pack_tensors(changed, texts)))
        with pytest.raises(dt.InvalidInput, match="ended is inconsistent"):
            dt.load(tmp_path / "a")


# Rewards as soft targets: as if the label were right with that probability.


@given(reward=rewards, late=st.booleans())
def test_one_against_all_learns_from_a_soft_target(reward, late):
    learner = taught("ova_logistic", expire_after=1000, on_expiry="wrong")
    learner.decide(ROWS[50])
    past = learner.book.play(41)
    w, G = learner.state.W[past.label].copy(), learner.state.G[past.label].copy()
    if late:
        learner.end(Book.expire, 41)
        learner.flush()
    for target in [0.0, reward] if late else [reward]:
        g = (1 / (1 + exp(-(w @ past.x.values))) - target) * past.x.values
        G += g**2
        w -= 0.2 * g / np.sqrt(G)
    after = answered(learner, 41, reward=reward)
    np.testing.assert_allclose(after.state.W[past.label], w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after.state.G[past.label], G, rtol=1e-12, atol=1e-12)


@given(reward=rewards, late=st.booleans())
def test_logistic_thompson_sampling_learns_from_a_soft_target(reward, late):
    learner = taught("logistic_ts", expire_after=1000, on_expiry="wrong")
    learner.decide(ROWS[50])
    past, state = learner.book.play(41), learner.state
    posteriors = paper_thompson.Posteriors(K, D)
    posteriors.m[:] = learner.weights
    posteriors.V[:] = np.column_stack([1 - state.U, state.spread])
    z = np.clip((past.x.values - state.features[CENTRE]) * state.features[INVERSE], -5, 5) - state.features[ZERO]
    z = np.append(z / sqrt(z @ z), 1.0)
    if late:
        learner.end(Book.expire, 41)
        learner.flush()
    for target in [0.0, reward] if late else [reward]:
        posteriors.learn(z, past.label, target)
    after = answered(learner, 41, reward=reward)
    np.testing.assert_allclose(after.weights, posteriors.m, rtol=1e-12, atol=1e-12)
    variances = np.column_stack([1 - after.state.U, after.state.spread])
    np.testing.assert_allclose(variances, posteriors.V, rtol=1e-12, atol=1e-12)


def transcribed_logit(X, given_rewards, draws):
    """Return labels, probabilities and weights of the default learner, by the reward of each round, two rounds late."""
    rows, logit, watch = paper_logit.Rows(D), paper_logit.Logit(K, D, 1.0), paper_logit.Watch(0)
    plays, confirmations, n, played = np.zeros(K), np.zeros(K), 0, []
    for t, x in enumerate(X, 1):
        if t > 1 and rows.is_due():
            rows.refresh(1.0)
            rows.due = min(rows.due, rows.n + max(1, t // 16))
            logit.refresh(1.0, rows.varies())
        if t > 2:
            past, (label, _) = t - 2, played[t - 3]
            watch.count(2, given_rewards[past - 1])
            n += 1
            confirmations[label] += given_rewards[past - 1]
            logit.learn(rows.standardize(X[past - 1]), label, given_rewards[past - 1])
        P = paper_logit.inverse_gaps(logit.probabilities(rows.standardize(x)), n, plays, confirmations, 0.0)
        label = sample(P, draws[t - 1])
        plays[label] += 1
        rows.new.append(x)
        played.append((label, P[label]))
    assert not watch.changed
    return played, logit.W


@given(seed=st.integers(0, 2**32))
def test_the_default_learner_learns_from_a_soft_target(seed):
    rng = np.random.default_rng(seed)
    X, given_rewards = rng.normal(size=(40, D)), rng.random(40)
    learner = dt.BanditLogit(K, D, seed=seed)
    played, W = transcribed_logit(X, given_rewards, deepcopy(learner._draws).random(40))
    for t, x in enumerate(X):
        if t >= 2:
            learner.feedback(t - 1, reward=float(given_rewards[t - 2]))
        decision = learner.decide(x)
        assert decision.label == played[t][0]
        assert decision.prob == pytest.approx(played[t][1], rel=1e-9)
    np.testing.assert_allclose(learner.weights, W, rtol=1e-9, atol=1e-9)
