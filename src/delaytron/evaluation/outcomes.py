"""Which decisions of a log count, and which outcomes are known: late ones are not wrong ones."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.records import Array, Bools

if TYPE_CHECKING:
    from delaytron.logs.log import Log

NANOSECONDS = 1e-9


class KnownOutcomes(NamedTuple):
    """The outcomes of a log: 0 where there is none; `counts` is how many decisions each one stands for, 0 for none.

    `ages` are the seconds from the decision to the end of the log and `waits` those to its outcome, infinite where
    there is none; None in a log without such times.
    """

    values: Array
    arrived: Bools
    counts: Array
    ages: Array | None
    waits: Array | None


def known_outcomes(log: "Log", quantity: str, missing: float | None, wait: float | None) -> KnownOutcomes:
    """Return the outcomes of a log; with `missing`, those that have not come within `wait` seconds have that reward."""
    rewards = np.array(log.outcomes, np.float64)
    ages, waits = _ages(log, ~np.isnan(rewards))
    counts = np.ones(len(log)) if log.weights is None else np.array(log.weights)
    if missing is not None:
        rewards, counts = _settled(rewards, missing, wait, counts, ages, waits)
        waits = None
    arrived = ~np.isnan(rewards)
    values = rewards if quantity == "reward" else 1.0 - rewards
    return KnownOutcomes(np.where(arrived, values, 0.0), arrived, counts, ages, waits)


def _ages(log: "Log", arrived: Bools) -> tuple[Array | None, Array | None]:
    if log.decided_at is None or log.until is None:
        return None, None
    ages = np.maximum(0.0, (log.until - log.decided_at) * NANOSECONDS)
    if log.received_at is None:
        return ages, None
    waits = np.full(len(log), np.inf)
    waits[arrived] = np.maximum(0.0, (log.received_at - log.decided_at)[arrived] * NANOSECONDS)
    return np.maximum(ages, np.where(arrived, waits, 0.0)), waits


def _settled(
    rewards: Array, missing: float, wait: float | None, counts: Array, ages: Any, waits: Any
) -> tuple[Array, Array]:
    """Leave out the decisions that are younger than the wait; of the others, no outcome in time is `missing`."""
    if ages is None and wait is not None:
        raise InvalidInput("wait=... needs a log with times, decided_at; leave it out, or give times to the log")
    if ages is None:
        return np.where(np.isnan(rewards), missing, rewards), counts
    if wait is None:
        raise InvalidInput("missing=... needs wait=..., how long an outcome may take, such as wait='7d'; got none")
    settled = np.where(np.isnan(rewards) if waits is None else waits > wait, missing, rewards)
    old = ages >= wait
    if not old.any():
        raise InvalidInput(f"no decision of the log is {wait:g} seconds old or more; give a shorter wait")
    return settled, np.where(old, counts, 0.0)
