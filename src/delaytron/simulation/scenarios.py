"""Worlds: what happens to a run apart from its learner, as arrays that the loop reads."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from delaytron.checks import whole_numbers
from delaytron.delays import Delay
from delaytron.kernels.arrivals import schedule
from delaytron.kernels.loop import ANSWERED, DROPPED, EXPIRED, REVISED
from delaytron.learners.feedback import Life
from delaytron.records import Bytes, Ints, Log, Rounds, Worlds
from delaytron.rng import stream

CHECKPOINTS = 64  # rounds at which errors are noted
BYTES_PER_ROUND = 28  # of one world: 20 that stay, and 8 for the delays while they are sorted
BYTES_PER_LIVELY_ROUND = 140  # where answers expire, most of it while the events are sorted


class Setting(NamedTuple):
    """What the worlds of a simulation have in common."""

    n_rows: int
    n_rounds: int
    delay: Delay
    seed: int
    sampling: str
    n_checkpoints: int = CHECKPOINTS
    losses: bool = False


def make_worlds(runs: Sequence[int], setting: Setting, life: Life) -> tuple[Worlds, int]:
    """Return the worlds of these runs, and the longest delay that is delivered in any of them."""
    worlds = empty_worlds(len(runs), setting.n_rounds, life)
    longest = 0
    for w, run in enumerate(runs):
        rng = partial(stream, setting.seed, run=run)
        worlds.rows[w] = drawn_rows(setting, run)
        rng("exploration").random(out=worlds.draws[w])
        worlds.lies[w] = life.bend(rng("noise").random(worlds.lies.shape[1]))
        delays = drawn_delays(setting.delay, setting.n_rounds, setting.seed, run)
        longest = max(longest, deliver(delays, life, worlds, w))
    return worlds, longest


def drawn_rows(setting: Setting, run: int) -> Rounds:
    """Return the rows that a run shows."""
    return choose_rows(setting.n_rows, setting.n_rounds, setting.sampling, stream(setting.seed, "rows", run=run))


def drawn_delays(delay: Delay, n_rounds: int, seed: int, run: int = 0) -> Ints:
    """Return the delays of a run."""
    drawn = delay.sample(n_rounds, stream(seed, "delays", run=run))
    return whole_numbers(f"the delays of {delay!r}", drawn, n_rounds, low=1)


def mean_wait(delay: Delay, n_rounds: int, seed: int) -> float:
    """Return how many rounds one waits on average before the answer comes, or the run ends."""
    return float(np.minimum(drawn_delays(delay, n_rounds, seed), n_rounds).mean())


def empty_worlds(n_worlds: int, n_rounds: int, life: Life) -> Worlds:
    """Return room for worlds; what a simple life does not need has no length."""
    shape = (n_worlds, n_rounds)
    events = n_rounds * (2 if life.as_wrong else 1)  # a round may expire first and be answered later
    return Worlds(
        rows=np.empty(shape, np.uint32),
        draws=np.empty(shape),
        starts=np.empty((n_worlds, n_rounds + 1), np.uint32),
        arrivals=np.zeros((n_worlds, events), np.uint32),
        kinds=np.zeros((n_worlds, events if life.expires else 0), np.uint8),
        lies=np.empty((n_worlds, n_rounds if life.lies else 0), np.uint8),
        waiting=np.empty((n_worlds, n_rounds if life.expires else 0), np.uint32),
    )


def deliver(delays: Ints, life: Life, worlds: Worlds, w: int) -> int:
    """Write to world `w` what is delivered when; return the longest delay that is."""
    if not life.expires:
        return schedule(delays, worlds.starts[w], worlds.arrivals[w])
    events = expiring_events(delays, life)
    worlds.starts[w], worlds.waiting[w] = events.starts, events.waiting
    worlds.arrivals[w, : events.arrivals.size] = events.arrivals
    worlds.kinds[w, : events.kinds.size] = events.kinds
    return events.longest


def most_busy(worlds: Worlds) -> int:
    """Return how many instances the worlds need: a round keeps one until it is answered or counted as wrong."""
    ended = worlds.starts[:, 1:].astype(np.int64)
    if worlds.kinds.size:
        sums = np.cumsum((worlds.kinds == ANSWERED) | (worlds.kinds == EXPIRED), axis=1)
        ended = np.take_along_axis(np.pad(sums, ((0, 0), (1, 0))), ended, axis=1)
    return int((np.arange(1, ended.shape[1] + 1) - ended).max(initial=0))


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


def empty_log(n_runs: int, longest: int, n_extras: int, losses: bool = False) -> Log:
    """Return columns for the open rounds of every run: a ring that outlasts the longest delay."""
    length = 1 << max(0, longest - 1).bit_length()
    columns = np.zeros((2, n_runs, length), np.int32)
    extra = np.zeros((n_runs, length, n_extras))
    counts, sums = np.zeros((n_runs, 2), np.int64), np.zeros((n_runs, 2 * losses))
    return Log(columns[0], columns[1], np.zeros((n_runs, length)), extra, counts, sums)


def checkpoints(n_rounds: int, most: int = CHECKPOINTS) -> Ints:
    """Return the rounds at which errors are noted: log-spaced, at most so many, the last one is `n_rounds`.

    Examples
    --------
    >>> checkpoints(1000)[[0, 1, -1]].tolist()
    [1, 2, 1000]
    >>> checkpoints(1000, most=4).tolist()
    [1, 10, 100, 1000]
    """
    spaced = np.geomspace(1, n_rounds, most) if most > 1 else np.array([n_rounds])
    return np.unique(spaced.round().astype(np.int64))


class Events(NamedTuple):
    """What is delivered in each round, ascending in the round it concerns; see `Worlds`."""

    starts: Rounds
    arrivals: Rounds
    kinds: Bytes
    waiting: Rounds
    longest: int


def expiring_events(delays: Ints, life: Life) -> Events:
    """Return the answers that come in time, the rounds that expire and, where that counted as wrong, what comes later.

    An answer with a delay of at most `expire_after` is in time. Else the round expires at the start of round
    s + expire_after.

    Examples
    --------
    >>> events = expiring_events(np.array([1, 4, 1, 1, 1, 1]), Life(expire_after=2, as_wrong=True))
    >>> [events.arrivals[a:b].tolist() for a, b in zip(events.starts, events.starts[1:])]
    [[], [0], [], [1, 2], [3], [1, 4]]
    >>> events.kinds.tolist(), events.waiting.tolist()
    ([0, 1, 0, 0, 2, 0], [1, 1, 2, 1, 1, 1])
    """
    T = delays.size
    rounds = np.arange(T)
    late = delays > life.expire_after
    due = rounds + np.minimum(delays, life.expire_after)
    kinds = np.where(late, EXPIRED if life.as_wrong else DROPPED, ANSWERED)
    second = rounds[late] if life.as_wrong else rounds[:0]
    due_all = np.concatenate([due, second + delays[second]])
    about = np.concatenate([rounds, second])
    kinds = np.concatenate([kinds, np.full(second.size, REVISED)])
    order = np.lexsort((about, due_all))
    order = order[: np.searchsorted(due_all[order], T)]
    starts = np.searchsorted(due_all[order], np.arange(T + 1))
    waiting = np.arange(1, T + 1) - np.searchsorted(np.sort(due), np.arange(T), side="right")
    longest = int((due_all[order] - about[order]).max(initial=0))
    return Events(
        starts.astype(np.uint32),
        about[order].astype(np.uint32),
        kinds[order].astype(np.uint8),
        waiting.astype(np.uint32),
        longest,
    )
