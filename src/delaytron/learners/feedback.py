"""Feedback as it is in practice: answers that are false now and then, and answers that one stops waiting for."""

from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_choice, check_integer, check_number, shown
from delaytron.errors import InvalidInput
from delaytron.kernels.loop import DROPPED, EXPIRED
from delaytron.records import NEVER, Bytes

ON_EXPIRY = ("drop", "wrong")


class FeedbackModel(NamedTuple):
    """How often a "wrong" comes as "right" (rho0) and a "right" as "wrong" (rho1), and how long one waits."""

    rho0: float = 0.0
    rho1: float = 0.0
    expire_after: int = NEVER
    as_wrong: bool = False

    @property
    def flips(self) -> bool:
        """Whether answers may be flipped."""
        return self.rho0 > 0 or self.rho1 > 0

    @property
    def expires(self) -> bool:
        """Whether the wait for an answer ends."""
        return self.expire_after < NEVER

    @property
    def expiry_kind(self) -> int:
        """The event that ends the wait: the decision counts as wrong, or is dropped."""
        return EXPIRED if self.as_wrong else DROPPED

    def expiring(self, now: int) -> int:
        """Return the round whose wait ends when round `now` begins."""
        return now - self.expire_after

    def flip_mask(self, draws: Any) -> Bytes:
        """Return, for one uniform number per round, which answers are flipped: bit 0 a "wrong", bit 1 a "right"."""
        numbers = np.asarray(draws)
        return np.asarray((numbers < self.rho0) + 2 * (numbers < self.rho1), np.uint8)


def read_feedback_model(noise: Any, expire_after: Any, on_expiry: Any) -> FeedbackModel:
    """Check what a user gives.

    Examples
    --------
    >>> read_feedback_model((0.1, 0.2), 50, "wrong")
    FeedbackModel(rho0=0.1, rho1=0.2, expire_after=50, as_wrong=True)
    """
    rho0, rho1 = (0.0, 0.0) if noise is None else read_noise(noise)
    as_wrong = check_choice("on_expiry", on_expiry, ON_EXPIRY) == "wrong"
    wait = NEVER if expire_after is None else check_integer("expire_after", expire_after, at_least=1)
    if as_wrong and expire_after is None:
        raise InvalidInput("on_expiry='wrong' needs expire_after=n, the rounds after which no answer means wrong")
    return FeedbackModel(rho0, rho1, min(wait, NEVER), as_wrong)


def read_noise(noise: Any) -> tuple[float, float]:
    """Check the pair (rho0, rho1): rates in [0, 1) with a sum below 1, so that an answer still tells something."""
    try:
        rho0, rho1 = noise
    except (TypeError, ValueError):
        raise InvalidInput(f"noise must be (rho0, rho1), as in noise=(0.1, 0.2); got {shown(noise)}") from None
    rates = check_number("rho0", rho0), check_number("rho1", rho1)
    if min(rates) < 0 or sum(rates) >= 1:
        raise InvalidInput(f"rho0 and rho1 must be at least 0 with a sum below 1; got {shown(rho0)} and {shown(rho1)}")
    return rates
