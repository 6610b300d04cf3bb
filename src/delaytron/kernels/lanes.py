"""A few accumulators side by side, summed in one fixed order.

The compiler may not vectorise a sum by itself, because it would have to reorder it; here the order is explicit, so sums
use the machine's vector registers and are the same to the bit on every machine. Each function is one expression here;
its compiled twin in `lanes_llvm.py` is the same expression as vector instructions. Lanes can be added, subtracted,
multiplied and divided, with other lanes or with one number, as NumPy's arrays can.
"""

import numpy as np

from delaytron.compiler.kernel import machine
from delaytron.records import Array, Rounds

in_registers = machine("delaytron.kernels.lanes_llvm")
in_tiles = machine("delaytron.kernels.lanes_llvm")
EXPONENT = 52  # the bit at which the exponent of a double begins


@in_registers
def prefetch(a: Array, i: int) -> None:
    """Prefetch a.flat[i] into the cache; nothing to do for the interpreter."""


@in_registers
def zeros(width: int) -> Array:
    """`width` lanes of 0."""
    return np.zeros(width)


@in_registers
def load(a: Array, start: int, width: int) -> Array:
    """Lane i is a[start + i]."""
    return a[start : start + width].copy()


@in_registers
def store(lanes: Array, out: Array, start: int) -> None:
    """Write lane i to out[start + i]."""
    out[start : start + lanes.size] = lanes


@in_registers
def where_below(lanes: Array, limit: Array | float, then: Array | float, otherwise: Array | float) -> Array:
    """Lane i is `then` where it is below the limit, else `otherwise`; each of the three is lanes or one number."""
    return np.asarray(np.where(lanes < limit, then, otherwise))


@in_registers
def replace_lane(lanes: Array, i: int, value: float) -> Array:
    """Return the lanes with `value` in lane i, unless there is no such lane."""
    return np.where(np.arange(lanes.size) == i, value, lanes)


@in_registers
def total(lanes: Array) -> float:
    """Return the sum of all lanes: the upper half of them onto the lower, until one is left."""
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    return float(lanes[0])


@in_registers
def largest(lanes: Array) -> float:
    """Return the largest lane."""
    while lanes.size > 1:
        upper = lanes[lanes.size // 2 :]
        lanes = lanes[: lanes.size // 2]
        lanes = np.where(lanes < upper, upper, lanes)
    return float(lanes[0])


@in_registers
def add_to_exponent(lanes: Array, integers: Array) -> Array:
    """Lane i times 2^n, where n is the integer in the last bits of the double integers[i]."""
    bits = lanes.view(np.int64) + (integers.view(np.int64) << EXPONENT)
    return bits.view(np.float64)


@in_registers
def add_scaled(lanes: Array, scale: float, a: Array, start: int) -> Array:
    """Lane i gains scale * a[start + i]."""
    return lanes + scale * a[start : start + lanes.size]


@in_registers
def store_sum(lanes: Array, others: Array, out: Array, start: int) -> None:
    """Write lanes[i] + others[i] to out[start + i]."""
    out[start : start + lanes.size] = lanes + others


@in_tiles
def zero_tile(rows: int, width: int) -> Array:
    """`rows` times `width` lanes of 0."""
    return np.zeros((rows, width))


@in_tiles
def add_products(tile: Array, W: Array, k: int, x: Array, start: int) -> Array:
    """Lane i of row r gains W[k + r, start + i] * x[start + i]."""
    rows, width = tile.shape
    return tile + W[k : k + rows, start : start + width] * x[start : start + width]


@in_tiles
def store_totals(tile: Array, out: Array, k: int) -> None:
    """Write the sum of row r to out[k + r]: the upper half of the lanes onto the lower, until one is left."""
    rows, width = tile.shape
    while width > 1:
        width //= 2
        tile = tile[:, :width] + tile[:, width:]
    out[k : k + rows] = tile[:, 0]


@in_tiles
def columns(table: Array, first: int, indices: Rounds, i: int, width: int) -> tuple[Array, Array, Array, Array]:
    """Return four columns of a table, from `first` on: lane r of each is of row indices[i + r]."""
    a, b, c, d = table[indices[i : i + width], first : first + 4].T.copy()
    return a, b, c, d


@in_tiles
def add_to_columns(table: Array, first: int, indices: Rounds, i: int, a: Array, b: Array, c: Array, d: Array) -> None:
    """Row indices[i + r] of a table gains lane r of a, b, c and d in its four columns from `first` on."""
    for r in range(a.size):
        table[indices[i + r], first : first + 4] += (a[r], b[r], c[r], d[r])
