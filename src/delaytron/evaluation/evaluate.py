"""`dt.evaluate`: off-policy estimates of the reward of a policy on a log, with 95 % intervals and warnings."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from warnings import warn

import numpy as np

from delaytron.checks import check_choice, check_integer, check_number, check_positive
from delaytron.errors import InvalidInput, Setting, Spelling, Text, python_spelling, shown, spelled
from delaytron.evaluation.arrivals import (
    ArrivalProbability,
    ByBlock,
    KaplanMeier,
    KnownOutcomes,
    arrival_probability,
    known_outcomes,
    old_enough,
)
from delaytron.evaluation.estimators import ESTIMATORS, Estimated, WeightedRounds, expected_rewards
from delaytron.evaluation.policies import (
    Advance,
    Policy,
    acceptance,
    learn_along,
    play_by_rejection,
    read_policy,
    rows_of,
    time_order,
)
from delaytron.extras import needs
from delaytron.model.recipe import NS, read_wait
from delaytron.plotting import COLOURS, save_figure
from delaytron.records import Array, Ints
from delaytron.rng import stream

if TYPE_CHECKING:
    import pyarrow as pa

    from delaytron.logs.log import Log

HOLLOW = "white"  # markers of values with a warning


class EvaluationWarning(UserWarning):
    """An estimate that should not be trusted as it is, with the reason."""


class EvaluationRow(TypedDict):
    """A policy with its estimate, as plain values."""

    policy: str
    method: str
    quantity: str
    value: float
    low: float | None
    high: float | None
    effective_size: float
    n_rounds: int
    n_outcomes: int
    warnings: list[str]


@dataclass(frozen=True)
class Evaluation:
    """What a policy would have earned on a log.

    Parameters
    ----------
    value, low, high : float
        The estimate and the ends of its 95 % interval.
    effective_size : float
        Kish's effective sample size, (sum of weights)^2 / (sum of squared weights): the estimate is as certain as the
        mean of that many decisions of the policy itself.
    quantity : str
        What is estimated: the mean "reward" of a decision, or the mean "error", 1 - reward.
    n_rounds, n_outcomes : int
        The decisions that count, and those of them whose outcome is known.
    warnings : tuple of str
        Why the numbers should not be trusted as they are; empty if no check failed.
    """

    policy: str
    method: str
    quantity: str
    value: float
    low: float
    high: float
    effective_size: float
    n_rounds: int
    n_outcomes: int
    warnings: tuple[str, ...] = ()

    def row(self) -> EvaluationRow:
        """Return the evaluation as plain values; without an interval, its ends are None."""
        return {
            "policy": self.policy,
            "method": self.method,
            "quantity": self.quantity,
            "value": self.value,
            "low": None if isnan(self.low) else self.low,
            "high": None if isnan(self.high) else self.high,
            "effective_size": self.effective_size,
            "n_rounds": self.n_rounds,
            "n_outcomes": self.n_outcomes,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class Evaluations:
    """Several policies on one log."""

    log: str
    entries: tuple[Evaluation, ...]

    def to_table(self) -> "pa.Table":
        """Return one row per policy, as a pyarrow table."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        return pa.Table.from_pylist([{**entry.row(), "warnings": "; ".join(entry.warnings)} for entry in self.entries])

    def plot(self, path: str | Path) -> None:
        """Save a figure: a value with its 95 % interval for each policy; hollow where there is a warning."""
        needs("matplotlib")
        from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

        figure = Figure(figsize=(7.0, 1.4 + 0.4 * len(self.entries)), layout="constrained")
        panel = figure.subplots()
        for place, entry in enumerate(self.entries):
            margin = np.nan_to_num(entry.high - entry.value)
            fill = HOLLOW if entry.warnings else COLOURS[0]
            panel.errorbar(
                entry.value,
                place,
                xerr=margin,
                fmt="o",
                color=COLOURS[0],
                markerfacecolor=fill,
                capsize=3.0,
                markersize=6,
            )
        panel.set_yticks(range(len(self.entries)), [entry.policy for entry in self.entries])
        panel.set_ylim(len(self.entries) - 0.5, -0.5)
        panel.grid(visible=True, axis="x", alpha=0.3)
        first = self.entries[0]
        panel.set_xlabel(f"mean {first.quantity} of a decision, {first.method}, with its 95 % interval")
        panel.set_title(f"{self.log}: what other policies would have done", fontsize=10)
        if any(entry.warnings for entry in self.entries):
            figure.supxlabel("hollow: with a warning", fontsize=8, x=0.02, ha="left")
        save_figure(figure, path)


