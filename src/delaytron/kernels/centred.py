r"""Linear scores and steps on standardised rows, for sparse rows at the cost of their non-zeros.

A standardised row z is dense even where the row itself is sparse: a zero becomes
:math:`\zeta_j = -\mu_j / \sigma_j`. But between two refreshes :math:`\zeta` is one fixed vector, and
:math:`z = \zeta + \delta` where only the :math:`\delta_j` of non-zeros differ from 0. A step along :math:`D z` with
a D that is fixed between refreshes, too, adds to every class a multiple of the same :math:`D \zeta`. So one number
a class, its `shift`, carries the dense part of all steps, and a refresh puts it into the weights:

.. math::
    W_k = U_k + \text{shift}_k\, D\zeta, \qquad
    \langle W_k, z\rangle = \text{base}_k + \langle U_k, \delta\rangle + \text{shift}_k \langle D\zeta, \delta\rangle,
    \qquad \text{base}_k = \langle W_k, \zeta\rangle + \text{bias}_k

Nothing is approximated. For dense rows :math:`\zeta` is left out and :math:`\delta` is z. A constant 1 stands after the
features, and rows are divided by their length.

The fields of a state that these functions use, besides those of `kernels.standard`:

==========  ===================================================================================
`W`         the weights U of the features, held the way `kernels.linear` wants them
`bias`      the weights of the constant
`shift`     what is said above, as `base`; for dense rows the first is of no use, the second is `bias`; both are padded,
            and `base` is far below all scores there
`features`  also `D`: 1 / sqrt(FIRST + C / K), as of the last refresh; `SUM`: the squared gradients so far, C; for
            sparse rows `ZERO`, the standardised row of zeros
`cells`     |zero|^2, <D zero, zero>, what C lacks along zero^2, C and D of the constant, the mean C of the features
            that varied at the last refresh
`z`, `u`    room for a row's delta, and for D delta
==========  ===================================================================================
"""

from math import sqrt
from typing import Any

from delaytron.compiler.kernel import fill, kernel, slot
from delaytron.kernels.lanes import add_to_columns, columns, largest, load, store, total, where_below, zeros
from delaytron.kernels.linear import add_outer, score
from delaytron.kernels.softmax import WIDTH as CLASSES
from delaytron.kernels.standard import CENTRE, INVERSE, OFF, SUM, ZERO, D, standardized
from delaytron.kernels.standard_rows import DENSE_WIDTH, SPARSE_WIDTH
from delaytron.records import Array, Rounds

WIDTH: Any = slot()
LENGTH, SPREAD, LACKING, SUM_OF_BIAS, D_OF_BIAS, MEAN_SUM = range(6)  # the cells
N_CELLS = 6
FAR_BELOW = -1e300  # the base in the padding of the classes
FIRST = 0.01  # what the sums start from: rows have length 1, so it does not depend on their number of features


@kernel
def score_row(state: Any, indices: Any, values: Array, length: float, along: float, scores: Array) -> float:
    """Write the scores of the row in `z` to `scores`, which is padded; return the highest."""
    for k in range(state.bias.size, scores.size):
        scores[k] = 0.0
    score(state.W, indices, state.z[: values.size], scores)
    scale = 1.0 / sqrt(length)
    tops = zeros(CLASSES) + FAR_BELOW
    for k in range(0, scores.size, CLASSES):
        present = load(state.base, k, CLASSES) + load(state.shift, k, CLASSES) * along
        result = (load(scores, k, CLASSES) + present) * scale
        store(result, scores, k)
        tops = where_below(tops, result, result, tops)
    return largest(tops)


@kernel
def first_of(scores: Array, top: float) -> int:
    """Return the first class with this score."""
    k = 0
    while scores[k] < top:
        k += 1
    return k


@kernel
def hide_others(allowed: Any, scores: Array) -> float:
    """Put the scores of the labels that are not allowed far below all others; return the highest."""
    top = FAR_BELOW
    i = 0
    for k in range(scores.size):
        if i < allowed.size and allowed[i] == k:
            top = max(top, scores[k])
            i += 1
        else:
            scores[k] = FAR_BELOW
    return top


@kernel
def squared_length(state: Any, more: float) -> float:
    """Return the squared length of a row, given what its features add to that of the constant and the zeros."""
    return 1.0 + float(state.cells[LENGTH]) + more


