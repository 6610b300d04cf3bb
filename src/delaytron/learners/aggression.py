"""How far a passive-aggressive learner moves: the variants PA, PA-I and PA-II as one formula."""

from math import inf, isinf
from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_choice, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.linear import add_row, padded, squared_norm, zero_weights
from delaytron.records import Array, Row, Size


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
    word = check_choice("variant", variant, ("PA", "I", "II"))
    limit = inf if isinstance(C, float) and isinf(C) and C > 0 else check_scale("C", C)
    return Aggression(limit, word, limit if word == "I" else inf, 1.0 / (2.0 * limit) if word == "II" else 0.0)


@kernel
def tau(loss: float, norm: float, cap: float, slack: float) -> float:
    """Return how far to move along a direction of squared length `norm` to repair a loss; 0 for an empty row."""
    if loss <= 0.0 or norm <= 0.0:
        return 0.0
    return min(cap, loss / (norm + slack))


class ScoringState(NamedTuple):
    """The weights, and room for the scores of one row: the learners below look at all of them at an answer."""

    W: Array
    scores: Array


def scoring_state(params: Any, size: Size) -> ScoringState:
    """W = 0."""
    n_runs = params[0].size
    return ScoringState(zero_weights(n_runs, size), np.zeros((n_runs, padded(size.n_classes))))


@kernel
def separate(W: Array, scores: Array, upper: int, lower: int, x: Row, cap: float, slack: float) -> None:
    """Move two classes apart until the upper one beats the lower one by 1."""
    loss = 1.0 - scores[upper] + scores[lower]
    move = tau(loss, 2.0 * squared_norm(x.values), cap, slack)
    if move > 0.0:
        add_row(W, upper, move, x.indices, x.values)
        add_row(W, lower, -move, x.indices, x.values)
