"""The gate between two forecasts: Theorems R11 and R12, with the kernel that decides."""

from itertools import product
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron import theory
from delaytron.compiler.kernel import interpreted
from delaytron.errors import InvalidInput
from delaytron.kernels.drift import PLAYER
from delaytron.learners.gated_logit import FORECAST, OF_POINTWISE, OF_SOFTMAX, GatedLogit, trust

trust_ = interpreted(trust)
UNITS = st.floats(0, 1) | st.sampled_from([0.0, 0.3, 0.5, 1.0])
ANSWERS = st.lists(st.tuples(UNITS, UNITS, UNITS), max_size=60)  # forecasts of the softmax and pointwise parts, rewards


class Game:
    """The gate, and the errors of its forecast, of the part that plays, and as they mix."""

    def __init__(self):
        self.gate = np.zeros(3)
        self.of_forecast = 0.0
        self.of_player = 0.0
        self.mixed = 0.0

    def learn(self, of_softmax, of_pointwise, reward):
        share = trust_(self.gate)
        forecast = share * of_softmax + (1 - share) * of_pointwise
        a, b = (reward - of_softmax) ** 2, (reward - of_pointwise) ** 2
        self.of_forecast += (reward - forecast) ** 2
        self.of_player += share * a + (1 - share) * b
        self.mixed -= 0.5 * log(share * exp(-2 * a) + (1 - share) * exp(-2 * b))
        self.gate[OF_SOFTMAX] += a
        self.gate[OF_POINTWISE] += b

    def after(self, answer):
        game = Game()
        game.__dict__ = vars(self) | {"gate": self.gate.copy()}
        game.learn(*answer)
        return game

    @property
    def bound(self):
        return theory.gate_error(softmax_error=self.gate[OF_SOFTMAX], pointwise_error=self.gate[OF_POINTWISE])


class TestErrors:
    @given(ANSWERS)
    def test_theorem_r11_holds_for_all_sequences(self, answers):
        game = Game()
        for answer in answers:
            game.learn(*answer)
            assert game.of_forecast <= game.bound + 1e-9
            assert game.mixed <= game.bound * 0.847 + 1e-9
            assert game.of_player <= 2.314 * game.mixed + 1e-9

    @pytest.mark.parametrize("worst", ["of_forecast", "of_player"])
    def test_theorem_r11_holds_against_an_adversary_that_looks_one_answer_ahead(self, worst):
        game = Game()
        grid = [answer for answer in product((0.0, 0.3, 1.0), repeat=3) if answer[0] != answer[1]]
        for _ in range(200):
            game = max(map(game.after, grid), key=lambda ahead: getattr(ahead, worst) - ahead.gate[:2].min())
        assert min(game.gate[:2]) < game.of_forecast <= game.bound
        assert game.of_player <= 2.314 * 0.847 * game.bound

    def test_without_the_factor_the_bound_is_false(self):
        game = Game()
        for _ in range(2000):
            game.learn(*((0.7, 0.0, 1.0) if trust_(game.gate) < 0.5 else (0.0, 0.7, 1.0)))
        assert 1.13 * 0.847 * game.bound < game.of_forecast <= game.bound

    def test_the_player_errs_more_than_both_parts_where_they_take_turns(self):
        game = Game()
        for _ in range(2000):
            game.learn(*((1.0, 0.0, 0.0) if trust_(game.gate) >= 0.5 else (1.0, 0.0, 1.0)))
        assert game.of_player > 1.35 * max(game.gate[:2])
        assert game.of_forecast < 1.1 * min(game.gate[:2])

    @given(st.lists(st.tuples(st.floats(0.3, 0.7), st.floats(0.3, 0.7), st.floats(0.2, 0.8)), max_size=60))
    def test_there_is_no_factor_where_no_forecast_errs_by_more_than_half(self, answers):
        game = Game()
        for answer in answers:
            game.learn(*answer)
        assert game.of_forecast <= game.bound * 0.847 + 1e-9

    def test_the_learner_keeps_the_bound_with_answers_that_come_in_any_order(self):
        rng = np.random.default_rng(3)
        learner = GatedLogit(n_classes=3, n_features=4, seed=1)
        waiting, learned, error = [], [], 0.0
        for i, x in enumerate(rng.normal(size=(600, 4))):
            decision = learner.decide(x)  # the answer of the last round is learned first
            gate = learner.state.gate[learner.state.roles[PLAYER]]
            if learned:
                error += (learned[-1] - gate[FORECAST]) ** 2
            waiting.append((decision.id, float(rng.random() < (0.8 if decision.label == i % 2 else 0.3))))
            if len(waiting) > 20:
                late, reward = waiting.pop(int(rng.integers(20)))
                learner.feedback(late, reward=reward)
                learned.append(reward)
        assert learner.changes["born"] == 0
        assert 50 < error <= theory.gate_error(softmax_error=gate[OF_SOFTMAX], pointwise_error=gate[OF_POINTWISE])
        assert gate[OF_POINTWISE] > error / 2


