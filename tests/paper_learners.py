"""The other learners, line by line, in the manner of ``paper.py``: slow, obvious, and independent of the package.

Every transcription plays one run, and is named as the learner is; `paper.TRANSCRIPTIONS` has them all. An update uses
what was noted when its round was played and the model as it is when the answer comes; the
answers of a round are applied one by one, oldest first.
"""

from itertools import combinations
from math import comb, exp, floor, inf, log, sqrt

import numpy as np

import paper_logit  # noqa: F401 - it registers its transcription
import paper_thompson  # noqa: F401 - it registers its transcriptions
from paper import TRANSCRIPTIONS, Run, distribution, receive, record, sample, transcribes
from paper_second_order import best_other

__all__ = ["TRANSCRIPTIONS"]  # all of them are registered when this file is imported


def bandit(X, y, delays, draws, n_classes, gamma, update):
    """Play by the eps rule; ``update(W, x, greedy, label, prob, right)`` changes W in place at every arrival."""
    T, d = X.shape
    W = np.zeros((n_classes, d))
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for played in [waiting.pop(s) for s in S]:
            update(W, *played)
        outstanding = len(waiting) + 1
        x = X[t - 1]
        greedy = int(np.argmax((W * x).sum(axis=1)))
        P = distribution(greedy, n_classes, gamma)
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        waiting[t] = (x, greedy, label, P[label], right)
        record(run, greedy, label, P[label], right, outstanding, 0, 1.0, S)
    run.weights = W
    return run


@transcribes({"gamma": 0.3}, {"gamma": 0.3, "rho0": 0.1, "rho1": 0.2}, {"gamma": 0.3, "estimate": True})
def rcnbf(X, y, delays, draws, n_classes, gamma=0.015625, rho0=0.0, rho1=0.0):
    """Noisy answers with known rates: the row of the label played moves also when the answer is "wrong"."""

    def update(W, x, greedy, label, prob, right):
        W[label] += (right - rho0) / ((1 - rho0 - rho1) * prob) * x
        W[greedy] -= x

    return bandit(X, y, delays, draws, n_classes, gamma, update)


def step(loss, norm2, C, variant):
    """The passive-aggressive step for one constraint whose gradient has this squared norm (not 0)."""
    loss = max(0.0, loss)
    return {"PA": loss / norm2, "I": min(C, loss / norm2), "II": loss / (norm2 + 1 / (2 * C))}[variant]


def score_update(W, x, label, right, C, variant):
    """PAB: the score of the label played is to be >= 1 if it was right and <= -1 if not."""
    sign = 1 if right else -1
    W[label] += sign * step(1 - sign * (W[label] @ x), x @ x, C, variant) * x


@transcribes({"gamma": 0.3}, {"gamma": 0.3, "C": 0.1, "variant": "I"}, {"gamma": 0.3, "C": 0.1, "variant": "II"})
def pab(X, y, delays, draws, n_classes, gamma=0.015625, C=inf, variant="PA"):
    def update(W, x, greedy, label, prob, right):
        if x.any():
            score_update(W, x, label, right, C, variant)

    return bandit(X, y, delays, draws, n_classes, gamma, update)


def multipliers(losses, norm2, C, variant):
    """tau of min 1/2 |V|^2 + penalty such that all margins grow by losses_j - xi; |x|^2 = norm2.

    The penalty is none with xi = 0 ("PA"), C xi ("I") or C xi^2 ("II"). On the support tau satisfies
    norm2 (tau_j + sum tau) + xi = losses_j, and the support consists of the largest losses: try 1, 2, ... of them.
    """
    order = [j for j in np.argsort(-losses, kind="stable") if losses[j] > 0]
    quadratic = 1 / (2 * C) if variant == "II" else 0.0  # xi = sum tau / (2 C)
    tau = np.zeros(len(losses))
    for k in range(1, len(order) + 1):
        inside = np.linalg.solve(norm2 * (np.eye(k) + np.ones((k, k))) + quadratic * np.ones((k, k)), losses[order[:k]])
        if inside.min() <= 0:
            break
        # the same numbers once more, in a form that gives equal losses equal tau to the last bit: ties must stay ties
        tau[order[:k]] = (losses[order[:k]] - (norm2 + quadratic) * inside.sum()) / norm2
    if variant == "I" and tau.sum() > C:  # then sum tau = C, and tau_j = losses_j / norm2 - nu
        tau[:] = 0
        for k in range(1, len(order) + 1):
            nu = (np.sum(losses[order[:k]]) / norm2 - C) / k
            inside = losses[order[:k]] / norm2 - nu
            if inside.min() <= 0:
                break
            tau[order[:k]] = inside
    return tau


def all_classes_update(W, x, label, right, C, variant):
    """Exact PA: the label played is to beat every other class by 1 (right), or to lose to each of them by 1."""
    sign = 1 if right else -1
    scores = (W * x).sum(axis=1)
    losses = 1 - sign * (scores[label] - scores)
    losses[label] = 0.0  # no constraint
    tau = multipliers(losses, x @ x, C, variant)
    W -= sign * np.outer(tau, x)
    W[label] += sign * tau.sum() * x


