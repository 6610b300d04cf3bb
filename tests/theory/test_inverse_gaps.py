"""One round of inverse gaps: Theorem R7, the lines of its proof, and how small its constants could be."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from delaytron import theory
from delaytron.errors import InvalidInput
from theory_gaps import entropy, rounds, triangular


class TestRound:
    @given(rounds())
    def test_a_round_is_within_theorem_r7(self, case):
        predicted, true, gamma = case
        found = theory.inverse_gap_round(predicted, true=true, sharpness=gamma)
        assert found.regret <= found.bound + 1e-12

    @given(rounds(), st.floats(1e-3, 2), st.floats(1e-2, 1e3))
    def test_neither_a_large_gamma_nor_losses_up_to_one_are_needed(self, case, small, unit):
        predicted, true, _ = case
        found = theory.inverse_gap_round(unit * predicted, true=unit * true, sharpness=small * len(true))
        assert found.regret <= found.bound + 1e-12 * unit

    @given(rounds())
    def test_chances_are_as_written_and_the_best_share_the_rest(self, case):
        predicted, _, gamma = case
        P = theory.inverse_gap_chances(predicted, gamma)
        least = predicted.min()
        assert P.sum() == pytest.approx(1)
        for r, loss in enumerate(predicted):
            if loss > least:
                assert P[r] == pytest.approx(least / (len(P) * least + gamma * (loss - least)), abs=1e-300)
            else:
                assert P[r] == pytest.approx(P[predicted.argmin()])
                assert P[r] >= (1 - 1e-12) / len(P)

    @given(rounds(), st.data())
    def test_smaller_gammas_cost_no_more_than_the_plays_of_their_labels(self, case, data):
        predicted, true, gamma = case
        K = len(true)
        known = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.01, 0.5, 1.0]), min_size=K, max_size=K)))
        P = theory.inverse_gap_chances(predicted, gamma * known)
        extra = (P * (known < 1) * (predicted > predicted.min())).sum()
        bound = 3 * K / gamma * (P @ true) + (1 + 5 / (4 * K)) * gamma * (P @ triangular(predicted, true))
        assert P @ true - true.min() <= bound + extra + 1e-12

    @given(rounds(), st.floats(1e-6, 1))
    def test_an_added_loss_is_a_share_of_certainty_that_changes_no_chance(self, case, added):
        """So the 1e-6 of the learner costs at most ln(1 + 1e-6) a round in the logarithmic loss."""
        predicted, _, gamma = case
        mixed = (predicted + added) / (1 + added)
        chances = theory.inverse_gap_chances(predicted + added, gamma)
        np.testing.assert_allclose(theory.inverse_gap_chances(mixed, gamma), chances, rtol=1e-9)
        assert (mixed >= predicted - 1e-15).all()  # an error was foreseen no worse
        np.testing.assert_allclose(1 - mixed, (1 - predicted) / (1 + added), atol=1e-15)

    def test_a_best_label_that_never_errs_is_played_always(self):
        assert theory.inverse_gap_chances([0.0, 0.5, 0.0], 9).tolist() == [0.5, 0, 0.5]
        assert theory.inverse_gap_chances([0.0, 0.5], [9, 0]).tolist() == [0.5, 0.5]

    @pytest.mark.parametrize(
        ("losses", "sharpness", "message"),
        [
            ([0.5], 9, "losses must be a 1-D array of at least 2 losses, got shape (1,)"),
            ([[0.5, 0.5]], 9, "losses must be a 1-D array of at least 2 losses, got shape (1, 2)"),
            ([0.5, -0.1], 9, "losses must be finite and at least 0, got -0.1"),
            ([0.5, np.nan], 9, "losses must be finite and at least 0, got nan"),
            ([0.5, 0.5], -1, "sharpness must be finite and at least 0, got -1"),
            ([0.5, 0.5, 0.5], [1, 2], "sharpness must be a number or one per label, 3, got shape (2,)"),
        ],
    )
    def test_wrong_input_is_refused_in_one_line(self, losses, sharpness, message):
        with pytest.raises(InvalidInput) as error:
            theory.inverse_gap_chances(losses, sharpness)
        assert str(error.value).startswith(message)

    def test_a_round_needs_as_many_true_as_predicted_losses(self):
        with pytest.raises(InvalidInput, match="true must have one loss per label, 2, as predicted has, got 3"):
            theory.inverse_gap_round([0.5, 0.5], true=[0.1, 0.2, 0.3], sharpness=9)


class TestProof:
    """Every line of the proof of Theorem R7, on its own."""

    POSITIVE = st.floats(1e-6, 1e3)

    @given(rounds())
    def test_exploration_costs_at_most_the_best_loss_a_label(self, case):
        predicted, _, gamma = case
        P = theory.inverse_gap_chances(predicted, gamma)
        least = predicted.min()
        assert P @ (predicted - least) <= (len(P) - 1) * least / gamma + 1e-12

    @given(POSITIVE, POSITIVE, POSITIVE)
    def test_a_loss_above_its_prediction(self, f, predicted, half):
        assert f - predicted <= half * f + triangular(predicted, f) / (2 * half) + 1e-12 * f

    @given(POSITIVE, POSITIVE)
    def test_a_prediction_above_its_loss_is_a_perfect_square(self, f, predicted):
        slack = 5 / 3 * f + 4 / 3 * triangular(predicted, f) - predicted
        assert slack * 3 * (f + predicted) == pytest.approx((predicted - 3 * f) ** 2, abs=1e-9 * (f + predicted) ** 2)

    @given(st.floats(0, 1), st.floats(0, 1e4), st.floats(1e-6, 1e2))
    @example(1.0, 1e4, 1e-6)
    def test_the_best_label_is_known_or_learned(self, y, x, k):
        """The label that is best: y how much better than the best prediction, x its gap, both in units of that."""
        assert y <= k / 2 + (x + y) ** 2 / ((2 + x - y) * (k + x)) + 1e-12
        slack = (x + y) ** 2 - 2 * (y - k / 2) * (k + x)
        assert slack == pytest.approx(x**2 + (y - k) ** 2 + k * x, rel=1e-9, abs=1e-12)

    @given(st.floats(0, 1), st.floats(0, 1))
    def test_a_triangle_is_at_most_nine_eighths_of_the_relative_entropy(self, f, predicted):
        true, guess = np.float64(f), np.float64(predicted)
        assert triangular(guess, true) <= 9 / 8 * entropy(true, guess) + 1e-12

    @given(st.floats(1e-3, 1e3))
    def test_the_derivative_in_that_proof_is_a_perfect_square(self, u):
        inner = 1 / u - 8 / 9 * (u + 3) / (1 + u) ** 2
        assert inner * 9 * u * (1 + u) ** 2 == pytest.approx((u - 3) ** 2, abs=1e-9 * (1 + u) ** 2)

    def test_nine_eighths_is_not_far_from_the_best_constant(self):
        f = 1e-7
        guesses = f * np.linspace(1.5, 20, 2000)
        best = (triangular(guesses, f) / entropy(np.full(2000, f), guesses)).max()
        assert 1.115 < best < 1.117


class TestConstants:
    """How small the constants could be: for given predictions, the worst true losses are known in closed form."""

    @staticmethod
    def excess(gaps, best, gamma, c1, c2):
        """Return the most by which a round is above the bound, if label 0 looks best (loss 1) and `best` is."""
        predicted = 1 + np.concatenate([[0], gaps])
        K = predicted.size
        P = theory.inverse_gap_chances(predicted, gamma)
        slope = (1 - c1 * K / gamma) - (np.arange(K) == best) / P
        most = 2 * predicted / np.sqrt(1 - slope / (c2 * gamma))
        total = np.maximum(predicted, most)  # predicted and true loss together
        square = total - 4 * predicted + 4 * predicted**2 / total
        return P @ (slope * (total - predicted) - c2 * gamma * square)

    def worst(self, K, gamma, c1, c2):
        """Search for predictions that break the bound, from several starts."""
        starts = [np.full(K - 1, start) for start in (-9.0, -3.0, 0.0, 3.0, 9.0)]
        starts += [np.append(np.full(K - 2, -other), other) for other in (3.0, 9.0)]

        def negative(logs, best):
            return -self.excess(np.exp(np.clip(logs, -30, 30)), best, gamma, c1, c2)

        cases = [(start, best) for start in starts for best in (0, K - 1)]
        return max(-minimize(negative, start, best, method="Nelder-Mead").fun for start, best in cases)

    @pytest.mark.parametrize("K", [2, 3, 6])
    @pytest.mark.parametrize("per_class", [2, 3.5, 6, 50, 1e4])
    def test_a_search_breaks_no_bound(self, K, per_class):
        assert self.worst(K, per_class * K, 3, 1 + 5 / (4 * K)) <= 1e-9

    @pytest.mark.parametrize("K", [2, 3, 6])
    @pytest.mark.parametrize("per_class", [6, 50, 1e3])
    def test_a_search_finds_that_constants_of_about_one_would_do(self, K, per_class):
        assert self.worst(K, per_class * K, 1.1, 1) <= 1e-9

    @pytest.mark.parametrize("K", [2, 3, 6])
    def test_c2_cannot_be_below_one_whatever_c1_is(self, K):
        assert self.worst(K, 1e6 * K, 100, 0.999) > 1e-4

    @pytest.mark.parametrize("K", [2, 3, 30])
    def test_c1_cannot_be_below_one_minus_one_over_k_whatever_c2_is(self, K):
        """Predictions that are all true, and a best label that errs half as often as all others."""
        gamma = 1e6 * K
        losses = np.append(0.4, np.full(K - 1, 0.8))
        found = theory.inverse_gap_round(losses, true=losses, sharpness=gamma)
        c1 = found.regret * 3 / found.bound
        assert c1 == pytest.approx(1 - 1 / K, rel=1e-3)

    def test_the_closed_form_is_the_worst_case(self):
        rng = np.random.default_rng(1)
        gaps = np.array([0.5, 2.0])
        worst = self.excess(gaps, 2, 20, 1, 0.5)
        predicted = np.array([1, 1.5, 3])
        P = theory.inverse_gap_chances(predicted, 20)
        for true in predicted * rng.random((5000, 3)) * 2:
            found = P @ true - true[2] - 3 / 20 * (P @ true) - 0.5 * 20 * (P @ triangular(predicted, true))
            assert found <= worst + 1e-12