FEW = 50  # effective decisions below which a normal interval is not to be trusted
HEAVY = 0.1  # share of the whole weight that one decision may have
UNSUPPORTED = 0.01  # share of a policy's decisions that the log may never make
SURPRISING = 4.0  # standard deviations beyond which a difference is not taken for chance
SILENT = 0.01  # share of old decisions that may lack an outcome
YOUNG = 0.1  # share of decisions that may be too young to count
MANY = 20  # outcomes that a comparison of early and late ones needs
SOME = 5  # old decisions without an outcome, below which there is no warning
AGE_STRATA = 10


def overlap_warnings(
    log: "Log", rows: WeightedRounds, probabilities: Array, found: Estimated, checks_mean: bool
) -> Iterator[Text]:
    """Iterate over warnings about the overlap of the policy and the log.

    `checks_mean` says that the weights are those of the policy, with mean 1: not clipped, and not the 0 and 1 of a
    replay.
    """
    weights = rows.weights * rows.known
    if found.effective_size < FEW:
        yield (
            f"the policy overlaps too little with the log: the effective size is {found.effective_size:.1f} decisions; "
            "take a longer log, one that explores more, or a policy nearer to that of the log"
        )
    elif weights.max() > HEAVY * weights.sum():
        heaviest = f"one decision has {weights.max() / weights.sum():.0%} of the whole weight; take "
        yield (heaviest, Setting("method", "'snips'"), " or ", Setting("method", "'dr'"), ", or a longer log")
    if log.probabilities is not None:  # of all labels: what the log never does is known exactly
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


def arrival_warnings(known: KnownOutcomes, arrival: ArrivalProbability, young: int) -> Iterator[Text]:
    """Iterate over warnings about outcomes that are missing or late."""
    if young > YOUNG * known.arrived.size:
        yield f"{young} decisions are so young that hardly any outcome comes within their age: they are left out"
    at_random = "they are taken to be missing at random; if no outcome means a reward of 0, say "
    if isinstance(arrival, ByBlock) and known.ages is None:
        lacking = f"{np.count_nonzero(~known.arrived)} outcomes are missing, and the log has no times: "
        yield (lacking + at_random, Setting("missing", "0"))
    if not isinstance(arrival, KaplanMeier):
        return
    old = arrival.ages > arrival.times[-1]
    silent = float(1.0 - known.arrived[old].mean()) if old.any() else 0.0
    if silent > SILENT and np.count_nonzero(old & ~known.arrived) >= SOME:
        lacking = f"{silent:.1%} of the decisions older than the longest wait have no outcome: "
        wait = Setting("wait", "'7d'")
        yield (lacking + at_random, Setting("missing", "0"), " and how long to wait, such as ", wait)
    if _early_outcomes_differ(known):
        yield (
            "early outcomes differ from late ones, so those that have not come may differ from both; end the log "
            "later, or give ",
            Setting("missing"),
            " and ",
            Setting("wait"),
            " to count what comes within a fixed time",
        )


def _early_outcomes_differ(known: KnownOutcomes) -> bool:
    """Whether outcomes and their waits are correlated among decisions of about the same age.

    A stratified rank test: with outcomes and ranks of waits centred within strata of age, the sum of their products has
    mean 0 without a correlation, and the sum of their squares estimates its variance.
    """
    if known.waits is None or known.ages is None or np.count_nonzero(known.arrived) < MANY:
        return False
    ages, waits = known.ages[known.arrived], known.waits[known.arrived]
    outcomes = known.values[known.arrived]
    # Strata, since waits and outcomes may both depend on the age: older decisions can have had longer waits.
    stratum = _ranks(ages) * AGE_STRATA // ages.size
    products = _centred(outcomes, stratum) * _centred(_ranks(waits).astype(np.float64), stratum)
    return bool(abs(products.sum()) > SURPRISING * np.sqrt(np.square(products).sum()))


def _ranks(values: Array) -> Ints:
    """Return the ranks of values, from 0; ties keep their order."""
    return np.asarray(np.argsort(np.argsort(values, kind="stable")), np.int64)


def _centred(values: Array, stratum: Ints) -> Array:
    """Return values less the mean of their stratum."""
    means = np.bincount(stratum, weights=values) / np.bincount(stratum)
    return np.asarray(values - means[stratum])


