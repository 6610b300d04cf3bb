r"""Linear scores and steps on standardised rows, for sparse rows at the cost of their non-zeros.

A standardised row z is dense even where the row itself is sparse: a zero becomes
:math:`\zeta_j = -\mu_j / \sigma_j`. But between two refreshes :math:`\zeta` is one fixed vector, and
:math:`z = \zeta + \delta` where only the :math:`\delta_j` of non-zeros differ from 0. A step along :math:`D z` with
a D that is fixed between refreshes, too, adds to every class a multiple of the same :math:`D \zeta`. So one number
a class, its `shift`, carries the dense part of all steps, and a refresh puts it into the weights:

.. math::
    W_k = U_k + \text{shift}_k\, D\zeta, \qquad
    \langle W_k, z\rangle = \text{base}_k + \langle U_k, \delta\rangle + \text{shift}_k \langle D\zeta, \delta\rangle,
    \qquad \text{base}_k = \langle W_k, \zeta\rangle

Nothing is approximated. For dense rows :math:`\zeta` is left out and :math:`\delta` is z. A constant 1 stands after the
features, and rows are divided by their length.

The fields of a state that these functions use, besides those of `kernels.standard`:

==========  ===================================================================================
`W`         the weights U of the features, held the way `kernels.linear` wants them
`bias`      the weights of the constant
`shift`     what is said above; `base` likewise
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
from delaytron.kernels.linear import score, squared_norm
from delaytron.kernels.second_order import dot
from delaytron.kernels.standard import standardized
from delaytron.kernels.subsets import add_to_all
from delaytron.records import Array

LENGTH, SPREAD, LACKING, SUM_OF_BIAS, D_OF_BIAS = range(5)  # the cells
N_CELLS = 5
FIRST = 0.01  # what the sums start from: rows have length 1, so it does not depend on their number of features


@kernel
def fill_row(state: Any, indices: Any, values: Array) -> tuple[float, float]:
    """Write a row's delta to `z`; return the squared length of the standardised row, and <D zero, delta>."""
    z = state.z
    centre = state.centre
    inverse = state.inverse
    if indices is None:
        for j in range(values.size):
            z[j] = standardized(values[j], centre[j], inverse[j])
        return 1.0 + squared_norm(z), 0.0
    zero = state.zero
    zero_step = state.zero_step
    length = 1.0 + float(state.cells[LENGTH])
    along = 0.0
    for i in range(values.size):
        j = indices[i]
        full = standardized(values[i], centre[j], inverse[j])
        length += full * full - zero[j] * zero[j]
        z[i] = full - zero[j]
        along += zero_step[j] * z[i]
    return length, along


@kernel
def score_row(state: Any, indices: Any, values: Array, scores: Array) -> tuple[float, float]:
    """Write the scores of a row to `scores`; return what `fill_row` does."""
    length, along = fill_row(state, indices, values)
    score(state.W, indices, state.z[: values.size], scores)
    scale = 1.0 / sqrt(length)
    for k in range(state.bias.size):
        scores[k] = (scores[k] + (state.base[k] + state.shift[k] * along) + state.bias[k]) * scale
    return length, along


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
    add_to_all(state.W, change, indices, state.u[: values.size])
    for k in range(change.size):
        state.bias[k] += change[k] * state.cells[D_OF_BIAS]
        if indices is not None:
            state.shift[k] += change[k]
            state.base[k] += change[k] * (along + state.cells[SPREAD])


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
    state.base[:] = 0.0
    for j in range(state.zero.size):
        z = standardized(0.0, state.centre[j], state.inverse[j])
        state.zero[j] = z
        state.zero_step[j] = state.D[j] * z
        if z != 0.0:
            state.cells[LENGTH] += z * z
            state.cells[SPREAD] += state.D[j] * z * z
            for k in range(state.bias.size):
                state.base[k] += state.W[j, k] * z
