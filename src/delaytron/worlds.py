"""Worlds: what happens to a run apart from its learner, as arrays that the loop reads."""

from collections.abc import Sequence

import numpy as np

from delaytron.checks import whole_numbers
from delaytron.delays import Delay
from delaytron.kernels.arrivals import schedule
from delaytron.records import Ints, Log, Rounds, Worlds
from delaytron.rng import stream

BYTES_PER_ROUND = 28  # of one world: 20 that stay, and 8 for the delays while they are sorted


def make_worlds(
    runs: Sequence[int], n_rows: int, n_rounds: int, delay: Delay, seed: int, sampling: str
) -> tuple[Worlds, int]:
    """Return the worlds of these runs, and the longest delay that is delivered in any of them."""
    shape = (len(runs), n_rounds)
    starts = np.empty((len(runs), n_rounds + 1), np.uint32)
    worlds = Worlds(np.empty(shape, np.uint32), np.empty(shape), starts, np.zeros(shape, np.uint32))
    longest = 0
    for w, run in enumerate(runs):
        worlds.rows[w] = choose_rows(n_rows, n_rounds, sampling, stream(seed, "rows", run))
        stream(seed, "exploration", run).random(out=worlds.draws[w])
        drawn = delay.sample(n_rounds, stream(seed, "delays", run))
        delays = whole_numbers(f"the delays of {delay!r}", drawn, n_rounds, low=1)
        longest = max(longest, schedule(delays, worlds.starts[w], worlds.arrivals[w]))
    return worlds, longest


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
