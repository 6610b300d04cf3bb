"""Feedback as it is in life: answers that lie now and then, and answers that one stops waiting for."""

from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import choice, number, whole
from delaytron.errors import InvalidInput
from delaytron.kernels.loop import ANSWERED, DROPPED, EXPIRED, REVISED
from delaytron.records import NEVER, Bytes, Ints, Rounds

ON_EXPIRY = ("drop", "wrong")


class Life(NamedTuple):
    """How often a "wrong" comes as "right" (rho0) and a "right" as "wrong" (rho1), and how long one waits."""

    rho0: float = 0.0
    rho1: float = 0.0
    expire_after: int = NEVER
    as_wrong: bool = False

    @property
    def lies(self) -> bool:
        """Whether answers may be turned round."""
        return self.rho0 > 0 or self.rho1 > 0

    @property
    def expires(self) -> bool:
        """Whether the wait for an answer ends."""
        return self.expire_after < NEVER

    def bend(self, draws: Any) -> Bytes:
        """Return, for one uniform number per round, which answers lie: bit 0 a "wrong", bit 1 a "right"."""
        numbers = np.asarray(draws)
        return np.asarray((numbers < self.rho0) + 2 * (numbers < self.rho1), np.uint8)


def read_life(noise: Any, expire_after: Any, on_expiry: Any) -> Life:
    """Check what a user gives.

    Examples
    --------
    >>> read_life((0.1, 0.2), 50, "wrong")
    Life(rho0=0.1, rho1=0.2, expire_after=50, as_wrong=True)
    """
    rho0, rho1 = (0.0, 0.0) if noise is None else read_noise(noise)
    as_wrong = choice("on_expiry", on_expiry, ON_EXPIRY) == "wrong"
    wait = NEVER if expire_after is None else whole("expire_after", expire_after, at_least=1)
    if as_wrong and expire_after is None:
        raise InvalidInput("on_expiry='wrong' needs expire_after=n, the rounds after which no answer means wrong")
    return Life(rho0, rho1, min(wait, NEVER), as_wrong)


def read_noise(noise: Any) -> tuple[float, float]:
    """Check the pair (rho0, rho1): rates in [0, 1) with a sum below 1, so that an answer still tells something."""
    try:
        rho0, rho1 = noise
    except (TypeError, ValueError):
        raise InvalidInput(f"noise must be (rho0, rho1), as in noise=(0.1, 0.2); got {noise!r}") from None
    rates = number("rho0", rho0), number("rho1", rho1)
    if min(rates) < 0 or sum(rates) >= 1:
        raise InvalidInput(f"rho0 and rho1 must be at least 0 with a sum below 1; got {rho0!r} and {rho1!r}")
    return rates


class Events(NamedTuple):
    """What is delivered in each round, ascending in the round it concerns; see `Worlds`."""

    starts: Rounds
    arrivals: Rounds
    kinds: Bytes
    waiting: Rounds
    longest: int


def expiring_events(delays: Ints, life: Life) -> Events:
    """Return the answers that come in time, the rounds that expire and, where that counted as wrong, what comes later.

    An answer with a delay of at most `expire_after` is in time. Else the round expires at the start of round
    s + expire_after.

    Examples
    --------
    >>> events = expiring_events(np.array([1, 4, 1, 1, 1, 1]), Life(expire_after=2, as_wrong=True))
    >>> [events.arrivals[a:b].tolist() for a, b in zip(events.starts, events.starts[1:])]
    [[], [0], [], [1, 2], [3], [1, 4]]
    >>> events.kinds.tolist(), events.waiting.tolist()
    ([0, 1, 0, 0, 2, 0], [1, 1, 2, 1, 1, 1])
    """
    T = delays.size
    rounds = np.arange(T)
    late = delays > life.expire_after
    due = rounds + np.minimum(delays, life.expire_after)
    kinds = np.where(late, EXPIRED if life.as_wrong else DROPPED, ANSWERED)
    second = rounds[late] if life.as_wrong else rounds[:0]
    due_all = np.concatenate([due, second + delays[second]])
    about = np.concatenate([rounds, second])
    kinds = np.concatenate([kinds, np.full(second.size, REVISED)])
    order = np.lexsort((about, due_all))
    order = order[: np.searchsorted(due_all[order], T)]
    starts = np.searchsorted(due_all[order], np.arange(T + 1))
    waiting = np.arange(1, T + 1) - np.searchsorted(np.sort(due), np.arange(T), side="right")
    longest = int((due_all[order] - about[order]).max(initial=0))
    return Events(
        starts.astype(np.uint32),
        about[order].astype(np.uint32),
        kinds[order].astype(np.uint8),
        waiting.astype(np.uint32),
        longest,
    )
