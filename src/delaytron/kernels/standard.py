r"""Standardised rows: every feature minus its mean, over its standard deviation, from the rows seen so far.

It needs no answer, so it is never late. Rows are standardised by the means and deviations of the last refresh, and a
refresh comes whenever the number of rows has grown by a sixteenth: in between, the same row is always the same
standardised row. Until then new rows are counted by their differences from the present mean, sparse ones by their
non-zeros alone; a refresh adds what the zeros differ by, and merges both parts in closed form.

The fields of a state that these functions use:

==========  ===================================================================================
`seen`      the rows seen, how many there will be at the next refresh, how many at the last
`centre`    the mean of every feature at the last refresh
`squares`   the sum of squared differences from it, up to then
`inverse`   one over the standard deviation, 0 for a feature that never varied
`count`     for sparse rows: how many non-zeros came since (empty for dense rows)
`first`     the sum of the differences from `centre` since
`second`    the sum of their squares
==========  ===================================================================================
"""

from math import sqrt
from typing import Any

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.records import Array, Ints, Size

ROWS, NEXT, LAST = 0, 1, 2  # the cells of `seen`
GROWTH = 16  # a refresh comes when the rows have grown by one part in so many
ROUNDING = 1e-26  # a variance below this share of the squared mean is nothing but rounding
LARGEST = 5.0  # standard deviations: what is farther out counts as this


def empty_statistics(n_runs: int, size: Size) -> tuple[Ints, Array, Array, Array, Array, Array, Array]:
    """Return the fields for no row seen, in the order above."""
    d = size.n_features
    return (
        np.zeros((n_runs, 3), np.int64),
        np.zeros((n_runs, d)),
        np.zeros((n_runs, d)),
        np.zeros((n_runs, d)),
        np.zeros((n_runs, d if size.sparse else 0)),
        np.zeros((n_runs, d)),
        np.zeros((n_runs, d)),
    )


@kernel
def observe(state: Any, indices: Any, values: Array) -> None:
    """Count one row in."""
    state.seen[ROWS] += 1
    centre = state.centre
    first = state.first
    second = state.second
    if indices is None:
        for j in range(values.size):
            off = values[j] - centre[j]
            first[j] += off
            second[j] += off * off
    else:
        for i in range(values.size):
            j = indices[i]
            off = values[i] - centre[j]
            state.count[j] += 1.0
            first[j] += off
            second[j] += off * off


@kernel
def is_due(state: Any) -> bool:
    """Whether the rows have grown enough for a refresh."""
    return bool(state.seen[ROWS] >= state.seen[NEXT] and state.seen[ROWS] > 0)


@kernel
def refresh_statistics(state: Any, sparse: bool) -> None:
    """Standardise by all rows seen so far from now on."""
    rows = state.seen[ROWS]
    new = rows - state.seen[LAST]
    for j in range(state.centre.size):
        if sparse:
            count_zeros(state, j, new - state.count[j])
        merge(state, j, float(rows), float(new))
        variance = state.squares[j] / rows
        varies = variance > ROUNDING * state.centre[j] * state.centre[j]
        state.inverse[j] = 1.0 / sqrt(variance) if varies else 0.0
    state.first[:] = 0.0
    state.second[:] = 0.0
    state.count[:] = 0.0
    state.seen[LAST] = rows
    state.seen[NEXT] = rows + max(1, rows // GROWTH)


@kernel
def count_zeros(state: Any, j: int, zeros: float) -> None:
    """Count the rows in which feature j was 0."""
    state.first[j] -= zeros * state.centre[j]
    state.second[j] += zeros * state.centre[j] * state.centre[j]


@kernel
def merge(state: Any, j: int, rows: float, new: float) -> None:
    """Merge the new rows of feature j into its mean and its sum of squares (Chan, Golub and LeVeque, 1983)."""
    off = state.first[j] / new
    within = max(0.0, state.second[j] - state.first[j] * off)
    state.squares[j] += within + off * off * ((rows - new) * new / rows)
    state.centre[j] += off * (new / rows)


@kernel
def standardized(off: float, inverse: float) -> float:
    """Return one number of a standardised row, given how far it is off the mean."""
    z = off * inverse
    return -LARGEST if z < -LARGEST else (LARGEST if z > LARGEST else z)