QUANTITIES = ("reward", "error")


def evaluate(
    log: "Log",
    policy: Any,
    method: str = "dr",
    *,
    quantity: str = "reward",
    missing: float | None = None,
    wait: Any = None,
    clip: float | None = None,
    predictions: Any = None,
    seed: int = 0,
    advance: Advance = lambda _: None,
    **parameters: Any,
) -> Evaluation:
    """Estimate what a policy would have earned on a log of decisions with their probabilities.

    Parameters
    ----------
    log : dt.logs.Log
        Decisions, with the probabilities with which they were made, and their outcomes so far.
    policy : array, Learner, Model, str or (str, dict)
        (n, K) probabilities; a learner or a model as it is now; or a name: "logged", "uniform", "always:CLASS", or the
        name of a learner, which then learns from the log round by round: "gap", "gap:gamma=0.1",
        ("gap", {"gamma": 0.1}).
    method : {"ips", "snips", "dm", "dr", "replay"}
        Inverse propensity scores, self-normalised ones, the direct method, doubly robust, or replay by rejection.
    quantity : {"reward", "error"}
        What to estimate: the mean reward of a decision, or 1 minus it.
    missing : float, optional
        The reward of decisions whose outcome has not come within `wait`. By default a missing outcome is censored:
        those that arrived are weighted by the inverse of their probability of having arrived.
    wait : str or timedelta, optional
        How long an outcome may take, such as "7d"; needed with `missing` in a log with times.
    clip : float, optional
        The largest weight; makes estimates steadier and biased. By default weights are not clipped.
    predictions : (n, K) array, optional
        For "dm" and "dr": expected rewards of your own model, which must not have been fitted to the log.
    seed : int
        Random seed of a learner that is given by its name, and of the rejections of "replay".
    advance : callable, optional
        Called with the number of rounds that a learner has just played.
    parameters
        Of a learner that is given by its name.

    Returns
    -------
    Evaluation
        The estimate. Its warnings are also issued, as `EvaluationWarning`.

    Raises
    ------
    InvalidInput
        If an argument is not allowed, the log has no decision or no outcome, or the policy does not fit the log.

    Examples
    --------
    >>> import numpy as np
    >>> import delaytron as dt
    >>> rng = np.random.default_rng(0)
    >>> X, labels = rng.normal(size=(2000, 2)), rng.integers(0, 2, 2000)
    >>> log = dt.logs.from_arrays(features=X, labels=labels, probs=np.full(2000, 0.5),
    ...                           rewards=labels == (X[:, 0] > 0), n_classes=2)
    >>> best = np.eye(2)[(X[:, 0] > 0).astype(int)]
    >>> found = dt.evaluate(log, best, method="snips")
    >>> found.value, found.n_rounds, found.warnings
    (1.0, 2000, ())
    >>> dt.evaluate(log, "uniform", method="dr", quantity="error").value.__round__(2)
    0.5
    """
    given = {"missing": missing, "wait": wait, "clip": clip, "predictions": predictions, "seed": seed}
    found = estimate(log, policy, method, quantity=quantity, advance=advance, parameters=parameters, **given)
    for message in found.warnings:
        warn(f"{found.policy}: {message}", EvaluationWarning, stacklevel=2)
    return found


