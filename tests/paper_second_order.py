"""SOBA, Newtron and Confidit, line by line: every matrix is written out and every inverse is a ``solve``.

The conventions are those of ``paper.py``. A (K, d) matrix is read row by row as a vector of length K d.
"""

from math import exp, sqrt

import numpy as np

from paper import Run, distribution, receive, record, sample, transcribes


def best_other(scores, label):
    """argmax_{j != label} of the scores, the lowest index among ties."""
    others = [j for j in range(len(scores)) if j != label]
    return max(others, key=lambda j: scores[j])  # max keeps the first of equals


def solve(A, b):
    """A^{-1} b, where a vector A means the diagonal matrix with these entries."""
    return b / A if A.ndim == 1 else np.linalg.solve(A, b)


def square(v, matrix):
    """The matrix v v', or its diagonal."""
    return {"full": np.outer(v, v), "diagonal": v * v}[matrix]


def identity(n, matrix):
    return {"full": np.eye(n), "diagonal": np.ones(n)}[matrix]


@transcribes({"gamma": 0.3}, {"gamma": 0.3, "a": 2.0, "matrix": "full"})
def soba(X, y, delays, draws, n_classes, gamma=0.015625, a=1.0, matrix="diagonal"):
    """SOBA: only right answers change anything, and only while the running sum of the m stays >= 0."""
    T, d = X.shape
    W, theta, A = np.zeros((n_classes, d)), np.zeros(n_classes * d), a * identity(n_classes * d, matrix)
    total = 0.0  # Sm
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for x, label, rival, p, right in [waiting.pop(s) for s in S]:
            if right:
                e = np.eye(n_classes)
                g = np.outer(e[rival] - e[label], x).ravel() / p
                z = sqrt(p) * g
                w = W.ravel()
                m = ((w @ z) ** 2 + 2 * (w @ g)) / (1 + z @ solve(A, z))
                if total + m >= 0:
                    total += m
                    A = A + square(z, matrix)
                    theta = theta - g
                    W = solve(A, theta).reshape(n_classes, d)
        outstanding = len(waiting) + 1
        x = X[t - 1]
        scores = (W * x).sum(axis=1)
        greedy = int(np.argmax(scores))
        P = distribution(greedy, n_classes, gamma)
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        waiting[t] = (x, label, best_other(scores, label), P[label], right)
        record(run, greedy, label, P[label], right, outstanding, 0, 1.0, S)
    run.weights = W
    return run


def softmax(scores, alpha):
    top = max(scores)
    weights = [exp(alpha * (s - top)) for s in scores]
    return [w / sum(weights) for w in weights]


def newtron_gradient(x, label, right, q, p):
    """The (K, d) estimate of the gradient (q - e_y) x' and its kappa; q and p are those of the label played."""
    K = len(q)
    centred = np.eye(K)[label] - np.ones(K) / K
    if right:
        return -(1 - q[label]) / p * np.outer(centred, x), p
    return q[label] / p * np.outer(centred, x), 1.0


@transcribes(  # small diameters: where W diverges, rounding grows with it and no two implementations agree
    {"gamma": 0.3, "alpha": 1.0, "diameter": 0.05},
    {"gamma": 0.3, "alpha": 1.0, "play": "argmax", "diameter": 0.05},
    {"gamma": 0.3, "alpha": 1.0, "matrix": "full", "diameter": 0.05},
)
def newtron(
    X, y, delays, draws, n_classes, gamma=0.015625, alpha=10, beta=0.01, diameter=1, matrix="diagonal", play="sample"
):
    """Newtron without the projection; with ``matrix="diagonal"`` and ``play="argmax"`` it is PNewtron."""
    T, d = X.shape
    W, b, A = np.zeros((n_classes, d)), np.zeros(n_classes * d), identity(n_classes * d, matrix) / diameter
    waiting, distinguished = {}, set()
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for x, label, q, p, W_s, right in [waiting.pop(s) for s in S]:
            g, kappa = newtron_gradient(x, label, right, q, p)
            A = A + beta * kappa * square(g.ravel(), matrix)
            b = b + (1 - kappa * beta * np.sum(g * W_s)) * g.ravel()
            W = -solve(A, b).reshape(n_classes, d)
            distinguished.add(label)
            alike = [
                k for k in range(n_classes) if k not in distinguished
            ]  # equal by symmetry; `solve` rounds them apart
            if alike and matrix == "full":
                W[alike] = W[alike[0]]
        outstanding = len(waiting) + 1
        x = X[t - 1]
        scores = (W * x).sum(axis=1)
        greedy = int(np.argmax(scores))
        q = softmax(scores, alpha)
        if play == "argmax":
            P = distribution(greedy, n_classes, gamma)
        else:
            P = [(1 - gamma) * q[r] + gamma / n_classes for r in range(n_classes)]
        label = sample(P, draws[t - 1])
        before = 0.0
        for r in range(label):
            before += P[r]
        explored = play == "sample" and draws[t - 1] - before < gamma / n_classes
        W_s = np.zeros_like(W) if explored else W.copy()
        right = label == y[t - 1]
        waiting[t] = (x, label, q, P[label], W_s, right)
        record(run, greedy, label, P[label], right, outstanding, 0, 1.0, S)
    run.weights = W
    return run


@transcribes({}, {"alpha": 0.5, "matrix": "diagonal"})
def confidit(X, y, delays, draws, n_classes, alpha=1.0, eta=0.1, matrix="full"):
    """Confidit: no exploration, an upper confidence bound per class; the draw decides the sign of a wrong answer."""
    T, d = X.shape
    W, b = np.zeros((n_classes, d)), np.zeros((n_classes, d))
    A = [(1 + alpha) ** 2 * identity(d, matrix) for _ in range(n_classes)]
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for x, k, sign in [waiting.pop(s) for s in S]:
            A[k] = A[k] + square(x, matrix)
            b[k] += sign * x
            W[k] = solve(A[k], b[k])
        outstanding = len(waiting) + 1
        x = X[t - 1]
        greedy = int(np.argmax((W * x).sum(axis=1)))
        bounds = [W[k] @ x + sqrt(eta * (x @ solve(A[k], x))) for k in range(n_classes)]
        label = int(np.argmax(bounds))
        right = label == y[t - 1]
        sign_if_wrong = -1 if draws[t - 1] < (1 + alpha) / 2 else 1
        waiting[t] = (x, label, 1 if right else sign_if_wrong)
        record(run, greedy, label, 1.0, right, outstanding, 0, eta, S)
    run.weights = W
    return run
