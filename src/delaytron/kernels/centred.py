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
`features`  for sparse rows also `ZERO`, the standardised row of zeros, and `ZERO_STEP`, D times it; `D` for all:
            1 / sqrt(FIRST + C / K), as of the last refresh
`sums`      the squared gradients of every feature so far, C
`cells`     |zero|^2, <D zero, zero>, what C lacks along zero^2, C and D of the constant
`z`, `u`    room for a row's delta, and for D delta
==========  ===================================================================================
"""

from math import sqrt
from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.kernels.linear import add_outer, long_norm, score
from delaytron.kernels.second_order import dot
from delaytron.kernels.standard import CENTRE, INVERSE, ZERO, ZERO_STEP, D, standardized
from delaytron.records import Array

LENGTH, SPREAD, LACKING, SUM_OF_BIAS, D_OF_BIAS, OUT = range(6)  # the cells; the last is room for a sum
N_CELLS = 6
FIRST = 0.01  # what the sums start from: rows have length 1, so it does not depend on their number of features


@kernel
def compare_with_zero(state: Any, indices: Any, values: Array) -> tuple[float, float]:
    """Replace a sparse row in `z` by its delta; return the squared length of the row, and <D zero, delta>."""
    if indices is None:
        return 1.0 + long_norm(state.z, state.cells[OUT:]), 0.0
    z = state.z
    length, along = 1.0 + float(state.cells[LENGTH]), 0.0
    more, further = 0.0, 0.0
    for i in range(0, values.size - 1, 2):  # the even non-zeros and the odd ones side by side
        even = state.features[indices[i]]
        odd = state.features[indices[i + 1]]
        length += z[i] * z[i] - even[ZERO] * even[ZERO]
        more += z[i + 1] * z[i + 1] - odd[ZERO] * odd[ZERO]
        z[i] -= even[ZERO]
        z[i + 1] -= odd[ZERO]
        along += even[ZERO_STEP] * z[i]
        further += odd[ZERO_STEP] * z[i + 1]
    if values.size % 2:
        i = values.size - 1
        last = state.features[indices[i]]
        length += z[i] * z[i] - last[ZERO] * last[ZERO]
        z[i] -= last[ZERO]
        along += last[ZERO_STEP] * z[i]
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
        rates = state.features[D]
        for j in range(values.size):
            state.sums[j] += weight * state.z[j] * state.z[j]
            state.u[j] = rates[j] * state.z[j]
        return spread + float(dot(state.u, None, state.z))
    state.cells[LACKING] += weight
    for i in range(values.size):
        feature = state.features[indices[i]]
        more = state.z[i] * (state.z[i] + 2.0 * feature[ZERO])  # z^2 - zero^2
        state.sums[indices[i]] += weight * more
        state.u[i] = feature[D] * state.z[i]
        spread += feature[D] * more
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
    """Put the dense part of the steps since the last refresh into the weights and the sums of sparse rows."""
    for j in range(state.features.shape[0]):
        feature = state.features[j]
        if feature[ZERO] != 0.0:
            for k in range(state.bias.size):
                state.W[j, k] += state.shift[k] * feature[ZERO_STEP]
            state.sums[j] += state.cells[LACKING] * feature[ZERO] * feature[ZERO]
    state.cells[LACKING] = 0.0
    state.shift[:] = 0.0


@kernel
def refresh_rates(state: Any, table: Any) -> None:
    """D = 1 / sqrt(FIRST + C / K) from now on; `table` has a row for each feature, whatever the rows are."""
    K = state.bias.size
    for j in range(state.sums.size):
        table[j, D] = 1.0 / sqrt(FIRST + max(state.sums[j], 0.0) / K)
    state.cells[D_OF_BIAS] = 1.0 / sqrt(FIRST + state.cells[SUM_OF_BIAS] / K)


@kernel
def refresh_zero(state: Any) -> None:
    """Standardise the row of zeros anew, and what follows from it for sparse rows."""
    state.cells[LENGTH] = 0.0
    state.cells[SPREAD] = 0.0
    for k in range(state.bias.size):
        state.base[k] = state.bias[k]
    for j in range(state.features.shape[0]):
        feature = state.features[j]
        z = standardized(-feature[CENTRE], feature[INVERSE])
        feature[ZERO] = z
        feature[ZERO_STEP] = feature[D] * z
        if z != 0.0:
            state.cells[LENGTH] += z * z
            state.cells[SPREAD] += feature[D] * z * z
            for k in range(state.bias.size):
                state.base[k] += state.W[j, k] * z
