"""`dt.evaluate`: what a policy would have earned on a log."""

from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np

from delaytron.checks import check_choice, check_integer, check_number, check_positive
from delaytron.errors import InvalidInput
from delaytron.evaluation import playing
from delaytron.evaluation.arrivals import ArrivalChance, arrival_chance, old_enough
from delaytron.evaluation.diagnostics import MODEL_ONLY, arrival_warnings, overlap_warnings
from delaytron.evaluation.estimators import ESTIMATORS, Weighed, weights_of
from delaytron.evaluation.features import rows_of
from delaytron.evaluation.outcomes import KnownOutcomes, known_outcomes
from delaytron.evaluation.policies import Advance, Policy, read_policy, rejection_draws
from delaytron.evaluation.results import Evaluation, EvaluationWarning
from delaytron.evaluation.reward_model import expected_rewards
from delaytron.model.waiting import NS, read_wait
from delaytron.records import Array

if TYPE_CHECKING:
    from delaytron.logs.log import Log

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
        (n, K) probabilities; a learner or a model as it is now; or a name: "logged", "uniform", "always:CLASS", or that
        of a learner, which then learns from the log as it goes along: "gap", "gap:gamma=0.1", ("gap", {"gamma": 0.1}).
    method : {"ips", "snips", "dm", "dr", "replay"}
        Inverse propensity scores, self-normalised ones, the direct method, doubly robust, or replay by rejection.
    quantity : {"reward", "error"}
        What to estimate: the mean reward of a decision, or 1 minus it.
    missing : float, optional
        The reward of decisions whose outcome has not come within `wait`. By default what is missing is censored:
        those that arrived stand for it, by the inverse of their chance to have arrived.
    wait : str or timedelta, optional
        How long an outcome may take, such as "7d"; needed with `missing` in a log with times.
    clip : float, optional
        The largest weight; makes estimates steadier and biased. By default weights are not clipped.
    predictions : (n, K) array, optional
        For "dm" and "dr": expected rewards of your own model, which must not have seen the log.
    seed : int
        Of a learner that is given by its name, and of the rejections of "replay".
    advance : callable, optional
        Called with the number of rounds that a learner has just played.
    parameters
        Of a learner that is given by its name.

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
    _check_log(log)
    check_choice("method", method, ESTIMATORS)
    check_choice("quantity", quantity, QUANTITIES)
    known, arrival, young = _known(log, quantity, missing, wait)
    limit = None if clip is None else check_positive("clip", clip)
    seed = check_integer("seed", seed, at_least=0)
    expected = _predictions(log, predictions, method)
    asked = read_policy(log, policy, seed, parameters, advance)
    probabilities, weights = _play(log, asked, method, limit, seed, advance)
    rows = _weighed(log, known, arrival, probabilities, weights, expected, method, quantity)
    found = ESTIMATORS[method](rows)
    true_weights = limit is None and method != "replay"
    overlap = [MODEL_ONLY] if method == "dm" else overlap_warnings(log, rows, probabilities, found, true_weights)
    told = (*overlap, *arrival_warnings(known, arrival, young))
    for message in told:
        warn(f"{asked.name}: {message}", EvaluationWarning, stacklevel=2)
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
        told,
    )


def _check_log(log: Any) -> None:
    from delaytron.logs.log import check_log  # noqa: PLC0415 - slow to import

    check_log(log)


def _known(log: "Log", quantity: str, missing: Any, wait: Any) -> tuple[KnownOutcomes, ArrivalChance, int]:
    """Return the outcomes that are known, how likely each was to be, and how many decisions are too young to count."""
    if not len(log):
        raise InvalidInput("the log must have at least one decision, got none")
    if missing is not None and not 0 <= check_number("missing", missing) <= 1:
        raise InvalidInput(f"missing must be a reward from 0 to 1, got {missing!r}")
    known = known_outcomes(log, quantity, missing, _seconds(wait, missing))
    if not known.arrived.any():
        raise InvalidInput(
            "the log must have at least one outcome, got none; wait for some, or give missing=..., what none means"
        )
    arrival = arrival_chance(known)
    old = old_enough(arrival.chance)
    known = known._replace(counts=np.where(old, known.counts, 0.0))
    return known, arrival, int(np.count_nonzero(~old))


def _seconds(wait: Any, missing: Any) -> float | None:
    if wait is None:
        return None
    if missing is None:
        raise InvalidInput(f"wait=... is for missing=..., what no outcome in time means; got wait={wait!r} alone")
    try:
        read = read_wait(wait)
    except InvalidInput:
        read = None
    if read is None or read.clock is None:
        raise InvalidInput(
            f"wait must be a timedelta, or a text such as '30s', '15m', '6h', '7d' or '2w'; got {wait!r}"
        )
    return read.clock / NS


def _play(
    log: "Log", policy: Policy, method: str, clip: float | None, seed: int, advance: Advance
) -> tuple[Array, Array]:
    """Return the probabilities of the policy, and its weights."""
    if method != "replay":
        p = policy.probabilities if policy.learner is None else playing.learn_along(log, policy.learner, advance)
        assert p is not None  # noqa: S101
        return p, weights_of(p, log.labels, log.probs, clip)
    draws = rejection_draws(len(log), seed)
    if policy.learner is not None:
        played = playing.play_by_rejection(log, policy.learner, draws, advance)
        return played.probabilities, played.accepted.astype(np.float64)
    p = policy.probabilities
    assert p is not None  # noqa: S101
    own = p[np.arange(len(log)), log.labels]
    return p, (draws < own * playing.acceptance(log)).astype(np.float64)


def _predictions(log: "Log", given: Any, method: str) -> Array | None:
    if given is None:
        return None
    if method not in ("dm", "dr"):
        raise InvalidInput(f"predictions are for the methods dm and dr, got method={method!r}; leave them out")
    shape = (len(log), log.n_classes)
    try:
        found = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"predictions must be numbers of shape {shape}, got {type(given).__name__}") from None
    if found.shape != shape or not np.isfinite(found).all():
        raise InvalidInput(f"predictions must be finite and of shape {shape}, got shape {found.shape}")
    return found


def _weighed(
    log: "Log",
    known: KnownOutcomes,
    arrival: ArrivalChance,
    probabilities: Array,
    weights: Array,
    predictions: Array | None,
    method: str,
    quantity: str,
) -> Weighed:
    logged = policy_value = np.zeros(len(log))
    if method in ("dm", "dr"):
        if predictions is None:
            rewards = known.values
            order = playing.time_order(log)
            m = expected_rewards(method, rows_of(log), log.labels, rewards, known.arrived, log.n_classes, order)
        else:
            m = predictions if quantity == "reward" else 1.0 - predictions
        logged = m[np.arange(len(log)), log.labels]
        policy_value = (probabilities * m).sum(axis=1) / probabilities.sum(axis=1)  # a log may tell one of them only
    return Weighed(known.counts, weights, known.values, known.arrived, arrival, logged, policy_value)
