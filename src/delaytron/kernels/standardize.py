"""Standardised rows: statistics of the rows seen so far, one pass over a row, linear scores and steps."""

from math import sqrt
from typing import Any

import numpy as np

from delaytron.compiler.kernel import fill, kernel, slot
from delaytron.kernels.lanes import add_to_columns, columns, largest, load, store, total, where_below, zeros
from delaytron.kernels.linear import add_outer, score
from delaytron.kernels.logit import WIDTH as CLASSES
from delaytron.records import Array, Ints, Rounds, Size

# Standardised rows: every feature minus its mean, over its standard deviation, from the rows seen so far.
#
# No answers are needed, so the statistics are never late. Rows are standardised by the means and deviations of the last
# refresh, which happens whenever the number of rows has grown by a sixteenth: between refreshes the same row is always
# standardised in the same way. Meanwhile new rows are summed up as differences from the present mean, sparse ones by
# their non-zeros alone; a refresh adds the differences of the zeros, and merges both parts in closed form.
#
# The statistics are in one table, `features`: for dense rows it has a row for each statistic, so that all features are
# contiguous; for sparse rows it has a row for each feature, one cache line, so that a non-zero touches one line. Code
# elsewhere that reads the table must distinguish the two, too, or is given it transposed.
#
# ===============  ===================================================================================
# `CENTRE`         the mean at the last refresh
# `INVERSE`        one over the standard deviation, 0 for a feature that never varied
# `OFF`            the sum of the differences from `CENTRE` since
# `OFF_SQUARED`    the sum of their squares
# `COUNT`          for sparse rows: how many non-zeros came since
# ===============  ===================================================================================
#
# The other columns belong to the linear scores and steps below. Besides, a state has `seen` (the rows seen, how many
# there will be at the next refresh, how many at the last, whether they are sparse), `squares` (the sum of squared
# differences from the mean up to then) and `z`, a buffer for a row.
CENTRE, INVERSE, ZERO, D, OFF, OFF_SQUARED, COUNT, SUM = range(8)  # the table: four to read, four to add to
ROWS, NEXT, LAST, SPARSE = range(4)  # the cells of `seen`
GROWTH = 16  # a refresh is due when the rows have grown by 1 / GROWTH
ROUNDING = 1e-26  # a variance below this share of the squared mean is nothing but rounding
LARGEST = 5.0  # standard deviations: larger deviations are clipped


def empty_features(n_runs: int, size: Size) -> Array:
    """Return the table for no row seen."""
    width = SUM + 1
    return np.zeros((n_runs, size.n_features, width) if size.sparse else (n_runs, width, size.n_features))


def none_seen(n_runs: int, size: Size) -> Ints:
    """Return the cells of `seen` for no row."""
    seen = np.zeros((n_runs, 4), np.int64)
    seen[:, SPARSE] = size.sparse
    return seen


@kernel
def standardized(off: float, inverse: float) -> float:
    """Return one number of a standardised row, given how far it is off the mean."""
    z = max(off * inverse, -LARGEST)
    return z if z < LARGEST else LARGEST


@kernel
def is_due(state: Any) -> bool:
    """Return whether the rows have grown enough for a refresh."""
    return bool(state.seen[ROWS] >= state.seen[NEXT] and state.seen[ROWS] > 0)


@kernel
def refresh_statistics(state: Any, table: Any, sparse: bool) -> None:
    """Standardise by all rows seen so far from now on; `table` has a row for each feature, whatever the rows are."""
    rows = float(state.seen[ROWS])
    new = float(state.seen[ROWS] - state.seen[LAST])
    for j in range(state.squares.size):
        feature = table[j]
        if sparse:
            count_zeros(feature, new - feature[COUNT])
        refresh_feature(feature, state.squares, j, rows, new)
    set_next_refresh(state)


