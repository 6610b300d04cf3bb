"""What one update does to the sum from which the average of the weights follows."""

from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.records import Array


@kernel
def remember(W: Array, indices: Any, old: Array) -> None:
    """Copy the weights that an answer about a row may move: all of them, or those of its non-zeros."""
    for n in range(old.shape[0]):
        i = n if indices is None else indices[n]
        for k in range(old.shape[1]):
            old[n, k] = W[i, k]


@kernel
def add_change(W: Array, indices: Any, old: Array, now: int, total: Array) -> None:
    """Add what the update changed, times the round `now` that is the first to use it."""
    for n in range(old.shape[0]):
        i = n if indices is None else indices[n]
        for k in range(old.shape[1]):
            total[i, k] += now * (W[i, k] - old[n, k])
