"""Scores and weight updates, for a dense row and for the non-zeros of a sparse one; the paper's update.

The layout of the weights follows the rows: K x d for dense ones, so that a class is one contiguous row; d x K, padded,
for sparse ones, so that a non-zero feature touches one contiguous row. Code elsewhere that indexes W tells the two
apart by whether the row has `indices`.
"""

from typing import Any

import numpy as np

from delaytron.compiler.kernel import fill, kernel, slot
from delaytron.kernels.lanes import add_products, add_scaled, prefetch, store_sum, store_totals, zero_tile, zeros
from delaytron.records import Array, Play, Rounds, Row, Size

FIRST: Any = slot()
SECOND: Any = slot()


@kernel
def stripe(W: Array, indices: Rounds, values: Array, out: Array, k: int) -> None:
    """Write the scores of FIRST + SECOND classes from `k` on; they stay in registers meanwhile."""
    a = zeros(FIRST)
    b = zeros(SECOND)
    c = zeros(FIRST)
    d = zeros(SECOND)
    for i in range(0, indices.size - 1, 2):
        w, v = W[indices[i]], W[indices[i + 1]]
        a = add_scaled(a, values[i], w, k)
        b = add_scaled(b, values[i], w, k + FIRST)
        c = add_scaled(c, values[i + 1], v, k)
        d = add_scaled(d, values[i + 1], v, k + FIRST)
    if indices.size % 2:
        w = W[indices[indices.size - 1]]
        a = add_scaled(a, values[indices.size - 1], w, k)
        b = add_scaled(b, values[indices.size - 1], w, k + FIRST)
    store_sum(a, c, out, k)
    store_sum(b, d, out, k + FIRST)


stripe_16 = fill(stripe, FIRST=8, SECOND=8)
stripe_12 = fill(stripe, FIRST=8, SECOND=4)
stripe_8 = fill(stripe, FIRST=4, SECOND=4)


@kernel
def move(w: Array, change: Array, value: float, k: int) -> None:
    """Add value * change to the weights of FIRST + SECOND classes from `k` on."""
    store_sum(add_scaled(zeros(FIRST), value, change, k), add_scaled(zeros(FIRST), 1.0, w, k), w, k)
    second = k + FIRST
    store_sum(add_scaled(zeros(SECOND), value, change, second), add_scaled(zeros(SECOND), 1.0, w, second), w, second)


move_16 = fill(move, FIRST=8, SECOND=8)
move_12 = fill(move, FIRST=8, SECOND=4)
move_8 = fill(move, FIRST=4, SECOND=4)


CACHE_LINE = 8  # doubles
CLASSES: Any = slot()
LANES: Any = slot()


def padded(n_classes: int) -> int:
    """Return the number of classes rounded up to what the sparse stripes below can cover.

    Examples
    --------
    >>> [padded(k) for k in (2, 9, 16, 20, 53)]
    [8, 12, 16, 24, 56]
    """
    whole, rest = divmod(n_classes, 16)
    return 16 * whole + next(width for width in (0, 8, 12, 16) if width >= rest)


def weight_shape(n_classes: int, n_features: int, sparse: bool) -> tuple[int, int]:
    """Return the shape in which the weights are held."""
    return (n_features, padded(n_classes)) if sparse else (n_classes, n_features)


def zero_weights(n_runs: int, size: Size) -> Array:
    """Return zeros for every run, aligned to a cache line: vector loads are a fifth faster then."""
    shape = weight_shape(size.n_classes, size.n_features, size.sparse)
    count = n_runs * shape[0] * shape[1]
    memory = np.zeros(count + CACHE_LINE, np.float64)
    begin = -memory.ctypes.data % (8 * CACHE_LINE) // 8
    return memory[begin : begin + count].reshape(n_runs, *shape)


def as_matrix(W: Array, n_classes: int, sparse: bool) -> Array:
    """Return the weights as the K x d matrix of the paper, whatever way they are held."""
    return W[:, :n_classes].T if sparse else W


@kernel
def row_of(indptr: Any, indices: Any, values: Array, i: int) -> Row:
    """Return row `i` of a dense or a CSR matrix."""
    if values.ndim == 2:
        return Row(None, values[i])
    return Row(indices[indptr[i] : indptr[i + 1]], values[indptr[i] : indptr[i + 1]])


@kernel
def prefetch_row(indptr: Any, indices: Any, values: Array, i: int) -> None:
    """Prefetch row `i`, a cache line at a time."""
    if values.ndim == 2:
        for j in range(0, values.shape[1], 8):
            prefetch(values, i * values.shape[1] + j)
    else:
        for j in range(indptr[i], indptr[i + 1], 8):
            prefetch(values, j)
        for j in range(indptr[i], indptr[i + 1], 16):
            prefetch(indices, j)


@kernel
def score(W: Array, indices: Any, values: Array, out: Array) -> None:
    """Write W x to `out`; the compiler drops the branch that the type of `indices` excludes."""
    if indices is None:
        score_dense(W, values, out)
    else:
        score_sparse(W, indices, values, out)


@kernel
def score_dense(W: Array, x: Array, out: Array) -> None:
    """Write W x to `out`, a tile of classes at a time, so that a part of x is loaded once for all of them.

    All classes are summed in the same order: equal rows of W have equal scores, to the bit.
    """
    left = W.shape[0]
    if left < 9:
        score_few(W, x, out)
        return
    while left > 0:
        if left == 9:
            left = tile_9(W, left, x, out)
        elif left >= 10:
            left = tile_10(W, left, x, out)
        elif left >= 4:
            left = tile_4(W, left, x, out)
        else:
            left = tile_1(W, left, x, out)


