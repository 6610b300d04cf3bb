r"""Standardised rows: every feature minus its mean, over its standard deviation, from the rows seen so far.

It needs no answer, so it is never late. Rows are standardised by the means and deviations of the last refresh, and a
refresh comes whenever the number of rows has grown by a sixteenth: in between, the same row is always the same
standardised row. Until then new rows are counted by their differences from the present mean, sparse ones by their
non-zeros alone; a refresh adds what the zeros differ by, and merges both parts in closed form.

What is known of the features stands in one table, `features`: for dense rows it has a row for each kind of number, so
that all features are contiguous; for sparse rows a row for each feature, one cache line, so that a non-zero touches
one. Only this file, `kernels.standard_rows` and `kernels.centred` know.

===============  ===================================================================================
`CENTRE`         the mean at the last refresh
`INVERSE`        one over the standard deviation, 0 for a feature that never varied
`OFF`            the sum of the differences from `CENTRE` since
`OFF_SQUARED`    the sum of their squares
`COUNT`          for sparse rows: how many non-zeros came since
===============  ===================================================================================

The other columns belong to `kernels.centred`. Besides, a state has `seen` (the rows seen, how many there will be at the
next refresh, how many at the last, whether they are sparse), `squares` (the sum of squared differences from the mean
up to then) and `z`, room for a row.
"""

from math import sqrt
from typing import Any

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.records import Array, Ints, Size

CENTRE, INVERSE, ZERO, D, OFF, OFF_SQUARED, COUNT, SUM = range(8)  # the table: four to read, four to add to
ROWS, NEXT, LAST, SPARSE = range(4)  # the cells of `seen`
GROWTH = 16  # a refresh comes when the rows have grown by one part in so many
ROUNDING = 1e-26  # a variance below this share of the squared mean is nothing but rounding
LARGEST = 5.0  # standard deviations: what is farther out counts as this


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
    """Whether the rows have grown enough for a refresh."""
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
    merge(feature, squares, j, rows, new)
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
    """Whether a feature was 0 in all rows, so that a refresh changes nothing of it."""
    return bool(feature[COUNT] == 0.0 and feature[CENTRE] == 0.0 and squares == 0.0)


@kernel
def count_zeros(feature: Array, zeros: float) -> None:
    """Count the rows in which a feature was 0."""
    feature[OFF] -= zeros * feature[CENTRE]
    feature[OFF_SQUARED] += zeros * feature[CENTRE] * feature[CENTRE]


@kernel
def merge(feature: Array, squares: Array, j: int, rows: float, new: float) -> None:
    """Merge the new rows of feature j into its mean and its sum of squares (Chan, Golub and LeVeque, 1983)."""
    off = feature[OFF] / new
    within = max(0.0, feature[OFF_SQUARED] - feature[OFF] * off)
    squares[j] += within + off * off * ((rows - new) * new / rows)
    feature[CENTRE] += off * (new / rows)
