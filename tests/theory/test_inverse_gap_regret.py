"""Exploration by inverse gaps with late answers: Theorem R8, with expectations that are sums and not means of runs."""

from itertools import product
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron import theory
from delaytron.errors import InvalidInput
from theory_gaps import entropy


class World:
    """A small problem with N models of K labels in T rounds, one of them true, and delays; a pool of Bayes mixtures."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.K = int(rng.integers(2, 4))
        self.T = 5 if self.K == 2 else 4
        self.N = int(rng.integers(2, 5))
        self.models = rng.beta(0.5, 0.5, (self.N, self.T, self.K)).clip(0.01, 0.99)
        self.truth = self.models[0]
        self.delays = np.ones(self.T, int) if seed % 4 == 0 else rng.integers(1, self.T + 2, self.T)
        self.G = theory.measure(self.delays).max_outstanding
        self.gammas = np.sort(2 * self.K * 10 ** rng.uniform(0, 2, self.T))  # it may grow

    def free_copy(self, past):
        """Return the first copy all of whose rounds are answered."""
        t = len(past)
        waiting = {copy for s, (copy, _, _) in enumerate(past) if s + self.delays[s] > t}
        return min(set(range(self.T)) - waiting)

    def predict(self, past, copy):
        """Return the losses that a copy predicts, of the answers to its own rounds."""
        t = len(past)
        weights = np.ones(self.N)
        for s, (owner, label, error) in enumerate(past):
            if owner == copy:
                weights *= self.likelihoods(s, label, error)
        return weights @ self.models[:, t] / weights.sum()

    def likelihoods(self, t, label, error):
        return self.models[:, t, label] if error else 1 - self.models[:, t, label]

    def visit(self, past=(), chance=1.0, log_regret=0.0):
        """Yield all moments that may come, with their chance, what is predicted then, and the log regret so far."""
        t = len(past)
        if t == self.T:
            yield past, chance, None, log_regret
            return
        copy = self.free_copy(past)
        predicted = self.predict(past, copy)
        P = theory.inverse_gap_chances(predicted, self.gammas[t])
        yield past, chance, (predicted, P), log_regret
        for label, error in product(range(self.K), (False, True)):
            true = self.truth[t, label]
            odds = true if error else 1 - true
            chosen = predicted[label] if error else 1 - predicted[label]
            more = ((*past, (copy, label, error)), chance * P[label] * odds, log_regret + log(odds / chosen))
            yield from self.visit(*more)


worlds = pytest.mark.parametrize("world", [World(seed) for seed in range(16)], ids=lambda w: f"K{w.K}N{w.N}G{w.G}")


class TestLateAnswers:
    """Exact expectations: all sequences of plays and answers, each with its probability."""

    @worlds
    def test_the_pool_has_the_log_regret_of_the_bound_on_every_path(self, world):
        bound = theory.pooled_log_regret(n_models=world.N, max_outstanding=world.G)
        ends = [(chance, regret) for past, chance, _, regret in world.visit() if len(past) == world.T]
        assert sum(chance for chance, _ in ends) == pytest.approx(1)
        assert max(regret for _, regret in ends) <= bound + 1e-12

    @worlds
    def test_the_pool_needs_one_copy_more_than_rounds_are_outstanding(self, world):
        copies = [copy for past, _, _, _ in world.visit() for copy, _, _ in past]
        assert max(copies) <= world.G

    @worlds
    def test_expected_log_regret_is_the_sum_of_relative_entropies(self, world):
        entropies = 0.0
        regret = 0.0
        for past, chance, moment, so_far in world.visit():
            if moment is None:
                regret += chance * so_far
            else:
                predicted, P = moment
                entropies += chance * (P @ entropy(world.truth[len(past)], predicted))
        assert entropies == pytest.approx(regret, abs=1e-12)

    @worlds
    def test_theorem_r8_holds_with_a_gamma_that_grows(self, world):
        K = world.K
        regret = 0.0
        explored = 0.0
        log_regret = 0.0
        for past, chance, moment, so_far in world.visit():
            if moment is None:
                log_regret += chance * so_far
                continue
            true = world.truth[len(past)]
            regret += chance * (moment[1] @ true - true.min())
            explored += chance * 3 * K / world.gammas[len(past)] * (moment[1] @ true)
        c = 9 / 8 * (1 + 5 / (4 * K))
        assert regret <= explored + c * world.gammas[-1] * log_regret + 1e-12

    @pytest.mark.parametrize("G", [0, 1, 4])
    @pytest.mark.parametrize("bits", [1, 3])
    def test_no_forecaster_has_less_log_regret_than_the_pool_for_all_models(self, bits, G):
        """G + 1 rounds ask for one bit of the model, and are answered together, so that no prediction knows it."""
        loss = 0.0
        models = np.array(list(product((0, 1), repeat=bits)))
        for j in range(bits):
            possible = models[(models[:, :j] == models[0, :j]).all(axis=1)]  # all that the answers have left
            share = possible[:, j].mean()
            loss += (G + 1) * -(share * log(share) + (1 - share) * log(1 - share))  # of the best forecast there is
        bound = theory.pooled_log_regret(n_models=2**bits, max_outstanding=G)
        delays = [G + 1 - i for _ in range(bits) for i in range(G + 1)]
        assert theory.measure(delays).max_outstanding == G
        assert loss == pytest.approx(bound)


FAR = 60  # steps of the odds: the lesser model has a weight below 1e-21 then


def expected_regret(K, low, T, G, gamma):
    """Return the exact regret of a pool of G + 1 Bayes mixtures of two models, all answers coming every G + 1 rounds.

    Model 0 says that label 0 errs with the chance `low` and label 1 with 1 - low, model 1 the reverse; all other labels
    always err. An answer to label 0 or 1 then moves the odds by one step, so how many steps is all there is to know.
    """
    truth = np.array([low, 1 - low] + [1.0] * (K - 2))
    weights = 1 / (1 + (low / (1 - low)) ** np.arange(-FAR, FAR + 1.0))
    other = truth[[1, 0, *range(2, K)]]
    P = np.array([theory.inverse_gap_chances(w * truth + (1 - w) * other, gamma) for w in weights])
    losses = P @ truth - low
    tries = P[:, 0] + P[:, 1]
    chance = np.zeros(2 * FAR + 1)
    chance[FAR] = 1.0
    regret = 0.0
    for _ in range(T // (G + 1)):
        regret += chance @ losses
        up = (chance * tries * (1 - low))[:-1]
        down = (chance * tries * low)[1:]
        chance[:-1] -= up
        chance[1:] += up - down
        chance[:-1] += down
    assert chance.sum() == pytest.approx(1)
    return (G + 1) * regret


class TestTheorem:
    @pytest.mark.parametrize(
        ("K", "low", "G", "regret", "bound"),
        [
            (2, 0.05, 0, 13.9, 190.3),
            (2, 0.05, 4, 29.5, 473.3),
            (2, 0.05, 24, 61.2, 1331.4),
            (5, 0.02, 0, 17.4, 185.0),
            (5, 0.02, 4, 32.9, 518.2),
            (5, 0.02, 24, 58.5, 1789.0),
        ],
    )
    def test_exact_regret_is_below_theorem_r8_and_that_is_below_chance(self, K, low, G, regret, bound):
        T = 20_000
        problem = {"n_classes": K, "best_loss": low * T}
        problem["log_regret"] = theory.pooled_log_regret(n_models=2, max_outstanding=G)
        gamma = theory.inverse_gap_sharpness(**problem)
        uniform = T * ((1 + (K - 2)) / K - low)
        assert expected_regret(K, low, T, G, gamma) == pytest.approx(regret, abs=0.05)
        assert theory.inverse_gap_regret(**problem) == pytest.approx(bound, abs=0.05)
        assert regret <= bound < uniform
        for sharper in (4 * K, 100.0 * K):
            assert expected_regret(K, low, T, G, sharper) <= theory.inverse_gap_regret(**problem, sharpness=sharper)

    @given(K=st.integers(2, 100), late=st.floats(0.1, 1e4), best=st.floats(0, 1e6))
    def test_the_best_gamma_is_where_the_bound_is_least(self, K, late, best):
        problem = {"n_classes": K, "log_regret": late, "best_loss": best}
        gamma = theory.inverse_gap_sharpness(**problem)
        least = theory.inverse_gap_regret(**problem)
        assert theory.inverse_gap_regret(**problem, sharpness=gamma) == pytest.approx(least, rel=1e-9)
        for factor in (0.9, 0.99, 1.01, 2):
            if factor * gamma > 3 * K:
                assert theory.inverse_gap_regret(**problem, sharpness=factor * gamma) >= least * (1 - 1e-12)

    def test_a_gamma_up_to_3_k_is_refused(self):
        with pytest.raises(InvalidInput, match="sharpness must be above 3 n_classes for Theorem R8, got 6"):
            theory.inverse_gap_regret(n_classes=2, log_regret=1, best_loss=1, sharpness=[7, 6])

    @pytest.mark.parametrize(("K", "T", "G"), [(2, 100, 0), (10, 5000, 99), (200, 20_000, 2500)])
    def test_the_gamma_of_the_learner_explores_no_more_than_corollary_r10_says(self, K, T, G):
        answers = np.maximum(0, np.arange(T) - G)
        gammas = np.maximum(1000, 4 * np.sqrt(answers * K))
        whole = theory.growing_gap_regret(n_classes=K, n_rounds=T, max_outstanding=G, log_regret=0)
        c = 9 / 8 * (1 + 5 / (4 * K))
        bound = whole - K * (2 * K * log(K) + 1) - c * max(1000, 4 * sqrt(K * T)) * 1e-6 * T
        assert (3 * K / gammas).sum() <= bound
        assert gammas.max() <= max(1000, 4 * sqrt(K * T))


def wrong_answer_loss(scores, label):
    """Return -ln(1 - p): the loss of the logit when `label` was wrong."""
    chances = np.exp(scores) / np.exp(scores).sum()
    return -log(1 - chances[label])


class TestNotCovered:
    def test_the_loss_of_a_wrong_answer_is_not_convex_with_three_classes(self):
        left = wrong_answer_loss(np.array([0, log(9), 0]), 0)
        right = wrong_answer_loss(np.array([0, 0, log(9)]), 0)
        middle = wrong_answer_loss(np.array([0, log(9) / 2, log(9) / 2]), 0)
        assert left == pytest.approx(log(11 / 10))
        assert right == pytest.approx(left)
        assert middle == pytest.approx(log(7 / 6))
        assert middle > 1.6 * left

    @given(st.lists(st.floats(-5, 5), min_size=4, max_size=4))
    def test_it_is_convex_with_two(self, scores):
        a, b = np.array(scores).reshape(2, 2)
        assert wrong_answer_loss((a + b) / 2, 0) <= (wrong_answer_loss(a, 0) + wrong_answer_loss(b, 0)) / 2 + 1e-12
