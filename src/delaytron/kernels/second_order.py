r"""Second-order steps: A grows by a rank-one part, and its inverse and W follow; whole, or its diagonal only.

.. math::
    A \leftarrow A + \omega h h', \quad \theta \leftarrow \theta + \tau h: \qquad
    v = A^{-1} h, \quad c = 1 + \omega h'v, \quad A^{-1} \leftarrow A^{-1} - \tfrac{\omega}{c} v v', \quad
    W \leftarrow W + \tfrac{1}{c} (\tau - \omega \langle h, W \rangle) v

A full A is kept as B = A^-1 over the K d weights in the order of k d + j, for dense and sparse rows alike.
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.kernels.linear import as_matrix, score_of, zero_weights
from delaytron.records import Array, Bools, Ints, Size

LATE = 8  # steps that B lags behind: updating it once for all of them takes hardly longer than for one
REFRESH = 1000  # steps after which W is recomputed from B and theta; a multiple of LATE, so that B is up to date
UNSAFE_SHRINKAGE = 2.0**-20  # the c below which rounding may decide whether a full A stays positive


class Full(NamedTuple):
    """W, B = A^-1 but for the last steps, theta; those steps as vectors u with a sign (A^-1 = B - sum sign u u').

    `h` takes the class weights of a step's direction h (x) x; `alike` marks the classes that no step has distinguished
    yet.
    """

    W: Array
    B: Array
    theta: Array
    late: Array
    signs: Array
    h: Array
    alike: Bools
    steps: Ints


def full_state(entries: Array, size: Size) -> Full:
    """Return W = 0, theta = 0 and B = entry * I for every run."""
    n_runs = entries.size
    n = size.n_classes * size.n_features
    B = np.zeros((n_runs, n, n))
    B.reshape(n_runs, n * n)[:, :: n + 1] = entries[:, None]
    return Full(
        zero_weights(n_runs, size),
        B,
        np.zeros((n_runs, n)),
        np.zeros((n_runs, LATE, n)),
        np.zeros((n_runs, LATE)),
        np.zeros((n_runs, size.n_classes)),
        np.ones((n_runs, size.n_classes), np.bool_),
        np.zeros((n_runs, 1), np.int64),
    )


@kernel
def dot(v: Array, indices: Any, values: Array) -> float:
    """Return v'x, the even entries of x and the odd ones, then their sum."""
    even, odd = 0.0, 0.0
    for i in range(0, values.size - 1, 2):
        even += values[i] * v[i if indices is None else indices[i]]
        odd += values[i + 1] * v[i + 1 if indices is None else indices[i + 1]]
    if values.size % 2:
        i = values.size - 1
        even += values[i] * v[i if indices is None else indices[i]]
    return even + odd


@kernel
def add_to(v: Array, scale: float, a: Array) -> None:
    """Add scale * a to v, over their whole length."""
    for i in range(v.size):
        v[i] += scale * a[i]


@kernel
def add_rows(v: Array, scale: float, B: Array, indices: Any, values: Array) -> None:
    """Add scale * B'x to v, a row of B after another."""
    for i in range(values.size):
        if values[i] != 0.0:
            add_to(v, scale * values[i], B[i if indices is None else indices[i]])


@kernel
def multiply(B: Array, indices: Any, values: Array, v: Array) -> None:
    """Write B x to v; B is symmetric."""
    v[:] = 0.0
    add_rows(v, 1.0, B, indices, values)


@kernel
def quadratic(B: Array, indices: Any, values: Array, v: Array) -> float:
    """Return x'B x; v takes the product with a dense row."""
    if indices is None:
        multiply(B, indices, values, v)
        return dot(v, indices, values)
    total = 0.0
    for i in range(values.size):
        total += values[i] * dot(B[indices[i]], indices, values)
    return total


@kernel
def add_class(W: Array, k: int, scale: float, v: Array, indices: Any) -> None:
    """W_k += scale v; `indices` only selects the layout of W."""
    if indices is None:
        add_to(W[k], scale, v)
    else:
        for j in range(v.size):
            W[j, k] += scale * v[j]


@kernel
def rank_one(B: Array, v: Array, scale: float) -> None:
    """B -= scale v v' for scale >= 0, equal to the bit on both sides of the diagonal; v is overwritten."""
    root = sqrt(scale)
    for i in range(v.size):
        v[i] *= root
    for i in range(v.size):
        if v[i] != 0.0:
            add_to(B[i], -v[i], v)


@kernel
def probe(state: Any, indices: Any, values: Array) -> tuple[float, float]:
    """Write v = A^-1 (h (x) x) to the next free vector; return (h (x) x)'v and <h (x) x, W>."""
    d = state.B.shape[0] // state.h.size
    last = state.steps[0] % LATE
    v = state.late[last]
    v[:] = 0.0
    for k in range(state.h.size):
        if state.h[k] != 0.0:
            add_rows(v, state.h[k], state.B[k * d : (k + 1) * d], indices, values)
    for m in range(last):
        add_to(v, -state.signs[m] * along(state.late[m], state.h, indices, values), state.late[m])
    level(v, state.alike)
    hW = 0.0
    for k in range(state.h.size):
        hW += state.h[k] * score_of(state.W, k, indices, values)
    return along(v, state.h, indices, values), hW


@kernel
def level(v: Array, alike: Bools) -> None:
    """Make the parts of classes that are `alike` equal to the bit: rounding must not decide between them."""
    d = v.size // alike.size
    first = -1
    for k in range(alike.size):
        if alike[k] and first < 0:
            first = k
        elif alike[k]:
            for j in range(d):
                v[k * d + j] = v[first * d + j]


@kernel
def along(v: Array, h: Array, indices: Any, values: Array) -> float:
    """Return (h (x) x)'v."""
    d = v.size // h.size
    total = 0.0
    for k in range(h.size):
        if h[k] != 0.0:
            total += h[k] * dot(v[k * d : (k + 1) * d], indices, values)
    return total


@kernel
def absorb(state: Any, indices: Any, values: Array, omega: float, tau: float, hv: float, hW: float) -> None:
    """Take the step that `probe` prepared."""
    d = state.B.shape[0] // state.h.size
    last = state.steps[0] % LATE
    v = state.late[last]
    c = 1.0 + omega * hv
    if c < UNSAFE_SHRINKAGE:  # only when a huge step is undone: A keeps it, theta and W change
        omega, c = 0.0, 1.0
    for k in range(state.h.size):
        add_class(state.W, k, (tau - omega * hW) / c, v[k * d : (k + 1) * d], indices)
        for i in range(values.size):
            state.theta[k * d + (i if indices is None else indices[i])] += tau * state.h[k] * values[i]
    root = sqrt(abs(omega) / c)
    for i in range(v.size):
        v[i] *= root
    state.signs[last] = 1.0 if omega >= 0.0 else -1.0
    state.steps[0] += 1
    if last == LATE - 1:
        catch_up(state.B, state.late, state.signs)
        if state.steps[0] % REFRESH == 0:
            refresh(state, indices)


@kernel
def catch_up(B: Array, late: Array, signs: Array) -> None:
    """B -= sum sign u u': with u on both sides, B stays symmetric to the bit."""
    for i in range(B.shape[0]):
        for m in range(0, LATE, 4):
            subtract_four(B[i], late[m : m + 4], signs[m : m + 4], i)


@kernel
def subtract_four(row: Array, u: Array, signs: Array, i: int) -> None:
    """Subtract four late steps from row i of B, unless they are 0 there: many weights are never touched."""
    a = signs[0] * u[0, i]
    b = signs[1] * u[1, i]
    c = signs[2] * u[2, i]
    d = signs[3] * u[3, i]
    p, q, r, s = u[0], u[1], u[2], u[3]
    if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
        for j in range(row.size):
            row[j] -= (a * p[j] + b * q[j]) + (c * r[j] + d * s[j])


@kernel
def refresh(state: Any, indices: Any) -> None:
    """W = B theta: this removes the rounding errors of many small steps."""
    d = state.B.shape[0] // state.h.size
    v = state.late[0]
    v[:] = 0.0
    for i in range(v.size):
        add_to(v, state.theta[i], state.B[i])
    level(v, state.alike)
    state.W[:] = 0.0
    for k in range(state.h.size):
        add_class(state.W, k, 1.0, v[k * d : (k + 1) * d], indices)


@kernel
def regress(W: Array, B: Array, v: Array, k: int, target: float, indices: Any, values: Array) -> None:
    """A_k += x x', b_k += target x, w_k = A_k^-1 b_k, for a class of its own A; B is A_k^-1, and v a buffer."""
    multiply(B, indices, values, v)
    c = 1.0 + dot(v, indices, values)
    if c < UNSAFE_SHRINKAGE:  # rounding has left nothing of A_k^-1 where a huge row points
        return
    shrink = 1.0 / c
    add_class(W, k, (target - score_of(W, k, indices, values)) * shrink, v, indices)
    rank_one(B, v, shrink)


SMALLEST_SHRINKAGE = 2.0**-40  # bound on how far undoing a step shrinks A: rounding must not make it 0


def inverse_diagonal(entries: Array, size: Size) -> Array:
    """Return 1/A for every run, all entries of a run the same; 0 in the padding, where nothing then moves."""
    inverse = zero_weights(entries.size, size)
    for r, entry in enumerate(entries):
        as_matrix(inverse[r], size.n_classes, size.sparse)[:] = entry
    return inverse


@kernel
def follow(w: float, inverse: float, h: float, omega: float, tau: float) -> tuple[float, float]:
    """Return theta/A and 1/A after A += omega h^2 and theta += tau h, with one division."""
    v = inverse * h
    shrink = 1.0 / max(1.0 + omega * h * v, SMALLEST_SHRINKAGE)
    return (w + tau * v) * shrink, inverse * shrink


@kernel
def grow_class(W: Array, inverse: Array, k: int, omega: float, tau: float, indices: Any, values: Array) -> None:
    """A step along e_k (x) x with a diagonal A."""
    if indices is None:
        for j in range(values.size):
            W[k, j], inverse[k, j] = follow(W[k, j], inverse[k, j], values[j], omega, tau)
    else:
        for i in range(values.size):
            j = indices[i]
            W[j, k], inverse[j, k] = follow(W[j, k], inverse[j, k], values[i], omega, tau)


@kernel
def grow_classes(W: Array, inverse: Array, h: Array, omega: float, tau: float, indices: Any, values: Array) -> None:
    """A step along h (x) x with a diagonal A; h is as long as a feature's weights are, 0 in the padding."""
    if indices is None:
        for k in range(h.size):
            grow_class(W, inverse, k, omega * h[k] * h[k], tau * h[k], indices, values)
    else:
        for i in range(values.size):
            w = W[indices[i]]
            a = inverse[indices[i]]
            for k in range(h.size):
                w[k], a[k] = follow(w[k], a[k], h[k] * values[i], omega, tau)


@kernel
def compare(W: Array, inverse: Array, rival: int, label: int, indices: Any, values: Array) -> tuple[float, float]:
    """Return <h, W> and h'A^-1 h for h = (e_rival - e_label) (x) x and a diagonal A."""
    delta, hv = 0.0, 0.0
    for i in range(values.size):
        value = values[i]
        if indices is None:
            delta += value * (W[rival, i] - W[label, i])
            hv += value * value * (inverse[rival, i] + inverse[label, i])
        else:
            j = indices[i]
            delta += value * (W[j, rival] - W[j, label])
            hv += value * value * (inverse[j, rival] + inverse[j, label])
    return delta, hv
