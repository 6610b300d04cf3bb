"""The alarm and the contest of two models: Theorems R13 and R14, with the kernels that bet and judge."""

from math import exp, log
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.compiler.kernel import interpreted
from delaytron.kernels import drift
from delaytron.kernels.drift import AT_BLOCK, COUNT, LEAD, NOW, OF_BLOCK, REWARDS, ROUND, START, WEALTH, WINS

judge, bet = interpreted(drift.judge), interpreted(drift.bet)
POWER = 0.8926
CLIP, WINNING, PROOF = 2.5, 10.0, log(1e16)
CHANCES = st.floats(0.02, 0.98)


def hull(wealth):
    """The least concave function above (wealth clipped to exp(-2.5) .. exp(2.5)) ** POWER."""
    touch = (exp(-CLIP * POWER) / (1 - POWER)) ** (1 / POWER)
    if wealth <= touch:
        return exp(-CLIP * POWER) + wealth * (touch**POWER - exp(-CLIP * POWER)) / touch
    return min(wealth, exp(CLIP)) ** POWER


class TestContest:
    """Theorem R13: a challenger wins against a true model with a probability of at most exp(-8.926)."""

    def test_the_hull_is_one_where_a_block_begins_and_above_every_clipped_wealth(self):
        assert hull(1.0) == 1.0
        for wealth in np.exp(np.linspace(-9, 9, 1801)):
            assert hull(wealth) >= np.clip(wealth, exp(-CLIP), exp(CLIP)) ** POWER - 1e-12
        values = np.array([hull(wealth) for wealth in np.linspace(0, 15, 3001)])
        assert (np.diff(values, 2) <= 1e-9).all()
        assert (np.diff(values) >= -1e-12).all()

    def test_no_larger_power_has_such_a_hull(self):
        assert exp(-CLIP * POWER) <= 1 - POWER
        assert exp(-CLIP * (POWER + 1e-4)) > 1 - (POWER + 1e-4)
        assert exp(-POWER * WINNING) < 1.33e-4

    @pytest.mark.parametrize("age", [0, 100])  # of the block, which ends, or not
    @given(p=CHANCES, q=CHANCES, before=st.floats(-39, 7))
    def test_no_answer_raises_the_hull_of_the_lead_on_average(self, age, p, q, before):
        """Of the lead that `judge` keeps; a mean of p is reached by rewards of 0 and 1, or by p itself."""

        def potential(lead, block):
            return exp(POWER * lead) * hull(exp(block))

        def after(reward):
            state = SimpleNamespace(watch=np.zeros(8), roles=np.array([0, 1, 1, 0, 0]))
            state.watch[[LEAD, OF_BLOCK, NOW, ROUND]] = before, of_block, 1000.0, 1000.0 - age
            judge(state, reward, p, q)
            if state.roles[WINS]:
                return exp(POWER * WINNING)
            return potential(state.watch[LEAD], state.watch[OF_BLOCK])

        for of_block in np.linspace(-6, 6, 49):
            now = potential(before, of_block) * (1 + 1e-9)
            assert p * after(1.0) + (1 - p) * after(0.0) <= now
            assert after(p) <= now

    @pytest.mark.parametrize(("p", "q"), [(0.75, 0.98), (0.5, 0.9), (0.3, 0.4), (0.9, 0.02)])
    def test_the_exact_chance_to_win_is_below_theorem_r13(self, p, q):
        """Blocks of one answer, a player whose forecast is true: a random walk with two clipped steps."""
        up, down = (float(np.clip(log(gain), -CLIP, CLIP)) for gain in (q / p, (1 - q) / (1 - p)))
        chances = np.array([1.0])
        won = 0.0
        for n in range(1, 600):
            chances = np.append(chances * (1 - p), 0) + np.append(0, chances * p)
            lead = np.arange(n + 1) * up + np.arange(n, -1, -1) * down
            won += chances[lead > WINNING].sum()
            chances[(lead > WINNING) | (lead < -40)] = 0
        assert 0 < won <= exp(-POWER * WINNING)

    def test_a_better_challenger_wins_in_the_end(self):
        state = SimpleNamespace(watch=np.zeros(8), roles=np.array([0, 1, 1, 0, 0]))
        for now in range(1, 3000):
            state.watch[NOW] = now
            judge(state, float(now % 3 == 0), 0.5, 0.33)
            if state.roles[WINS]:
                break
        assert state.roles[WINS] == 1


