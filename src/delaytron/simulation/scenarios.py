"""Scenarios: rows, delays, draws and flipped answers of runs, as arrays that the loop reads."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_flip_rates, check_integers
from delaytron.delays import Delay
from delaytron.errors import InvalidInput, Setting
from delaytron.kernels.loop import ANSWER_EVENT, CORRECTION_EVENT, EXPIRY_EVENT, schedule
from delaytron.learners.book import Expiry
from delaytron.learners.learner import Learner
from delaytron.records import Bytes, Ints, RoundRing, Rounds, Scenarios
from delaytron.rng import stream

CHECKPOINTS = 64  # rounds at which errors are noted
SAMPLINGS = ("replacement", "epochs", "drawn")  # how rows are drawn when rounds exceed them; the last one: always
BYTES_PER_ROUND = 28  # of one scenario: 20 that stay, and 8 for the delays while they are sorted
BYTES_PER_EXPIRING_ROUND = 140  # where answers expire, most of it while the events are sorted


class SimulationConfig(NamedTuple):
    """What the scenarios of a simulation have in common."""

    n_rows: int
    n_rounds: int
    delay: Delay
    seed: int
    sampling: str
    n_checkpoints: int = CHECKPOINTS
    losses: bool = False


class Noise(NamedTuple):
    """Flipped answers: the rates at which a "wrong" is reported as "right" (rho0), and a "right" as "wrong" (rho1)."""

    rho0: float = 0.0
    rho1: float = 0.0

    @property
    def flips(self) -> bool:
        """Whether answers may be flipped."""
        return self.rho0 > 0 or self.rho1 > 0

    def flip_mask(self, draws: Any) -> Bytes:
        """Return, for one uniform number per round, which answers are flipped: bit 0 a "wrong", bit 1 a "right"."""
        numbers = np.asarray(draws)
        return np.asarray((numbers < self.rho0) + 2 * (numbers < self.rho1), np.uint8)


NO_NOISE = Noise()


def read_noise(noise: Any) -> Noise:
    """Return the rates that a user gives as a pair, rates of 0 for None; raise InvalidInput if they are not rates.

    Examples
    --------
    >>> read_noise((0.1, 0.2)), read_noise(None).flips
    (Noise(rho0=0.1, rho1=0.2), False)
    """
    if noise is None:
        return NO_NOISE
    try:
        rho0, rho1 = noise
    except (TypeError, ValueError):
        hint = ("give them as in ", Setting("noise", "(0.1, 0.2)"))
        raise InvalidInput.of("noise", "(rho0, rho1), two rates", noise, hint) from None
    return Noise(*check_flip_rates(rho0, rho1))


def noise_for(learner: Learner, noise: Any) -> Noise:
    """Return the rates at which answers are flipped; raise InvalidInput if the learner is answered by true labels."""
    rates = read_noise(noise)
    if rates.flips and learner.feedback_type == "label":
        raise InvalidInput(f"{learner.name} learns from the true label", ("leave out ", Setting("noise")))
    return rates


def make_scenarios(
    runs: Sequence[int], config: SimulationConfig, expiry: Expiry, noise: Noise = NO_NOISE
) -> tuple[Scenarios, int]:
    """Return the scenarios of these runs, and the longest delay that is delivered in any of them."""
    scenarios = empty_scenarios(len(runs), config.n_rounds, expiry, noise)
    longest = 0
    for w, run in enumerate(runs):
        rng = partial(stream, config.seed, run=run)
        scenarios.rows[w] = draw_rows(config, run)
        rng("exploration").random(out=scenarios.draws[w])
        scenarios.flips[w] = noise.flip_mask(rng("noise").random(scenarios.flips.shape[1]))
        delays = draw_delays(config.delay, config.n_rounds, config.seed, run)
        longest = max(longest, deliver(delays, expiry, scenarios, w))
    return scenarios, longest


def draw_rows(config: SimulationConfig, run: int) -> Rounds:
    """Return the rows that a run shows."""
    return choose_rows(config.n_rows, config.n_rounds, config.sampling, stream(config.seed, "rows", run=run))


def draw_delays(delay: Delay, n_rounds: int, seed: int, run: int = 0) -> Ints:
    """Return the delays of a run."""
    drawn = delay.sample(n_rounds, stream(seed, "delays", run=run))
    return check_integers(f"the delays of {delay!r}", drawn, n_rounds, low=1)


def mean_wait(delay: Delay, n_rounds: int, seed: int) -> float:
    """Return the mean number of rounds until the answer comes or the run ends."""
    return float(np.minimum(draw_delays(delay, n_rounds, seed), n_rounds).mean())


def empty_scenarios(n_scenarios: int, n_rounds: int, expiry: Expiry, noise: Noise = NO_NOISE) -> Scenarios:
    """Return unfilled scenarios; arrays that are not needed without expiry or noise have no length."""
    shape = (n_scenarios, n_rounds)
    events = n_rounds * (2 if expiry.as_wrong else 1)  # a round may expire first and be answered later
    return Scenarios(
        rows=np.empty(shape, np.uint32),
        draws=np.empty(shape),
        starts=np.empty((n_scenarios, n_rounds + 1), np.uint32),
        arrivals=np.zeros((n_scenarios, events), np.uint32),
        kinds=np.zeros((n_scenarios, events if expiry.expires else 0), np.uint8),
        flips=np.empty((n_scenarios, n_rounds if noise.flips else 0), np.uint8),
        waiting=np.empty((n_scenarios, n_rounds if expiry.expires else 0), np.uint32),
    )


def deliver(delays: Ints, expiry: Expiry, scenarios: Scenarios, w: int) -> int:
    """Write to scenario `w` what is delivered in which round; return the longest delay that is delivered."""
    if not expiry.expires:
        return schedule(delays, scenarios.starts[w], scenarios.arrivals[w])
    events = expiring_events(delays, expiry)
    scenarios.starts[w], scenarios.waiting[w] = events.starts, events.waiting
    scenarios.arrivals[w, : events.arrivals.size] = events.arrivals
    scenarios.kinds[w, : events.kinds.size] = events.kinds
    return events.longest


def max_open_rounds(scenarios: Scenarios) -> int:
    """Return the largest number of open rounds: a round is open until it is answered or counted as wrong."""
    ended = scenarios.starts[:, 1:].astype(np.int64)
    if scenarios.kinds.size:
        sums = np.cumsum((scenarios.kinds == ANSWER_EVENT) | (scenarios.kinds == EXPIRY_EVENT), axis=1)
        ended = np.take_along_axis(np.pad(sums, ((0, 0), (1, 0))), ended, axis=1)
    return int((np.arange(1, ended.shape[1] + 1) - ended).max(initial=0))


def choose_rows(n_rows: int, n_rounds: int, sampling: str, rng: np.random.Generator) -> Rounds:
    """Return which row each round shows: the rows in file order while they last, else drawn; if "drawn", always.

    Examples
    --------
    >>> choose_rows(5, 3, "replacement", np.random.default_rng(0)).tolist()
    [0, 1, 2]
    >>> sorted(choose_rows(2, 4, "epochs", np.random.default_rng(0)).tolist())
    [0, 0, 1, 1]
    """
    if n_rounds <= n_rows and sampling != "drawn":
        return np.arange(n_rounds, dtype=np.uint32)
    if sampling != "epochs":
        return rng.integers(n_rows, size=n_rounds, dtype=np.uint32)
    passes = [rng.permutation(n_rows) for _ in range(-(-n_rounds // n_rows))]
    return np.concatenate(passes)[:n_rounds].astype(np.uint32)


def empty_log(n_runs: int, longest: int, n_extras: int, losses: bool = False) -> RoundRing:
    """Return columns for the open rounds of every run: a ring that outlasts the longest delay."""
    length = 1 << max(0, longest - 1).bit_length()  # a power of two: the loop finds a round by a mask
    columns = np.zeros((2, n_runs, length), np.int32)
    extra = np.zeros((n_runs, length, n_extras))
    counts = np.zeros((n_runs, 2), np.int64)
    sums = np.zeros((n_runs, 2 * losses))
    return RoundRing(columns[0], columns[1], np.zeros((n_runs, length)), extra, counts, sums)


def checkpoints(n_rounds: int, most: int = CHECKPOINTS) -> Ints:
    """Return the rounds at which errors are noted: at most `most`, log-spaced, the last one is `n_rounds`.

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


