"""The plain loops that the package is measured against: one thread, float64, nothing of the package inside.

All of them play Delaytron (step 1) on rounds 0..T-1: the feedback of round t is applied before round t + d_t
predicts, d_t >= 1. ``X`` is a dense array or a SciPy CSR matrix; row t is round t.

============  ====================================================================================
naive         what a careful user would write in NumPy in an afternoon
preallocated  the same loop after an hour with a profiler: one uniform draw a round, no new arrays
tuned         about as fast as a NumPy loop gets: draws and arrival order made beforehand, no copies
c_dense       limit.c, the best plain C loop, many runs over the same rows
c_sparse      the same for CSR rows
vowpal        Vowpal Wabbit's own bandit learner (no delays), as a point of orientation
============  ====================================================================================

``python benchmarks/peers.py`` checks that they agree; ``python benchmarks/peers.py time`` measures them.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from functools import cache
from itertools import pairwise
from pathlib import Path
from time import perf_counter, thread_time
from typing import NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy; a loop of small products gains nothing from more

import numpy as np
from scipy import sparse

FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC")


class Outcome(NamedTuple):
    """What the C loops hand back, one row for each run; ``seconds`` is the CPU time of the C call alone."""

    mistakes: np.ndarray
    labels: np.ndarray | None
    weights: np.ndarray | None
    seconds: float


class VowpalTimes(NamedTuple):
    """Seconds and played error of one pass of Vowpal Wabbit; see :func:`vowpal`."""

    learn: float
    parse_and_learn: float
    driver: float
    error: float


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


# ---------------------------------------------------------------------- C


@cache
def library():
    """Compile limit.c into a temporary directory that lives as long as the process, and load it."""
    folder = tempfile.TemporaryDirectory(prefix="delaytron-limit-")
    target = Path(folder.name) / "limit.so"
    source = Path(__file__).with_name("limit.c")
    subprocess.run(["gcc", *FLAGS, str(source), "-o", str(target)], check=True)  # noqa: S607
    loaded = ctypes.CDLL(str(target))
    loaded.folder = folder
    for function in (loaded.dense, loaded.sparse):
        function.restype = ctypes.c_long
    return loaded


def aligned(a, dtype):
    """Return the array C-contiguous and on a 64-byte boundary: no vector load straddles two cache lines."""
    a = np.ascontiguousarray(a, dtype=dtype)
    if a.ctypes.data % 64 == 0:
        return a
    raw = np.empty(a.nbytes + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    copy[...] = a
    return copy


def c_dense(X, y, delays, draws, n_classes, gamma, *, keep=True):
    """Play len(delays) runs over the rows of a dense array; ``delays`` and ``draws`` are (runs, T).

    Without ``keep`` only the mistakes are handed back: labels and weights are not copied out of the loop.
    """
    return _call(library().dense, [aligned(X, np.float64)], X.shape, y, delays, draws, n_classes, gamma, keep)


def c_sparse(X, y, delays, draws, n_classes, gamma, *, keep=True):
    """Do as ``c_dense`` does, over the rows of a CSR matrix."""
    parts = [aligned(X.indptr, np.int64), aligned(X.indices, np.int32), aligned(X.data, np.float64)]
    return _call(library().sparse, parts, X.shape, y, delays, draws, n_classes, gamma, keep)


def _call(function, rows, shape, y, delays, draws, n_classes, gamma, keep):
    (T, d), runs = shape, len(delays)
    if n_classes >= 1 << 16:
        raise ValueError(f"limit.c keeps labels in 16 bits: n_classes must be below 65536, got {n_classes}")
    slices = [arrivals(run) for run in delays]
    inputs = [
        *rows,
        aligned(y, np.int32),
        aligned([starts for starts, _ in slices], np.int32),
        aligned([order for _, order in slices], np.int32),
        aligned(draws, np.float64),
    ]
    outputs = [
        np.zeros((runs, n_classes, d)) if keep else None,
        np.zeros((runs, T), dtype=np.int32) if keep else None,
        np.zeros(runs, dtype=np.int64),
    ]

    def pointers(arrays):
        return [ctypes.c_void_p(None if a is None else a.ctypes.data) for a in arrays]

    sizes = [ctypes.c_int(n) for n in (T, d, n_classes, runs)]
    begin = thread_time()
    function(*pointers(inputs), *sizes, ctypes.c_double(gamma), *pointers(outputs))
    seconds = thread_time() - begin
    weights, labels, mistakes = outputs
    return Outcome(mistakes, labels, weights, seconds)


# ---------------------------------------------------------------------- Vowpal Wabbit


def vowpal(X, y, n_classes, seed, epsilon=0.02):
    """Seconds that Vowpal Wabbit takes for one pass of ``--cbify K --epsilon 0.02`` over the rows.

    It is another learner (epsilon-greedy over cost-sensitive regression, single precision, hashed features),
    and it knows no delay: every answer is learned from at once. Three times are given, for a whole pass each:

    learn
        ``Workspace.learn`` alone, called once per row on examples parsed beforehand;
    parse_and_learn
        the same, plus the parsing of the text lines (the building of the lines is not timed);
    driver
        VW's own C++ loop with its parser thread (a second core), reading a binary cache made beforehand,
        start-up included: no Python at all between the rows.
    """
    from vowpalwabbit import Workspace  # noqa: PLC0415 - only here, and only for measurements

    options = _vowpal_options(n_classes, seed, epsilon)
    lines = _vowpal_lines(X, y)
    learn, parse = _vowpal_learn(options, lines)
    with tempfile.TemporaryDirectory() as folder:
        text, binary = Path(folder) / "rows.txt", Path(folder) / "rows.cache"
        text.write_text("\n".join(lines) + "\n")
        with Workspace(f"{options} -d {text} --cache_file {binary}"):
            pass
        begin = perf_counter()
        with Workspace(f"{options} -d {text} --cache_file {binary}") as vw:
            driver = perf_counter() - begin
            error = vw.get_sum_loss() / max(vw.get_weighted_examples(), 1)
    return VowpalTimes(learn, parse + learn, driver, error)


def vowpal_learn(X, y, n_classes, seed=0, epsilon=0.02):
    """Seconds of the calls of ``Workspace.learn`` alone; see :func:`vowpal`."""
    return _vowpal_learn(_vowpal_options(n_classes, seed, epsilon), _vowpal_lines(X, y))[0]


def _vowpal_options(n_classes, seed, epsilon):
    # Unhashed, integer feature names are addresses, and cbify then learns badly or not at all: three classes
    # with one feature each stay at chance (VW 9.11.9); hashed, they are learned at once.
    return f"--cbify {n_classes} --epsilon {epsilon} --random_seed {seed} --hash all --quiet"


def _vowpal_learn(options, lines):
    """Seconds of learning and of parsing; a thousand examples are parsed, then learned."""
    from vowpalwabbit import Workspace  # noqa: PLC0415 - only here, and only for measurements

    learn = parse = 0.0
    with Workspace(options) as vw:
        for first in range(0, len(lines), 1000):
            begin = thread_time()
            examples = [vw.parse(line) for line in lines[first : first + 1000]]
            parsed = thread_time()
            for example in examples:
                vw.learn(example)
            done = thread_time()
            parse += parsed - begin
            learn += done - parsed
            for example in examples:
                vw.finish_example(example)
    return learn, parse


def _vowpal_lines(X, y):
    """Rows as VW text, zeros left out: "label | index:value ..."."""
    X = sparse.csr_matrix(X)
    lines = []
    for t, label in enumerate(np.asarray(y).tolist()):
        row = slice(X.indptr[t], X.indptr[t + 1])
        pairs = zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True)
        lines.append(f"{label + 1} | " + " ".join(f"{j}:{v:.9g}" for j, v in pairs))
    return lines


# ---------------------------------------------------------------------- checks and times


def words(rng, T, d=400, n_classes=9, nonzeros=45):
    """Binary rows in the manner of SynSep: about ``nonzeros`` words, 25 of them from the class's own."""
    own = [rng.choice(120, size=30, replace=False) for _ in range(n_classes)]
    y = rng.integers(n_classes, size=T)
    X = np.zeros((T, d))
    for t in range(T):
        X[t, rng.choice(own[y[t]], size=25, replace=False)] = 1
        X[t, 120 + rng.choice(d - 120, size=nonzeros - 25, replace=False)] = 1
    return X, y


