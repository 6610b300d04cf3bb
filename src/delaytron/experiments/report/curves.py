"""What an experiment says about learners with delay: mean error curves, their slopes, and when they are low enough."""

from collections.abc import Iterable

import numpy as np

from delaytron.delays import as_delay
from delaytron.experiments.report.model import Estimate, estimate
from delaytron.experiments.selection import Outcome
from delaytron.records import Array
from delaytron.simulation.results import Result, index_from_which_below
from delaytron.simulation.scenarios import mean_wait

LEARNERS = ("delaytron", "adaptive_delaytron", "adaptive_delaytron, instant")
CLOSE = 1.1  # times an error is still close to it
NEAR = 0.01  # and so is what differs by a hundredth
WAITS = 10_000  # delays of which the mean decides which of two is longer
LAST_PART = 10  # slopes are those of the last nine tenths of the rounds: from T / 10 to T


class Evidence:
    """The mean error curves of the chosen settings, by data set, learner and delay."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        results = {(o.condition.data, o.condition.title, o.condition.delay): o.result for o in outcomes}
        self.results: dict[tuple[str, str, str], Result] = results
        self.data = list(dict.fromkeys(data for data, _, _ in results))
        self.learners = [name for name in LEARNERS if any(title == name for _, title, _ in results)]
        delays = {delay for _, title, delay in results if title in LEARNERS}
        self.delays = sorted(delays, key=lambda delay: mean_wait(as_delay(delay), WAITS, 0))

    def curve(self, data: str, learner: str, delay: str) -> tuple[Array, Array] | None:
        """Return rounds and mean errors so far."""
        result = self.results.get((data, learner, delay))
        return None if result is None else (result.rounds.astype(float), result.error_rate.mean(axis=0))

    def final(self, data: str, learner: str, delay: str) -> float | None:
        """Return the mean final error."""
        curve = self.curve(data, learner, delay)
        return None if curve is None else float(curve[1][-1])

    def final_with_interval(self, data: str, learner: str, delay: str) -> Estimate | None:
        """Return the mean final error, its interval and its number of runs."""
        result = self.results.get((data, learner, delay))
        return None if result is None else estimate(result.final_error)


def close(error: float, reference: float) -> bool:
    """Whether an error is close to another, or below it."""
    return error <= max(CLOSE * reference, reference + NEAR)


def slope(curve: tuple[Array, Array] | None) -> float | None:
    """Return the slope of log error against log rounds over the last part."""
    if curve is None:
        return None
    rounds, errors = curve
    last = (rounds >= rounds[-1] / LAST_PART) & (errors > 0)
    return float(np.polyfit(np.log(rounds[last]), np.log(errors[last]), 1)[0]) if last.sum() > 1 else None


def first_below(curve: tuple[Array, Array] | None, target: float | Array) -> float | None:
    """Return the round after which errors stay at or below a target, interpolated; None if they do not."""
    if curve is None:
        return None
    rounds, errors = curve
    place = index_from_which_below(errors, target)
    over = errors - target
    if not place:
        return None if place is None else float(rounds[0])
    share = over[place - 1] / (over[place - 1] - over[place])
    return float(np.exp(np.interp(share, [0, 1], np.log(rounds[place - 1 : place + 1]))))