@kernel
def count_gradient(state: Any, indices: Any, values: Array, weight: float) -> float:
    """Add weight z^2 to the sums and write D delta to `u`; return <D z, z>, the constant included."""
    state.cells[SUM_OF_BIAS] += weight
    state.cells[LACKING] += weight
    spread = float(state.cells[D_OF_BIAS] + state.cells[SPREAD])
    if indices is None:
        whole = values.size - values.size % DENSE_WIDTH
        more = wide_dense(state, weight, 0, whole) + single_dense(state, weight, whole, values.size)
    else:
        whole = values.size - values.size % SPARSE_WIDTH
        more = wide_sparse(state, indices, weight, 0, whole)
        more += single_sparse(state, indices, weight, whole, values.size)
    return spread + more


@kernel
def count_dense(state: Any, weight: float, start: int, stop: int) -> float:
    """Count a part of a dense row; return what it adds to <D z, z>."""
    rates = state.features[D]
    sums = state.features[SUM]
    spread = zeros(WIDTH)
    for j in range(start, stop, WIDTH):
        z = load(state.z, j, WIDTH)
        u = load(rates, j, WIDTH) * z
        store(u, state.u, j)
        store(load(sums, j, WIDTH) + weight * z * z, sums, j)
        spread = spread + u * z
    return total(spread)


@kernel
def count_sparse(state: Any, indices: Rounds, weight: float, start: int, stop: int) -> float:
    """Count some non-zeros; return what they add to <D z, z>."""
    none = zeros(WIDTH)
    spread = zeros(WIDTH)
    for i in range(start, stop, WIDTH):
        _, _, zero, rate = columns(state.features, CENTRE, indices, i, WIDTH)
        delta = load(state.z, i, WIDTH)
        more = delta * (delta + 2.0 * zero)  # z^2 - zero^2
        store(rate * delta, state.u, i)
        add_to_columns(state.features, OFF, indices, i, none, none, none, weight * more)
        spread = spread + rate * more
    return total(spread)


wide_dense = fill(count_dense, WIDTH=DENSE_WIDTH)
single_dense = fill(count_dense, WIDTH=1)
wide_sparse = fill(count_sparse, WIDTH=SPARSE_WIDTH)
single_sparse = fill(count_sparse, WIDTH=1)


@kernel
def add_step(state: Any, indices: Any, values: Array, along: float, change: Array) -> None:
    """W_k += change_k D z for every class, the row being in `z` and `u`."""
    add_outer(state.W, change, indices, state.u[: values.size])
    of_zero = along + state.cells[SPREAD] + state.cells[D_OF_BIAS]
    for k in range(state.bias.size):
        state.bias[k] += change[k] * state.cells[D_OF_BIAS]
        state.shift[k] += change[k]
        state.base[k] += change[k] * of_zero


@kernel
def fold_shift(state: Any, feature: Array, w: Array) -> None:
    """Put the dense part of the steps since the last refresh into the weights and the sum of a feature."""
    zero = feature[ZERO]
    if zero != 0.0:
        feature[SUM] += state.cells[LACKING] * zero * zero
        for k in range(0, w.size, CLASSES):
            store(load(w, k, CLASSES) + load(state.shift, k, CLASSES) * (feature[D] * zero), w, k)


@kernel
def rate_of(squared_gradients: float, n_classes: int) -> float:
    """Return D = 1 / sqrt(FIRST + C / K)."""
    return 1.0 / sqrt(FIRST + max(squared_gradients, 0.0) / n_classes)


@kernel
def refresh_constant(state: Any) -> None:
    """Begin a refresh: the sums over the features start anew, with the constant alone in them."""
    state.cells[D_OF_BIAS] = rate_of(state.cells[SUM_OF_BIAS], state.bias.size)
    state.cells[LENGTH] = 0.0
    state.cells[SPREAD] = 0.0
    for k in range(state.bias.size):
        state.base[k] = state.bias[k]


@kernel
def clear_shift(state: Any) -> None:
    """End a refresh: nothing waits to be put into the weights any more."""
    state.cells[LACKING] = 0.0
    state.shift[:] = 0.0


@kernel
def refresh_zero(state: Any, feature: Array, w: Array) -> None:
    """Standardise the zero of a feature of sparse rows anew, and add what follows from it."""
    zero = standardized(-feature[CENTRE], feature[INVERSE])
    feature[ZERO] = zero
    if zero != 0.0:
        state.cells[LENGTH] += zero * zero
        state.cells[SPREAD] += feature[D] * zero * zero
        for k in range(0, w.size, CLASSES):
            store(load(state.base, k, CLASSES) + load(w, k, CLASSES) * zero, state.base, k)
