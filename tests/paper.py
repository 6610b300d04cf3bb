"""The paper's pseudo-code, line by line, with dense matrices: slow, obvious, and independent of the package.

Every function plays one run. ``X`` is dense (T, d), ``y`` holds labels 0..K-1, ``delays`` integers >= 1 of
any size, ``draws`` one uniform number in [0, 1) per round. The feedback of round t is delivered at the start
of round t + d_t: deliver S_t (ascending), count, update, predict. Rounds are numbered from 1, as there.
"""

from dataclasses import dataclass, field
from math import sqrt

import numpy as np

TRANSCRIPTIONS = {}  # by the name of the learner


def transcribes(*settings):
    """Register the transcription of the learner of the same name, and the settings in which it is compared with it.

    The tests of all learners (`learners/test_conformance.py`, `forms.py`) play each of the settings, so they explore
    much, and choose every branch of the update at least once.
    """

    def register(transcription):
        transcription.settings = settings
        TRANSCRIPTIONS[transcription.__name__] = transcription
        return transcription

    return register


@dataclass
class Run:
    """What one run did; every list has one entry per round."""

    labels: list[int] = field(default_factory=list)  # ytilde_t, the label played
    greedy: list[int] = field(default_factory=list)  # yhat_t
    probs: list[float] = field(default_factory=list)  # P_t(ytilde_t)
    correct: list[bool] = field(default_factory=list)  # 1[ytilde_t = y_t]
    weights: np.ndarray | None = None  # W after the last round
    outstanding: list[int] = field(default_factory=list)  # m_t, the present round included
    epochs: list[int] = field(default_factory=list)  # e
    etas: list[float] = field(default_factory=list)  # the step size in force
    delivered: list[list[int]] = field(default_factory=list)  # S_t, rounds numbered from 1


def receive(delays, t):
    """S_t: the rounds whose feedback is delivered at the start of round t, in ascending order."""
    return [s for s in range(1, t) if s + int(delays[s - 1]) == t]


def distribution(greedy, n_classes, gamma):
    """P_t(r) = (1 - gamma) 1[r = yhat_t] + gamma / K."""
    return [(1 - gamma) * (r == greedy) + gamma / n_classes for r in range(n_classes)]


def sample(P, u):
    """Draw a label by inverse CDF: the first r with u < P(0) + ... + P(r), else the last class."""
    cumulative = 0.0
    for r in range(len(P)):
        cumulative += P[r]
        if u < cumulative:
            return r
    return len(P) - 1


def estimate(x_s, y_s, yhat_s, ytilde_s, P_s):
    """U~^s, the K x d matrix of Algorithm 1, line 9 (with x_s: the printed x_t is a misprint)."""
    K, d = len(P_s), len(x_s)
    U = np.zeros((K, d))
    for r in range(K):
        for j in range(d):
            U[r, j] = x_s[j] * ((ytilde_s == y_s) * (ytilde_s == r) / P_s[r] - (yhat_s == r))
    return U


def record(run, greedy, label, prob, correct, m, e, eta, S):
    """Write one round into the run."""
    run.greedy.append(greedy)
    run.labels.append(label)
    run.probs.append(prob)
    run.correct.append(bool(correct))
    run.outstanding.append(m)
    run.epochs.append(e)
    run.etas.append(eta)
    run.delivered.append(S)


@transcribes({"gamma": 0.3, "eta": 0.7})
def delaytron(X, y, delays, draws, n_classes, gamma, eta=1.0):
    """Algorithm 1, Delaytron."""
    T, d = X.shape
    W = np.zeros((n_classes, d))
    yhat, ytilde, P = {}, {}, {}  # one entry for every round played
    received = 0
    run = Run()
    for t in range(1, T + 1):
        # lines 7-11: feedback, estimates, update
        S = receive(delays, t)
        received += len(S)
        total = np.zeros((n_classes, d))
        for s in S:
            total += estimate(X[s - 1], y[s - 1], yhat[s], ytilde[s], P[s])
        W = W + eta * total
        # lines 2-6: predict
        yhat[t] = int(np.argmax(W @ X[t - 1]))
        P[t] = distribution(yhat[t], n_classes, gamma)
        ytilde[t] = sample(P[t], draws[t - 1])
        right = ytilde[t] == y[t - 1]
        record(run, yhat[t], ytilde[t], P[t][ytilde[t]], right, t - received, 0, eta, S)
    run.weights = W
    return run