def check():
    """Compare the loops on small random data of awkward shapes."""
    gamma, T, runs = 0.2, 400, 3
    cases = [
        (2, 1),
        (3, 4),
        (4, 7),
        (5, 8),
        (7, 33),
        (9, 40),
        (10, 13),
        (11, 16),
        (13, 21),
        (21, 30),
        (37, 9),
    ]
    for n_classes, d in cases:
        rng = np.random.default_rng([n_classes, d])
        dense = rng.normal(size=(T, d)) * (rng.random((T, d)) < 0.6)  # some rows may be empty
        rows = sparse.csr_matrix(dense)
        y = np.abs(dense @ rng.normal(size=(d, n_classes))).argmax(axis=1)
        delays = rng.integers(1, 30, size=(runs, T))
        delays[rng.random((runs, T)) < 0.05] = 2**62
        delays[0] = 1
        draws = np.stack([np.random.default_rng(seed).random(T) for seed in range(runs)])
        by_c = [
            c_dense(dense, y, delays, draws, n_classes, gamma),
            c_sparse(rows, y, delays, draws, n_classes, gamma),
        ]
        np.testing.assert_allclose(by_c[0].weights, by_c[1].weights, rtol=1e-9, atol=1e-9)
        for run in range(runs):
            for data, by in zip((dense, rows), by_c, strict=True):
                labels = np.empty(T, dtype=int)
                wrong = tuned(data, y, delays[run], draws[run], n_classes, gamma, labels)
                plain = naive(data, y, delays[run], n_classes, gamma, run)  # choice() uses one draw per round
                once = preallocated(data, y, delays[run], draws[run], n_classes, gamma)
                if not (labels == by.labels[run]).all() or not wrong == plain == once == by.mistakes[run]:
                    raise SystemExit(f"K={n_classes} d={d} run={run}: {plain=} {once=} {wrong=} C={by.mistakes[run]}")
    print(f"naive, preallocated, tuned and C agree, dense and CSR, on {len(cases)} shapes of {runs} runs")


