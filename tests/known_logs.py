"""Logs whose true value is known: label probabilities, the policy of the log and another one, late outcomes."""

from typing import NamedTuple

import numpy as np

import delaytron as dt

K = 3
DAY = 86_400_000_000_000
CENTRES = np.array([[1.5, 0.0], [-0.5, 1.0], [-1.0, -1.0]])


class Made(NamedTuple):
    """A log, a policy on it, and the true value of that policy."""

    log: object
    policy: np.ndarray
    truth: float


def chances(X):
    """Return the chance of every label to be right."""
    return 1 / (1 + np.exp(-X @ CENTRES.T))


def soft(scores):
    """Return probabilities from scores."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def policies(X):
    """Return the probabilities of the log's policy, and of the one to evaluate."""
    logging = 0.7 * soft(0.7 * X @ CENTRES.T[:, ::-1]) + 0.3 / K
    return logging, 0.9 * soft(2 * X @ CENTRES.T) + 0.1 / K


def truth_of(n_rows=2_000_000):
    """Return the value of the policy, to three digits and a half."""
    X = np.random.default_rng(1).normal(size=(n_rows, 2))
    return float((policies(X)[1] * chances(X)).sum(axis=1).mean())


TRUTH = truth_of()


def draw_labels(probabilities, rng):
    """Draw a label for each row."""
    u = rng.random((len(probabilities), 1))
    return (u > probabilities.cumsum(axis=1)).sum(axis=1).clip(max=probabilities.shape[1] - 1)


def make_log(seed, n_rows=400, mean_wait=None, never=0.0, slow_wrong=1.0):
    """Return a log; outcomes take `mean_wait` of its 30 days, `never` of them do not come, wrong ones take longer."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2))
    logging, policy = policies(X)
    labels = draw_labels(logging, rng)
    rows = np.arange(n_rows)
    rewards = (rng.random(n_rows) < chances(X)[rows, labels]).astype(float)
    times = {}
    if mean_wait is not None:
        decided = np.sort((rng.random(n_rows) * 30 * DAY).astype(np.int64))
        factor = np.where(rewards == 1, 1.0, slow_wrong)
        waits = (rng.exponential(mean_wait * 30 * DAY * factor)).astype(np.int64) + 1
        gone = (decided + waits > 30 * DAY) | (rng.random(n_rows) < never)
        rewards[gone] = np.nan
        times = {"decided_at": decided, "received_at": decided + waits, "until": 30 * DAY}
    log = dt.logs.from_arrays(
        features=X, labels=labels, probs=logging[rows, labels], rewards=rewards, n_classes=K, **times
    )
    return Made(log, policy, TRUTH)
