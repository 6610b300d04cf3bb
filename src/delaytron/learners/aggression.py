"""How far a passive-aggressive learner moves: the variants PA, PA-I and PA-II as one formula."""

from math import inf, isinf
from typing import Any, NamedTuple

from delaytron._jit import kernel
from delaytron.checks import choice, positive


class Aggression(NamedTuple):
    """The checked parameters, and what the formula needs of them."""

    C: float
    variant: str
    cap: float
    slack: float


def read_aggression(C: Any, variant: Any) -> Aggression:
    """Check C and the variant: PA-I caps the step at C, PA-II damps it by 1/(2C).

    Examples
    --------
    >>> read_aggression(0.5, "II")
    Aggression(C=0.5, variant='II', cap=inf, slack=1.0)
    """
    word = choice("variant", variant, ("PA", "I", "II"))
    limit = inf if isinstance(C, float) and isinf(C) and C > 0 else positive("C", C)
    return Aggression(limit, word, limit if word == "I" else inf, 1.0 / (2.0 * limit) if word == "II" else 0.0)


@kernel
def tau(loss: float, norm: float, cap: float, slack: float) -> float:
    """Return how far to move along a direction of squared length `norm` to repair a loss; 0 for an empty row."""
    if loss <= 0.0 or norm <= 0.0:
        return 0.0
    return min(cap, loss / (norm + slack))
