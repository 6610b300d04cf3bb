"""The package's learners against the bounds: where the published ones hold, and where the literal statement fails."""

import numpy as np
import pytest

import delaytron as dt
from delaytron import theory
from theory_streams import best_comparator, follow, hinge_estimate, losses, perceptron_estimate

K, T, GAMMA = 4, 300, 0.2
RUNS = 60


def played(learner, X, y, delays, seeds):
    """Return the runs of a learner, one per seed."""
    draws = [np.random.default_rng(seed).random(len(y)) for seed in seeds]
    return [dt.replay(learner, X, y, delays, draw) for draw in draws]


def followed(runs, X, y, delays, n_classes, gamma, etas, estimate=perceptron_estimate):
    """Return the weights of every round, and assert that the learner had the same greedy labels and probabilities."""
    labels = np.array([run.labels for run in runs])
    found = follow(X, y, delays, labels, n_classes, gamma, etas, estimate)
    assert np.array_equal(found.greedy, [run.greedy for run in runs])
    probs = (1 - gamma) * (found.greedy == labels) + gamma / n_classes
    np.testing.assert_allclose([run.probs for run in runs], probs, rtol=1e-12)
    return found


def mean_and_error(regrets):
    return regrets.mean(), regrets.std(ddof=1) / np.sqrt(len(regrets))


class Trap:
    """One class only, K = 2: the greedy label is right from the first round, and so nothing pushes the margin up."""

    gamma, comparator = 0.49, np.array([[0.5], [-0.5]])

    def __init__(self, n_rounds, seeds=range(20)):
        self.X, self.y = np.ones((n_rounds, 1)), np.zeros(n_rounds, int)
        self.delays = np.ones(n_rounds, int)
        self.problem = {
            "norm": np.linalg.norm(self.comparator),
            "n_classes": 2,
            "gamma": self.gamma,
            "radius": 1,
            "n_rounds": n_rounds,
        }
        self.eta = theory.case_1_eta(**self.problem, tight=True)
        learner = dt.Delaytron(n_classes=2, n_features=1, gamma=self.gamma, eta=self.eta)
        self.runs = played(learner, self.X, self.y, self.delays, seeds)

    def measured(self):
        etas = np.full(len(self.y), self.eta)
        return followed(self.runs, self.X, self.y, self.delays, 2, self.gamma, etas)


@pytest.mark.parametrize(
    ("n_rounds", "hinge", "gated", "wrong", "published", "repaired"),
    [
        (100, 93.1, 3.02, 3.00, 31.9, 19.9),
        (1000, 944.4, 8.42, 8.40, 101.0, 63.1),
        (10_000, 9572.4, 24.77, 24.75, 319.4, 199.5),
    ],
)
def test_hinge_regret_is_far_above_theorem_1_and_gated_regret_below_it(
    n_rounds, hinge, gated, wrong, published, repaired
):
    trap = Trap(n_rounds)
    assert losses(trap.comparator, trap.X[:1], trap.y[:1]).sum() == 0  # so all loss is regret
    assert trap.eta == pytest.approx(np.sqrt(trap.gamma / (20 * n_rounds)), rel=1e-12)
    run = theory.measure(trap.delays)
    as_published = theory.theorem_1(**trap.problem, delay_received=n_rounds, eta=trap.eta)
    as_repaired = theory.theorem_r1(**trap.problem, outstanding=run.outstanding, eta=trap.eta)
    assert as_published == pytest.approx(published, abs=0.06)
    assert as_repaired == pytest.approx(repaired, abs=0.06)
    found = trap.measured()
    mean, error = mean_and_error(found.hinge.sum(1))
    assert mean == pytest.approx(hinge, abs=0.06)
    assert mean - 10 * error > 2 * as_published
    mean, error = mean_and_error(found.gated.sum(1))
    assert mean == pytest.approx(gated, abs=0.006)
    assert mean + 3 * error < as_repaired < as_published
    assert (found.greedy != 0).sum(1).mean() == pytest.approx(wrong, abs=0.006)