class TestProof:
    """Every line of the proof of Theorem R11, on its own."""

    ERRORS = st.floats(-1, 1)

    @staticmethod
    def mix(share, u, v):
        return -0.5 * log(share * exp(-2 * u * u) + (1 - share) * exp(-2 * v * v))

    @given(st.floats(0, 1), ERRORS, ERRORS)
    def test_a_mean_forecast_errs_little_more_than_the_mixed_one(self, share, u, v):
        assert 0.847 * (share * u + (1 - share) * v) ** 2 <= self.mix(share, u, v) + 1e-12

    @given(st.floats(0, 1), ERRORS, ERRORS)
    def test_a_mean_error_is_at_most_2_314_times_the_mixed_one(self, share, u, v):
        assert share * u * u + (1 - share) * v * v <= 2.314 * self.mix(share, u, v) + 1e-12

    def test_the_factor_is_the_largest_that_the_concave_hull_allows(self):
        """The hull of exp(-2 x^2) on [0, 1]: the function up to x0, then the line that touches it and ends at 1."""
        low, high = 0.1, 0.5
        for _ in range(60):  # 1 - 2 x0 = exp(x0^2 - 1)
            x0 = (low + high) / 2
            low, high = (x0, high) if 1 - 2 * x0 > exp(x0**2 - 1) else (low, x0)
        x = np.linspace(x0, 1, 100_001)
        hull = exp(-2 * x0**2) * (1 - 4 * x0 * (x - x0))
        assert hull[-1] == pytest.approx(exp(-2))
        factors = -np.log(hull) / (2 * x**2)
        assert 0.8473 < factors.min() < 0.8474
        assert 0.73 < x[factors.argmin()] < 0.735

    @given(st.floats(0, 50), st.floats(0, 50), st.floats(0, 20), st.floats(0, 5))
    def test_a_guard_that_grows_costs_at_most_half_its_growth(self, a, b, guard, growth):
        def potential(s):
            return -0.5 * np.logaddexp(s - 2 * a, -2 * b)

        assert -1e-9 <= potential(guard) - potential(guard + growth) <= growth / 2 + 1e-9


def paths(mean, length):
    """Yield the chances of 0, ..., n rewards among n answers, for n up to the length."""
    chances = np.array([1.0])
    for _ in range(length):
        yield chances
        chances = np.append(chances * (1 - mean), 0) + np.append(0, chances * mean)


def errors(k, n, forecast):
    """Return the squared errors of a forecast that does not change, after k rewards of 1 among n answers."""
    return k * (1 - forecast) ** 2 + (n - k) * forecast**2


def shares(n, of_softmax, of_pointwise):
    """Return how likely the softmax part plays after 0, ..., n rewards among n answers."""
    k = np.arange(n + 1)
    a, b = errors(k, n, of_softmax), errors(k, n, of_pointwise)
    return np.exp(-np.logaddexp(0, -np.sqrt(1 + b) - 2 * (b - a)))


