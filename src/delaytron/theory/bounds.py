r"""The paper's bounds, as published; each says for what it holds.

They are stated for the hinge regret :math:`E \sum_t [\ell_H(W_t) - \ell_H(W)]`. For that they are false, as the update
is no gradient of the hinge loss where the greedy label is right with a small margin. For the gated hinge
:math:`\ell_P(W_t) = 1[\hat y_t \ne y_t]\, \ell_H(W_t)`, and so for mistakes, they are true up to what is said below.
`docs/explanation/theory.md` has the counterexample and the proofs.
"""

from typing import Any

import numpy as np

from delaytron.theory.arguments import Real, formula
from delaytron.theory.growth import published, with_step


@formula
def theorem_1(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    delay_received: Real,
    eta: Real | None = None,
) -> Any:
    r"""Theorem 1: regret of Delaytron on the rounds that are answered.

    .. math:: \frac{\|W\|_F^2}{2\eta} + \frac{\eta K R^2}{\gamma} \Big[ \frac T2 + 2 \sum_{t \notin M} d_t \Big]

    Holds for the gated hinge, summed over the answered rounds. Does not hold for the hinge. `theorem_r1` is sharper and
    covers all rounds.

    Examples
    --------
    >>> run = {"n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "delay_received": 10}
    >>> round(theorem_1(norm=2, eta=0.5, **run), 12)
    244.0
    """
    return with_step(norm, eta, published(n_classes, gamma, radius, n_rounds, 2 * delay_received))


@formula
def case_1(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    eta: Real | None = None,
    tight: bool = False,
) -> Any:
    r"""Case 1: Theorem 1 without delay, as if no answer were missing.

    .. math::
        \frac{\|W\|_F^2}{2\eta} + \frac{5 \eta K T R^2}{2\gamma}, \qquad
        6 R \|W\|_F \sqrt{KT/\gamma} \text{ as published}, \qquad \sqrt5\, R \|W\|_F \sqrt{KT/\gamma} \text{ at best}

    Holds for the gated hinge, not for the hinge. The step that the paper takes gives the constant 3, not 6.

    Parameters
    ----------
    eta : float, optional
        The step; with one, `tight` makes no difference.
    tight : bool
        The bound at its best step, instead of the published one.

    Examples
    --------
    >>> round(case_1(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, n_rounds=8), 11)
    151.78932768808
    >>> round(case_1(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, n_rounds=8, tight=True), 12)
    56.568542494924
    """
    if eta is None and not tight:
        return 6 * radius * norm * np.sqrt(n_classes * n_rounds / gamma)
    return with_step(norm, eta, published(n_classes, gamma, radius, n_rounds, 2 * n_rounds))


@formula
def theorem_2(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    delay_received: Real,
    missing: Real,
    loss_bound: Real,
    eta: Real | None = None,
) -> Any:
    r"""Theorem 2: regret of Delaytron if no loss of an unanswered round is above L.

    .. math:: R \|W\|_F \sqrt{ \frac{2K}{\gamma} \Big[ \frac T2 + 2 \sum_{t \notin M} d_t \Big] } + L |M|

    Holds for the gated hinge, not for the hinge, and only with L above the loss of the learner's own weights in the
    unanswered rounds: there is no L for all weights, as the paper assumes. `theorem_r1` needs neither L nor M.

    Examples
    --------
    >>> run = {"n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "delay_received": 10, "missing": 2}
    >>> round(theorem_2(norm=2, loss_bound=5, **run), 12)
    71.967733539319
    """
    growth = published(n_classes, gamma, radius, n_rounds, 2 * delay_received)
    return with_step(norm, eta, growth) + loss_bound * missing


@formula
def corollary_1(
    *, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, total_delay: Real, loss_bound: Real
) -> Any:
    r"""Corollary 1: Theorem 2 without the number of unanswered rounds.

    .. math::
        R \|W\|_F \sqrt{ \frac{2K}{\gamma} \Big[ \frac T2 + \Big( 2 + \frac{L^2}{R^2 \|W\|_F^2} \Big) \sum_t d_t \Big] }

    Never below Theorem 2, though a step of its proof is false. Holds and fails as Theorem 2 does.

    Examples
    --------
    >>> run = {"n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "total_delay": 15}
    >>> round(corollary_1(norm=2, loss_bound=5, **run), 11)
    113.75412080448
    """
    answered = with_step(norm, None, published(n_classes, gamma, radius, n_rounds, 2 * total_delay))
    return np.hypot(answered, loss_bound * np.sqrt(2 * n_classes / gamma * total_delay))


@formula
def theorem_3(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    delay_received: Real,
    missing: Real,
    eta: Real | None = None,
) -> Any:
    r"""Theorem 3: regret of Delaytron, whatever the losses of unanswered rounds.

    .. math::
        R \|W\|_F \Big[ |M| + \sqrt{ \frac{2K}{\gamma} \Big[ \frac T2 + 2 \sum_{t \notin M} d_t + |M| T \Big] } \Big]

    Holds for the gated hinge, not for the hinge. It follows from `theorem_r1`, which is always below it.

    Examples
    --------
    >>> run = {"n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "delay_received": 10, "missing": 2}
    >>> round(theorem_3(norm=2, **run), 12)
    85.656854249492
    """
    growth = published(n_classes, gamma, radius, n_rounds, 2 * delay_received + missing * n_rounds)
    return with_step(norm, eta, growth) + radius * norm * missing


@formula
def corollary_2(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    total_delay: Real,
    missing: Real,
    repaired: bool = False,
) -> Any:
    r"""Corollary 2: Theorem 3 in one root, with the constant 1 of the paper's proof.

    .. math:: R \|W\|_F \sqrt{ \frac{2K}{\gamma} \Big[ \frac T2 + 2 \sum_t d_t + |M| T \Big] }

    The last line of the proof is false: it can be below Theorem 3. Repaired, it is larger by the factor
    :math:`1 + 1/\sqrt{2K/\gamma}`, at most 1.36 for gamma up to 1/2, and never below. It then holds and fails as
    Theorem 3 does.

    Examples
    --------
    >>> run = {"n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "total_delay": 15, "missing": 2}
    >>> round(corollary_2(norm=2, **run), 11), round(corollary_2(norm=2, **run, repaired=True), 11)
    (89.44271909999, 109.44271909999)
    """
    growth = published(n_classes, gamma, radius, n_rounds, 2 * total_delay + missing * n_rounds)
    return with_step(norm, None, growth) * (1 + np.sqrt(gamma / (2 * n_classes)) * repaired)


@formula
def theorem_4(
    *, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, total_delay: Real, loss_bound: Real
) -> Any:
    r"""Theorem 4: regret of Adaptive Delaytron.

    .. math:: 10 \Big[ \frac{\|W\|_F^2}2 + \frac{K R^2}\gamma + L \Big] \sqrt{T + \sum_t d_t}

    Holds for the gated hinge with `restart=True`, not for the hinge; for the algorithm as printed, which keeps its
    weights when an epoch begins, there is no theorem. `theorem_r6` is sharper and needs no L.

    Examples
    --------
    >>> run = {"n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8, "total_delay": 15}
    >>> round(theorem_4(norm=2, loss_bound=5, **run), 10)
    1294.8745112944
    """
    return 10 * (norm**2 / 2 + n_classes / gamma * radius**2 + loss_bound) * np.sqrt(n_rounds + total_delay)