@kernel
def refresh_feature(feature: Array, squares: Array, j: int, rows: float, new: float) -> None:
    """Standardise feature j by all rows seen so far from now on, `new` of them since the last refresh."""
    # Merge the new rows into the mean and the sum of squares (Chan, Golub and LeVeque, 1983).
    off = feature[OFF] / new
    within = max(0.0, feature[OFF_SQUARED] - feature[OFF] * off)
    squares[j] += within + off * off * ((rows - new) * new / rows)
    feature[CENTRE] += off * (new / rows)
    variance = squares[j] / rows
    varies = variance > ROUNDING * feature[CENTRE] * feature[CENTRE]
    feature[INVERSE] = 1.0 / sqrt(variance) if varies else 0.0
    feature[OFF] = 0.0
    feature[OFF_SQUARED] = 0.0
    feature[COUNT] = 0.0


@kernel
def set_next_refresh(state: Any) -> None:
    """Note that a refresh was made now."""
    rows = state.seen[ROWS]
    state.seen[LAST] = rows
    state.seen[NEXT] = rows + max(1, rows // GROWTH)


@kernel
def is_unseen(feature: Array, squares: float) -> bool:
    """Return whether a feature was 0 in all rows, so that a refresh does not change it."""
    return bool(feature[COUNT] == 0.0 and feature[CENTRE] == 0.0 and squares == 0.0)


@kernel
def count_zeros(feature: Array, zeros: float) -> None:
    """Count the rows in which a feature was 0."""
    feature[OFF] -= zeros * feature[CENTRE]
    feature[OFF_SQUARED] += zeros * feature[CENTRE] * feature[CENTRE]


# One pass over a row: standardise it, compute its length and, if it is new, add it to the statistics.
#
# A sparse row is written as what its non-zeros differ by from those of a standardised row of zeros (see the linear
# scores below). Several features are side by side in vector registers, the rest one by one, by the same code.
WIDTH: Any = slot()
COUNTS: Any = slot()  # whether the row is new

DENSE_WIDTH = 16
SPARSE_WIDTH = 4


@kernel
def observe(state: Any, indices: Any, values: Array) -> tuple[float, float]:
    """Add a new row to the statistics, then do as `standardize_row`."""
    state.seen[ROWS] += 1
    if indices is None:
        return count_dense(state, values), 0.0
    return count_sparse(state, indices, values)


@kernel
def standardize_row(state: Any, indices: Any, values: Array) -> tuple[float, float]:
    """Write a row, standardised, to `z`; return its squared length but for the zeros and the constant.

    Of a sparse row it is delta that is written to `z`, and <D zero, delta> is returned as well.
    """
    if indices is None:
        return standardize_dense(state, values), 0.0
    return standardize_sparse(state, indices, values)


@kernel
def pass_dense(state: Any, values: Array) -> float:
    """Standardise a dense row; return its squared length."""
    whole = values.size - values.size % DENSE_WIDTH
    return wide_dense(state, values, 0, whole) + single_dense(state, values, whole, values.size)


@kernel
def pass_sparse(state: Any, indices: Rounds, values: Array) -> tuple[float, float]:
    """Standardise a sparse row; return what its squared length differs by from that of zeros, and <D zero, delta>."""
    whole = values.size - values.size % SPARSE_WIDTH
    length, along = wide_sparse(state, indices, values, 0, whole)
    more, further = single_sparse(state, indices, values, whole, values.size)
    return length + more, along + further


@kernel
def part_of_dense(state: Any, values: Array, start: int, stop: int) -> float:
    """Standardise a part of a dense row; return its squared length."""
    centre = state.features[CENTRE]
    inverse = state.features[INVERSE]
    first = state.features[OFF]
    second = state.features[OFF_SQUARED]
    length = zeros(WIDTH)
    for j in range(start, stop, WIDTH):
        off = load(values, j, WIDTH) - load(centre, j, WIDTH)
        if COUNTS:
            store(load(first, j, WIDTH) + off, first, j)
            store(load(second, j, WIDTH) + off * off, second, j)
        z = clip(off * load(inverse, j, WIDTH))
        store(z, state.z, j)
        length = length + z * z
    return total(length)


@kernel
def part_of_sparse(state: Any, indices: Rounds, values: Array, start: int, stop: int) -> tuple[float, float]:
    """Standardise some non-zeros; return what they add to the squared length, and to <D zero, delta>."""
    table = state.features
    one = zeros(WIDTH) + 1.0
    length = zeros(WIDTH)
    along = zeros(WIDTH)
    for i in range(start, stop, WIDTH):
        centre, inverse, zero, rate = columns(table, CENTRE, indices, i, WIDTH)
        off = load(values, i, WIDTH) - centre
        if COUNTS:
            add_to_columns(table, OFF, indices, i, off, off * off, one, zeros(WIDTH))
        z = clip(off * inverse)
        delta = z - zero
        store(delta, state.z, i)
        length = length + delta * (z + zero)
        along = along + rate * zero * delta
    return total(length), total(along)


@kernel
def clip(z: Array) -> Array:
    """Return the lanes clipped to the range from -LARGEST to LARGEST."""
    z = where_below(z, -LARGEST, -LARGEST, z)
    return where_below(z, LARGEST, z, LARGEST)


wide_dense = fill(part_of_dense, WIDTH=DENSE_WIDTH)
wide_sparse = fill(part_of_sparse, WIDTH=SPARSE_WIDTH)
single_dense = fill(part_of_dense, WIDTH=1)
single_sparse = fill(part_of_sparse, WIDTH=1)
count_dense = fill(pass_dense, COUNTS=True)
count_sparse = fill(pass_sparse, COUNTS=True)
standardize_dense = fill(pass_dense, COUNTS=False)
standardize_sparse = fill(pass_sparse, COUNTS=False)


# Linear scores and steps on standardised rows, for sparse rows at the cost of their non-zeros.
#
# A standardised row z is dense even where the row itself is sparse: a zero becomes
# :math:`\zeta_j = -\mu_j / \sigma_j`. But between two refreshes :math:`\zeta` is one fixed vector, and
# :math:`z = \zeta + \delta` where only the :math:`\delta_j` of non-zeros differ from 0. A step along :math:`D z` with
# a D that is fixed between refreshes, too, adds to every class a multiple of the same :math:`D \zeta`. So one number
# a class, its `shift`, carries the dense part of all steps, and a refresh puts it into the weights:
#
# .. math::
#     W_k = U_k + \text{shift}_k\, D\zeta, \qquad
#     \langle W_k, z\rangle = \text{base}_k + \langle U_k, \delta\rangle + \text{shift}_k \langle D\zeta, \delta\rangle,
#     \qquad \text{base}_k = \langle W_k, \zeta\rangle + \text{bias}_k
#
# Nothing is approximated. For dense rows :math:`\zeta` is left out and :math:`\delta` is z. A constant follows the
# features, and rows are divided by their length. The rule says by `squared_constant` how large the constant is: the
# larger, the less of the general score of a class has to be learned by the features that many rows share.
#
# The fields of a state that these functions use, besides those above:
#
# ==========  ===================================================================================
# `W`         the weights U of the features, in the layout of `kernels.linear`
# `bias`      the part of the scores that comes from the constant
# `shift`     defined above, as is `base`; for dense rows `shift` has no effect and `base` equals `bias`; both are
#             padded, and `base` is far below all scores there
# `features`  also `D`: 1 / sqrt(FIRST + C / K), as of the last refresh; `SUM`: the squared gradients so far, C; for
#             sparse rows `ZERO`, the standardised row of zeros
# `cells`     |zero|^2, <D zero, zero>, what C lacks along zero^2, C and D of the constant, the mean C of the features
#             that varied at the last refresh
# `z`, `u`    buffers for a row's delta, and for D delta
# ==========  ===================================================================================
LENGTH, SPREAD, LACKING, SUM_OF_BIAS, D_OF_BIAS, MEAN_SUM = range(6)  # the cells
N_CELLS = 6
squared_constant: Any = slot()  # (state) -> the square of the constant
FAR_BELOW = -1e300  # the base in the padding of the classes
FIRST = 0.01  # what the sums start from: rows have length 1, so it does not depend on their number of features


@kernel
def score_row(state: Any, indices: Any, values: Array, length: float, along: float, scores: Array) -> float:
    """Write the scores of the row in `z` to `scores`, which is padded; return the highest."""
    for k in range(state.bias.size, scores.size):
        scores[k] = 0.0  # `score` does not write the padding for dense rows
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
    return float(squared_constant(state)) + float(state.cells[LENGTH]) + more


@kernel
def count_gradient(state: Any, indices: Any, values: Array, weight: float) -> float:
    """Add weight z^2 to the sums and write D delta to `u`; return <D z, z>, the constant included."""
    squared = float(squared_constant(state))
    state.cells[SUM_OF_BIAS] += weight * squared
    state.cells[LACKING] += weight
    spread = float(state.cells[D_OF_BIAS]) * squared + float(state.cells[SPREAD])
    if indices is None:
        whole = values.size - values.size % DENSE_WIDTH
        more = wide_gradient_of_dense(state, weight, 0, whole) + single_gradient_of_dense(
            state, weight, whole, values.size
        )
    else:
        whole = values.size - values.size % SPARSE_WIDTH
        more = wide_gradient_of_sparse(state, indices, weight, 0, whole)
        more += single_gradient_of_sparse(state, indices, weight, whole, values.size)
    return spread + more


@kernel
def gradient_of_dense(state: Any, weight: float, start: int, stop: int) -> float:
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
def gradient_of_sparse(state: Any, indices: Rounds, weight: float, start: int, stop: int) -> float:
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


wide_gradient_of_dense = fill(gradient_of_dense, WIDTH=DENSE_WIDTH)
single_gradient_of_dense = fill(gradient_of_dense, WIDTH=1)
wide_gradient_of_sparse = fill(gradient_of_sparse, WIDTH=SPARSE_WIDTH)
single_gradient_of_sparse = fill(gradient_of_sparse, WIDTH=1)


@kernel
def add_step(state: Any, indices: Any, values: Array, along: float, change: Array) -> None:
    """W_k += change_k D z for every class, the row being in `z` and `u`."""
    add_outer(state.W, change, indices, state.u[: values.size])
    of_constant = state.cells[D_OF_BIAS] * float(squared_constant(state))
    of_zero = along + state.cells[SPREAD] + of_constant  # <D z, zero>, and the constant's part
    for k in range(state.bias.size):
        state.bias[k] += change[k] * of_constant
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
    """Begin a refresh: reset the sums over the features to the part of the constant."""
    state.cells[D_OF_BIAS] = rate_of(state.cells[SUM_OF_BIAS], state.bias.size)
    state.cells[LENGTH] = 0.0
    state.cells[SPREAD] = 0.0
    for k in range(state.bias.size):
        state.base[k] = state.bias[k]


@kernel
def clear_shift(state: Any) -> None:
    """End a refresh: all steps are in the weights, so the shift is 0."""
    state.cells[LACKING] = 0.0
    state.shift[:] = 0.0


@kernel
def refresh_zero(state: Any, feature: Array, w: Array) -> None:
    """Recompute the standardised zero of a feature of sparse rows, and add its part to the sums."""
    zero = standardized(-feature[CENTRE], feature[INVERSE])
    feature[ZERO] = zero
    if zero != 0.0:
        state.cells[LENGTH] += zero * zero
        state.cells[SPREAD] += feature[D] * zero * zero
        for k in range(0, w.size, CLASSES):
            store(load(state.base, k, CLASSES) + load(w, k, CLASSES) * zero, state.base, k)
