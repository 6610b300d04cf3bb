"""The chances of labels under Thompson sampling, against other ways to compute them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from delaytron.compiler.kernel import fill, interpreted
from delaytron.kernels.thompson import LEAST, weigh_chances
from paper_thompson import density
from streams import same_bits

compiled = fill(weigh_chances, "test.weigh_chances")
means = st.floats(-30.0, 30.0)
deviations = st.floats(-4.0, 2.0).map(lambda power: 10.0**power)


def chances(scores, spread, allowed=None):
    """Return the chances by the compiled kernel; those of the interpreted one have the same bits."""
    results = []
    for run in (compiled, interpreted(weigh_chances)):
        p, hazards = np.full(len(scores), np.nan if allowed is None else 7.0), np.zeros(len(scores))
        labels = None if allowed is None else np.array(allowed)
        run(np.array(scores, float), np.array(spread, float), labels, hazards, p)
        results.append(p)
    assert same_bits(*results)
    return results[0]


def integrated(scores, spread):
    """Return the same by 20,000 nodes around the score that matters most, and again around each other one."""
    scores, spread = np.array(scores, float), np.array(spread, float)
    t = np.unique(np.concatenate([s + d * np.linspace(-9, 9, 20_001) for s, d in zip(scores, spread, strict=True)]))
    x = (t[:, None] - scores) / spread
    F, f = ndtr(x), density(x) / spread
    return np.array([np.trapezoid(f[:, k] * np.delete(F, k, axis=1).prod(axis=1), t) for k in range(len(scores))])


@given(gap=st.floats(-6.0, 6.0), first=deviations, second=deviations, at=means)
def test_of_two_labels_the_chance_is_that_of_the_difference(gap, first, second, at):
    both = np.hypot(first, second)
    p = chances([at, at + gap * both], [first, second])
    np.testing.assert_allclose(p, ndtr([-gap, gap]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("n_classes", [3, 5, 20])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_of_several_labels_it_is_the_integral(n_classes, spread, seed):
    rng = np.random.default_rng(seed)
    sizes = np.exp(spread * rng.normal(size=n_classes))
    scores = rng.normal(size=n_classes) * np.median(sizes)
    np.testing.assert_allclose(chances(scores, sizes), integrated(scores, sizes), rtol=0, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_real_thompson_sampling_plays_as_often(seed):
    """Chi-square of a million draws of the scores: beyond 30 with 4 degrees of freedom by chance once in 200,000."""
    rng = np.random.default_rng(seed)
    scores, spread = rng.normal(size=5), np.exp(rng.normal(size=5))
    counts = np.bincount(np.argmax(rng.normal(scores, spread, (1_000_000, 5)), axis=1), minlength=5)
    expected = 1_000_000 * chances(scores, spread)
    assert ((counts - expected) ** 2 / expected).sum() < 30


@given(scores=st.lists(means, min_size=1, max_size=40), data=st.data())
def test_they_sum_to_one_and_none_is_zero(scores, data):
    K = len(scores)
    spread = data.draw(st.lists(deviations | st.just(0.0), min_size=K, max_size=K))
    p = chances(scores, spread)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert p.min() >= 0.5 * LEAST


@given(scores=st.lists(means, min_size=2, max_size=8), data=st.data())
def test_labels_that_are_not_allowed_do_not_count(scores, data):
    K = len(scores)
    spread = data.draw(st.lists(deviations, min_size=K, max_size=K))
    allowed = sorted(data.draw(st.sets(st.integers(0, K - 1), min_size=1)))
    p = chances(scores, spread, allowed)
    assert same_bits(p[allowed], chances([scores[r] for r in allowed], [spread[r] for r in allowed]))
    assert all(p[r] == 0.0 for r in range(K) if r not in allowed)


@given(score=means, spread=deviations | st.just(0.0), n_classes=st.integers(2, 100))
def test_equal_labels_are_played_equally_often(score, spread, n_classes):
    p = chances([score] * n_classes, [spread] * n_classes)
    assert len(set(p)) == 1
    assert p[0] == pytest.approx(1 / n_classes, rel=1e-12)


def test_a_score_that_is_certain_is_best_as_often_as_the_other_one_is_below():
    np.testing.assert_allclose(chances([1.0, 0.0], [0.0, 1.0]), ndtr([1.0, -1.0]), atol=1e-4)
    np.testing.assert_allclose(chances([1.0, 0.0, 1.0], [0.0, 0.0, 0.0]), [0.5, 0.0, 0.5], atol=1e-8)
    np.testing.assert_array_equal(chances([0.0, 0.0], [0.0, 0.0]), [0.5, 0.5])


@pytest.mark.parametrize("factor", [1e-60, 1e-9, 1e9, 1e60])
def test_the_unit_of_the_scores_does_not_matter(factor):
    scores, spread = np.array([0.3, -0.2, 0.1, 5.0]), np.array([1.0, 0.5, 1e-3, 0.1])
    scaled = chances(factor * scores, factor * spread)
    np.testing.assert_allclose(scaled, chances(scores, spread), rtol=1e-9, atol=1e-12)
