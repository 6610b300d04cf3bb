"""Which outcomes of a log are known, and the probability that an outcome had arrived by the end of the log.

An outcome that arrived is weighted by 1 / F(age), where F is the probability of arriving within the age of its decision
(inverse probability of censoring weighting). F is estimated from the same log, so the terms of the weighted sum are not
independent. The method `influence` returns the influence of each round on the sum: it contains the error of the
estimated F to first order, and the sum of its squares estimates the variance.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from delaytron.errors import InvalidInput, Setting
from delaytron.records import Array, Bools, Ints

if TYPE_CHECKING:
    from delaytron.logs.log import Log


NANOSECONDS = 1e-9


class KnownOutcomes(NamedTuple):
    """The outcomes of a log: 0 where there is none; `counts` are the weights of decisions, 0 for those left out.

    `ages` are the seconds from the decision to the end of the log and `waits` those to its outcome, infinite where
    there is none; None in a log without such times.
    """

    values: Array
    arrived: Bools
    counts: Array
    ages: Array | None
    waits: Array | None


def known_outcomes(log: "Log", quantity: str, missing: float | None, wait: float | None) -> KnownOutcomes:
    """Return the outcomes of a log; with `missing`, those that have not come within `wait` seconds have that reward.

    Raises InvalidInput if the log has no times and `wait` is given, if it has times and `wait` is not, or if all
    decisions are younger than the wait.
    """
    rewards = np.array(log.outcomes, np.float64)
    ages = waits = None
    if log.decided_at is not None and log.until is not None:
        ages = np.maximum(0.0, (log.until - log.decided_at) * NANOSECONDS)
        if log.received_at is not None:
            known = ~np.isnan(rewards)
            waits = np.full(len(log), np.inf)
            waits[known] = np.maximum(0.0, (log.received_at - log.decided_at)[known] * NANOSECONDS)
            ages = np.maximum(ages, np.where(known, waits, 0.0))
    counts = np.ones(len(log)) if log.weights is None else np.array(log.weights)
    if missing is not None:
        if ages is None and wait is not None:
            problem = (Setting("wait"), " needs a log with times, decided_at")
            raise InvalidInput(problem, "leave it out, or give times to the log")
        if ages is not None:
            if wait is None:
                raise InvalidInput(
                    (Setting("missing"), " needs ", Setting("wait"), ", how long an outcome may take; got none"),
                    ("give it, such as ", Setting("wait", "'7d'")),
                )
            old = ages >= wait  # the outcome of a younger decision may still come in time: it does not count
            if not old.any():
                raise InvalidInput(f"no decision of the log is {wait:g} seconds old or more", "give a shorter wait")
            counts = np.where(old, counts, 0.0)
        late = np.isnan(rewards) if waits is None or wait is None else waits > wait
        rewards = np.where(late, missing, rewards)
        waits = None
    arrived = ~np.isnan(rewards)
    values = rewards if quantity == "reward" else 1.0 - rewards
    return KnownOutcomes(np.where(arrived, values, 0.0), arrived, counts, ages, waits)


RARE = 0.05  # a decision counts if, of the outcomes that arrive at all, at least this share does so within its age


class ArrivalProbability(Protocol):
    """F, the probability that the outcome of each round has arrived."""

    probability: Array

    def influence(self, terms: Array) -> Array:
        """Return the influence of each round on the sum of `terms / probability` over the outcomes that arrived."""


class NoneMissing:
    """All outcomes have arrived, or none."""

    def __init__(self, n_rounds: int) -> None:
        self.probability = np.ones(n_rounds)

    def influence(self, terms: Array) -> Array:
        """Return the terms unchanged: nothing is estimated."""
        return terms


class ByBlock:
    """F is the share that arrived in each of several blocks of rounds.

    With ages but without waits, the blocks are those of an isotonic regression on the age: the maximum likelihood
    estimate of a rising F. Without ages, all rounds are one block.
    """

    def __init__(self, arrived: Bools, ages: Array | None) -> None:
        self.arrived = arrived
        self.block: Ints = np.zeros(arrived.size, np.int64)
        if ages is not None:
            from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

            levels, level = np.unique(ages, return_inverse=True)
            counts = np.bincount(level)
            rising = isotonic_regression(np.bincount(level, weights=arrived) / counts, weights=counts)
            starts = np.asarray(rising.blocks, np.int64)
            self.block = (np.searchsorted(starts, np.arange(levels.size), side="right") - 1)[level]
        self.n_arrived = np.bincount(self.block, weights=arrived)
        self.probability = (self.n_arrived / np.bincount(self.block))[self.block]

    def influence(self, terms: Array) -> Array:
        """Return m + (terms - m) / F for outcomes that arrived and m for others; m is the mean term of the block.

        This is the influence in a ratio estimator: a block with n rounds contributes n m to the sum.
        """
        sums = np.asarray(np.bincount(self.block, weights=np.where(self.arrived, terms, 0.0)), np.float64)
        means = _divide(sums, self.n_arrived)[self.block]
        return means + _divide(np.where(self.arrived, terms - means, 0.0), self.probability)


class KaplanMeier:
    """F by the Kaplan-Meier estimator of the waits, each censored at the age of its decision.

    `observed` is the wait or, if no outcome has arrived, the age. `times` are the distinct waits, ascending; at each,
    `at_risk` is the number of rounds with an observed time no shorter, and `hazard` the share of them that arrives.
    """

    def __init__(self, waits: Array, ages: Array) -> None:
        self.arrived = np.isfinite(waits)
        self.ages = ages
        self.observed = np.where(self.arrived, waits, ages)
        self.times, n_arrived = np.unique(waits[self.arrived], return_counts=True)
        self.at_risk = waits.size - np.searchsorted(np.sort(self.observed), self.times)
        self.hazard = n_arrived / self.at_risk
        survival = np.concatenate([[1.0], np.cumprod(1.0 - self.hazard)])
        self.probability = 1.0 - survival[self._n_times_within(ages)]

    def _n_times_within(self, durations: Array) -> Ints:
        """Return how many of `times` are no longer than each duration."""
        return np.searchsorted(self.times, durations, side="right")

    def influence(self, terms: Array) -> Array:
        r"""Return the weighted terms, corrected for the error of the Kaplan-Meier estimate.

        At the times :math:`t_j`, with the hazards :math:`h_j`, the numbers at risk :math:`Y_j` and the martingale
        increments :math:`dM_{ij} = 1\{w_i = t_j\} - h_j 1\{o_i \ge t_j\}` of the waits :math:`w_i` and observed times
        :math:`o_i`, the error of the estimate at the age :math:`a` is to first order

        .. math:: \hat F(a) - F(a) = (1 - F(a)) \sum_i \sum_{j : t_j \le a} \frac{dM_{ij}}{Y_j (1 - h_j)}

        (Reid, Influence functions for censored data, Annals of Statistics 9, 1981). The sum of the weighted terms
        :math:`v_k = z_k / F(a_k)`, 0 without an outcome, changes by :math:`-v_k / F(a_k)` times this error, so the
        influence of round i is

        .. math:: v_i - \sum_j c_j dM_{ij}, \qquad
            c_j = \frac1{Y_j (1 - h_j)} \sum_{k : a_k \ge t_j} v_k \frac{1 - F(a_k)}{F(a_k)}
        """
        weighted = _divide(np.where(self.arrived, terms, 0.0), self.probability)
        slope = _divide(weighted * (1.0 - self.probability), self.probability)
        # Sums over the rounds with a_k >= t_j: by the number of times within the age, then from the oldest on. The
        # first sum is left out: it has the rounds that are younger than all times, too.
        by_age = np.bincount(self._n_times_within(self.ages), weights=slope, minlength=self.times.size + 1)
        older = np.asarray(np.cumsum(by_age[::-1])[::-1][1:], np.float64)
        c = _divide(older, self.at_risk * (1.0 - self.hazard))
        # The two parts of the sum of c_j dM_ij: at the arrival, and the compensator up to the observed time.
        at_arrival = np.zeros(terms.size)
        at_arrival[self.arrived] = c[np.searchsorted(self.times, self.observed[self.arrived])]
        compensator = np.concatenate([[0.0], np.cumsum(c * self.hazard)])[self._n_times_within(self.observed)]
        return np.asarray(weighted - (at_arrival - compensator))


def _divide(dividend: Array, divisor: Any) -> Array:
    """Divide, with 0 where the divisor is 0."""
    return np.asarray(np.divide(dividend, divisor, out=np.zeros_like(dividend), where=divisor > 0))


def arrival_probability(known: KnownOutcomes) -> ArrivalProbability:
    """Return the probability of each outcome to have arrived, estimated by the times that the log has."""
    if known.arrived.all() or not known.arrived.any():
        return NoneMissing(known.arrived.size)
    if known.ages is None or known.waits is None:
        return ByBlock(known.arrived, known.ages)
    return KaplanMeier(known.waits, known.ages)


def old_enough(probability: Array) -> Bools:
    """Return which decisions are old enough to count: weights of others would be larger than 1 / RARE."""
    return np.asarray(probability >= RARE * probability.max())
