"""Losses, exact expectations and comparators for the tests of the theory, written without the package.

`follow` transcribes the algorithms for many runs at once: what is played is given, one row of labels per run. Given
all K^T rows, the chances that it returns make every expectation an exact sum. Rounds count from 0 here.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog


class Followed(NamedTuple):
    """What happened in N runs of T rounds; the matrices are lists over rounds of arrays (N, K, d)."""

    chance: np.ndarray  # of each run
    greedy: np.ndarray  # (N, T)
    weights: list[np.ndarray]  # W_t
    estimates: list[np.ndarray]  # U~_t
    means: list[np.ndarray]  # U_t, the mean of U~_t over the label that is drawn in round t
    hinge: np.ndarray  # (N, T), the hinge loss of W_t on round t
    gated: np.ndarray  # (N, T), the same where the greedy label is wrong, else 0


def hinge_loss(W, x, y):
    """max(0, 1 - (W x)_y + the largest other (W x)_j) of matrices (..., K, d)."""
    scores = (W * x).sum(-1)
    return np.maximum(0, 1 - scores[..., y] + np.delete(scores, y, axis=-1).max(-1))


def losses(W, X, y):
    """The hinge losses of one matrix on all rounds."""
    return np.array([hinge_loss(W, x, label) for x, label in zip(X, y, strict=True)])


def perceptron_estimate(scores, x, y, label, prob):
    """x (x) (1[label = y] / P e_label - e_greedy), and what it is in the mean."""
    unit = np.eye(scores.shape[1])
    greedy = unit[scores.argmax(1)]
    gain = (label == y) / prob
    return (gain[:, None] * unit[label] - greedy)[..., None] * x, (unit[y] - greedy)[..., None] * x


def hinge_estimate(scores, x, y, label, prob):
    """1[label = y] 1[loss > 0] / P x (x) (e_label - e_rival), and what it is in the mean."""
    unit = np.eye(scores.shape[1])

    def direction(labels):
        """Return minus the gradient of the hinge loss that each label would have if it were true."""
        others = np.where(unit[labels] > 0, -np.inf, scores)
        loss = 1 - np.take_along_axis(scores, labels[:, None], 1)[:, 0] + others.max(1)
        return (loss > 0)[:, None] * (unit[labels] - unit[others.argmax(1)])

    gain = (label == y) / prob
    truth = np.full(len(scores), y)
    return (gain[:, None] * direction(label))[..., None] * x, direction(truth)[..., None] * x


def follow(X, y, delays, plays, n_classes, gamma, etas, estimate=perceptron_estimate, restarts=()):
    """Play Delaytron, or with `hinge_estimate` its variant, with W_t = etas[t] * (sum of the U~ received by t)."""
    (N, T), unit = plays.shape, np.eye(n_classes)
    total = np.zeros((N, n_classes, X.shape[1]))
    chance, first, due = np.ones(N), 0, {}
    found = Followed(chance, np.empty((N, T), int), [], [], [], np.empty((N, T)), np.empty((N, T)))
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        if t in restarts:
            total, first = np.zeros_like(total), t
        for s in due.pop(t, ()):
            if s >= first:
                total = total + found.estimates[s]
        W = etas[t] * total
        scores = (W * x).sum(-1)
        greedy = scores.argmax(1)
        P = (1 - gamma) * unit[greedy] + gamma / n_classes
        prob = P[np.arange(N), plays[:, t]]
        chance *= prob
        U_hat, U = estimate(scores, x, label, plays[:, t], prob)
        found.weights.append(W)
        found.estimates.append(U_hat)
        found.means.append(U)
        found.greedy[:, t] = greedy
        found.hinge[:, t] = hinge_loss(W, x, label)
        found.gated[:, t] = np.where(greedy == label, 0, found.hinge[:, t])
        due.setdefault(t + int(delays[t]), []).append(t)
    return found


def all_plays(n_classes, n_rounds):
    return np.array(list(product(range(n_classes), repeat=n_rounds)))


def inner(A, B):
    """The products of pairs of matrices (..., K, d)."""
    return (A * B).sum((-2, -1))


def outstanding_pairs(delays):
    """All (q, t) with q < t such that the answer to q is not there when t predicts."""
    return [(q, t) for t in range(len(delays)) for q in range(t) if q + delays[q] > t]


def best_comparator(X, y, n_classes):
    """The weights of the least total hinge loss, as a linear program, and that loss."""
    T, d = X.shape
    rows = [(t, j) for t in range(T) for j in range(n_classes) if j != y[t]]
    A = np.zeros((len(rows), n_classes * d + T))
    for i, (t, j) in enumerate(rows):
        A[i, y[t] * d : (y[t] + 1) * d] = -X[t]
        A[i, j * d : (j + 1) * d] = X[t]
        A[i, n_classes * d + t] = -1
    cost = np.r_[np.zeros(n_classes * d), np.ones(T)]
    free = [(None, None)] * (n_classes * d) + [(0, None)] * T
    solved = linprog(cost, A_ub=A, b_ub=-np.ones(len(rows)), bounds=free, method="highs")
    return solved.x[: n_classes * d].reshape(n_classes, d), solved.fun