@kernel
def score_few(W: Array, x: Array, out: Array) -> None:
    """Write W x to `out` for at most eight classes."""
    left = W.shape[0]
    while left > 0:
        if left >= 7 or left == 4:
            left = wide_4(W, left, x, out)
        elif left >= 5 or left == 3:
            left = wide_3(W, left, x, out)
        elif left == 2:
            left = wide_2(W, left, x, out)
        else:
            left = tile_1(W, left, x, out)


@kernel
def tile(W: Array, left: int, x: Array, out: Array) -> int:
    """Write the scores of CLASSES classes, LANES sums each, the rest of x last; return how many classes are left."""
    k = W.shape[0] - left
    whole = x.size - x.size % LANES
    sums = zero_tile(CLASSES, LANES)
    for j in range(0, whole, LANES):
        sums = add_products(sums, W, k, x, j)
    store_totals(sums, out, k)
    for r in range(k, k + CLASSES):
        for j in range(whole, x.size):
            out[r] += W[r, j] * x[j]
    return int(left - CLASSES)


tile_1 = fill(tile, CLASSES=1, LANES=4)  # about ten sums in flight keep the adders busy: few classes, wide sums
tile_4 = fill(tile, CLASSES=4, LANES=4)
tile_9 = fill(tile, CLASSES=9, LANES=4)
tile_10 = fill(tile, CLASSES=10, LANES=4)
wide_2 = fill(tile, CLASSES=2, LANES=8)
wide_3 = fill(tile, CLASSES=3, LANES=8)
wide_4 = fill(tile, CLASSES=4, LANES=8)


@kernel
def score_sparse(W: Array, indices: Rounds, values: Array, out: Array) -> None:
    """Write W x to `out`, a stripe of classes at a time: the even non-zeros and the odd ones, then their sum."""
    wide = W.shape[1] - W.shape[1] % 16
    for k in range(0, wide, 16):
        stripe_16(W, indices, values, out, k)
    if W.shape[1] - wide == 12:
        stripe_12(W, indices, values, out, wide)
    elif W.shape[1] - wide == 8:
        stripe_8(W, indices, values, out, wide)


@kernel
def add_outer(W: Array, change: Array, indices: Any, values: Array) -> None:
    """W_k += change_k x for every class; `change` is as long as a feature's weights, 0 in the padding."""
    if indices is None:
        for k in range(W.shape[0]):
            if change[k] != 0.0:
                add_row(W, k, change[k], indices, values)
    else:
        wide = W.shape[1] - W.shape[1] % 16
        for i in range(values.size):
            w = W[indices[i]]
            for k in range(0, wide, 16):
                move_16(w, change, values[i], k)
            if W.shape[1] - wide == 12:
                move_12(w, change, values[i], wide)
            elif W.shape[1] - wide == 8:
                move_8(w, change, values[i], wide)


@kernel
def add_row(W: Array, k: int, scale: float, indices: Any, values: Array) -> None:
    """W_k += scale x."""
    if indices is None:
        for j in range(values.size):
            W[k, j] += scale * values[j]
    else:
        for i in range(values.size):
            W[indices[i], k] += scale * values[i]


@kernel
def score_of(W: Array, k: int, indices: Any, values: Array) -> float:
    """Return (W x)_k, in four sums side by side."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = values.size - values.size % 4
    if indices is None:
        for i in range(0, whole, 4):
            a += W[k, i] * values[i]
            b += W[k, i + 1] * values[i + 1]
            c += W[k, i + 2] * values[i + 2]
            d += W[k, i + 3] * values[i + 3]
        for i in range(whole, values.size):
            a += W[k, i] * values[i]
    else:
        for i in range(0, whole, 4):
            a += W[indices[i], k] * values[i]
            b += W[indices[i + 1], k] * values[i + 1]
            c += W[indices[i + 2], k] * values[i + 2]
            d += W[indices[i + 3], k] * values[i + 3]
        for i in range(whole, values.size):
            a += W[indices[i], k] * values[i]
    return (a + b) + (c + d)


@kernel
def squared_norm(values: Array) -> float:
    """Return ||x||^2, in four sums side by side."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = values.size - values.size % 4
    for i in range(0, whole, 4):
        a += values[i] * values[i]
        b += values[i + 1] * values[i + 1]
        c += values[i + 2] * values[i + 2]
        d += values[i + 3] * values[i + 3]
    for i in range(whole, values.size):
        a += values[i] * values[i]
    return (a + b) + (c + d)


@kernel
def banditron_revision(W: Array, eta: float, past: Play, reward: float) -> None:
    r"""Add what :math:`\eta\tilde U^s` lacked when the answer was counted as wrong; the update is affine in it."""
    add_row(W, past.label, eta * reward / past.prob, past.x.indices, past.x.values)


@kernel
def banditron_update(W: Array, eta: float, past: Play, answer: Any) -> None:
    r"""Add :math:`\eta\tilde U^s`, Algorithm 1 line 9, read with x_s where the paper prints x_t.

    .. math::
        \tilde U^s_{r,j} = x_s(j)\left[\frac{1[\tilde y_s = y_s]\,1[\tilde y_s = r]}{P_s(r)} - 1[\hat y_s = r]\right]

    A reward between 0 and 1 takes the place of :math:`1[\tilde y_s = y_s]`.
    """
    reward = 1.0 * answer
    if reward == 0.0:
        add_row(W, past.greedy, -eta, past.x.indices, past.x.values)
    elif past.label == past.greedy:
        add_row(W, past.label, eta * (reward / past.prob - 1.0), past.x.indices, past.x.values)
    else:
        add_row(W, past.label, eta * reward / past.prob, past.x.indices, past.x.values)
        add_row(W, past.greedy, -eta, past.x.indices, past.x.values)
