"""Theorem R9: how soon exploration with a small gamma for labels that are not known yet has played every class."""

from math import ceil, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron import theory
from delaytron.errors import InvalidInput
from theory_gaps import rounds


def gammas(plays, K, gamma):
    """Return the gamma of labels that were played so often and never confirmed."""
    return np.where(plays < 2 * K * log(K), 20.0, gamma)


class TestFindingClasses:
    @given(rounds(), st.data())
    def test_an_unknown_class_is_played_as_often_as_the_bound_says(self, case, data):
        predicted, _, gamma = case
        K = len(predicted)
        plays = np.array(data.draw(st.lists(st.sampled_from([0, 1, 50, 10**4]), min_size=K, max_size=K)))
        loss = predicted + 1e-6
        P = theory.inverse_gap_chances(loss, gammas(plays, K, max(gamma, 20.0)))
        expected = theory.rounds_until_tried(n_classes=K, plays=1, least_loss=min(1.0, loss.min()))
        assert (P[plays < 2 * K * log(K)] >= (1 - 1e-9) / expected).all()

    @pytest.mark.parametrize("K", [2, 5, 50, 200])
    @pytest.mark.parametrize("failure", [0.1, 0.01])
    def test_all_classes_are_played_within_the_rounds_of_theorem_r9(self, K, failure):
        """With every chance at its least, the number of classes that were not played is a Markov chain."""
        n = theory.rounds_until_played(n_classes=K, failure=failure, least_loss=0.5)
        left = np.zeros(K + 1)
        left[K] = 1.0
        moves = np.arange(K + 1) / (K + 40)
        for _ in range(int(n)):
            left = left * (1 - moves) + np.append((left * moves)[1:], 0)
        assert n == ceil((K + 40) * log(K / failure))
        assert 1 - left[0] <= failure

    @pytest.mark.parametrize("K", [2, 7])
    @pytest.mark.parametrize("seed", range(4))
    def test_extra_plays_are_within_the_bound_on_every_path(self, K, seed):
        """Whatever is predicted: here it changes at random."""
        rng = np.random.default_rng(seed)
        plays = np.zeros(K)
        extra = np.zeros(K)
        for _ in range(300 * K**2):
            predicted = rng.random(K) * 10 ** rng.uniform(-3, 0) + 1e-6
            P = theory.inverse_gap_chances(predicted, gammas(plays, K, 1000.0))
            label = rng.choice(K, p=P)
            extra[label] += plays[label] < 2 * K * log(K) and predicted[label] > predicted.min()
            plays[label] += 1
        assert (plays > 2 * K * log(K)).all()
        assert (extra <= 2 * K * log(K) + 1).all()

    @pytest.mark.parametrize("K", [2, 10, 50, 200])
    @pytest.mark.parametrize("least_loss", [0.01, 0.5])
    def test_a_class_is_tried_within_the_expected_rounds(self, K, least_loss):
        """A class that looks as bad as can be, in rounds of exactly this doubt."""
        chance = least_loss / (K * least_loss + 20 * (1 - least_loss))
        expected = theory.rounds_until_tried(n_classes=K, plays=1, least_loss=least_loss)
        assert expected * (1 - least_loss) <= 1 / chance <= expected * (1 + 1e-12)

    def test_more_plays_than_make_a_class_known_are_refused(self):
        with pytest.raises(InvalidInput, match="plays must be at most 2 K ln K \\+ 1, got 21"):
            theory.rounds_until_tried(n_classes=2, plays=21)

    @pytest.mark.parametrize("K", [2, 10, 50, 200])
    def test_as_many_plays_confirm_each_of_k_equal_classes_nearly_always(self, K):
        assert (1 - 1 / K) ** (2 * K * log(K)) <= 1 / K**2
