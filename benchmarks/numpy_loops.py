"""The plain NumPy loops that the package is measured against: float64, nothing of the package inside.

All of them play Delaytron (step 1) on rounds 0..T-1: the feedback of round t is applied before round t + d_t
predicts, d_t >= 1. ``X`` is a dense array or a SciPy CSR matrix; row t is round t.

============  ====================================================================================
naive         what a careful user would write in NumPy in an afternoon
preallocated  the same loop after an hour with a profiler: one uniform draw a round, no new arrays
tuned         about as fast as a NumPy loop gets: draws and arrival order made beforehand, no copies
============  ====================================================================================

Import this module before NumPy: it keeps NumPy's linear algebra on one thread.
"""

import os
from itertools import pairwise

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy; a loop of small products gains nothing from more

import numpy as np
from scipy import sparse

# ---------------------------------------------------------------------- NumPy, plainly


def naive(X, y, delays, n_classes, gamma, seed):
    """Mistakes of the loop that follows the pseudo-code with a dictionary of pending answers."""
    return (_naive_sparse if sparse.issparse(X) else _naive_dense)(X, y, delays, n_classes, gamma, seed)


def _naive_dense(X, y, delays, n_classes, gamma, seed):
    rng = np.random.default_rng(seed)
    W = np.zeros((n_classes, X.shape[1]))
    pending = {}
    mistakes = 0
    for t in range(len(y)):
        for x, greedy, label, prob, correct in pending.pop(t, []):
            if correct:
                W[label] += x / prob
            W[greedy] -= x
        x = X[t]
        greedy = int(np.argmax(W @ x))
        p = np.full(n_classes, gamma / n_classes)
        p[greedy] += 1 - gamma
        label = int(rng.choice(n_classes, p=p))
        correct = label == y[t]
        mistakes += not correct
        pending.setdefault(t + int(delays[t]), []).append((x, greedy, label, p[label], correct))
    return mistakes


def _naive_sparse(X, y, delays, n_classes, gamma, seed):
    rng = np.random.default_rng(seed)
    W = np.zeros((n_classes, X.shape[1]))
    pending = {}
    mistakes = 0
    for t in range(len(y)):
        for idx, val, greedy, label, prob, correct in pending.pop(t, []):
            if correct:
                W[label, idx] += val / prob
            W[greedy, idx] -= val
        row = slice(X.indptr[t], X.indptr[t + 1])
        idx, val = X.indices[row], X.data[row]
        greedy = int(np.argmax(W[:, idx] @ val))
        p = np.full(n_classes, gamma / n_classes)
        p[greedy] += 1 - gamma
        label = int(rng.choice(n_classes, p=p))
        correct = label == y[t]
        mistakes += not correct
        pending.setdefault(t + int(delays[t]), []).append((idx, val, greedy, label, p[label], correct))
    return mistakes


# ---------------------------------------------------------------------- NumPy, preallocated


def preallocated(X, y, delays, draws, n_classes, gamma):
    """Mistakes of the plain loop with one uniform draw a round and arrays that are made once.

    This is what most people mean by a tuned NumPy loop; everything else is as plain as in ``naive``.
    """
    is_sparse = sparse.issparse(X)
    T, d = X.shape
    W, scores, p, cdf = np.zeros((n_classes, d)), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    greedys, labels, probs = np.empty(T, dtype=np.intp), np.empty(T, dtype=np.intp), np.empty(T)
    update = _add_answer_sparse if is_sparse else _add_answer_dense
    due = np.arange(T) + np.minimum(delays, T)
    pending = {}
    for t in range(T):
        for s in pending.pop(t, ()):
            update(W, X, s, greedys[s], labels[s], probs[s], labels[s] == y[s])
        if is_sparse:
            row = slice(X.indptr[t], X.indptr[t + 1])
            np.dot(W[:, X.indices[row]], X.data[row], out=scores)
        else:
            np.dot(W, X[t], out=scores)
        greedy = scores.argmax()
        p.fill(gamma / n_classes)
        p[greedy] += 1 - gamma
        np.cumsum(p, out=cdf)
        label = min(cdf.searchsorted(draws[t], side="right"), n_classes - 1)
        greedys[t], labels[t], probs[t] = greedy, label, p[label]
        pending.setdefault(due[t], []).append(t)
    return int(np.count_nonzero(labels != y))


def _add_answer_dense(W, X, s, greedy, label, prob, correct):
    x = X[s]
    if correct:
        W[label] += x / prob
    W[greedy] -= x


def _add_answer_sparse(W, X, s, greedy, label, prob, correct):
    row = slice(X.indptr[s], X.indptr[s + 1])
    idx, val = X.indices[row], X.data[row]
    if correct:
        W[label, idx] += val / prob
    W[greedy, idx] -= val


# ---------------------------------------------------------------------- NumPy, tuned