class TestTrueForecasts:
    @pytest.mark.parametrize(("of_softmax", "of_pointwise"), [(0.2, 0.5), (0.5, 0.2), (0.4, 0.4)])
    def test_the_gate_is_the_one_of_the_kernel(self, of_softmax, of_pointwise):
        for k, share in enumerate(shares(40, of_softmax, of_pointwise)):
            gate = np.array([errors(k, 40, of_softmax), errors(k, 40, of_pointwise), 0.0])
            assert trust_(gate) == pytest.approx(share, rel=1e-9)

    @given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
    def test_no_forecast_is_expected_to_gain_on_a_true_one(self, mean, other, power):
        """With the whole power nothing is gained; with half of it the square of the gap is lost."""
        gains = [exp(2 * power * ((r - mean) ** 2 - (r - other) ** 2)) for r in (0.0, 1.0)]
        expected = mean * gains[1] + (1 - mean) * gains[0]
        assert expected <= exp(-2 * power * (1 - power) * (other - mean) ** 2) + 1e-12

    def test_two_is_the_largest_factor_of_the_gate_for_which_that_is_so(self):
        for factor, gains in ((2.0, False), (2.01, True)):
            expected = np.mean([exp(factor * ((r - 0.5) ** 2 - (r - 0.51) ** 2)) for r in (0.0, 1.0)])
            assert (expected > 1) == gains

    @pytest.mark.parametrize(("mean", "gap"), [(0.02, 0.3), (0.5, 0.3), (0.9, -0.3), (0.5, 0.1)])
    @pytest.mark.parametrize("waiting", [0, 30])
    def test_the_worse_part_plays_no_longer_than_theorem_r12_says(self, mean, gap, waiting):
        rounds = {True: 0.0, False: 0.0}
        for n, chances in enumerate(paths(mean, 300)):
            times = 1 + waiting if n == 0 else 1  # the first answer comes when `waiting` more rounds were played
            rounds[True] += times * (chances @ (1 - shares(n, mean, mean + gap)))
            rounds[False] += times * (chances @ shares(n, mean + gap, mean))
        for softmax_is_true, played in rounds.items():
            bound = theory.gate_rounds(forecast_gap=abs(gap), max_outstanding=waiting, softmax_is_true=softmax_is_true)
            assert 0.2 * waiting < played <= bound

    @pytest.mark.parametrize(
        ("mean", "gap", "waiting", "of_pointwise", "of_softmax"),
        [
            (0.5, 0.3, 0, 2.6, 20.9),
            (0.5, 0.3, 100, 29.5, 94.0),
            (0.5, 0.1, 0, 5.1, 714.0),
            (0.5, 0.1, 100, 32.0, 787.1),
            (0.02, 0.1, 0, 10.5, 106.0),
        ],
    )
    def test_the_exact_rounds_of_the_page(self, mean, gap, waiting, of_pointwise, of_softmax):
        rounds = np.zeros(2)
        for n, chances in enumerate(paths(mean, 2500)):
            played = chances @ (1 - shares(n, mean, mean + gap)), chances @ shares(n, mean + gap, mean)
            rounds += np.array(played) * (1 + waiting if n == 0 else 1)
        assert rounds == pytest.approx([of_pointwise, of_softmax], abs=0.06)

    @pytest.mark.parametrize(("mean", "gap"), [(0.5, 0.2), (0.1, 0.1), (0.9, -0.1)])
    @pytest.mark.parametrize("least", [4.0, 20.0])
    def test_a_true_softmax_is_hardly_ever_left(self, mean, gap, least):
        """The chance that the gate ever prefers the other part once that has erred by `least`, over 400 answers."""
        chances = np.array([1.0])
        left = 0.0
        for n in range(1, 401):
            chances = np.append(chances * (1 - mean), 0) + np.append(0, chances * mean)
            k = np.arange(n + 1)
            a, b = errors(k, n, mean), errors(k, n, mean + gap)
            leaving = (b >= least) & (np.sqrt(1 + b) + 2 * (b - a) < 0)
            left += chances[leaving].sum()
            chances[leaving] = 0
        assert 0 < left <= exp(-sqrt(1 + least))

    def test_numbers_outside_their_range_are_refused(self):
        with pytest.raises(InvalidInput, match="softmax_is_true must be True or False"):
            theory.gate_rounds(forecast_gap=0.1, max_outstanding=0, softmax_is_true="yes")
        with pytest.raises(InvalidInput, match=r"forecast_gap must be in \(0, 1\], got 0"):
            theory.gate_rounds(forecast_gap=0, max_outstanding=0, softmax_is_true=True)
        with pytest.raises(InvalidInput, match="pointwise_error must be at least 0, got -1"):
            theory.gate_error(softmax_error=0, pointwise_error=-1)
