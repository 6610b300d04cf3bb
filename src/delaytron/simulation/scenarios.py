"""Scenarios: rows, delays, draws and flipped answers of runs, as arrays that the loop reads."""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_flip_rates, check_integers
from delaytron.delays import Delay
from delaytron.delays.dependent import Labelled, depends_on_outcome, depends_on_rows, halves, sample_for
from delaytron.errors import InvalidInput, Setting
from delaytron.kernels.loop import (
    ANSWER_EVENT,
    CORRECTION_EVENT,
    EXPIRY_EVENT,
    IF_RIGHT,
    IF_WRONG,
    KIND_BITS,
    schedule,
)
from delaytron.learners.book import Expiry
from delaytron.learners.learner import Learner
from delaytron.records import Bytes, Ints, RoundRing, Rounds, Scenarios
from delaytron.rng import stream

CHECKPOINTS = 64  # rounds at which errors are noted
SAMPLINGS = ("replacement", "epochs", "drawn")  # how rows are drawn when rounds exceed them; the last one: always
BYTES_PER_ROUND = 28  # of one scenario: 20 that stay, and 8 for the delays while they are sorted
BYTES_PER_EXPIRING_ROUND = 140  # where answers expire, most of it while the events are sorted
BYTES_PER_CONDITIONAL_ROUND = 220  # where delays depend on the outcome


class SimulationConfig(NamedTuple):
    """What the scenarios of a simulation have in common.

    Parameters
    ----------
    labelled : Labelled, optional
        What is known of the rows, where delays depend on it.
    """

    n_rows: int
    n_rounds: int
    delay: Delay
    seed: int
    sampling: str
    n_checkpoints: int = CHECKPOINTS
    losses: bool = False
    labelled: Labelled | None = None


def bytes_per_round(delay: Delay, expires: bool) -> int:
    """Return the memory that a round of a scenario takes while it is made.

    Examples
    --------
    >>> from delaytron.delays import Uniform
    >>> bytes_per_round(Uniform(100), expires=False)
    28
    """
    if depends_on_outcome(delay):
        return BYTES_PER_CONDITIONAL_ROUND
    return BYTES_PER_EXPIRING_ROUND if expires else BYTES_PER_ROUND


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
    conditional = depends_on_outcome(config.delay)
    scenarios = empty_scenarios(len(runs), config.n_rounds, expiry, noise, conditional)
    longest = 0
    for w, run in enumerate(runs):
        rng = partial(stream, config.seed, run=run)
        scenarios.rows[w] = draw_rows(config, run)
        rng("exploration").random(out=scenarios.draws[w])
        scenarios.flips[w] = noise.flip_mask(rng("noise").random(scenarios.flips.shape[1]))
        right, wrong = draw_outcomes(config, run)
        longest = max(longest, deliver(right, expiry, scenarios, w, wrong if conditional else None))
    return scenarios, longest


def draw_rows(config: SimulationConfig, run: int) -> Rounds:
    """Return the rows that a run shows."""
    return choose_rows(config.n_rows, config.n_rounds, config.sampling, stream(config.seed, "rows", run=run))


def draw_delays(delay: Delay, n_rounds: int, seed: int, run: int = 0) -> Ints:
    """Return the delays of a run."""
    drawn = delay.sample(n_rounds, stream(seed, "delays", run=run))
    return check_integers(f"the delays of {delay!r}", drawn, n_rounds, low=1)


def draw_outcomes(config: SimulationConfig, run: int) -> tuple[Ints, Ints]:
    """Return the delays of a run if its answers say "right", and if they say "wrong": mostly twice the same array.

    Both are drawn from the same stream of random numbers, as only one of the two is ever played.
    """
    rows = None if config.labelled is None else config.labelled.rows(draw_rows(config, run))

    def draw(model: Delay) -> Ints:
        drawn = sample_for(model, config.n_rounds, stream(config.seed, "delays", run=run), rows)
        return check_integers(f"the delays of {model!r}", drawn, config.n_rounds, low=1)

    if_right, if_wrong = halves(config.delay)
    right = draw(if_right)
    return right, right if if_wrong is if_right else draw(if_wrong)


def mean_wait(delay: Delay, n_rounds: int, seed: int, labelled: Labelled | None = None) -> float:
    """Return the mean number of rounds until the answer comes or the run ends; infinity if only the rows can tell.

    Where it depends on the outcome, it is the mean of both.
    """
    if depends_on_rows(delay) and labelled is None:
        return inf
    n_rows = n_rounds if labelled is None else labelled.labels.size
    config = SimulationConfig(n_rows, n_rounds, delay, seed, "replacement", labelled=labelled)
    return float(np.mean([np.minimum(drawn, n_rounds) for drawn in draw_outcomes(config, 0)]))


def empty_scenarios(
    n_scenarios: int, n_rounds: int, expiry: Expiry, noise: Noise = NO_NOISE, conditional: bool = False
) -> Scenarios:
    """Return unfilled scenarios; arrays that are not needed without expiry, noise or conditions have no length."""
    shape = (n_scenarios, n_rounds)
    # A round may expire first and be answered later. Of two outcomes at most the first event is the same.
    events = n_rounds * (1 + expiry.as_wrong + conditional)
    return Scenarios(
        rows=np.empty(shape, np.uint32),
        draws=np.empty(shape),
        starts=np.empty((n_scenarios, n_rounds + 1), np.uint32),
        arrivals=np.zeros((n_scenarios, events), np.uint32),
        kinds=np.zeros((n_scenarios, events if expiry.expires or conditional else 0), np.uint8),
        flips=np.empty((n_scenarios, n_rounds if noise.flips else 0), np.uint8),
        waiting=np.empty((n_scenarios, n_rounds if expiry.expires and not conditional else 0), np.uint32),
    )


