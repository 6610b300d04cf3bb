"""RCINE as a stream, in the manner of ``paper.py``: RCNBF whose rates are read, block by block, from the answers."""

from math import exp, sqrt

import numpy as np

from paper import Run, distribution, receive, record, sample


def anchored_rate(pairs, looks_right):
    """How many of the most confident predictions were contradicted; ``pairs`` holds (P^(f = 1), f).

    The predictions are rounded down to hundredths, and the most confident ones are taken until they are a fifth of
    all; others that were rounded to the same hundredth as the last of them belong to them.
    """
    rounded = sorted(((min(int(100 * p), 99), f) for p, f in pairs), reverse=looks_right)
    last = rounded[max(0, int(np.ceil(0.2 * len(rounded))) - 1)][0]
    anchors = [f for p, f in rounded if (p >= last if looks_right else p <= last)]
    return sum(f != looks_right for f in anchors) / len(anchors)


def rcine(X, y, delays, draws, n_classes, gamma=0.015625, block=50_000, flips=None):
    """``flips[t]`` holds whether a "wrong" of that round comes as "right", and whether a "right" as "wrong"."""
    T, d = X.shape
    W = np.zeros((n_classes, d))
    V, G = np.zeros((n_classes, d)), np.ones((n_classes, d))
    rho0 = rho1 = 0.0
    heard, right_looking, wrong_looking = 0, [], []
    waiting = {}
    run = Run()
    run.rates = []
    for t in range(1, T + 1):
        S = receive(delays, t)
        for x, greedy, label, prob, f in [waiting.pop(s) for s in S]:
            W[label] += (f - rho0) / ((1 - rho0 - rho1) * prob) * x
            W[greedy] -= x
            if x.any():
                z = x / sqrt(x @ x)
                chance = 1 / (1 + exp(-V[label] @ z))
                looking = right_looking if label == np.argmax((V * z).sum(axis=1)) else wrong_looking
                looking.append((chance, f))
                g = (chance - f) * z
                G[label] += g**2
                V[label] -= g / np.sqrt(G[label])
            heard += 1
            if heard % block == 0:
                rho0 = min(0.45, anchored_rate(wrong_looking, False)) if wrong_looking else rho0
                rho1 = min(0.45, anchored_rate(right_looking, True)) if right_looking else rho1
                right_looking, wrong_looking = [], []
        outstanding = len(waiting) + 1
        x = X[t - 1]
        greedy = int(np.argmax((W * x).sum(axis=1)))
        P = distribution(greedy, n_classes, gamma)
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        answer = right if flips is None or not flips[t - 1][int(right)] else not right
        waiting[t] = (x, greedy, label, P[label], answer)
        record(run, greedy, label, P[label], right, outstanding, 0, 1.0, S)
        run.rates.append((rho0, rho1))
    run.weights = W
    return run
