"""Bounds on mistakes from the literature, and from greedy mistakes to played ones."""

from typing import Any

import numpy as np

from delaytron.theory.arguments import Real, formula


@formula
def banditron_mistakes(
    *, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, comparator_loss: Real
) -> Any:
    r"""Played mistakes of Banditron without delay (Kakade, Shalev-Shwartz and Tewari, 2008).

    .. math::
        L + \gamma T + 3 \max\Big\{ \frac{K D}\gamma, \sqrt{D \gamma T} \Big\} + \sqrt{\frac{K D L}\gamma}, \qquad
        L = \sum_t \ell_H(W), \quad D = 2 R^2 \|W\|_F^2

    Stated for rows of norm at most 1 and gamma below 1/2; the radius comes in by scaling. `corollary_r3` has smaller
    constants, and delays.

    Examples
    --------
    >>> round(banditron_mistakes(norm=1, n_classes=2, gamma=0.1, radius=1, n_rounds=1000, comparator_loss=5), 6)
    239.142136
    """
    D = _complexity(norm, radius)
    learning = 3 * np.maximum(n_classes * D / gamma, np.sqrt(D * gamma * n_rounds))
    return comparator_loss + gamma * n_rounds + learning + np.sqrt(n_classes * D * comparator_loss / gamma)


@formula
def perceptron_mistakes(*, norm: Real, radius: Real, comparator_loss: Real) -> Any:
    r"""Mistakes of the Perceptron, which sees the true label at once; for every sequence, not only on average.

    .. math:: L + D + \sqrt{L D}, \qquad L = \sum_t \ell_H(W), \quad D = 2 R^2 \|W\|_F^2

    Examples
    --------
    >>> perceptron_mistakes(norm=1, radius=1, comparator_loss=8)
    14.0
    """
    D = _complexity(norm, radius)
    return comparator_loss + D + np.sqrt(comparator_loss * D)


@formula
def played_mistakes(*, greedy_mistakes: Real, n_classes: Real, gamma: Real, n_rounds: Real) -> Any:
    r"""Expected mistakes of the labels played, from those of the greedy labels: an identity, at any delay.

    .. math:: E[M] = (1 - \gamma)\, E[\hat M] + \gamma \frac{K - 1}K T

    For learners that play any label with probability gamma and the greedy one otherwise. The last term is what
    exploration costs, however well one has learned.

    Examples
    --------
    >>> round(played_mistakes(greedy_mistakes=20, n_classes=4, gamma=0.1, n_rounds=1000), 12)
    93.0
    """
    return (1 - gamma) * greedy_mistakes + gamma * (n_classes - 1) / n_classes * n_rounds


def _complexity(norm: Real, radius: Real) -> Real:
    return 2 * radius**2 * norm**2
