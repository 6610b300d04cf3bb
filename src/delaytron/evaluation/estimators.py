"""The estimators: each one a mean over rounds, with the terms of its variance.

With the weight w = pi(label) / prob, the reward r and the reward m that a model expects:

    ips     mean of w r
    snips   sum of w r / sum of w
    dm      mean of the sum over labels of pi m
    dr      dm + mean of w (r - m(label))
    replay  mean of r over the rounds that were accepted: snips with weights 1 and 0

An outcome that arrived counts 1 / F times, F its chance to have arrived (`arrivals`), others 0 times. The interval is
normal: value +- 1.96 sqrt(sum of squares of the terms) / n. For snips, a ratio, they are w (r - value) / mean of w.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.evaluation.arrivals import ArrivalChance
from delaytron.evaluation.results import Z
from delaytron.records import Array, Bools, Ints


class Weighed(NamedTuple):
    """What the estimators read of a log: a number for each round.

    `counts` is for how many rounds each one stands, `weights` are those of the policy. `logged` is what the model of
    rewards expects of the label of the log, and `expected` what it expects of the policy.
    """

    counts: Array
    weights: Array
    outcomes: Array
    arrived: Bools
    arrival: ArrivalChance
    logged: Array
    expected: Array

    @property
    def total(self) -> float:
        """How many rounds count."""
        return float(self.counts.sum())

    @property
    def known(self) -> Array:
        """How many outcomes each one stands for: those that arrived, for the others."""
        with np.errstate(divide="ignore"):
            inverse = np.where(self.arrived, 1.0 / self.arrival.chance, 0.0)
        return np.where(self.counts > 0, self.counts * inverse, 0.0)


class Estimated(NamedTuple):
    """A value, half of its 95 % interval, and the effective size."""

    value: float
    margin: float
    effective_size: float


def ips(rows: Weighed) -> Estimated:
    """Inverse propensity scores."""
    return _mean(rows, np.zeros_like(rows.outcomes), rows.weights * rows.outcomes)


def dm(rows: Weighed) -> Estimated:
    """The direct method: what the model of rewards expects. Its error is not in the interval."""
    return _mean(rows, rows.expected, np.zeros_like(rows.outcomes))


def dr(rows: Weighed) -> Estimated:
    """Doubly robust: what the model expects, and its errors weighed."""
    return _mean(rows, rows.expected, rows.weights * (rows.outcomes - rows.logged))


def snips(rows: Weighed) -> Estimated:
    """Self-normalised inverse propensity scores."""
    weights = rows.weights * rows.known
    total = weights.sum()
    if total == 0:
        raise InvalidInput("the policy would have made no decision of the log whose outcome is known; try method='dm'")
    value = float(weights @ rows.outcomes / total)
    terms = rows.counts * rows.weights * (rows.outcomes - value)
    return Estimated(value, _margin(rows, rows.arrival.influence(terms), total), effective_size(weights))


def _mean(rows: Weighed, base: Array, terms: Array) -> Estimated:
    """Return the mean of `base`, plus `terms` of outcomes that arrived over their chance."""
    value = float((rows.counts @ base + rows.known @ terms) / rows.total)
    influence = rows.counts * (base - value) + rows.arrival.influence(rows.counts * terms)
    return Estimated(value, _margin(rows, influence, rows.total), effective_size(rows.weights * rows.known))


def _margin(rows: Weighed, influence: Array, total: float) -> float:
    """Return half of the interval, from the terms of the variance."""
    n_rounds = np.count_nonzero(rows.counts)
    if n_rounds < 2:
        return float("nan")
    return float(Z * np.sqrt(influence @ influence * n_rounds / (n_rounds - 1)) / total)


def effective_size(weights: Array) -> float:
    """Return Kish's size of a weighted sample.

    Examples
    --------
    >>> effective_size(np.array([1.0, 1.0, 0.0])), effective_size(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    squares = weights @ weights
    return float(weights.sum() ** 2 / squares) if squares > 0 else 0.0


ESTIMATORS: Mapping[str, Callable[[Weighed], Estimated]] = {
    "ips": ips,
    "snips": snips,
    "dm": dm,
    "dr": dr,
    "replay": snips,
}


def weights_of(probabilities: Array, labels: Ints, probs: Array, clip: float | None) -> Array:
    """Return the weights of the decisions of a log, at most `clip`."""
    weights = probabilities[np.arange(labels.size), labels] / probs
    return weights if clip is None else np.minimum(weights, clip)
