"""Softmax, gradients, inverse-gap weighting, the exponential, and the bets on drift."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.compiler.kernel import fill, interpreted, kernel
from delaytron.kernels.lanes import load, store
from delaytron.kernels.linear import padded
from delaytron.kernels.logit import (
    LEAST_LOSS,
    LEAST_SLOPE,
    LOWEST,
    MOST_RIGHT,
    NEVER,
    SHARPEST_START,
    SHARPNESS_OF_UNKNOWN,
    SMALLEST_REST,
    bandit_gradient,
    exponential,
    gain,
    softmax,
    weigh_gaps,
)
from delaytron.kernels.standardize import FAR_BELOW
from delaytron.learners.bandit_logit import BanditLogit
from streams import same_bits

softmax_ = fill(softmax, "test.softmax")
gradient_ = fill(bandit_gradient, "test.bandit_gradient")
weigh_ = fill(weigh_gaps, "test.weigh_gaps")

lists_of_scores = st.lists(st.floats(-30, 30), min_size=2, max_size=20)


def softmax_of(scores):
    """Return the softmax in a padded array, the same to the bit compiled and interpreted."""
    given_scores = np.full(padded(len(scores)), FAR_BELOW)
    given_scores[: len(scores)] = scores
    ours, theirs = np.empty_like(given_scores), np.empty_like(given_scores)
    softmax_(given_scores, max(scores), ours)
    interpreted(softmax)(given_scores, max(scores), theirs)
    assert same_bits(ours, theirs)
    return ours


@given(lists_of_scores)
def test_softmax_equals_that_of_numpy(scores):
    p = softmax_of(scores)
    expected = np.exp(np.array(scores) - max(scores))
    np.testing.assert_allclose(p[: len(scores)], expected / expected.sum(), rtol=1e-14)
    assert p[len(scores) :].sum() < 1e-300


@given(lists_of_scores, st.sampled_from([0.0, 1.0, 0.3]), st.randoms())
def test_the_gradient_is_that_of_the_likelihood(scores, reward, random):
    K = len(scores)
    label = random.randrange(K)
    p = softmax_of(scores)
    ours, theirs = np.full(p.size, 7.0), np.full(p.size, 7.0)
    power = gradient_(p, label, reward, ours)
    assert power == interpreted(bandit_gradient)(p, label, reward, theirs)
    assert same_bits(ours, theirs)
    share = reward - (1 - reward) * p[label] / max(1 - p[label], SMALLEST_REST)
    expected = np.where(np.arange(K) == label, p[label] - reward, share * p[:K])
    clear = np.abs(np.abs(expected) - LEAST_SLOPE) > 1e-12
    kept = np.where(np.abs(expected) < LEAST_SLOPE, 0, expected)
    np.testing.assert_allclose(ours[:K][clear], kept[clear], rtol=1e-12)
    assert not ours[K:].any()
    assert power == pytest.approx((ours**2).sum(), rel=1e-12)


@given(lists_of_scores, st.integers(0, 10**6), st.sampled_from([0.0, 0.02]))
def test_labels_are_played_by_their_gaps(scores, answers, floor):
    K = len(scores)
    state = BanditLogit(K, 1, seed=0).state
    state.known[:K] = np.arange(K) % 2
    state.answers[0] = answers
    p = softmax_of(scores)
    best = int(np.argmax(scores))
    ours, theirs = np.empty(K), np.empty(K)
    weigh_(state, p.copy(), best, floor, None, ours)
    interpreted(weigh_gaps)(state, p.copy(), best, floor, None, theirs)
    assert same_bits(ours, theirs)
    loss = 1 - p[best] + LEAST_LOSS
    gamma = max(SHARPEST_START, 4 * np.sqrt(answers * K))
    gammas = np.where(state.known[:K] == 1, gamma, SHARPNESS_OF_UNKNOWN)
    expected = loss / (K * loss + gammas * (p[best] - p[:K]))
    ties = p[:K] == p[best]
    expected[ties] = (1 - expected[~ties].sum()) / ties.sum()
    np.testing.assert_allclose(ours, floor + (1 - K * floor) * expected, rtol=1e-12)
    assert ours.sum() == pytest.approx(1, abs=1e-14)
    assert (state.known[K:] == NEVER).all()


def test_equals_share_what_the_others_leave():
    state = BanditLogit(5, 1, seed=0).state
    p = np.empty(5)
    weigh_(state, softmax_of([2.0, 1.0, 2.0, 2.0, 0.0]), 0, 0.0, None, p)
    assert p[0] == p[2] == p[3] > p[1]


# The exponential, a vector at a time.


@kernel
def all_exponentials(x, out):
    for k in range(0, x.size, 4):
        store(exponential(load(x, k, 4)), out, k)


compiled = fill(all_exponentials, "test.exponentials")


def exponentials(x):
    """Return exp(x), the same to the bit compiled and interpreted."""
    ours, theirs = np.empty_like(x), np.empty_like(x)
    compiled(x, ours)
    interpreted(all_exponentials)(x, theirs)
    assert same_bits(ours, theirs)
    return ours


@given(st.lists(st.floats(LOWEST, 0), min_size=4, max_size=4))
def test_the_exponential_is_exact_to_two_units_in_the_last_place(values):
    for x, ours in zip(values, exponentials(np.array(values)).tolist(), strict=True):
        assert abs(ours - math.exp(x)) <= 2 * math.ulp(math.exp(x))


def test_the_exponential_is_as_exact_on_its_whole_range():
    x = np.concatenate([np.linspace(LOWEST, 0, 40_000), -np.logspace(-320, 2, 40_000)])
    exact = np.array([math.exp(value) for value in x])
    assert (np.abs(exponentials(x) - exact) <= 2 * np.spacing(exact)).all()


def test_the_exponential_of_zero_is_one():
    assert exponentials(np.array([0.0, -0.0, -5e-324, -1e-17])).tolist() == [1.0] * 4


def test_the_exponential_never_exceeds_one_and_never_underflows():
    tiny = exponentials(np.array([LOWEST, -1e4, -1e300, -np.inf]))
    np.testing.assert_allclose(tiny, math.exp(LOWEST), rtol=1e-15)
    near = -np.spacing(1.0) * np.arange(4000.0)
    assert exponentials(near).max() == 1.0


# The bets of `kernels.logit`: fair as long as nothing changes, whatever the rewards.


probabilities = st.floats(0, 1)


@given(share=st.floats(0, MOST_RIGHT))
def test_a_bet_is_fair(share):
    assert share * gain(share, 1.0, 1.0) + (1 - share) * gain(share, 1.0, 0.0) == pytest.approx(1, rel=1e-12)


@given(share=probabilities, better=probabilities)
def test_a_bet_does_not_gain_where_answers_become_better(share, better):
    q = max(share, better)
    assert q * gain(share, 1.0, 1.0) + (1 - q) * gain(share, 1.0, 0.0) <= 1 + 1e-12


@given(share=probabilities, reward=probabilities)
def test_a_reward_counts_in_proportion(share, reward):
    between = reward * gain(share, 1.0, 1.0) + (1 - reward) * gain(share, 1.0, 0.0)
    assert gain(share, 1.0, reward) == pytest.approx(between, rel=1e-12)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_the_probability_of_wealth_n_is_at_most_one_in_n(share):
    """All sequences of twelve answers, with their probabilities: how often wealth ever reaches 2, 3 and 5."""
    reached = dict.fromkeys([2, 3, 5], 0.0)
    for answers in product([0.0, 1.0], repeat=12):
        chance, wealth, most = 1.0, 1.0, 1.0
        for answer in answers:
            chance *= share if answer else 1 - share
            wealth *= gain(share, 1.0, answer)
            most = max(most, wealth)
        for n in reached:
            reached[n] += chance * (most >= n)
    assert all(0 < chance <= 1 / n for n, chance in reached.items())
