r"""Bounds that are proved (`docs/explanation/theory.md`) for rows, labels and delays that do not depend on the play.

Here :math:`o_t` counts the earlier rounds whose answers are not yet applied when round t predicts. An answer that never
comes stays outstanding, so all T rounds are covered, and neither the missing rounds nor their losses enter.
"""

from math import sqrt
from typing import Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.theory import bounds
from delaytron.theory.bounds import Real, formula, with_step


@formula
def theorem_r1(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    outstanding: Real,
    eta: Real | None = None,
) -> Any:
    r"""Theorem R1: regret of Delaytron in the gated hinge.

    .. math::
        E \sum_{t=1}^T [\ell_P(W_t) - \ell_H(W)] \le
        \frac{\|W\|_F^2}{2\eta} + \eta R^2 \Big[ \Big(1 + \frac K\gamma\Big) \frac T2 + 2 \sum_t o_t \Big]

    Holds for every W, with the gated hinge :math:`\ell_P = 1[\hat y \ne y]\, \ell_H`. Does not hold for the hinge
    itself: that is `theorem_r4`, of another update. The factor of the :math:`o_t` is the best possible.

    Examples
    --------
    >>> problem = {"norm": 2, "n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "outstanding": 5}
    >>> round(theorem_r1(**problem, eta=0.5), 12), round(theorem_r1(**problem), 12)
    (58.0, 29.393876913398)
    """
    return with_step(norm, eta, bounds.repaired_growth(n_classes, gamma, radius, n_rounds, outstanding, hinge=False))


@formula
def corollary_r2(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    outstanding: Real,
    comparator_loss: Real,
) -> Any:
    r"""Corollary R2: greedy mistakes of Delaytron, with any step.

    .. math:: E[\hat M] \le \sum_t \ell_H(W) + R \|W\|_F \sqrt{ (1 + K/\gamma)\, T + 4 \sum_t o_t }

    Holds for all W at once, as the step changes no decision. `played_mistakes` turns it into played mistakes.

    Examples
    --------
    >>> problem = {"norm": 2, "n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "outstanding": 5}
    >>> round(corollary_r2(**problem, comparator_loss=1), 12)
    30.393876913398
    """
    regret = bounds.repaired_growth(n_classes, gamma, radius, n_rounds, outstanding, hinge=False)
    return comparator_loss + with_step(norm, None, regret)


@formula
def corollary_r3(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    max_outstanding: Real,
    comparator_loss: Real,
) -> Any:
    r"""Corollary R3: greedy mistakes of Delaytron, small where some W has a small loss.

    .. math::
        E[\hat M] \le L + b R^2 \|W\|_F^2 + R \|W\|_F \sqrt{ b L + 2 \gamma T }, \qquad
        b = 1 + \frac K\gamma + 4 \max_t o_t, \quad L = \sum_t \ell_H(W)

    Holds for all W at once and gamma up to 1/2. Delay is harmless while 4 times the most outstanding rounds is small
    against K / gamma.

    Examples
    --------
    >>> problem = {"n_classes": 3, "gamma": 0.3, "radius": 1, "n_rounds": 1500, "max_outstanding": 1}
    >>> round(corollary_r3(norm=2, comparator_loss=0, **problem), 12)
    120.0
    """
    if np.any(gamma > 0.5):
        raise InvalidInput.of("gamma", "in (0, 0.5] for Corollary R3", got=f"{np.max(gamma):.17g}")
    b = 1 + n_classes / gamma + 4 * max_outstanding
    size = radius * norm
    return comparator_loss + b * size**2 + size * np.sqrt(b * comparator_loss + 2 * gamma * n_rounds)


@formula
def theorem_r4(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    outstanding: Real,
    eta: Real | None = None,
) -> Any:
    r"""Theorem R4: regret of `HingeDelaytron` with a constant step, in the hinge loss.

    .. math::
        E \sum_{t=1}^T [\ell_H(W_t) - \ell_H(W)] \le
        \frac{\|W\|_F^2}{2\eta} + \eta R^2 \Big[ \frac{K T}\gamma + 2 \sum_t o_t \Big]

    Holds for every W: it is the statement of the paper, for an update for which it is true.

    Examples
    --------
    >>> problem = {"norm": 2, "n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "outstanding": 5}
    >>> round(theorem_r4(**problem, eta=0.5), 12), round(theorem_r4(**problem), 12)
    (94.0, 37.947331922021)
    """
    return with_step(norm, eta, bounds.repaired_growth(n_classes, gamma, radius, n_rounds, outstanding, hinge=True))


@formula
def theorem_r5(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    outstanding: Real,
    budget: Real | None = None,
    hinge: bool = True,
) -> Any:
    r"""Theorem R5: regret of dual averaging at any time, with a step that depends on neither T nor the delays.

    .. math::
        E \sum_{t=1}^T [\ell_H(W_t) - \ell_H(W)] \le R \sqrt{\beta_T} \Big( \frac{\|W\|_F^2}B + B \Big), \qquad
        \beta_T = \frac{K T}\gamma + 2 \sum_t o_t

    Holds for every W and for `HingeDelaytron` with its own step, of which B is a parameter.

    Parameters
    ----------
    budget : float, optional
        B; by default the norm of W, which is best, and costs the root of 2 against the best constant step.
    hinge : bool
        False for the update of Delaytron, with the gated hinge on the left and 1 + K / gamma, halved, for K / gamma.

    Examples
    --------
    >>> problem = {"norm": 2, "n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "outstanding": 5}
    >>> round(theorem_r5(**problem, budget=2), 12)
    53.665631459995
    """
    tuned = 2 * norm if budget is None else norm**2 / budget + budget
    return radius * np.sqrt(bounds.beta(n_classes, gamma, n_rounds, outstanding, hinge)) * tuned


@formula
def theorem_r6(*, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, outstanding: Real) -> Any:
    r"""Theorem R6: regret of Adaptive Delaytron with `restart=True`, in the gated hinge.

    .. math::
        E \sum_{t=1}^T [\ell_P(W_t) - \ell_H(W)] \le
        (2 + 2 \sqrt2) \Big[ \frac{\|W\|_F^2}2 + \frac34 R^2 \max\Big\{ 2, \frac12 + \frac K{2\gamma} \Big\} \Big]
        \sqrt{T + \sum_t o_t}

    Holds for every W; always below half of Theorem 4. Not for `restart=False`, and not for the hinge.

    Examples
    --------
    >>> problem = {"norm": 2, "n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "outstanding": 5}
    >>> round(theorem_r6(**problem), 6)
    178.443701
    """
    per_round = np.maximum(2.0, bounds.beta(n_classes, gamma, 1.0, 0.0, hinge=False))
    waited = np.sqrt(n_rounds + outstanding)
    return (2 + 2 * sqrt(2)) * (norm**2 / 2 + 0.75 * radius**2 * per_round) * waited
