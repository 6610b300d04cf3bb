"""From scores to chances, from chances to what is played, and from an answer to a gradient."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.compiler.kernel import fill, interpreted
from delaytron.kernels.centred import FAR_BELOW
from delaytron.kernels.inverse_gaps import LEAST_LOSS, NEVER, SHARPEST_START, SHARPNESS_OF_UNKNOWN, weigh_gaps
from delaytron.kernels.linear import padded
from delaytron.kernels.softmax import LEAST_SLOPE, SMALLEST_REST, bandit_gradient, softmax
from delaytron.learners.bandit_logit import BanditLogit
from streams import same_bits

softmax_ = fill(softmax, "test.softmax")
gradient_ = fill(bandit_gradient, "test.bandit_gradient")
weigh_ = fill(weigh_gaps, "test.weigh_gaps")

lists_of_scores = st.lists(st.floats(-30, 30), min_size=2, max_size=20)


def chances_of(scores):
    """Return the softmax in a padded array, the same to the bit compiled and interpreted."""
    given_scores = np.full(padded(len(scores)), FAR_BELOW)
    given_scores[: len(scores)] = scores
    ours, theirs = np.empty_like(given_scores), np.empty_like(given_scores)
    softmax_(given_scores, max(scores), ours)
    interpreted(softmax)(given_scores, max(scores), theirs)
    assert same_bits(ours, theirs)
    return ours


@given(lists_of_scores)
def test_chances_are_exponentials_of_scores(scores):
    p = chances_of(scores)
    expected = np.exp(np.array(scores) - max(scores))
    np.testing.assert_allclose(p[: len(scores)], expected / expected.sum(), rtol=1e-14)
    assert p[len(scores) :].sum() < 1e-300


@given(lists_of_scores, st.sampled_from([0.0, 1.0, 0.3]), st.randoms())
def test_the_gradient_is_that_of_the_likelihood(scores, reward, random):
    K = len(scores)
    label = random.randrange(K)
    p = chances_of(scores)
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
    p = chances_of(scores)
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
    weigh_(state, chances_of([2.0, 1.0, 2.0, 2.0, 0.0]), 0, 0.0, None, p)
    assert p[0] == p[2] == p[3] > p[1]
