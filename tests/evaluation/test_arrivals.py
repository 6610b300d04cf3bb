"""The probability that an outcome has arrived, and the variance of its estimate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.evaluation.arrivals import (
    ByBlock,
    KaplanMeier,
    KnownOutcomes,
    NoneMissing,
    arrival_probability,
    old_enough,
)


def product_limit(waits, ages, age):
    """Return Kaplan and Meier's estimate of arriving within an age, as a product over the event times."""
    left = 1.0
    for time in sorted({w for w in waits if np.isfinite(w) and w <= age}):
        at_risk = sum(min(w, a) >= time for w, a in zip(waits, ages, strict=True))
        left *= 1 - sum(w == time for w in waits) / at_risk
    return 1 - left


def censored(ages, waits):
    """Return ages and waits as a log knows them."""
    ages, waits = np.array(ages, float), np.array(waits, float)
    return np.where(waits <= ages, waits, np.inf), ages


rounds = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), min_size=2, max_size=25)


@given(rounds)
def test_probabilities_are_those_of_kaplan_and_meier(pairs):
    waits, ages = censored(*zip(*pairs, strict=True))
    if not np.isfinite(waits).any():
        return
    probability = KaplanMeier(waits, ages).probability
    np.testing.assert_allclose(probability, [product_limit(waits, ages, age) for age in ages], atol=1e-12)


@given(rounds)
def test_shares_rise_with_the_age_and_keep_their_sum(pairs):
    waits, ages = censored(*zip(*pairs, strict=True))
    arrived = np.isfinite(waits)
    probability = ByBlock(arrived, ages).probability
    order = np.argsort(ages, kind="stable")
    assert (np.diff(probability[order]) >= -1e-12).all()
    assert probability.sum() == pytest.approx(arrived.sum())
    for age in set(ages.tolist()):
        assert len(set(probability[ages == age].round(12))) == 1


def draw(n_rounds, seed):
    rng = np.random.default_rng(seed)
    ages = rng.uniform(0.3, 3, n_rounds)
    waits = np.where(rng.random(n_rounds) < 0.2, np.inf, rng.exponential(1.0, n_rounds))
    return np.where(waits <= ages, waits, np.inf), ages, 1 + rng.random(n_rounds)


def total(arrival, arrived, terms):
    return np.where(arrived, terms / arrival.probability, 0.0)[old_enough(arrival.probability)].sum()


@pytest.mark.parametrize("known", ["waits", "ages", "nothing"])
def test_influence_agrees_with_leaving_a_round_out(known):
    """The jackknife: the sum without round i, less the sum, is minus the influence of round i, to first order."""
    waits, ages, terms = draw(400, seed=4)

    def make(waits, ages):
        if known == "waits":
            return KaplanMeier(waits, ages)
        return ByBlock(np.isfinite(waits), ages if known == "ages" else None)

    arrived = np.isfinite(waits)
    arrival = make(waits, ages)
    influence = arrival.influence(terms)
    whole = total(arrival, arrived, terms)
    changes = []
    for i in range(400):
        rest = np.delete(np.arange(400), i)
        changes.append(whole - total(make(waits[rest], ages[rest]), arrived[rest], terms[rest]))
    assert np.square(changes - np.mean(changes)).sum() == pytest.approx(
        np.square(influence - influence.mean()).sum(), rel=0.1
    )
    if known != "ages":  # where blocks may change, single rounds differ
        np.testing.assert_allclose(changes, influence, atol=0.15)


def test_one_block_is_the_share_that_arrived():
    arrived = np.array([True, True, False, True])
    arrival = ByBlock(arrived, None)
    assert arrival.probability.tolist() == [0.75] * 4
    terms = np.array([1.0, 2.0, 99.0, 6.0])
    assert arrival.influence(terms).sum() == pytest.approx(4 * 3)
    assert arrival.influence(terms)[2] == 3  # the mean of those that arrived


def test_where_all_is_there_nothing_is_estimated():
    known = KnownOutcomes(np.zeros(3), np.ones(3, bool), np.ones(3), np.ones(3), np.zeros(3))
    assert isinstance(arrival_probability(known), NoneMissing)


def test_too_young_decisions_do_not_count():
    assert old_enough(np.array([0.0, 0.03, 0.05, 0.8])).tolist() == [False, False, True, True]
