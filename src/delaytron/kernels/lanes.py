"""A few accumulators side by side, summed in one fixed order.

What the compiler may not do by itself (it would have to reorder a sum), these do explicitly: the sums are as
fast as the machine's vector registers and the same to the bit on every machine. Each is one expression here; its
compiled twin in `lanes_llvm.py` is the same expression as vector instructions.
"""

import numpy as np

from delaytron._jit import machine
from delaytron.records import Array

in_registers = machine("delaytron.kernels.lanes_llvm")


@in_registers
def zeros(width: int) -> Array:
    """`width` lanes of 0."""
    return np.zeros(width)


@in_registers
def add_products(lanes: Array, a: Array, b: Array, start: int) -> Array:
    """Lane i gains a[start + i] * b[start + i]."""
    stop = start + lanes.size
    return lanes + a[start:stop] * b[start:stop]


@in_registers
def add_scaled(lanes: Array, scale: float, a: Array, start: int) -> Array:
    """Lane i gains scale * a[start + i]."""
    return lanes + scale * a[start : start + lanes.size]


@in_registers
def store(lanes: Array, out: Array, start: int) -> None:
    """Write lane i to out[start + i]."""
    out[start : start + lanes.size] = lanes


@in_registers
def total(lanes: Array) -> float:
    """Sum the lanes: the upper half onto the lower, until one is left."""
    while lanes.size > 1:
        half = lanes.size // 2
        lanes = lanes[:half] + lanes[half:]
    return float(lanes[0])
