"""The bets of `kernels.drift`: fair as long as nothing changes, whatever the rewards."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.kernels.drift import MOST_RIGHT, gain

probabilities = st.floats(0, 1)


@given(share=st.floats(0, MOST_RIGHT))
def test_a_bet_is_fair(share):
    assert share * gain(share, 1.0, 1.0) + (1 - share) * gain(share, 1.0, 0.0) == pytest.approx(1, rel=1e-12)


@given(share=probabilities, better=probabilities)
def test_nobody_gains_where_answers_become_better(share, better):
    q = max(share, better)
    assert q * gain(share, 1.0, 1.0) + (1 - q) * gain(share, 1.0, 0.0) <= 1 + 1e-12


@given(share=probabilities, reward=probabilities)
def test_a_reward_counts_in_proportion(share, reward):
    between = reward * gain(share, 1.0, 1.0) + (1 - reward) * gain(share, 1.0, 0.0)
    assert gain(share, 1.0, reward) == pytest.approx(between, rel=1e-12)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_the_chance_of_wealth_n_is_at_most_one_in_n(share):
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
