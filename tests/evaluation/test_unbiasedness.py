"""Estimates are unbiased: their exact mean over all label sequences that a log could have is the true value."""

from itertools import product

import numpy as np
import pytest

import delaytron as dt
from delaytron.evaluation import estimators
from delaytron.evaluation.policies import learn_along, play_by_rejection
from delaytron.learners.book import Kept

K = 2
X = np.array([[1.0, 0.2], [0.9, -0.3], [-0.4, 1.0], [1.0, 0.1], [-0.5, 0.8]])
REWARDS = np.array([[1.0, 0.0], [0.0, 1.0], [0.3, 1.0], [1.0, 0.4], [0.0, 1.0]])
LOGGING = np.array([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5], [0.8, 0.2], [0.25, 0.75]])
POLICY = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
N = len(X)
ROWS = np.arange(N)
LATE = {"decided_at": ROWS * 10, "received_at": ROWS * 10 + [1, 35, 11, 2, 1], "until": 1000}

pytestmark = pytest.mark.filterwarnings("ignore::delaytron.evaluation.evaluate.EvaluationWarning")


def log_of(labels, logging=LOGGING, rewards=REWARDS, **more):
    labels = np.array(labels)
    return dt.logs.from_arrays(
        features=X, labels=labels, probs=logging[ROWS, labels], rewards=rewards[ROWS, labels], n_classes=K, **more
    )


def every_log(logging=LOGGING, **more):
    """Iterate over all logs that there could be, each with its probability."""
    for labels in product(range(K), repeat=N):
        yield np.prod(logging[ROWS, list(labels)]), log_of(labels, logging, **more)


def mean_over_logs(estimate, **more):
    return sum(chance * estimate(log) for chance, log in every_log(**more))


@pytest.mark.parametrize("quantity", ["reward", "error"])
@pytest.mark.parametrize("method", ["ips", "dr"])
def test_a_fixed_policy(method, quantity):
    truth = (POLICY * REWARDS).sum(axis=1).mean()
    mean = mean_over_logs(lambda log: dt.evaluate(log, POLICY, method, quantity=quantity).value)
    assert mean == pytest.approx(truth if quantity == "reward" else 1 - truth, abs=1e-12)


def test_dr_whatever_the_model_expects(monkeypatch):
    """With blocks of one round, every round has a model that learned from all labels and outcomes before it."""
    monkeypatch.setattr(estimators, "FIRST", 1)
    monkeypatch.setattr(estimators, "GROWTH", 1.0)
    truth = (POLICY * REWARDS).sum(axis=1).mean()
    values = [dt.evaluate(log, POLICY, "dr").value for _, log in every_log()]
    ips = [dt.evaluate(log, POLICY, "ips").value for _, log in every_log()]
    assert mean_over_logs(lambda log: dt.evaluate(log, POLICY, "dr").value) == pytest.approx(truth, abs=1e-12)
    assert not np.allclose(values, ips)  # the models did expect something


def test_dr_on_a_log_whose_policy_learned(monkeypatch):
    """The log plays what earned more last time; cross-fitting with later rounds would be biased here."""
    monkeypatch.setattr(estimators, "FIRST", 1)
    monkeypatch.setattr(estimators, "GROWTH", 1.0)
    mean = 0.0
    for labels in product(range(K), repeat=N):
        logging = np.full((N, K), 0.5)
        for t in range(1, N):
            logging[t, labels[t - 1]] = 0.2 + 0.6 * REWARDS[t - 1, labels[t - 1]]
            logging[t, 1 - labels[t - 1]] = 1 - logging[t, labels[t - 1]]
        mean += np.prod(logging[ROWS, list(labels)]) * dt.evaluate(log_of(labels, logging), POLICY, "dr").value
    assert mean == pytest.approx((POLICY * REWARDS).sum(axis=1).mean(), abs=1e-12)


