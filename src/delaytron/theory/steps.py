"""The best constant steps, at which the bounds of the same names are the least.

From W = 0 a constant step scales the weights of Delaytron and changes none of its decisions, so for mistakes none of
these need be known. For the value of a loss, and for `HingeDelaytron`, they matter.
"""

from typing import Any

from delaytron.theory import growth
from delaytron.theory.arguments import Real, formula
from delaytron.theory.growth import best_step


@formula
def case_1_eta(*, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, tight: bool = False) -> Any:
    r"""The step of Case 1.

    .. math::
        \|W\|_F \big/ \sqrt{K T R^2 / \gamma} \text{ as published}, \qquad
        \|W\|_F \big/ \sqrt{5 K T R^2 / \gamma} \text{ at best (tight)}

    Examples
    --------
    >>> round(case_1_eta(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, n_rounds=8), 12)
    0.158113883008
    """
    return best_step(norm, growth.published(n_classes, gamma, radius, n_rounds, 2 * n_rounds if tight else 0.0))


@formula
def theorem_2_eta(
    *, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, delay_received: Real
) -> Any:
    r"""The step of Theorem 2, the best one for Theorems 1 and 2.

    .. math:: \eta = \|W\|_F \Big/ \sqrt{ \frac{2 K R^2}{\gamma} \Big[ \frac T2 + 2 \sum_{t \notin M} d_t \Big] }

    Examples
    --------
    >>> round(theorem_2_eta(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, n_rounds=8, delay_received=10), 12)
    0.064549722437
    """
    return best_step(norm, growth.published(n_classes, gamma, radius, n_rounds, 2 * delay_received))


@formula
def theorem_3_eta(
    *, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, delay_received: Real, missing: Real
) -> Any:
    r"""The step of Theorem 3.

    .. math::
        \eta = \|W\|_F \Big/ \sqrt{ \frac{2 K R^2}{\gamma} \Big[ \frac T2 + 2 \sum_{t \notin M} d_t + |M| T \Big] }

    Examples
    --------
    >>> run = {"n_rounds": 8, "delay_received": 10, "missing": 2}
    >>> round(theorem_3_eta(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, **run), 12)
    0.05
    """
    waited = 2 * delay_received + missing * n_rounds
    return best_step(norm, growth.published(n_classes, gamma, radius, n_rounds, waited))


@formula
def theorem_r1_eta(*, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, outstanding: Real) -> Any:
    r"""The step of Theorem R1.

    .. math:: \eta = \|W\|_F \Big/ \Big( R \sqrt{ (1 + K/\gamma)\, T + 4 \sum_t o_t } \Big)

    Examples
    --------
    >>> round(theorem_r1_eta(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, n_rounds=8, outstanding=5), 12)
    0.136082763488
    """
    return best_step(norm, growth.repaired(n_classes, gamma, radius, n_rounds, outstanding, hinge=False))


@formula
def theorem_r4_eta(*, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, outstanding: Real) -> Any:
    r"""The step of Theorem R4, for the parameter `eta` of `HingeDelaytron`.

    .. math:: \eta = \|W\|_F \Big/ \Big( R \sqrt{ 2 K T/\gamma + 4 \sum_t o_t } \Big)

    Examples
    --------
    >>> round(theorem_r4_eta(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, n_rounds=8, outstanding=5), 12)
    0.105409255339
    """
    return best_step(norm, growth.repaired(n_classes, gamma, radius, n_rounds, outstanding, hinge=True))
