"""Worlds: what happens to a run apart from its learner, as arrays that the loop reads."""

from collections.abc import Sequence

import numpy as np

from delaytron.delays import Delay
from delaytron.kernels.arrivals import schedule
from delaytron.records import Array, Ints, Log, Rounds, Worlds
from delaytron.rng import stream

BYTES_PER_ROUND = 28  # of one world: 20 that stay, and 8 for the delays while they are sorted


def make_world(
    rows: Rounds, delay: Delay, n_rounds: int, seed: int, run: int
) -> tuple[Rounds, Array, Rounds, Rounds, int]:
    """Return the arrays of one world (see `Worlds`) and the longest delay that is delivered in it."""
    draws = stream(seed, "exploration", run).random(n_rounds)
    starts, arrivals, longest = schedule(delay.sample(n_rounds, stream(seed, "delays", run)))
    return rows, draws, starts, arrivals, longest


def stack(worlds: Sequence[tuple[Rounds, Array, Rounds, Rounds, int]]) -> tuple[Worlds, int]:
    """Stack worlds for the loop; also return the longest delay that is delivered in any of them."""
    columns = list(zip(*worlds, strict=True))
    return Worlds(*(_stacked(column) for column in columns[:4])), max(columns[4])  # type: ignore[arg-type]


def _stacked(column: Sequence[Array]) -> Array:
    return column[0][None] if len(column) == 1 else np.stack(column)


def choose_rows(n_rows: int, n_rounds: int, sampling: str, rng: np.random.Generator) -> Rounds:
    """Return which row each round shows: the rows as they stand while they last, else drawn.

    Examples
    --------
    >>> choose_rows(5, 3, "replacement", np.random.default_rng(0)).tolist()
    [0, 1, 2]
    >>> sorted(choose_rows(2, 4, "epochs", np.random.default_rng(0)).tolist())
    [0, 0, 1, 1]
    """
    if n_rounds <= n_rows:
        return np.arange(n_rounds, dtype=np.uint32)
    if sampling == "replacement":
        return rng.integers(n_rows, size=n_rounds, dtype=np.uint32)
    passes = [rng.permutation(n_rows) for _ in range(-(-n_rounds // n_rows))]
    return np.concatenate(passes)[:n_rounds].astype(np.uint32)


def empty_log(n_runs: int, longest: int) -> Log:
    """Return columns for the open rounds of every run: a ring that outlasts the longest delay."""
    length = 1 << max(0, longest - 1).bit_length()
    columns = np.zeros((2, n_runs, length), np.int32)
    return Log(columns[0], columns[1], np.zeros((n_runs, length)), np.zeros((n_runs, 2), np.int64))


def checkpoints(n_rounds: int) -> Ints:
    """Return the rounds at which errors are noted: log-spaced, the last one is `n_rounds`.

    Examples
    --------
    >>> checkpoints(1000)[[0, 1, -1]].tolist()
    [1, 2, 1000]
    """
    return np.unique(np.geomspace(1, n_rounds, 64).round().astype(np.int64))