def test_the_variant_for_the_hinge_stays_below_its_bound_where_delaytron_fails():
    n_rounds = 2000
    trap = Trap(n_rounds, seeds=())
    terms = trap.problem | {"outstanding": 0}
    eta = theory.theorem_r4_eta(**terms)
    learner = dt.HingeDelaytron(n_classes=2, n_features=1, gamma=trap.gamma, eta=eta)
    runs = played(learner, trap.X, trap.y, trap.delays, range(20))
    found = followed(runs, trap.X, trap.y, trap.delays, 2, trap.gamma, np.full(n_rounds, eta), hinge_estimate)
    mean, error = mean_and_error(found.hinge.sum(1))
    assert mean + 3 * error < theory.theorem_r4(**terms) < theory.theorem_1(**trap.problem, delay_received=n_rounds)


@pytest.fixture(scope="module")
def stream():
    """Rows of norm 1, labels of a random matrix with one in ten redrawn, and the weights of the least hinge loss."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(T, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X @ rng.normal(size=(3, K))).argmax(1)
    noisy = rng.random(T) < 0.1
    y[noisy] = rng.integers(0, K, noisy.sum())
    W, least = best_comparator(X, y, K)
    comparator = losses(W, X, y)
    assert comparator.sum() == pytest.approx(least)
    assert 50 < least < T * 2 / 3  # it does say something about the labels
    problem = {"norm": np.linalg.norm(W), "n_classes": K, "gamma": GAMMA, "radius": 1, "n_rounds": T}
    return X, y, comparator, problem


def delays_up_to(longest):
    return np.random.default_rng(longest).integers(1, longest + 1, T)


random_delays = pytest.mark.parametrize("longest", [1, 20, 200])


@random_delays
def test_mean_gated_regret_is_below_theorem_1_and_r1(stream, longest):
    X, y, comparator, problem = stream
    delays = delays_up_to(longest)
    run, answered = theory.measure(delays), ~theory.missing(delays)
    eta = theory.theorem_r1_eta(**problem, outstanding=run.outstanding)
    runs = played(dt.Delaytron(n_classes=K, n_features=3, gamma=GAMMA, eta=eta), X, y, delays, range(RUNS))
    found = followed(runs, X, y, delays, K, GAMMA, np.full(T, eta))
    gaps = found.gated - comparator
    mean, error = mean_and_error(gaps[:, answered].sum(1))
    assert mean + 3 * error < theory.theorem_1(**problem, delay_received=run.delay_received, eta=eta)
    mean, error = mean_and_error(gaps.sum(1))
    assert mean + 3 * error < theory.theorem_r1(**problem, outstanding=run.outstanding)
    assert mean > 0  # the bound is asked something
    mistakes, error = mean_and_error((found.greedy != y).sum(1))
    loss = comparator.sum()
    assert mistakes + 3 * error < theory.corollary_r2(**problem, outstanding=run.outstanding, comparator_loss=loss)


@random_delays
def test_mean_hinge_regret_of_the_variant_is_below_theorem_r4(stream, longest):
    X, y, comparator, problem = stream
    delays = delays_up_to(longest)
    terms = problem | {"outstanding": theory.measure(delays).outstanding}
    eta = theory.theorem_r4_eta(**terms)
    runs = played(dt.HingeDelaytron(n_classes=K, n_features=3, gamma=GAMMA, eta=eta), X, y, delays, range(RUNS))
    found = followed(runs, X, y, delays, K, GAMMA, np.full(T, eta), hinge_estimate)
    mean, error = mean_and_error((found.hinge - comparator).sum(1))
    assert mean > 0
    assert mean + 3 * error < theory.theorem_r4(**terms)


@random_delays
def test_mean_hinge_regret_with_the_anytime_step_is_below_theorem_r5(stream, longest):
    X, y, comparator, problem = stream
    delays = delays_up_to(longest)
    norm = problem["norm"]
    runs = played(dt.HingeDelaytron(n_classes=K, n_features=3, gamma=GAMMA, B=norm), X, y, delays, range(RUNS))
    beta = np.cumsum(K / GAMMA + 2 * theory.outstanding(delays))
    radii = np.maximum.accumulate(np.linalg.norm(X, axis=1))
    found = followed(runs, X, y, delays, K, GAMMA, norm / (2 * radii * np.sqrt(beta)), hinge_estimate)
    mean, error = mean_and_error((found.hinge - comparator).sum(1))
    assert mean > 0
    assert mean + 3 * error < theory.theorem_r5(**problem, outstanding=theory.measure(delays).outstanding)