@transcribes({"gamma": 0.3})
def banditron(X, y, delays, draws, n_classes, gamma):
    """Banditron (Kakade, Shalev-Shwartz, Tewari): step 1; all d_t = 1 is their undelayed algorithm."""
    T, d = X.shape
    W = np.zeros((n_classes, d))
    waiting = {}  # round: what its update needs
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        for s in S:
            x, greedy, label, prob, right = waiting.pop(s)
            U = np.zeros((n_classes, d))
            if right:
                U[label] += x / prob
            U[greedy] -= x
            W = W + U
        m = len(waiting) + 1
        x = X[t - 1]
        greedy = int(np.argmax(W @ x))
        P = distribution(greedy, n_classes, gamma)
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        waiting[t] = (x, greedy, label, P[label], right)
        record(run, greedy, label, P[label], right, m, 0, 1.0, S)
    run.weights = W
    return run


@transcribes(
    *(
        {"gamma": 0.3, "tracker": tracker, "count_self": count_self, "restart": restart}
        for tracker in ("cumulative", "instant")
        for count_self in (True, False)
        for restart in (True, False)
    )
)
def adaptive_delaytron(X, y, delays, draws, n_classes, gamma, tracker="cumulative", count_self=True, restart=False):
    """Algorithm 2, Adaptive Delaytron.

    ``tracker`` compares 2^e with the sum of all m_s so far ("cumulative", as printed) or with m_t alone
    ("instant"); without ``count_self`` the present round is left out of that count. With ``restart`` a new
    epoch sets W to zero and drops the feedback of every round before it, as the proof assumes.
    """
    T, d = X.shape
    W = np.zeros((n_classes, d))
    e, eta, total_m = 0, 1.0, 0
    first = 1  # with restart: feedback of rounds before this one is dropped
    yhat, ytilde, P = {}, {}, {}
    received = 0
    run = Run()
    for t in range(1, T + 1):
        # line 7
        S = receive(delays, t)
        received += len(S)
        # line 8
        m = t - received
        # line 9
        counted = m if count_self else m - 1
        total_m += counted
        tracked = {"cumulative": total_m, "instant": counted}[tracker]
        before = e
        while tracked >= 2**e:
            e = e + 1
            eta = sqrt(1 / 2**e)
        if restart and e != before:
            W = np.zeros((n_classes, d))
            first = t
        # lines 10-13
        total = np.zeros((n_classes, d))
        for s in S:
            if s >= first:
                total += estimate(X[s - 1], y[s - 1], yhat[s], ytilde[s], P[s])
        W = W + eta * total
        # lines 2-6
        yhat[t] = int(np.argmax(W @ X[t - 1]))
        P[t] = distribution(yhat[t], n_classes, gamma)
        ytilde[t] = sample(P[t], draws[t - 1])
        right = ytilde[t] == y[t - 1]
        record(run, yhat[t], ytilde[t], P[t][ytilde[t]], right, m, e, eta, S)
    run.weights = W
    return run


@transcribes({})
def perceptron(X, y, delays, draws, n_classes):
    """Multiclass Perceptron: the greedy label is always played and the true label is what arrives, late."""
    T, d = X.shape
    W = np.zeros((n_classes, d))
    yhat = {}
    received = 0
    run = Run()
    for t in range(1, T + 1):
        S = receive(delays, t)
        received += len(S)
        for s in S:
            if yhat[s] != y[s - 1]:
                W[y[s - 1]] += X[s - 1]
                W[yhat[s]] -= X[s - 1]
        yhat[t] = int(np.argmax(W @ X[t - 1]))
        record(run, yhat[t], yhat[t], 1.0, yhat[t] == y[t - 1], t - received, 0, 1.0, S)
    run.weights = W
    return run