@transcribes(
    {"gamma": 0.3},
    {"gamma": 0.3, "C": 0.02, "variant": "I"},
    {"gamma": 0.3, "C": 0.1, "variant": "II"},
    {"gamma": 0.3, "refute": "best"},
    {"gamma": 0.3, "C": 0.02, "variant": "I", "refute": "score"},
)
def exact_pa(X, y, delays, draws, n_classes, gamma=0.015625, C=inf, variant="PA", refute="all"):
    def update(W, x, greedy, label, prob, right):
        if not x.any():
            return
        if right or refute == "all":
            all_classes_update(W, x, label, right, C, variant)
        elif refute == "best":
            scores = (W * x).sum(axis=1)
            best = best_other(scores, label)
            tau = step(1 + scores[label] - scores[best], 2 * (x @ x), C, variant)
            W[label] -= tau * x
            W[best] += tau * x
        else:
            score_update(W, x, label, right, C, variant)

    return bandit(X, y, delays, draws, n_classes, gamma, update)


@transcribes({}, {"C": 0.1, "variant": "I"}, {"C": 0.1, "variant": "II"})
def passive_aggressive(X, y, delays, draws, n_classes, C=inf, variant="PA"):
    """Full information: the greedy label is played, the true label arrives and must beat its best rival by 1."""
    T, d = X.shape
    W = np.zeros((n_classes, d))
    waiting = set()
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for s in S:
            waiting.remove(s)
            x, truth = X[s - 1], y[s - 1]
            if x.any():
                scores = (W * x).sum(axis=1)
                rival = best_other(scores, truth)
                tau = step(1 - scores[truth] + scores[rival], 2 * (x @ x), C, variant)
                W[truth] += tau * x
                W[rival] -= tau * x
        greedy = int(np.argmax((W * X[t - 1]).sum(axis=1)))
        record(run, greedy, greedy, 1.0, greedy == y[t - 1], len(waiting) + 1, 0, 1.0, S)
        waiting.add(t)
    run.weights = W
    return run


def set_probability(played, top, n_classes, gamma):
    """P(S) = (1 - gamma) 1[S = Shat] + gamma / C(K, m)."""
    return (1 - gamma) * (played == top) + gamma / comb(n_classes, len(top))


def set_estimate(right, played, top, n_classes, gamma, estimator):
    """The estimate of e_y from f = 1[y in S]."""
    K, m = n_classes, len(top)
    inside = np.array([r in played for r in range(K)], dtype=float)
    if estimator == "set":
        tau1 = comb(K - 1, m - 1)
        tau2 = comb(K - 2, m - 2) if m > 1 else 0
        return (right * inside / set_probability(played, top, K, gamma) - tau2) / (tau1 - tau2)
    best = np.array([r in top for r in range(K)], dtype=float)
    c1, c2 = m / K, m * (m - 1) / (K * (K - 1))  # P(r in S), P(r and q in S) of a uniform S
    Pi = (1 - gamma) * np.outer(best, best) + gamma * (c2 * np.ones((K, K)) + (c1 - c2) * np.eye(K))
    return np.linalg.solve(Pi, right * inside)


@transcribes({"gamma": 0.3, "m": 1}, {"gamma": 0.3, "m": 1, "estimator": "set"})
def dilute(X, y, delays, draws, n_classes, gamma=0.015625, m=2, estimator="inclusion"):
    """Sets of m labels are played and the answer is whether the true label was among them."""
    T, d = X.shape
    W = np.zeros((n_classes, d))
    subsets = list(combinations(range(n_classes), m))  # in lexicographic order
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for x, greedy, played, top, right in [waiting.pop(s) for s in S]:
            ehat = set_estimate(right, played, top, n_classes, gamma, estimator)
            W = W + np.outer(ehat - np.eye(n_classes)[greedy], x)
        outstanding = len(waiting) + 1
        x, u = X[t - 1], draws[t - 1]
        ranking = np.argsort(-((W * x).sum(axis=1)), kind="stable")
        greedy, top = int(ranking[0]), tuple(sorted(int(r) for r in ranking[:m]))
        played = top
        if u >= 1 - gamma:
            rank = floor((u - (1 - gamma)) / gamma * len(subsets))
            played = subsets[min(rank, len(subsets) - 1)]
        right = y[t - 1] in played
        waiting[t] = (x, greedy, played, top, right)
        prob = set_probability(played, top, n_classes, gamma)
        record(run, greedy, played[0], prob, right, outstanding, 0, 1.0, S)
    run.weights = W
    return run


