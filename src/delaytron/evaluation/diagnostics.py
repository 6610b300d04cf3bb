"""Signs that an estimate should not be trusted, each with what to do about it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from delaytron.evaluation.arrivals import ArrivalChance, ByBlock, KaplanMeier
from delaytron.evaluation.estimators import Estimated, Weighed
from delaytron.evaluation.outcomes import KnownOutcomes
from delaytron.records import Array, Ints

if TYPE_CHECKING:
    from delaytron.logs.log import Log

FEW = 50  # effective decisions below which a normal interval is not to be trusted
HEAVY = 0.1  # share of the whole weight that one decision may have
UNSUPPORTED = 0.01  # share of a policy's decisions that the log may never make
SURPRISING = 4.0  # deviations that are no chance any more
SILENT = 0.01  # share of old decisions that may lack an outcome
YOUNG = 0.1  # share of decisions that may be too young to count
MANY = 20  # outcomes, below which nothing is said of them
SOME = 5  # decisions without an outcome, below which they are chance
AGE_GROUPS = 10
MODEL_ONLY = "the interval of dm does not know the error of its model of rewards; compare it with method='dr'"


def overlap_warnings(
    log: "Log", rows: Weighed, probabilities: Array, found: Estimated, checks_mean: bool
) -> Iterator[str]:
    """Iterate over what is wrong with the overlap of the policy and the log; a replay has no weights but 0 and 1."""
    weights = rows.weights * rows.known
    if found.effective_size < FEW:
        yield (
            f"the policy overlaps too little with the log: its decisions tell as much as {found.effective_size:.1f} of "
            "its own would; take a longer log, one that explores more, or a policy nearer to that of the log"
        )
    elif weights.max() > HEAVY * weights.sum():
        yield (
            f"one decision has {weights.max() / weights.sum():.0%} of the whole weight; take method='snips' or 'dr', "
            "or a longer log"
        )
    yield from _support(log, rows, probabilities, checks_mean)


def _support(log: "Log", rows: Weighed, probabilities: Array, checks_mean: bool) -> Iterator[str]:
    if log.probabilities is not None:
        never = float(rows.counts @ np.where(log.probabilities > 0, 0.0, probabilities).sum(axis=1) / rows.total)
        if never > UNSUPPORTED:
            yield f"{never:.1%} of the policy's decisions are never made in the log: nothing is known of their outcomes"
        return
    mean = float(rows.counts @ rows.weights / rows.total)
    error = float(np.sqrt(np.square(rows.counts * (rows.weights - mean)).sum()) / rows.total)
    if checks_mean and abs(mean - 1.0) > SURPRISING * error + UNSUPPORTED:
        yield (
            f"the weights have mean {mean:.3g}, not 1: the log never makes some decisions of the policy, or its "
            "probabilities are not those with which it decided"
        )


def arrival_warnings(known: KnownOutcomes, arrival: ArrivalChance, young: int) -> Iterator[str]:
    """Iterate over what is wrong with the arrival of outcomes."""
    if young > YOUNG * known.arrived.size:
        yield f"{young} decisions are so young that hardly any outcome comes within their age: they are left out"
    if isinstance(arrival, ByBlock) and known.ages is None:
        yield (
            f"{np.count_nonzero(~known.arrived)} outcomes are missing, and the log has no times: they are taken to be "
            "missing at random; if none means a reward of 0, say missing=0"
        )
    if isinstance(arrival, KaplanMeier):
        yield from _silence(known, arrival)
        yield from _early_differ(known)


def _silence(known: KnownOutcomes, arrival: KaplanMeier) -> Iterator[str]:
    """Old decisions without an outcome: what else they have in common is that nobody said anything."""
    old = arrival.ages > arrival.times[-1]
    silent = float(1.0 - known.arrived[old].mean()) if old.any() else 0.0
    if silent > SILENT and np.count_nonzero(old & ~known.arrived) >= SOME:
        yield (
            f"{silent:.1%} of the decisions older than the longest wait have no outcome: they are taken to be missing "
            "at random; if none means a reward of 0, say missing=0 and how long to wait, such as wait='7d'"
        )


def _early_differ(known: KnownOutcomes) -> Iterator[str]:
    """Whether early outcomes differ from late ones of decisions of about the same age."""
    if known.waits is None or known.ages is None or np.count_nonzero(known.arrived) < MANY:
        return
    ages, waits = known.ages[known.arrived], known.waits[known.arrived]
    outcomes = known.values[known.arrived]
    group = _ranks(ages) * AGE_GROUPS // ages.size
    products = _less_mean(outcomes, group) * _less_mean(_ranks(waits).astype(np.float64), group)
    if abs(products.sum()) > SURPRISING * np.sqrt(np.square(products).sum()):
        yield (
            "early outcomes differ from late ones, so those that have not come may differ from both; end the log "
            "later, or say missing=... and wait=... to count what comes within a fixed time"
        )


def _ranks(values: Array) -> Ints:
    return np.asarray(np.argsort(np.argsort(values, kind="stable")), np.int64)


def _less_mean(values: Array, group: Ints) -> Array:
    means = np.bincount(group, weights=values) / np.bincount(group)
    return np.asarray(values - means[group])