class TestAlarm:
    """Theorem R14: how likely a false alarm is."""

    def wealth_after(self, reward, label_rewards, count, wealth, cap):
        state = SimpleNamespace(
            watch=np.zeros(8), wealth=np.zeros((48, 2)), records=np.zeros((2, 48, 2)), roles=np.zeros(5, np.int64)
        )
        state.watch[[NOW, START, drift.BLOCK]] = 100.0, 0.0, 100.0
        state.wealth[1, [WEALTH, AT_BLOCK]] = wealth, cap
        state.records[1, 1, [COUNT, REWARDS]] = count, label_rewards
        bet(state, 99, 1, reward)
        return state.wealth[1, WEALTH]

    @given(
        share=st.floats(0, 1),
        count=st.integers(100, 10_000),
        wealth=st.floats(-5, 30),
        cap=st.floats(-5, 40),
        more=st.floats(0, 1),
    )
    def test_a_bet_is_fair_if_the_baseline_is_not_above_the_mean(self, share, count, wealth, cap, more):
        baseline = min(0.9, share)
        mean = baseline + more * (1 - baseline)
        won, lost = (exp(self.wealth_after(r, share * count, count, wealth, cap)) for r in (1.0, 0.0))
        start = exp(max(0.0, wealth))
        assert mean * won + (1 - mean) * lost <= start * (1 + 1e-9)
        assert exp(self.wealth_after(mean, share * count, count, wealth, cap)) <= start * (1 + 1e-9)

    @given(share=st.floats(0, 1), count=st.integers(100, 10_000), wealth=st.floats(-5, 30), cap=st.floats(-5, 40))
    def test_its_root_is_fair_if_the_baseline_is_at_most_9_5_percent_above_the_mean(self, share, count, wealth, cap):
        mean = min(0.9, share) / 1.095
        won, lost = (exp(self.wealth_after(r, share * count, count, wealth, cap) / 2) for r in (1.0, 0.0))
        assert mean * won + (1 - mean) * lost <= exp(max(0.0, wealth) / 2) * (1 + 1e-9)

    def test_at_a_baseline_of_nine_tenths_it_cannot_be_more(self):
        means = {excess: 0.9 / (1 + excess) for excess in (0.095, 0.097)}
        roots = {excess: mean * 0.5**0.5 + (1 - mean) * 5.5**0.5 for excess, mean in means.items()}
        assert roots[0.095] <= 1 < roots[0.097]

    @pytest.mark.parametrize("mean", [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
    @pytest.mark.parametrize(("most", "limit"), [(1000, 6e-11), (5000, 2e-9)])
    def test_an_estimated_baseline_of_one_label_hardly_ever_alarms(self, mean, most, limit):
        """By recursion over the number of rewards: the mean wealth of all bets, whenever they begin, added up."""
        k = np.arange(most + 1)
        chances = np.zeros(most + 1)
        chances[0] = 1.0
        wealths = np.zeros(most + 1)
        alarmed = 0.0
        for n in range(most):
            if n >= 100:
                q = np.minimum(0.9, k / n)
                begun = wealths + chances
                wealths = begun * (1 - mean) * (1 - q / 2) / (1 - q) + np.append(0, begun[:-1] * mean / 2)
                alarmed += wealths.sum() * exp(-PROOF)
            chances = chances * (1 - mean) + np.append(0, chances[:-1] * mean)
        assert chances.sum() == pytest.approx(1)
        assert 0 < alarmed < limit
