"""What all bounds with a constant step have in common: ||W||^2 / (2 eta) + eta G, and what G is.

The functions of this file trust their callers: what they are given has been checked.
"""

import numpy as np

from delaytron.theory.arguments import Real
from delaytron.theory.moments import second_moment


def with_step(norm: Real, eta: Real | None, growth: Real) -> Real:
    """The bound at a step; for None at the best one, where it is ||W|| sqrt(2 G)."""
    if eta is None:
        return norm * np.sqrt(2 * growth)
    return norm**2 / (2 * eta) + eta * growth


def best_step(norm: Real, growth: Real) -> Real:
    """The step at which the two terms are equal, and their sum the least."""
    return norm / np.sqrt(2 * growth)


def published(n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, waited: Real) -> Real:
    """G of the paper's bounds: (K R^2 / gamma) [T / 2 + what waiting adds]."""
    return n_classes / gamma * radius**2 * (n_rounds / 2 + waited)


def repaired(n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, outstanding: Real, hinge: bool) -> Real:
    """G of the repaired bounds: R^2 beta."""
    return radius**2 * beta(n_classes, gamma, n_rounds, outstanding, hinge)


def beta(n_classes: Real, gamma: Real, n_rounds: Real, outstanding: Real, hinge: bool) -> Real:
    """Half of the largest second moment of an update for every round, and 2 for every round that one waits."""
    longest: Real = second_moment(n_classes=n_classes, gamma=gamma, greedy_right=False, hinge=hinge)
    return longest / 2 * n_rounds + 2 * outstanding
