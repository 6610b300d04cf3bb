"""How long the estimate U~ of an update is: exactly, for a row of norm 1, over the draw of the played label."""

from math import sqrt
from typing import Any

import numpy as np

from delaytron.theory.arguments import Real, formula


@formula
def second_moment(*, n_classes: Real, gamma: Real, greedy_right: bool, hinge: bool = False) -> Any:
    r"""Mean of the squared length of one update, for a row of norm 1.

    .. math::
        E\|\tilde U\|_F^2 = \begin{cases} 1 + K/\gamma & \hat y \ne y \\ (1 - P)/P & \hat y = y \end{cases}, \qquad
        P = 1 - \gamma + \gamma / K

    The paper uses :math:`K/\gamma`, which is too small by 1 when the greedy label is wrong.

    Parameters
    ----------
    greedy_right : bool
        Whether the greedy label is the true one.
    hinge : bool
        The update of `HingeDelaytron` instead, where the true label has a loss: 2 / P(y), at most 2 K / gamma.

    Examples
    --------
    >>> second_moment(n_classes=3, gamma=0.3, greedy_right=False)
    11.0
    >>> round(second_moment(n_classes=3, gamma=0.3, greedy_right=True), 12)
    0.25
    """
    if hinge:
        return 2 * (1 / _greedy_chance(n_classes, gamma) if greedy_right else n_classes / gamma)
    if greedy_right:
        return gamma * (1 - 1 / n_classes) / _greedy_chance(n_classes, gamma)
    return 1 + n_classes / gamma


@formula
def first_moment(*, n_classes: Real, gamma: Real, greedy_right: bool, hinge: bool = False) -> Any:
    r"""Mean of the length of one update, for a row of norm 1; it is at most 2, however small gamma is.

    .. math::
        E\|\tilde U\|_F = \begin{cases} 1 - a + \sqrt{1 + a^2} & \hat y \ne y \\ 2 (1 - P) & \hat y = y \end{cases},
        \qquad a = \gamma / K, \quad P = 1 - \gamma + \gamma / K

    For the update of `HingeDelaytron` (`hinge=True`), where the true label has a loss, it is the root of 2.

    Examples
    --------
    >>> round(first_moment(n_classes=3, gamma=0.3, greedy_right=False), 6)
    1.904988
    """
    a = gamma / n_classes
    if hinge:
        return np.full(np.shape(a), sqrt(2))
    return 2 * gamma * (1 - 1 / n_classes) if greedy_right else 1 - a + np.sqrt(1 + a**2)


def _greedy_chance(n_classes: Real, gamma: Real) -> Real:
    """P, the probability of the greedy label."""
    return 1 - gamma + gamma / n_classes
