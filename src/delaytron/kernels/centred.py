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
`shift`     what is said above, as `base`; for dense rows the first is of no use, the second is `bias`
`zero`      the standardised row of zeros, empty for dense rows; `zero_step` is D times it
`sums`      the squared gradients of every feature so far, C
`D`         1 / sqrt(FIRST + C / K), as of the last refresh
`cells`     |zero|^2, <D zero, zero>, what C lacks along zero^2, C and D of the constant
`z`, `u`    room for a row's delta, and for D delta
==========  ===================================================================================
"""

from math import sqrt
from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.kernels.linear import add_outer, long_norm, score
from delaytron.kernels.second_order import dot
from delaytron.kernels.standard import ROWS, standardized
from delaytron.records import Array

LENGTH, SPREAD, LACKING, SUM_OF_BIAS, D_OF_BIAS, OUT = range(6)  # the cells; the last is room for a sum
N_CELLS = 6
FIRST = 0.01  # what the sums start from: rows have length 1, so it does not depend on their number of features


@kernel
def fill_row(state: Any, indices: Any, values: Array) -> tuple[float, float]:
    """Write a row's delta to `z`; return the squared length of the standardised row, and <D zero, delta>."""
    z = state.z
    if indices is None:
        for j in range(values.size):
            z[j] = standardized(values[j] - state.centre[j], state.inverse[j])
        return 1.0 + long_norm(z, state.cells[OUT:]), 0.0
    for i in range(values.size):
        j = indices[i]
        z[i] = standardized(values[i] - state.centre[j], state.inverse[j])
    return compare_with_zero(state, indices, values)


@kernel
def fill_new_row(state: Any, indices: Any, values: Array) -> tuple[float, float]:
    """Do the same, and count the row in."""
    z = state.z
    first = state.first
    second = state.second
    state.seen[ROWS] += 1
    if indices is None:
        for j in range(values.size):
            off = values[j] - state.centre[j]
            first[j] += off
            second[j] += off * off
            z[j] = standardized(off, state.inverse[j])
        return 1.0 + long_norm(z, state.cells[OUT:]), 0.0
    for i in range(values.size):
        j = indices[i]
        off = values[i] - state.centre[j]
        state.count[j] += 1.0
        first[j] += off
        second[j] += off * off
        z[i] = standardized(off, state.inverse[j])
    return compare_with_zero(state, indices, values)


@kernel
def compare_with_zero(state: Any, indices: Any, values: Array) -> tuple[float, float]:
    """Replace a sparse row's z by its delta, the even non-zeros and the odd ones side by side; return as `fill_row`."""
    z = state.z
    zero = state.zero
    zero_step = state.zero_step
    length, along = 1.0 + float(state.cells[LENGTH]), 0.0
    more, further = 0.0, 0.0
    for i in range(0, values.size - 1, 2):
        j = indices[i]
        k = indices[i + 1]
        length += z[i] * z[i] - zero[j] * zero[j]
        more += z[i + 1] * z[i + 1] - zero[k] * zero[k]
        z[i] -= zero[j]
        z[i + 1] -= zero[k]
        along += zero_step[j] * z[i]
        further += zero_step[k] * z[i + 1]
    if values.size % 2:
        i = values.size - 1
        j = indices[i]
        length += z[i] * z[i] - zero[j] * zero[j]
        z[i] -= zero[j]
        along += zero_step[j] * z[i]
    return length + more, along + further


@kernel
def score_row(state: Any, indices: Any, values: Array, length: float, along: float, scores: Array) -> int:
    """Write the scores of the row in `z` to `scores`; return the best class, the lowest number among equals."""
    score(state.W, indices, state.z[: values.size], scores)
    scale = 1.0 / sqrt(length)
    best = 0
    for k in range(state.base.size):
        scores[k] = (scores[k] + (state.base[k] + state.shift[k] * along)) * scale
        if scores[k] > scores[best]:
            best = k
    return best


@kernel
def count_gradient(state: Any, indices: Any, values: Array, weight: float) -> float:
    """Add weight z^2 to the sums and write D delta to `u`; return <D z, z>, the constant included."""
    state.cells[SUM_OF_BIAS] += weight
    spread = float(state.cells[D_OF_BIAS] + state.cells[SPREAD])
    if indices is None:
        for j in range(values.size):
            state.sums[j] += weight * state.z[j] * state.z[j]
            state.u[j] = state.D[j] * state.z[j]
        return spread + float(dot(state.u, None, state.z))
    state.cells[LACKING] += weight
    for i in range(values.size):
        j = indices[i]
        more = state.z[i] * (state.z[i] + 2.0 * state.zero[j])  # z^2 - zero^2
        state.sums[j] += weight * more
        state.u[i] = state.D[j] * state.z[i]
        spread += state.D[j] * more
    return spread


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
def fold_shift(state: Any) -> None:
    """Put the dense part of the steps since the last refresh into the weights and the sums."""
    for j in range(state.zero.size):
        if state.zero[j] != 0.0:
            for k in range(state.bias.size):
                state.W[j, k] += state.shift[k] * state.zero_step[j]
            state.sums[j] += state.cells[LACKING] * state.zero[j] * state.zero[j]
    state.cells[LACKING] = 0.0
    state.shift[:] = 0.0


@kernel
def refresh_rates(state: Any) -> None:
    """D = 1 / sqrt(FIRST + C / K) from now on."""
    K = state.bias.size
    for j in range(state.D.size):
        state.D[j] = 1.0 / sqrt(FIRST + max(state.sums[j], 0.0) / K)
    state.cells[D_OF_BIAS] = 1.0 / sqrt(FIRST + state.cells[SUM_OF_BIAS] / K)


@kernel
def refresh_zero(state: Any) -> None:
    """Standardise the row of zeros anew, and what follows from it."""
    state.cells[LENGTH] = 0.0
    state.cells[SPREAD] = 0.0
    for k in range(state.bias.size):
        state.base[k] = state.bias[k]
    for j in range(state.zero.size):
        z = standardized(-state.centre[j], state.inverse[j])
        state.zero[j] = z
        state.zero_step[j] = state.D[j] * z
        if z != 0.0:
            state.cells[LENGTH] += z * z
            state.cells[SPREAD] += state.D[j] * z * z
            for k in range(state.bias.size):
                state.base[k] += state.W[j, k] * z