def deliver(delays: Ints, expiry: Expiry, scenarios: Scenarios, w: int, wrong: Ints | None = None) -> int:
    """Write to scenario `w` what is delivered in which round; return the longest delay that is delivered.

    With `wrong`, the delays of answers that say "wrong", `delays` are those of answers that say "right".
    """
    if wrong is None and not expiry.expires:
        return schedule(delays, scenarios.starts[w], scenarios.arrivals[w])
    events = expiring_events(delays, expiry) if wrong is None else conditional_events(delays, wrong, expiry)
    scenarios.starts[w] = events.starts
    scenarios.waiting[w] = events.waiting
    scenarios.arrivals[w, : events.arrivals.size] = events.arrivals
    scenarios.kinds[w, : events.kinds.size] = events.kinds
    return events.longest


def max_open_rounds(scenarios: Scenarios) -> int:
    """Return the largest number of open rounds: a round is open until it is answered or counted as wrong.

    Where that depends on the outcome, it counts as open until it would not be with either: an upper bound.
    """
    ended = scenarios.starts[:, 1:].astype(np.int64)
    if scenarios.kinds.size:
        kinds = scenarios.kinds & KIND_BITS
        ends = (kinds == ANSWER_EVENT) | (kinds == EXPIRY_EVENT)
        for arrivals, of_run, own in zip(scenarios.arrivals, scenarios.kinds, ends, strict=True):
            places = np.flatnonzero(own & (of_run > KIND_BITS))
            _, first = np.unique(arrivals[places], return_index=True)  # the second one ends it with either outcome
            own[places[first]] = False
        ended = np.take_along_axis(np.pad(np.cumsum(ends, axis=1), ((0, 0), (1, 0))), ended, axis=1)
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
    ended = np.zeros((n_runs, 1), np.int64)
    return RoundRing(columns[0], columns[1], np.zeros((n_runs, length)), extra, counts, sums, ended)


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
    planned = planned_events(delays, expiry)
    # Rounds begun so far, less those that were answered or have expired by then.
    waiting = np.arange(1, T + 1) - np.searchsorted(np.sort(planned[0].due), np.arange(T), side="right")
    return in_order(T, planned)._replace(waiting=waiting.astype(np.uint32))


def conditional_events(right: Ints, wrong: Ints, expiry: Expiry) -> Events:
    """Return the events of rounds whose delay is in `right` if the answer says that, else in `wrong`.

    What happens with both answers is there once, the rest with the condition on which it happens. How many rounds wait
    is known only when they are played, so `waiting` is empty.

    Examples
    --------
    >>> right, wrong = np.array([1, 4, 1, 1, 1, 1]), np.array([1, 1, 2, 9, 1, 1])
    >>> events = conditional_events(right, wrong, Expiry(2, as_wrong=True))
    >>> [events.arrivals[a:b].tolist() for a, b in zip(events.starts, events.starts[1:])]
    [[], [0], [1], [1, 2], [2, 3], [1, 3, 4]]
    >>> events.kinds.tolist() == [0, 8, 5, 4, 8, 4, 6, 9, 0]
    True
    """
    planned = []
    for one, other in zip(planned_events(right, expiry), planned_events(wrong, expiry), strict=True):
        same = (one.due == other.due) & (one.kinds == other.kinds)
        planned.append(one._replace(kinds=np.where(same, one.kinds, one.kinds | np.uint8(IF_RIGHT))))
        planned.append(Planned(np.where(same, right.size, other.due), other.kinds | np.uint8(IF_WRONG)))
    return in_order(right.size, planned)


class Planned(NamedTuple):
    """An event for each round: when it is due, after the last round if there is none, and of which kind."""

    due: Ints
    kinds: Bytes


def planned_events(delays: Ints, expiry: Expiry) -> list[Planned]:
    """Return what ends the wait of each round and, where an expiry counts as wrong, what corrects it later."""
    rounds = np.arange(delays.size)
    late = delays > expiry.rounds
    kinds = np.where(late, np.uint8(expiry.kind), np.uint8(ANSWER_EVENT))
    planned = [Planned(rounds + np.minimum(delays, expiry.rounds), kinds)]
    if expiry.as_wrong:
        corrected = np.where(late & (delays <= expiry.release_rounds), rounds + delays, delays.size)
        planned.append(Planned(corrected, np.full(delays.size, CORRECTION_EVENT, np.uint8)))
    return planned


def in_order(n_rounds: int, planned: Sequence[Planned]) -> Events:
    """Return the events that are due before the end; of a round of delivery, ascending in the round they concern."""
    coming = [np.flatnonzero(one.due < n_rounds) for one in planned]
    due, kinds = (
        np.concatenate([column[rounds] for column, rounds in zip(columns, coming, strict=True)])
        for columns in zip(*planned, strict=True)
    )
    about = np.concatenate(coming).astype(np.uint32)
    order = np.lexsort((about, due))
    due, about, kinds = due[order], about[order], kinds[order]
    starts = np.searchsorted(due, np.arange(n_rounds + 1)).astype(np.uint32)
    return Events(starts, about, kinds, np.empty(0, np.uint32), int((due - about).max(initial=0)))
