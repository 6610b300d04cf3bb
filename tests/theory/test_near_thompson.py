"""The closed form by which the pointwise part of `GatedLogit` explores, beside exact Thompson sampling."""

from math import erfc, log, sqrt
from types import SimpleNamespace

import numpy as np
import pytest

from delaytron.compiler.kernel import interpreted
from delaytron.kernels.pointwise import DOUBT, weigh_posteriors
from delaytron.kernels.standardize import FAR_BELOW

weigh = interpreted(weigh_posteriors)
ANSWERS = 5000.0


def chances(gaps):
    """Return the chances of labels so many standard deviations of the difference below the best, by the kernel."""
    K = len(gaps)
    padding = -K % 4
    q = np.append(-np.array(gaps, float), np.full(padding, FAR_BELOW))
    v = np.append(np.full(K, 0.5 / (DOUBT * log(3 + ANSWERS))), np.zeros(padding))
    state = SimpleNamespace(q=q, v=v, offset=np.zeros(K))
    weigh(state, ANSWERS, 0, None)
    return state.v[:K]


def normal(z):
    """Return how likely a standard normal is below z."""
    return 0.5 * erfc(-z / sqrt(2))


def thompson(K, gap):
    """Return how likely the best of K labels plays if all others are so far behind, by quadrature."""
    t = np.linspace(-9, 9, 2001)
    beats_one = np.array([normal(z + gap * sqrt(2)) for z in t])
    return float((np.exp(-t * t / 2) / sqrt(2 * np.pi) * beats_one ** (K - 1)).sum() * (t[1] - t[0]))


def test_two_labels_are_played_as_by_thompson_sampling_to_0_00015():
    worst = max(abs(chances([0, gap])[1] - normal(-gap)) for gap in np.linspace(0, 8, 801))
    assert 1.4e-4 < worst < 1.5e-4


@pytest.mark.parametrize(("gap", "factor"), [(1, 1.0), (2, 1.0), (3, 0.91), (4, 0.58), (5, 0.17), (6, 0.017)])
def test_far_behind_the_best_a_label_is_tried_less_often_than_by_thompson_sampling(gap, factor):
    assert chances([0, gap])[1] / normal(-gap) == pytest.approx(factor, abs=0.006)


@pytest.mark.parametrize(("K", "gap", "less"), [(3, 0.8, 0.021), (10, 1.2, 0.115), (50, 1.75, 0.259)])
def test_of_many_labels_the_best_is_played_less_often_than_by_thompson_sampling(K, gap, less):
    assert chances([0] * K) == pytest.approx(1 / K)
    assert thompson(K, 0) == pytest.approx(1 / K)
    assert thompson(K, gap) - chances([0] + [gap] * (K - 1))[0] == pytest.approx(less, abs=6e-4)


def test_a_label_is_never_given_up():
    """With the same scores and variances its chance grows with the answers."""
    found = []
    for answers in (10.0, 1e3, 1e5, 1e7):
        q, v = np.array([2.0, 0.0, FAR_BELOW, FAR_BELOW]), np.array([0.5, 0.5, 0.0, 0.0])
        state = SimpleNamespace(q=q, v=v, offset=np.zeros(2))
        weigh(state, answers, 0, None)
        found.append(state.v[1])
    assert found == sorted(found)
    assert found[-1] > 10 * found[0] > 0