def estimate(
    log: "Log",
    policy: Any,
    method: str,
    *,
    quantity: str,
    missing: Any = None,
    wait: Any = None,
    clip: Any = None,
    predictions: Any = None,
    seed: Any = 0,
    advance: Advance = lambda _: None,
    parameters: dict[str, Any] | None = None,
    spelling: Spelling = python_spelling,
) -> Evaluation:
    """Return what `evaluate` does, with the settings in its warnings in a spelling; no warning is issued."""
    from delaytron.logs.log import check_log  # noqa: PLC0415 - slow to import

    check_log(log)
    check_choice("method", method, ESTIMATORS)
    check_choice("quantity", quantity, QUANTITIES)
    if not len(log):
        raise InvalidInput("the log must have at least one decision, got none", "give a log with decisions")
    if missing is not None and not 0 <= check_number("missing", missing) <= 1:
        raise InvalidInput.of("missing", "a reward from 0 to 1", missing)
    known = known_outcomes(log, quantity, missing, _seconds(wait, missing))
    if not known.arrived.any():
        hint = ("wait for some, or give ", Setting("missing"), ", the reward that no outcome means")
        raise InvalidInput("the log must have at least one outcome, got none", hint)
    arrival = arrival_probability(known)
    old = old_enough(arrival.probability)
    known = known._replace(counts=np.where(old, known.counts, 0.0))
    limit = None if clip is None else check_positive("clip", clip)
    seed = check_integer("seed", seed, at_least=0)
    predictions = _check_predictions(log, predictions, method)
    asked = read_policy(log, policy, seed, parameters or {}, advance)
    probabilities, weights = _play(log, asked, method, limit, seed, advance)
    logged = expected = np.zeros(len(log))
    if method in ("dm", "dr"):
        if predictions is None:
            X, order = rows_of(log), time_order(log)
            m = expected_rewards(method, X, log.labels, known.values, known.arrived, log.n_classes, order)
        else:
            m = predictions if quantity == "reward" else 1.0 - predictions
        logged = m[np.arange(len(log)), log.labels]
        # Normalised, since a log may have the probability of its label only.
        expected = (probabilities * m).sum(axis=1) / probabilities.sum(axis=1)
    rows = WeightedRounds(known.counts, weights, known.values, known.arrived, arrival, logged, expected)
    found = ESTIMATORS[method](rows)
    messages: list[Text]
    if method == "dm":
        advice = "the interval of dm does not contain the error of its reward model; compare it with "
        messages = [(advice, Setting("method", "'dr'"))]
    else:
        true_weights = limit is None and method != "replay"
        messages = list(overlap_warnings(log, rows, probabilities, found, true_weights))
    messages += arrival_warnings(known, arrival, int(np.count_nonzero(~old)))
    return Evaluation(
        asked.name,
        method,
        quantity,
        found.value,
        found.value - found.margin,
        found.value + found.margin,
        found.effective_size,
        int(np.count_nonzero(rows.counts)),
        int(np.count_nonzero(rows.arrived & (rows.counts > 0))),
        tuple(spelled(message, spelling) for message in messages),
    )


def _seconds(wait: Any, missing: Any) -> float | None:
    """Return a wait in seconds; raise unless it is a time, and given together with `missing`."""
    if wait is None:
        return None
    if missing is None:
        problem = (
            Setting("wait"),
            " is for ",
            Setting("missing"),
            f", what no outcome in time means; got {shown(wait)} alone",
        )
        raise InvalidInput(problem, ("give ", Setting("missing"), ", too, or leave ", Setting("wait"), " out"))
    try:
        read = read_wait("wait", wait)
    except InvalidInput:
        read = None
    if read is None or read.clock is None:
        raise InvalidInput.of("wait", "a timedelta, or a text such as '30s', '15m', '6h', '7d' or '2w'", wait)
    return read.clock / NS


def _play(
    log: "Log", policy: Policy, method: str, clip: float | None, seed: int, advance: Advance
) -> tuple[Array, Array]:
    """Return the probabilities of the policy, and its weights: 1 or 0 for a replay, else importance weights."""
    if method != "replay":
        p = policy.probabilities if policy.learner is None else learn_along(log, policy.learner, advance)
        assert p is not None  # noqa: S101
        weights = p[np.arange(len(log)), log.labels] / log.probs
        return p, weights if clip is None else np.minimum(weights, clip)
    draws = stream(seed, "replay").random(len(log))
    if policy.learner is not None:
        played = play_by_rejection(log, policy.learner, draws, advance)
        return played.probabilities, played.accepted.astype(np.float64)
    p = policy.probabilities
    assert p is not None  # noqa: S101
    own = p[np.arange(len(log)), log.labels]
    return p, (draws < own * acceptance(log)).astype(np.float64)


def _check_predictions(log: "Log", given: Any, method: str) -> Array | None:
    """Return the expected rewards that a user gives; raise InvalidInput if the method or their shape is wrong."""
    if given is None:
        return None
    if method not in ("dm", "dr"):
        problem = ("predictions are for the methods dm and dr, got ", Setting("method", repr(method)))
        raise InvalidInput(problem, "leave them out")
    shape = (len(log), log.n_classes)
    try:
        found = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput.of("predictions", f"numbers of shape {shape}", got=type(given).__name__) from None
    if found.shape != shape or not np.isfinite(found).all():
        raise InvalidInput.of("predictions", f"finite and of shape {shape}", got=f"shape {found.shape}")
    return found