def measure(T=100_000, runs=20, longest=1000, gamma=0.014, n_classes=9):
    """Print microseconds per round and run; the NumPy loops play one short run."""
    rng = np.random.default_rng(0)
    X, y = words(rng, T, n_classes=n_classes)
    rows = sparse.csr_matrix(X)
    delays, draws = rng.integers(1, longest + 1, size=(runs, T)), rng.random((runs, T))
    short = T // 10

    def report(name, seconds, rounds, note=""):
        print(f"{name:24s}{seconds / rounds * 1e6:9.3f} us per round and run  {note}")

    for name, play, data in (("C dense", c_dense, X), ("C CSR", c_sparse, rows)):
        best = min((play(data, y, delays, draws, n_classes, gamma) for _ in range(3)), key=lambda o: o.seconds)
        report(name, best.seconds, T * runs, f"error {best.mistakes.mean() / T:.4f}, best of 3")
    for name, data in (("dense", X[:short]), ("CSR", rows[:short])):
        for kind, play in (("tuned", tuned), ("preallocated", preallocated), ("naive", naive)):
            begin = thread_time()
            if play is naive:
                play(data, y[:short], delays[0, :short], n_classes, gamma, 0)
            else:
                play(data, y[:short], delays[0, :short], draws[0, :short], n_classes, gamma)
            report(f"{kind} {name}", thread_time() - begin, short, f"{short} rounds")
    times = vowpal(rows, y, n_classes, seed=1)
    for name, seconds in zip(("learn", "parse_and_learn", "driver"), times[:3], strict=True):
        report(f"vowpal {name}", seconds, T, f"error {times.error:.4f}")


if __name__ == "__main__":
    check()
    if "time" in sys.argv[1:]:
        measure()
