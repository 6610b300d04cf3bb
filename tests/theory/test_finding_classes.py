"""Theorem R9: how soon exploration with a smaller gamma for labels hardly known has played every class."""

from math import ceil, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron import theory
from delaytron.errors import InvalidInput
from theory_gaps import rounds


def known(plays, K):
    """Return by how much gamma is smaller for labels that were played so often and never confirmed."""
    return np.minimum(1, plays / (10 * K)) ** 2


class TestFindingClasses:
    @given(rounds(), st.data())
    def test_a_class_that_was_never_played_is_played_once_in_k_rounds(self, case, data):
        predicted, _, gamma = case
        K = len(predicted)
        plays = np.array(data.draw(st.lists(st.sampled_from([0, 1, 50, 10**4]), min_size=K, max_size=K)))
        P = theory.inverse_gap_chances(predicted + 1e-6, gamma * known(plays, K))
        assert (P[plays == 0] >= (1 - 1e-9) / K).all()

    @pytest.mark.parametrize("K", [2, 5, 50, 200])
    @pytest.mark.parametrize("failure", [0.1, 0.01])
    def test_all_classes_are_played_within_the_rounds_told(self, K, failure):
        """With every chance as small as it may be, by inclusion and exclusion in a chain: so many classes are left."""
        n = theory.rounds_until_played(n_classes=K, failure=failure)
        left = np.zeros(K + 1)
        left[K] = 1.0
        moves = np.arange(K + 1) / K
        for _ in range(int(n)):
            left = left * (1 - moves) + np.append((left * moves)[1:], 0)
        assert n == ceil(K * log(K / failure))
        assert 1 - left[0] <= failure

    @pytest.mark.parametrize("K", [2, 7])
    @pytest.mark.parametrize("seed", range(4))
    def test_extra_plays_are_at_most_ten_k_a_class_on_every_path(self, K, seed):
        """Whatever is predicted: here it changes at random, and the classes hardly played look best of all others."""
        rng = np.random.default_rng(seed)
        plays = np.zeros(K)
        extra = np.zeros(K)
        for _ in range(60 * K**2):
            predicted = rng.random(K) * 10 ** rng.uniform(-3, 0) + 1e-6
            P = theory.inverse_gap_chances(predicted, 1000 * known(plays, K))
            label = rng.choice(K, p=P)
            extra[label] += known(plays, K)[label] < 1 and predicted[label] > predicted.min()
            plays[label] += 1
        assert (plays > 10 * K).all()
        assert (extra <= 10 * K).all()

    @pytest.mark.parametrize("K", [2, 10, 50, 200])
    @pytest.mark.parametrize("least_loss", [0.01, 0.5])
    def test_a_class_is_tried_as_soon_as_told(self, K, least_loss):
        """A class that looks as bad as can be, in rounds as doubtful as told: the mean times add up."""
        for plays in (1, K, 10 * K):
            j = np.arange(plays)
            chances = least_loss / (K * least_loss + 1000 * known(j, K) * (1 - least_loss))
            told = theory.rounds_until_tried(n_classes=K, plays=plays, sharpness=1000, least_loss=least_loss)
            assert (1 / chances).sum() <= told * (1 + 1e-12)
            assert told <= (1 / chances).sum() / (1 - least_loss)

    def test_a_class_is_tried_at_most_ten_k_times(self):
        with pytest.raises(InvalidInput, match="plays must be at most 10 n_classes, got 21"):
            theory.rounds_until_tried(n_classes=2, plays=21, sharpness=1000)

    @pytest.mark.parametrize(("K", "missed"), [(50, 0.00227), (200, 0.00908)])
    def test_ten_k_plays_confirm_all_of_k_equal_classes_nearly_always(self, K, missed):
        assert K * (1 - 1 / K) ** (10 * K) < K * np.exp(-10) == pytest.approx(missed, rel=1e-2)
