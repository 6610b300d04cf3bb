"""One pass over a row: standardise it, and measure it; count it in, if it is new.

A sparse row is written as what its non-zeros differ by from those of a standardised row of zeros (`kernels.centred`).
Several features are side by side in vector registers, then the rest one by one, in the same words.
"""

from typing import Any

from delaytron.compiler.kernel import fill, kernel, slot
from delaytron.kernels.lanes import add_to_columns, columns, load, store, total, where_below, zeros
from delaytron.kernels.standard import CENTRE, INVERSE, LARGEST, OFF, OFF_SQUARED, ROWS
from delaytron.records import Array, Rounds

WIDTH: Any = slot()
COUNTS: Any = slot()  # whether the row is new

DENSE_WIDTH = 16
SPARSE_WIDTH = 4


@kernel
def observe(state: Any, indices: Any, values: Array) -> tuple[float, float]:
    """Count a new row in, and do as `standardize_row`."""
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
    """Return the lanes with what is too far out brought back."""
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
