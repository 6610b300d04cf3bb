"""How likely an outcome was to have arrived by the end of a log, and what it costs that this is estimated.

An outcome that arrived counts 1 / F(age) times, where F is the chance of arriving within the age of its decision. F is
estimated from the same log, so the sum over all rounds is not one of independent terms. `influence` returns terms whose
sum of squares is its variance: they have, to first order, the error of the estimated F in them.
"""

from functools import cached_property
from typing import Any, Protocol

import numpy as np

from delaytron.evaluation.outcomes import KnownOutcomes
from delaytron.records import Array, Bools, Ints

RARE = 0.05  # a decision counts if, of the outcomes that arrive at all, at least this share does so within its age


class ArrivalChance(Protocol):
    """The chance of each outcome to have arrived."""

    chance: Array

    def influence(self, terms: Array) -> Array:
        """Return what each round contributes to the sum of `terms / chance` over the outcomes that arrived."""


class NoneMissing:
    """Every outcome is there."""

    def __init__(self, n_rounds: int) -> None:
        self.chance = np.ones(n_rounds)

    def influence(self, terms: Array) -> Array:
        """Return the terms as they are."""
        return terms


class ByBlock:
    """Rounds in blocks of one chance each: the share that arrived, rising with the age where that is known.

    For ages without waits, rising shares are the maximum likelihood estimate of F (isotonic regression).
    """

    def __init__(self, arrived: Bools, ages: Array | None) -> None:
        self.arrived = arrived
        self.block = _blocks(arrived, ages)
        self.size = np.bincount(self.block)
        self.n_arrived = np.bincount(self.block, weights=arrived)
        self.chance = (self.n_arrived / self.size)[self.block]

    def influence(self, terms: Array) -> Array:
        """Return the mean of the block, and what an outcome that arrived adds to it."""
        sums = np.bincount(self.block, weights=np.where(self.arrived, terms, 0.0))
        means = np.divide(sums, self.n_arrived, out=np.zeros_like(sums), where=self.n_arrived > 0)[self.block]
        return means + _over(np.where(self.arrived, terms - means, 0.0), self.chance)


def _blocks(arrived: Bools, ages: Array | None) -> Ints:
    """Return in which block each round is."""
    if ages is None:
        return np.zeros(arrived.size, np.int64)
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    levels, level = np.unique(ages, return_inverse=True)
    counts = np.bincount(level)
    rising = isotonic_regression(np.bincount(level, weights=arrived) / counts, weights=counts)
    starts = np.asarray(rising.blocks, np.int64)
    return np.asarray(np.searchsorted(starts, np.arange(levels.size), side="right") - 1, np.int64)[level]


class KaplanMeier:
    """The chance by the Kaplan-Meier estimate of the waits; an outcome may never come.

    A wait is censored at the age of its decision. `times` are the waits at which outcomes arrived, `arrivals` and
    `at_risk` how many did and how many could have.
    """

    def __init__(self, waits: Array, ages: Array) -> None:
        self.arrived = np.isfinite(waits)
        self.ages = ages
        self.seen = np.where(self.arrived, waits, ages)
        self.times, self.arrivals = np.unique(waits[self.arrived], return_counts=True)
        self.at_risk = waits.size - np.searchsorted(np.sort(self.seen), self.times)
        self.hazard = self.arrivals / self.at_risk
        left = np.concatenate([[1.0], np.cumprod(1.0 - self.hazard)])
        self.chance = 1.0 - left[self._steps(ages)]

    @cached_property
    def finally_arrived(self) -> float:
        """The share of outcomes that arrive within the longest wait that was seen."""
        return float(1.0 - np.prod(1.0 - self.hazard))

    def _steps(self, times: Array) -> Ints:
        """Return how many of the waits at which outcomes arrived are no longer than each of `times`."""
        return np.searchsorted(self.times, times, side="right")

    def influence(self, terms: Array) -> Array:
        """Return the terms over their chances, less what the martingale of each arrival does to these chances."""
        own = _over(np.where(self.arrived, terms, 0.0), self.chance)
        slope = _over(own * (1.0 - self.chance), self.chance)
        reach = np.bincount(self._steps(self.ages), weights=slope, minlength=self.times.size + 1)
        beyond = np.asarray(np.cumsum(reach[::-1])[::-1][1:], np.float64)  # of the rounds old enough for the wait
        factor = _over(beyond, self.at_risk * (1.0 - self.hazard))
        expected = np.concatenate([[0.0], np.cumsum(factor * self.hazard)])[self._steps(self.seen)]
        jump = np.zeros(terms.size)
        jump[self.arrived] = factor[np.searchsorted(self.times, self.seen[self.arrived])]
        return np.asarray(own - (jump - expected))


def _over(above: Array, below: Any) -> Array:
    """Divide, with 0 where there is nothing to divide by."""
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))


def arrival_chance(known: KnownOutcomes) -> ArrivalChance:
    """Return how likely each outcome was to have arrived, by what the log tells of times."""
    if known.arrived.all() or not known.arrived.any():
        return NoneMissing(known.arrived.size)
    if known.ages is None or known.waits is None:
        return ByBlock(known.arrived, known.ages)
    return KaplanMeier(known.waits, known.ages)


def old_enough(chance: Array) -> Bools:
    """Return which decisions are old enough to count."""
    return np.asarray(chance >= RARE * chance.max())
