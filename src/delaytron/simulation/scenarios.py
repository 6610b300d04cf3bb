"""Worlds: what happens to a run apart from its learner, as arrays that the loop reads."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from delaytron.checks import check_integers
from delaytron.delays import Delay
from delaytron.kernels.arrivals import schedule
from delaytron.kernels.loop import ANSWERED, EXPIRED, REVISED
from delaytron.learners.feedback import FeedbackModel
from delaytron.records import Bytes, Ints, RoundRing, Rounds, Scenarios
from delaytron.rng import stream

CHECKPOINTS = 64  # rounds at which errors are noted
BYTES_PER_ROUND = 28  # of one world: 20 that stay, and 8 for the delays while they are sorted
BYTES_PER_EXPIRING_ROUND = 140  # where answers expire, most of it while the events are sorted


class SimulationConfig(NamedTuple):
    """What the worlds of a simulation have in common."""

    n_rows: int
    n_rounds: int
    delay: Delay
    seed: int
    sampling: str
    n_checkpoints: int = CHECKPOINTS
    losses: bool = False


def make_scenarios(
    runs: Sequence[int], config: SimulationConfig, feedback_model: FeedbackModel
) -> tuple[Scenarios, int]:
    """Return the worlds of these runs, and the longest delay that is delivered in any of them."""
    scenarios = empty_scenarios(len(runs), config.n_rounds, feedback_model)
    longest = 0
    for w, run in enumerate(runs):
        rng = partial(stream, config.seed, run=run)
        scenarios.rows[w] = draw_rows(config, run)
        rng("exploration").random(out=scenarios.draws[w])
        scenarios.flips[w] = feedback_model.flip_mask(rng("noise").random(scenarios.flips.shape[1]))
        delays = draw_delays(config.delay, config.n_rounds, config.seed, run)
        longest = max(longest, deliver(delays, feedback_model, scenarios, w))
    return scenarios, longest


def draw_rows(config: SimulationConfig, run: int) -> Rounds:
    """Return the rows that a run shows."""
    return choose_rows(config.n_rows, config.n_rounds, config.sampling, stream(config.seed, "rows", run=run))


def draw_delays(delay: Delay, n_rounds: int, seed: int, run: int = 0) -> Ints:
    """Return the delays of a run."""
    drawn = delay.sample(n_rounds, stream(seed, "delays", run=run))
    return check_integers(f"the delays of {delay!r}", drawn, n_rounds, low=1)


def mean_wait(delay: Delay, n_rounds: int, seed: int) -> float:
    """Return how many rounds one waits on average before the answer comes, or the run ends."""
    return float(np.minimum(draw_delays(delay, n_rounds, seed), n_rounds).mean())


def empty_scenarios(n_scenarios: int, n_rounds: int, feedback_model: FeedbackModel) -> Scenarios:
    """Return room for worlds; what a simple life does not need has no length."""
    shape = (n_scenarios, n_rounds)
    events = n_rounds * (2 if feedback_model.as_wrong else 1)  # a round may expire first and be answered later
    return Scenarios(
        rows=np.empty(shape, np.uint32),
        draws=np.empty(shape),
        starts=np.empty((n_scenarios, n_rounds + 1), np.uint32),
        arrivals=np.zeros((n_scenarios, events), np.uint32),
        kinds=np.zeros((n_scenarios, events if feedback_model.expires else 0), np.uint8),
        flips=np.empty((n_scenarios, n_rounds if feedback_model.flips else 0), np.uint8),
        waiting=np.empty((n_scenarios, n_rounds if feedback_model.expires else 0), np.uint32),
    )


def deliver(delays: Ints, feedback_model: FeedbackModel, scenarios: Scenarios, w: int) -> int:
    """Write to world `w` what is delivered when; return the longest delay that is."""
    if not feedback_model.expires:
        return schedule(delays, scenarios.starts[w], scenarios.arrivals[w])
    events = expiring_events(delays, feedback_model)
    scenarios.starts[w], scenarios.waiting[w] = events.starts, events.waiting
    scenarios.arrivals[w, : events.arrivals.size] = events.arrivals
    scenarios.kinds[w, : events.kinds.size] = events.kinds
    return events.longest


def max_open_rounds(scenarios: Scenarios) -> int:
    """Return how many instances the worlds need: a round keeps one until it is answered or counted as wrong."""
    ended = scenarios.starts[:, 1:].astype(np.int64)
    if scenarios.kinds.size:
        sums = np.cumsum((scenarios.kinds == ANSWERED) | (scenarios.kinds == EXPIRED), axis=1)
        ended = np.take_along_axis(np.pad(sums, ((0, 0), (1, 0))), ended, axis=1)
    return int((np.arange(1, ended.shape[1] + 1) - ended).max(initial=0))


def choose_rows(n_rows: int, n_rounds: int, sampling: str, rng: np.random.Generator) -> Rounds:
    """Return which row each round shows: the rows in file order while they last, else drawn.

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


def empty_log(n_runs: int, longest: int, n_extras: int, losses: bool = False) -> RoundRing:
    """Return columns for the open rounds of every run: a ring that outlasts the longest delay."""
    length = 1 << max(0, longest - 1).bit_length()
    columns = np.zeros((2, n_runs, length), np.int32)
    extra = np.zeros((n_runs, length, n_extras))
    counts = np.zeros((n_runs, 2), np.int64)
    sums = np.zeros((n_runs, 2 * losses))
    return RoundRing(columns[0], columns[1], np.zeros((n_runs, length)), extra, counts, sums)


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
    """What is delivered in each round, ascending in the round it concerns; see `Scenarios`."""

    starts: Rounds
    arrivals: Rounds
    kinds: Bytes
    waiting: Rounds
    longest: int


def expiring_events(delays: Ints, feedback_model: FeedbackModel) -> Events:
    """Return the answers that come in time, the rounds that expire and, where that counted as wrong, what comes later.

    An answer with a delay of at most `expire_after` is in time. Else the round expires at the start of round
    s + expire_after.

    Examples
    --------
    >>> events = expiring_events(np.array([1, 4, 1, 1, 1, 1]), FeedbackModel(expire_after=2, as_wrong=True))
    >>> [events.arrivals[a:b].tolist() for a, b in zip(events.starts, events.starts[1:])]
    [[], [0], [], [1, 2], [3], [1, 4]]
    >>> events.kinds.tolist(), events.waiting.tolist()
    ([0, 1, 0, 0, 2, 0], [1, 1, 2, 1, 1, 1])
    """
    T = delays.size
    rounds = np.arange(T)
    late = delays > feedback_model.expire_after
    due = rounds + np.minimum(delays, feedback_model.expire_after)
    kinds = np.where(late, feedback_model.expiry_kind, ANSWERED)
    second = rounds[late] if feedback_model.as_wrong else rounds[:0]
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
