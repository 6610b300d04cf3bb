r"""Standardised rows: every feature minus its mean, over its standard deviation, from the rows seen so far.

It needs no answer, so it is never late. Mean and variance are counted row by row (Welford), for a sparse row over its
non-zeros alone; what the zeros add follows in closed form. Rows are standardised by the means and deviations of the
last refresh, and a refresh comes whenever the number of rows has grown by a sixteenth: in between, the same row is
always the same standardised row.

The fields of a state that these functions use:

==========  ===================================================================================
`seen`      the rows seen, and how many there will be at the next refresh
`count`     for sparse rows: how many non-zeros every feature had (empty for dense rows)
`mean`      the mean of every feature; for sparse rows, of its non-zeros
`squares`   the sum of squared differences from that mean
`centre`    the mean by which rows are standardised now
`inverse`   one over the standard deviation, 0 for a feature that never varied
==========  ===================================================================================
"""

from math import sqrt
from typing import Any

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.records import Array, Ints, Size

ROWS, NEXT = 0, 1  # the cells of `seen`
GROWTH = 16  # a refresh comes when the rows have grown by one part in so many
LARGEST = 5.0  # standard deviations: what is farther out counts as this


def empty_statistics(n_runs: int, size: Size) -> tuple[Ints, Array, Array, Array, Array, Array]:
    """Return the fields for no row seen, in the order above."""
    d = size.n_features
    seen = np.zeros((n_runs, 2), np.int64)
    count = np.zeros((n_runs, d if size.sparse else 0))
    return seen, count, *(np.zeros((n_runs, d)) for _ in range(4))  # type: ignore[return-value]


@kernel
def observe(state: Any, indices: Any, values: Array) -> None:
    """Count one row in."""
    state.seen[ROWS] += 1
    if indices is None:
        share = 1.0 / state.seen[ROWS]
        for j in range(values.size):
            off = values[j] - state.mean[j]
            state.mean[j] += share * off
            state.squares[j] += off * (values[j] - state.mean[j])
    else:
        for i in range(values.size):
            j = indices[i]
            off = values[i] - state.mean[j]
            state.count[j] += 1.0
            state.mean[j] += off / state.count[j]
            state.squares[j] += off * (values[i] - state.mean[j])


@kernel
def is_due(state: Any) -> bool:
    """Whether the rows have grown enough for a refresh."""
    return bool(state.seen[ROWS] >= state.seen[NEXT] and state.seen[ROWS] > 0)


@kernel
def refresh_statistics(state: Any, sparse: bool) -> None:
    """Standardise by all rows seen so far from now on."""
    rows = state.seen[ROWS]
    state.seen[NEXT] = rows + max(1, rows // GROWTH)
    for j in range(state.mean.size):
        mean = state.mean[j]
        squares = state.squares[j]
        if sparse:
            share = state.count[j] / rows
            squares += mean * mean * state.count[j] * (1.0 - share)
            mean *= share
        state.centre[j] = mean
        variance = squares / rows
        state.inverse[j] = 1.0 / sqrt(variance) if variance > 0.0 else 0.0


@kernel
def standardized(value: float, centre: float, inverse: float) -> float:
    """Return one number of a standardised row."""
    z = (value - centre) * inverse
    return -LARGEST if z < -LARGEST else (LARGEST if z > LARGEST else z)