LEARNERS = [
    ("banditron", {"gamma": 0.4}),
    ("gap", {"gamma": 0.4}),
    ("bandit_logit", {}),
    ("adaptive_delaytron", {"gamma": 0.3}),
]


@pytest.mark.parametrize("times", [{}, LATE], ids=["at once", "late"])
@pytest.mark.parametrize(("name", "parameters"), LEARNERS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_learner_that_learns_along(name, parameters, times):
    """IPS and DR estimate the mean value of the policies that it went through."""

    def value_of_policies(log):
        learner = dt.LEARNERS[name](K, 2, seed=0, **parameters)
        return (learn_along(log, learner, lambda _: None) * REWARDS).sum(axis=1).mean()

    truth = mean_over_logs(value_of_policies, **times)
    for method in ("ips", "dr"):
        mean = mean_over_logs(lambda log: dt.evaluate(log, name, method, **parameters).value, **times)  # noqa: B023
        assert mean == pytest.approx(truth, abs=1e-12)
    assert truth != pytest.approx(REWARDS.mean(), abs=1e-3)  # it has learned something


def online(name, parameters, rows, choices):
    """Play these rows and label choices with the learner itself; return the probability of that, and the rewards."""
    learner = dt.LEARNERS[name](K, 2, seed=0, **parameters)
    chance, rewards = 1.0, 0.0
    for t, label in zip(rows, choices, strict=True):
        p = learner.probabilities(X[t])
        decision = learner.decide(X[t], allowed=[label])
        play = learner.book.play(decision.id)
        greedy = int(learner.scores(X[t : t + 1])[0].argmax())
        learner.book.replace(Kept(play._replace(prob=p[label], greedy=greedy)))
        reward = REWARDS[t, label]
        learner.feedback(decision.id, reward=reward)
        learner.flush()
        chance *= p[label]
        rewards += reward
    return chance, rewards


def test_replay_is_a_run_of_the_learner_itself():
    """The accepted rounds are any set, each round with the same chance; on that set the learner plays as online."""
    parameters = {"gamma": 0.4}
    least = LOGGING.min()
    truth = 0.0
    for kept in product([False, True], repeat=N):
        rows = np.flatnonzero(kept)
        pattern = least**rows.size * (1 - least) ** (N - rows.size)
        runs = (online("banditron", parameters, rows, labels) for labels in product(range(K), repeat=rows.size))
        truth += pattern * sum(chance * rewards for chance, rewards in runs)
    assert expected_of_replay("banditron", parameters) == pytest.approx(truth, abs=1e-12)


def expected_of_replay(name, parameters):
    """Return the mean of the rewards of all accepted rounds, over all logs and all rejections."""
    total = 0.0
    for chance, log in every_log(probabilities=LOGGING):
        for kept in product([False, True], repeat=N):
            draws = np.where(kept, 0.0, 1.0)
            learner = dt.LEARNERS[name](K, 2, seed=0, **parameters)
            played = play_by_rejection(log, learner, draws, lambda _: None)
            assert played.accepted.tolist() == list(kept)
            own = played.probabilities[ROWS, log.labels] * LOGGING.min() / log.probs
            total += chance * np.prod(np.where(kept, own, 1 - own)) * log.outcomes[played.accepted].sum()
    return total


def test_replay_of_a_uniform_log_accepts_what_it_would_have_played():
    """Li et al. compare a label drawn by the policy with that of the log: both accept with probability pi(label)."""
    uniform = np.full((N, K), 0.5)
    log = log_of([0, 1, 1, 0, 1], uniform)
    learner = dt.Banditron(K, 2, gamma=0.5, seed=0)
    played = play_by_rejection(log, learner, np.full(N, 0.7499), lambda _: None)
    own = played.probabilities[ROWS, log.labels]
    assert played.accepted.tolist() == (own > 0.7499).tolist()
    assert {0.25, 0.75} == set(own.round(12))
