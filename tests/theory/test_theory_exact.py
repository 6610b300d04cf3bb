"""Expectations without chance: all K^T sequences of plays, each with its probability."""

import numpy as np
import pytest

from delaytron import theory
from theory_streams import (
    all_plays,
    follow,
    hinge_estimate,
    hinge_loss,
    inner,
    losses,
    outstanding_pairs,
    perceptron_estimate,
)

GRID = [(K, gamma) for K in (2, 3, 9) for gamma in (0.014, 0.3, 0.49, 1.0)]


class Instance:
    """A small random problem; every fourth has no delay at all."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.K = int(rng.integers(2, 4))
        T = self.T = int(rng.integers(3, 8 if self.K == 2 else 6))
        self.X = rng.normal(size=(T, int(rng.integers(1, 4))))
        self.y = rng.integers(0, self.K, T)
        self.delays = np.ones(T, int) if seed % 4 == 0 else rng.integers(1, T + 2, T)
        self.gamma = float(rng.choice([0.05, 0.3, 0.49, 1.0]))
        fitting = (np.eye(self.K)[self.y] - 1 / self.K).T @ self.X  # a comparator that has something to say
        self.W = (fitting + 0.3 * rng.normal(size=fitting.shape)) * rng.choice([0.03, 0.3, 1.0])
        self.eta = float(rng.choice([0.1, 1.0, 3.0]))
        self.norm = float(np.linalg.norm(self.W))
        self.radius = float(np.linalg.norm(self.X, axis=1).max())
        self.run = theory.measure(self.delays)
        self.comparator = losses(self.W, self.X, self.y)

    @property
    def problem(self):
        return {
            "norm": self.norm,
            "n_classes": self.K,
            "gamma": self.gamma,
            "radius": self.radius,
            "n_rounds": self.T,
        }

    def all_runs(self, etas=None, **settings):
        etas = np.full(self.T, self.eta) if etas is None else etas
        return follow(self.X, self.y, self.delays, all_plays(self.K, self.T), self.K, self.gamma, etas, **settings)

    def regret(self, runs, kind, rounds=slice(None)):
        return runs.chance @ (getattr(runs, kind) - self.comparator)[:, rounds].sum(1)


instances = pytest.mark.parametrize(
    "case", [Instance(seed) for seed in range(32)], ids=lambda case: f"T{case.T}K{case.K}"
)


def all_labels(K, gamma, greedy, y, estimate):
    """Return U~ for a row of norm 1 and each label that may be drawn, their chances, and U."""
    rng = np.random.default_rng(K)
    x = rng.normal(size=4)
    scores = np.tile(0.5 * (np.arange(K) == greedy), (K, 1))
    P = (1 - gamma) * (np.arange(K) == greedy) + gamma / K
    U_hat, U = estimate(scores, x / np.linalg.norm(x), y, np.arange(K), P)
    return U_hat, P, U[0]


@pytest.mark.parametrize("estimate", [perceptron_estimate, hinge_estimate])
@pytest.mark.parametrize("greedy", [0, 1])
@pytest.mark.parametrize(("K", "gamma"), GRID)
def test_the_estimate_is_unbiased_and_has_the_stated_moments(K, gamma, greedy, estimate):
    U_hat, P, U = all_labels(K, gamma, greedy, 0, estimate)
    np.testing.assert_allclose(np.tensordot(P, U_hat, 1), U, atol=1e-13)
    length = np.sqrt(inner(U_hat, U_hat))
    terms = {"n_classes": K, "gamma": gamma, "greedy_right": greedy == 0, "hinge": estimate is hinge_estimate}
    assert P @ length**2 == pytest.approx(theory.second_moment(**terms), rel=1e-12)
    assert P @ length == pytest.approx(theory.first_moment(**terms), rel=1e-12)


@instances
def test_lemma_a_holds_on_every_path(case):
    runs = case.all_runs()
    for t in range(case.T):
        gap = inner(runs.weights[t] - case.W, runs.means[t])
        assert (gap <= case.comparator[t] - runs.gated[:, t] + 1e-12).all()


@pytest.mark.parametrize("estimate", [perceptron_estimate, hinge_estimate])
@instances
def test_lemma_b_is_an_equality_for_pairs_that_overlap(case, estimate):
    runs = case.all_runs(estimate=estimate)
    for q, t in outstanding_pairs(case.delays):
        drawn = runs.chance @ inner(runs.estimates[t], runs.estimates[q])
        mean = runs.chance @ inner(runs.means[t], runs.means[q])
        assert drawn == pytest.approx(mean, abs=1e-12)
        assert mean <= 2 * case.radius**2


def test_lemma_b_is_false_for_pairs_that_do_not_overlap():
    """Round 2 is wrong only if round 1 drew a wrong label, whose estimate then has nothing in common with round 2."""
    runs = follow(np.ones((2, 1)), [2, 2], [1, 1], all_plays(3, 2), 3, 0.5, np.ones(2))
    assert runs.chance @ inner(runs.estimates[1], runs.estimates[0]) == pytest.approx(0, abs=1e-12)
    assert runs.chance @ inner(runs.means[1], runs.means[0]) == pytest.approx(1 - 0.5 / 3)


@instances
def test_the_proof_of_r1_is_an_identity_until_its_last_step(case):
    runs = case.all_runs()
    ghost = case.eta * sum(runs.estimates)
    linear = sum(inner(U, case.W - W) for U, W in zip(runs.means, runs.weights, strict=True))
    start = (case.norm**2 - inner(ghost - case.W, ghost - case.W)) / (2 * case.eta)
    lengths = case.eta / 2 * sum(inner(U, U) for U in runs.estimates)
    pairs = outstanding_pairs(case.delays)
    overlap = case.eta * sum((inner(runs.means[t], runs.means[q]) for q, t in pairs), np.zeros(len(ghost)))
    assert runs.chance @ linear == pytest.approx(runs.chance @ (start + lengths + overlap), abs=1e-10)
    assert len(pairs) == case.run.outstanding
    assert runs.chance @ lengths <= case.eta * case.radius**2 * (1 + case.K / case.gamma) * case.T / 2


@instances
def test_the_chances_of_all_plays_add_up_to_one(case):
    assert case.all_runs().chance.sum() == pytest.approx(1, abs=1e-12)


@instances
@pytest.mark.parametrize("tuned", [False, True])
def test_theorem_r1_holds(case, tuned):
    terms = case.problem | {"outstanding": case.run.outstanding}
    eta = theory.theorem_r1_eta(**terms) if tuned else case.eta
    assert case.regret(case.all_runs(np.full(case.T, eta)), "gated") <= theory.theorem_r1(**terms, eta=eta)


@instances
@pytest.mark.parametrize("tuned", [False, True])
def test_theorem_r4_holds(case, tuned):
    terms = case.problem | {"outstanding": case.run.outstanding}
    eta = theory.theorem_r4_eta(**terms) if tuned else case.eta
    runs = case.all_runs(np.full(case.T, eta), estimate=hinge_estimate)
    assert case.regret(runs, "hinge") <= theory.theorem_r4(**terms, eta=eta)


@instances
@pytest.mark.parametrize("estimate", [perceptron_estimate, hinge_estimate])
def test_theorem_r5_holds(case, estimate):
    hinge, budget = estimate is hinge_estimate, case.eta
    per_round = case.K / case.gamma if hinge else (1 + case.K / case.gamma) / 2
    beta = np.cumsum(per_round + 2 * theory.outstanding(case.delays))
    radii = np.maximum.accumulate(np.linalg.norm(case.X, axis=1))
    runs = case.all_runs(budget / (2 * radii * np.sqrt(beta)), estimate=estimate)
    limit = theory.theorem_r5(**case.problem, outstanding=case.run.outstanding, budget=budget, hinge=hinge)
    assert case.regret(runs, "hinge" if hinge else "gated") <= limit


@instances
def test_theorem_r6_holds_and_with_it_theorem_4(case):
    epochs = theory.epochs(case.delays)
    starts = set(np.flatnonzero(np.diff(epochs, prepend=0)).tolist())
    runs = case.all_runs(2.0 ** (-epochs / 2), restarts=starts)
    repaired = theory.theorem_r6(**case.problem, outstanding=case.run.outstanding)
    assert case.regret(runs, "gated") <= repaired
    assert repaired <= theory.theorem_4(**case.problem, total_delay=case.run.total_delay, loss_bound=0) / 2


@instances
def test_mistakes_are_below_r2_and_r3_and_played_ones_follow(case):
    runs = case.all_runs()
    greedy = runs.chance @ (runs.greedy != case.y).sum(1)
    played = runs.chance @ (all_plays(case.K, case.T) != case.y).sum(1)
    terms = {"n_classes": case.K, "gamma": case.gamma, "n_rounds": case.T}
    assert played == pytest.approx(theory.played_mistakes(greedy_mistakes=greedy, **terms), abs=1e-12)
    terms = case.problem | {"comparator_loss": case.comparator.sum()}
    assert greedy <= theory.corollary_r2(**terms, outstanding=case.run.outstanding)
    if case.gamma <= 0.5:
        assert greedy <= theory.corollary_r3(**terms, max_outstanding=case.run.max_outstanding)


@instances
def test_theorems_1_2_and_3_hold_for_the_gated_hinge(case):
    answered = ~theory.missing(case.delays)
    runs = case.all_runs()
    terms = case.problem | {"delay_received": case.run.delay_received, "eta": case.eta}
    assert case.regret(runs, "gated", answered) <= theory.theorem_1(**terms)
    largest = runs.hinge[:, ~answered].max()
    regret = case.regret(runs, "gated")
    assert regret <= theory.theorem_2(**terms, missing=case.run.missing, loss_bound=largest)
    assert regret <= theory.theorem_3(**terms, missing=case.run.missing)


@pytest.mark.parametrize(("bound", "slack"), [(theory.theorem_r1, 1), (theory.theorem_r4, 2)])
@pytest.mark.parametrize("T", [1, 5, 50])
def test_the_factor_of_the_outstanding_rounds_cannot_be_smaller(T, bound, slack):
    """With no answer at all every loss is 1, and W = (-w, w) has the loss 1 - 2 w."""
    W = np.array([[-0.4], [0.4]])
    regret = T * (1 - hinge_loss(W, np.ones(1), 1))
    terms = {"norm": np.linalg.norm(W), "n_classes": 2, "gamma": 1, "radius": 1, "n_rounds": T}
    limit = bound(**terms, outstanding=theory.outstanding(np.full(T, T)).sum())
    assert limit / regret == pytest.approx(np.sqrt(1 + slack / (2 * T)), rel=1e-12)
