"""Scores and weight updates, for a dense row and for the non-zeros of a sparse one.

The weights stand the way the rows need them: K x d for dense rows, so that a class is one contiguous row; d x K,
padded, for sparse ones, so that a non-zero feature touches one contiguous row. Only this file knows.
"""

from typing import Any

from delaytron._jit import fill, kernel, slot
from delaytron.kernels.lanes import add_products, add_scaled, store, total, zeros
from delaytron.records import Array, Rounds, Row

DENSE_LANES = 8
FIRST: Any = slot()
SECOND: Any = slot()


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
def score(W: Array, x: Row, out: Array) -> None:
    """Write W x to `out`."""
    score_row(W, x.indices, x.values, out)


@kernel
def score_row(W: Array, indices: Any, values: Array, out: Array) -> None:
    """Write W x to `out`; the compiler drops the branch that the type of `indices` excludes."""
    if indices is None:
        score_dense(W, values, out)
    else:
        score_sparse(W, indices, values, out)


@kernel
def score_dense(W: Array, x: Array, out: Array) -> None:
    """Write W x to `out`, three classes at a time so that each part of x is loaded once for all three."""
    K = W.shape[0]
    for k in range(0, K - 2, 3):
        out[k], out[k + 1], out[k + 2] = three_dots(W[k], W[k + 1], W[k + 2], x)
    for k in range(K - K % 3, K):
        out[k] = dot(W[k], x)


@kernel
def dot(w: Array, x: Array) -> float:
    """<w, x>, lane by lane; what does not fill the lanes comes last, in order."""
    whole = x.size - x.size % DENSE_LANES
    lanes = zeros(DENSE_LANES)
    for j in range(0, whole, DENSE_LANES):
        lanes = add_products(lanes, w, x, j)
    return add_rest(total(lanes), w, x, whole)


@kernel
def three_dots(u: Array, v: Array, w: Array, x: Array) -> tuple[float, float, float]:
    """Return what `dot` gives for each of three rows."""
    whole = x.size - x.size % DENSE_LANES
    a, b, c = zeros(DENSE_LANES), zeros(DENSE_LANES), zeros(DENSE_LANES)
    for j in range(0, whole, DENSE_LANES):
        a = add_products(a, u, x, j)
        b = add_products(b, v, x, j)
        c = add_products(c, w, x, j)
    return add_rest(total(a), u, x, whole), add_rest(total(b), v, x, whole), add_rest(total(c), w, x, whole)


@kernel
def add_rest(s: float, w: Array, x: Array, start: int) -> float:
    """Add the products from `start` on, one after the other."""
    for j in range(start, x.size):
        s += w[j] * x[j]
    return s


@kernel
def score_sparse(W: Array, indices: Rounds, values: Array, out: Array) -> None:
    """Write W x to `out`, a stripe of classes at a time; each class sums the non-zeros in their order."""
    wide = W.shape[1] - W.shape[1] % 16
    for k in range(0, wide, 16):
        stripe_16(W, indices, values, out, k)
    if W.shape[1] - wide == 12:
        stripe_12(W, indices, values, out, wide)
    elif W.shape[1] - wide == 8:
        stripe_8(W, indices, values, out, wide)


@kernel
def stripe(W: Array, indices: Rounds, values: Array, out: Array, k: int) -> None:
    """Write the scores of FIRST + SECOND classes from `k` on; they stay in registers meanwhile."""
    a, b = zeros(FIRST), zeros(SECOND)
    for i in range(indices.size):
        w = W[indices[i]]
        a = add_scaled(a, values[i], w, k)
        b = add_scaled(b, values[i], w, k + FIRST)
    store(a, out, k)
    store(b, out, k + FIRST)


stripe_16 = fill(stripe, FIRST=8, SECOND=8)
stripe_12 = fill(stripe, FIRST=8, SECOND=4)
stripe_8 = fill(stripe, FIRST=4, SECOND=4)


@kernel
def add_row(W: Array, k: int, scale: float, x: Row) -> None:
    """W_k += scale x."""
    add_to_class(W, k, scale, x.indices, x.values)


@kernel
def add_to_class(W: Array, k: int, scale: float, indices: Any, values: Array) -> None:
    """W_k += scale x, in the way the weights are held."""
    if indices is None:
        for j in range(values.size):
            W[k, j] += scale * values[j]
    else:
        for i in range(values.size):
            W[indices[i], k] += scale * values[i]
