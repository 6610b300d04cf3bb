"""LinUCB and Thompson sampling, line by line: every inverse is a ``solve``, every product is written out.

The conventions are those of ``paper.py``. How often Thompson sampling plays a label is an integral, taken by the same
cells and nodes as in the package; `kernels/test_thompson.py` compares it with other ways to take it.
"""

import numpy as np
from scipy.special import ndtr

from paper import Run, receive, record, sample, transcribes
from paper_logit import Rows

NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)


def density(x):
    return np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)


def chances(means, deviations):
    """The chance of each normal score to be the largest: the integral of f_k times all other F_j, cell by cell."""
    K = len(means)
    size = (np.abs(means) + deviations).max()
    if size == 0:
        return np.full(K, 1 / K)
    s = np.maximum(deviations, 1e-9 * size)
    P = np.full(K, 1e-9)
    begins = means + 4.5 * s
    top, below = begins.max(), 1.0
    while below > 1e-7:
        width = np.maximum(0.9 * s, top - begins).min()
        for node, weight in zip(NODES[::-1], WEIGHTS[::-1], strict=True):
            x = (top - width / 2 + node * width / 2 - means) / s
            for k in range(K):
                P[k] += weight * width / 2 * density(x[k]) / s[k] * np.prod(np.delete(ndtr(x), k))
            below = np.prod(ndtr(x))
        top -= width
    return P / P.sum()


def ridge_regressions(X, y, delays, draws, n_classes, ridge, probabilities):
    """Play by the probabilities that the scores and the deviations of all labels have."""
    T, d = X.shape
    W, b = np.zeros((n_classes, d)), np.zeros((n_classes, d))
    A = [ridge * np.eye(d) for _ in range(n_classes)]
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for x, k, right in [waiting.pop(s) for s in S]:
            A[k] = A[k] + np.outer(x, x)
            b[k] += right * x
            W[k] = np.linalg.solve(A[k], b[k])
        outstanding = len(waiting) + 1
        x = X[t - 1]
        scores = (W * x).sum(axis=1)
        deviations = np.sqrt([x @ np.linalg.solve(A[k], x) for k in range(n_classes)])
        P = probabilities(scores, deviations)
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        waiting[t] = (x, label, right)
        record(run, int(np.argmax(scores)), label, P[label], right, outstanding, 0, 1.0, S)
    run.weights = W
    return run


@transcribes({}, {"alpha": 1.0, "ridge": 0.5})
def lin_ucb(X, y, delays, draws, n_classes, alpha=0.3, ridge=1.0):
    """The label of the best bound, or one of several."""

    def probabilities(scores, deviations):
        bounds = scores + alpha * deviations
        best = bounds == bounds.max()
        return best / best.sum()

    return ridge_regressions(X, y, delays, draws, n_classes, ridge, probabilities)


@transcribes({}, {"v": 1.0, "ridge": 0.5})
def lin_ts(X, y, delays, draws, n_classes, v=0.1, ridge=1.0):
    """A score from the posterior of each label; the largest plays."""

    def probabilities(scores, deviations):
        return chances(scores, v * deviations)

    return ridge_regressions(X, y, delays, draws, n_classes, ridge, probabilities)


def standardize(rows, x, sparse):
    """Return the row in standard deviations, centred in part or not at all, of unit length, with a constant 1."""
    z, zero = (rows.standardize(v)[:-1] / rows.standardize(v)[-1] for v in (x, np.zeros_like(x)))
    z = z - (zero if sparse else zero / (1 + zero**4))
    if sparse:
        z[x == 0] = 0
    length = np.sqrt((z**2).sum())
    return np.append(z / length if length > 0 else z, 1.0)


class Posteriors:
    """A logistic regression for each label: means m and variances V of its weights."""

    def __init__(self, n_classes, d):
        self.m, self.V = np.zeros((n_classes, d + 1)), np.ones((n_classes, d + 1))

    def learn(self, z, k, reward):
        """A step of the Kalman filter with a diagonal covariance."""
        f = 1 / (1 + np.exp(-(self.m[k] @ z)))
        h = max(f * (1 - f), 1e-6)
        self.m[k] += (reward - f) / (1 + h * (self.V[k] @ z**2)) * self.V[k] * z
        self.V[k] /= 1 + h * z**2 * self.V[k]


@transcribes({}, {"alpha": 0.1})
def logistic_ts(X, y, delays, draws, n_classes, alpha=0.5, sparse=False):
    """The same on standardised rows; those of a sparse matrix are not centred."""
    T, d = X.shape
    rows, posteriors = Rows(d), Posteriors(n_classes, d)
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        if t > 1 and rows.is_due():
            rows.refresh(1.0)
        S = receive(delays, t)
        for x, k, right in [waiting.pop(s) for s in S]:
            posteriors.learn(standardize(rows, x, sparse), k, float(right))
        outstanding = len(waiting) + 1
        x = X[t - 1]
        z = standardize(rows, x, sparse)
        scores = (posteriors.m * z).sum(axis=1)
        P = chances(scores, np.sqrt(alpha * (posteriors.V * z**2).sum(axis=1)))
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        rows.new.append(x)
        waiting[t] = (x, label, right)
        record(run, int(np.argmax(scores)), label, P[label], right, outstanding, 0, 1.0, S)
    run.weights = posteriors.m
    return run
