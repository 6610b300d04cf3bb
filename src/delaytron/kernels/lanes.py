"""A few accumulators side by side, summed in one fixed order.

What the compiler may not do by itself (it would have to reorder a sum), these do explicitly: the sums are as
fast as the machine's vector registers and the same to the bit on every machine. Each is one expression here; its
compiled twin in `lanes_llvm.py` is the same expression as vector instructions.
"""

import numpy as np

from delaytron.compiler.kernel import machine
from delaytron.records import Array

in_registers = machine("delaytron.kernels.lanes_llvm")


@in_registers
def prefetch(a: Array, i: int) -> None:
    """Ask the memory for a.flat[i], which will be read soon; nothing to do for the interpreter."""


@in_registers
def zeros(width: int) -> Array:
    """`width` lanes of 0."""
    return np.zeros(width)


@in_registers
def add_scaled(lanes: Array, scale: float, a: Array, start: int) -> Array:
    """Lane i gains scale * a[start + i]."""
    return lanes + scale * a[start : start + lanes.size]


@in_registers
def store_sum(lanes: Array, others: Array, out: Array, start: int) -> None:
    """Write lanes[i] + others[i] to out[start + i]."""
    out[start : start + lanes.size] = lanes + others


@in_registers
def zero_tile(rows: int, width: int) -> Array:
    """`rows` times `width` lanes of 0."""
    return np.zeros((rows, width))


@in_registers
def add_products(tile: Array, W: Array, k: int, x: Array, start: int) -> Array:
    """Lane i of row r gains W[k + r, start + i] * x[start + i]."""
    rows, width = tile.shape
    return tile + W[k : k + rows, start : start + width] * x[start : start + width]


@in_registers
def store_totals(tile: Array, out: Array, k: int) -> None:
    """Write the sum of row r to out[k + r]: the upper half of the lanes onto the lower, until one is left."""
    rows, width = tile.shape
    while width > 1:
        width //= 2
        tile = tile[:, :width] + tile[:, width:]
    out[k : k + rows] = tile[:, 0]