def tuned(X, y, delays, draws, n_classes, gamma, labels=None):
    """Mistakes of a NumPy loop with all that can be done before the loop done before it.

    ``labels``, if given, is an integer array that receives the label played in every round.
    """
    play = _tuned_sparse if sparse.issparse(X) else _tuned_dense
    played, y = play(X, y, delays, draws, n_classes, gamma), np.asarray(y)
    if labels is not None:
        labels[:] = played
    return int(np.count_nonzero(np.asarray(played) != y))


def arrivals(delays):
    """Rounds in order of arrival: (starts, order); round t receives order[starts[t]:starts[t + 1]]."""
    T = len(delays)
    due = np.minimum(np.arange(T) + np.minimum(delays, T), T)
    order = np.argsort(due, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(due, minlength=T + 1)[:T])])
    return starts.astype(np.int32), order.astype(np.int32)


class _Draw:
    """Inverse CDF of (1 - gamma) 1[r = greedy] + gamma/K from partial sums in class order."""

    def __init__(self, n_classes, gamma):
        self.other = gamma / n_classes
        self.top = (1 - gamma) + self.other
        self.below = [0.0]
        for _ in range(n_classes):
            self.below.append(self.below[-1] + self.other)

    def unlikely(self, greedy, u):
        """Return the label when it may not be the greedy one."""
        upto = 0.0
        for r in range(len(self.below) - 1):
            upto += self.top if r == greedy else self.other
            if u < upto:
                return r
        return len(self.below) - 2


def _tuned_dense(X, y, delays, draws, n_classes, gamma):
    starts, order = (a.tolist() for a in arrivals(delays))
    y, draws = np.asarray(y).tolist(), np.asarray(draws).tolist()
    T, d = X.shape
    W, scores, scaled = np.zeros((n_classes, d)), np.empty(n_classes), np.empty(d)
    rows = list(W)
    draw = _Draw(n_classes, gamma)
    below, top, unlikely = draw.below, draw.top, draw.unlikely
    gain_greedy, gain_other = 1 / draw.top - 1, 1 / draw.other
    dot, multiply, add, subtract, argmax = np.dot, np.multiply, np.add, np.subtract, scores.argmax
    greedys, labels = [0] * T, [0] * T
    stop = starts[0]
    for t, x in enumerate(X):
        start, stop = stop, starts[t + 1]
        for s in order[start:stop]:
            greedy, label = greedys[s], labels[s]
            if label != y[s]:
                subtract(rows[greedy], X[s], rows[greedy])
            elif label == greedy:
                multiply(X[s], gain_greedy, scaled)
                add(rows[greedy], scaled, rows[greedy])
            else:
                subtract(rows[greedy], X[s], rows[greedy])
                multiply(X[s], gain_other, scaled)
                add(rows[label], scaled, rows[label])
        dot(W, x, scores)
        greedys[t] = greedy = int(argmax())
        u, low = draws[t], below[greedy]
        labels[t] = greedy if low <= u < low + top else unlikely(greedy, u)
    return labels


def _tuned_sparse(X, y, delays, draws, n_classes, gamma):
    starts, order = (a.tolist() for a in arrivals(delays))
    y, draws, indptr = np.asarray(y).tolist(), np.asarray(draws).tolist(), X.indptr.tolist()
    T, d = X.shape
    widest = int(np.diff(X.indptr).max(initial=0))
    W, scores = np.zeros((d, n_classes)), np.empty(n_classes)  # (d, K): a gather copies whole rows
    gathered = [np.empty((widest, n_classes))[:n] for n in range(widest + 1)]
    columns = list(W.T)
    draw = _Draw(n_classes, gamma)
    below, top, unlikely = draw.below, draw.top, draw.unlikely
    gain_greedy, gain_other = 1 / draw.top - 1, 1 / draw.other
    dot, take, argmax = np.dot, W.take, scores.argmax
    indices, data = X.indices.astype(np.intp), X.data  # take() would convert the indices every time
    idxs = [indices[a:b] for a, b in pairwise(indptr)]
    vals = [data[a:b] for a, b in pairwise(indptr)]
    greedys, labels = [0] * T, [0] * T
    stop = starts[0]
    for t in range(T):
        start, stop = stop, starts[t + 1]
        for s in order[start:stop]:
            greedy, label, idx, val = greedys[s], labels[s], idxs[s], vals[s]
            if label == greedy and label == y[s]:
                columns[greedy][idx] += val * gain_greedy
            else:
                columns[greedy][idx] -= val
                if label == y[s]:
                    columns[label][idx] += val * gain_other
        idx = idxs[t]
        block = gathered[len(idx)]
        take(idx, 0, block, "clip")  # any mode but "raise" writes straight into the output
        dot(vals[t], block, scores)
        greedys[t] = greedy = int(argmax())
        u, low = draws[t], below[greedy]
        labels[t] = greedy if low <= u < low + top else unlikely(greedy, u)
    return labels