@transcribes({}, {"eta": 0.1})
def exp3(X, y, delays, draws, n_classes, eta=None):
    """Exp3, which does not look at x; without ``eta`` it starts afresh when the sum of the m_t reaches 2^e."""
    adaptive = eta is None
    L = np.zeros(n_classes)
    e, total, first = 0, 0, 1
    waiting = {}
    run = Run()
    for t in range(1, len(X) + 1):
        S = receive(delays, t)
        answers = [(s, *waiting.pop(s)) for s in S]
        outstanding = len(waiting) + 1
        total += outstanding
        while adaptive and total >= 2**e:
            e, first = e + 1, t
            L = np.zeros(n_classes)
        if adaptive:
            eta = sqrt(log(n_classes) / 2**e)
        for s, label, prob, right in answers:
            if s >= first:
                L[label] += (1 - right) / prob
        greedy = int(np.argmin(L))
        weights = np.exp(-eta * (L - L.min()))
        P = list(weights / weights.sum())
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        waiting[t] = (label, P[label], right)
        record(run, greedy, label, P[label], right, outstanding, e, eta, S)
    run.weights = -L[:, None]
    return run


@transcribes({"gamma": 0.3}, {"gamma": 0.3, "eta": 0.1}, {"gamma": 0.3, "B": 3.0, "R": 2.0})
def hinge_delaytron(X, y, delays, draws, n_classes, gamma=0.015625, B=1.0, eta=None, R=None):
    """The hinge direction, dual averaging, and the anytime step size (or a constant ``eta``)."""
    T, d = X.shape
    W, theta = np.zeros((n_classes, d)), np.zeros((n_classes, d))
    beta, longest = 0.0, 0.0
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        answers = [waiting.pop(s) for s in S]
        x = X[t - 1]
        beta += n_classes / gamma + 2 * len(waiting)  # o_t: the present round is not there yet
        longest = max(longest, sqrt(x @ x))
        R_t = longest if R is None else R
        anytime = B / (2 * R_t * sqrt(beta)) if R_t > 0 else 0.0
        eta_t = anytime if eta is None else eta
        for x_s, label, rival, loss, prob, right in answers:
            if right and loss > 0:
                theta[label] += x_s / prob
                theta[rival] -= x_s / prob
        W = eta_t * theta
        scores = (W * x).sum(axis=1)
        greedy = int(np.argmax(scores))
        P = distribution(greedy, n_classes, gamma)
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        rival = best_other(scores, label)
        outstanding = len(waiting) + 1
        waiting[t] = (x, label, rival, 1 - scores[label] + scores[rival], P[label], right)
        record(run, greedy, label, P[label], right, outstanding, 0, eta_t, S)
    run.weights = W
    return run


@transcribes({"gamma": 0.3})
def gap(X, y, delays, draws, n_classes, gamma=0.015625, eta=0.01):
    """Smooth hinge, and the more exploration the smaller the margin of the greedy label is."""
    T, d = X.shape
    W = np.zeros((n_classes, d))
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for x, label, rival, c, prob, right in [waiting.pop(s) for s in S]:
            if right:
                W[label] += eta * c * x / prob
                W[rival] -= eta * c * x / prob
        outstanding = len(waiting) + 1
        x = X[t - 1]
        scores = (W * x).sum(axis=1)
        greedy = int(np.argmax(scores))
        margin = scores[greedy] - scores[best_other(scores, greedy)]
        P = distribution(greedy, n_classes, max(gamma, max(0.0, 1 - margin) ** 2))
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        c = 2 * max(0.0, 1 - margin) if label == greedy else 2.0  # minus the slope of the loss if label is right
        waiting[t] = (x, label, best_other(scores, label), c, P[label], right)
        record(run, greedy, label, P[label], right, outstanding, 0, eta, S)
    run.weights = W
    return run


def sigmoid(s):
    return 1 / (1 + exp(-s)) if s >= 0 else exp(s) / (1 + exp(s))


def squarecb(scores, t, c):
    """P(r) = 1 / (K + c sqrt(t) (f_b - f_r)) for r != b, the rest on the greedy label b."""
    f = [sigmoid(s) for s in scores]
    b = int(np.argmax(scores))
    P = [1 / (len(f) + c * sqrt(t) * (f[b] - f[r])) for r in range(len(f))]
    P[b] = 1 - sum(P[r] for r in range(len(f)) if r != b)
    return P


@transcribes({"gamma": 0.3}, {"gamma": 0.3, "explore": "squarecb"})
def ova_logistic(X, y, delays, draws, n_classes, gamma=0.015625, lr=0.2, explore="epsilon", c=10.0):
    """One logistic regression per class with AdaGrad; only the label played learns, with the model as it is now."""
    T, d = X.shape
    W, G = np.zeros((n_classes, d)), np.ones((n_classes, d))
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for x, label, right in [waiting.pop(s) for s in S]:
            g = (sigmoid(W[label] @ x) - right) * x
            G[label] += g**2
            W[label] -= lr * g / np.sqrt(G[label])
        outstanding = len(waiting) + 1
        x = X[t - 1]
        scores = (W * x).sum(axis=1)
        greedy = int(np.argmax(scores))
        P = squarecb(scores, t, c) if explore == "squarecb" else distribution(greedy, n_classes, gamma)
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        waiting[t] = (x, label, right)
        record(run, greedy, label, P[label], right, outstanding, 0, lr, S)
    run.weights = W
    return run