def expiring_events(delays: Ints, expiry: Expiry) -> Events:
    """Return the answers in time, the expiries and, where these count as wrong, the later answers that correct them.

    An answer with a delay of at most `expiry.rounds` is in time. Else the round expires at the start of round
    s + expiry.rounds; if that counts as wrong, an answer with a delay of at most `expiry.release_rounds` corrects it.
    `Book` does the same round by round.

    Examples
    --------
    >>> events = expiring_events(np.array([1, 4, 1, 1, 1, 1]), Expiry(2, as_wrong=True))
    >>> [events.arrivals[a:b].tolist() for a, b in zip(events.starts, events.starts[1:])]
    [[], [0], [], [1, 2], [3], [1, 4]]
    >>> events.kinds.tolist(), events.waiting.tolist()
    ([0, 1, 0, 0, 2, 0], [1, 1, 2, 1, 1, 1])
    """
    T = delays.size
    rounds = np.arange(T)
    late = delays > expiry.rounds
    due = rounds + np.minimum(delays, expiry.rounds)
    kinds = np.where(late, expiry.kind, ANSWER_EVENT)
    second = rounds[late & (delays <= expiry.release_rounds)] if expiry.as_wrong else rounds[:0]
    due_all = np.concatenate([due, second + delays[second]])
    about = np.concatenate([rounds, second])
    kinds = np.concatenate([kinds, np.full(second.size, CORRECTION_EVENT)])
    order = np.lexsort((about, due_all))  # within a round of delivery, ascending in the round it concerns
    order = order[: np.searchsorted(due_all[order], T)]
    starts = np.searchsorted(due_all[order], np.arange(T + 1))
    # Rounds begun so far, less those that were answered or have expired by then.
    waiting = np.arange(1, T + 1) - np.searchsorted(np.sort(due), np.arange(T), side="right")
    longest = int((due_all[order] - about[order]).max(initial=0))
    return Events(
        starts.astype(np.uint32),
        about[order].astype(np.uint32),
        kinds[order].astype(np.uint8),
        waiting.astype(np.uint32),
        longest,
    )
