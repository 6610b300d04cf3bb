"""A ring of the last answers, so that each can be learned again: the rows, the labels, and what was answered.

The fields of a state that these functions use: `kept` (how many answers were ever kept), the rows (`kept_indices` is
empty for dense ones), the labels and the rewards.
"""

from typing import Any

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.records import Array, Ints, Rounds, Size

FIELDS = ("kept", "kept_size", "kept_indices", "kept_values", "kept_label", "kept_reward")
CAPACITY = 1000  # answers
WIDEST = 512  # non-zeros: a sparse row with more is learned once


def empty_memory(n_runs: int, size: Size) -> tuple[Ints, Ints, Rounds, Array, Ints, Array]:
    """Return the fields for nothing kept, in the order of `FIELDS`."""
    width = min(size.n_features, WIDEST) if size.sparse else size.n_features
    return (
        np.zeros((n_runs, 1), np.int64),
        np.zeros((n_runs, CAPACITY), np.int64),
        np.zeros((n_runs, CAPACITY, width if size.sparse else 0), np.uint32),
        np.zeros((n_runs, CAPACITY, width)),
        np.zeros((n_runs, CAPACITY), np.int64),
        np.zeros((n_runs, CAPACITY)),
    )


@kernel
def keep(state: Any, indices: Any, values: Array, label: int, reward: float) -> None:
    """Keep one answer, in the place of the oldest."""
    if values.size > state.kept_values.shape[1]:
        return
    place = state.kept[0] % CAPACITY
    state.kept[0] += 1
    state.kept_size[place] = values.size
    state.kept_label[place] = label
    state.kept_reward[place] = reward
    for i in range(values.size):
        state.kept_values[place, i] = values[i]
    if indices is not None:
        for i in range(values.size):
            state.kept_indices[place, i] = indices[i]


@kernel
def forget_all(state: Any) -> None:
    """Keep none of them any longer."""
    state.kept[0] = 0


@kernel
def place_of(kept: int, i: int, times: int) -> int:
    """Return where the i-th of `times` answers stands that are learned again; their ages are evenly spaced."""
    filled = min(kept, CAPACITY)
    return (kept - 1 - i * filled // times) % CAPACITY
