"""Stripes: the weights of some classes side by side in vector registers, for the non-zeros of a sparse row."""

from typing import Any

from delaytron.compiler.kernel import fill, kernel, slot
from delaytron.kernels.lanes import add_scaled, store_sum, zeros
from delaytron.records import Array, Rounds

FIRST: Any = slot()
SECOND: Any = slot()


@kernel
def stripe(W: Array, indices: Rounds, values: Array, out: Array, k: int) -> None:
    """Write the scores of FIRST + SECOND classes from `k` on; they stay in registers meanwhile."""
    a = zeros(FIRST)
    b = zeros(SECOND)
    c = zeros(FIRST)
    d = zeros(SECOND)
    for i in range(0, indices.size - 1, 2):
        w, v = W[indices[i]], W[indices[i + 1]]
        a = add_scaled(a, values[i], w, k)
        b = add_scaled(b, values[i], w, k + FIRST)
        c = add_scaled(c, values[i + 1], v, k)
        d = add_scaled(d, values[i + 1], v, k + FIRST)
    if indices.size % 2:
        w = W[indices[indices.size - 1]]
        a = add_scaled(a, values[indices.size - 1], w, k)
        b = add_scaled(b, values[indices.size - 1], w, k + FIRST)
    store_sum(a, c, out, k)
    store_sum(b, d, out, k + FIRST)


stripe_16 = fill(stripe, FIRST=8, SECOND=8)
stripe_12 = fill(stripe, FIRST=8, SECOND=4)
stripe_8 = fill(stripe, FIRST=4, SECOND=4)


@kernel
def move(w: Array, change: Array, value: float, k: int) -> None:
    """Add value * change to the weights of FIRST + SECOND classes from `k` on."""
    store_sum(add_scaled(zeros(FIRST), value, change, k), add_scaled(zeros(FIRST), 1.0, w, k), w, k)
    second = k + FIRST
    store_sum(add_scaled(zeros(SECOND), value, change, second), add_scaled(zeros(SECOND), 1.0, w, second), w, second)


move_16 = fill(move, FIRST=8, SECOND=8)
move_12 = fill(move, FIRST=8, SECOND=4)
move_8 = fill(move, FIRST=4, SECOND=4)
