r"""The paper's bounds, as published, with their best steps; each docstring says for what it holds.

They are stated for the hinge regret :math:`E \sum_t [\ell_H(W_t) - \ell_H(W)]`. For that they are false, as the update
is not a gradient of the hinge loss where the greedy label is right with a small margin. For the gated hinge
:math:`\ell_P(W_t) = 1[\hat y_t \ne y_t]\, \ell_H(W_t)`, and so for mistakes, they are true except where noted below.
`docs/explanation/theory.md` has the counterexample and the proofs.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from math import sqrt
from typing import Any, ParamSpec, TypedDict

import numpy as np

from delaytron.checks import check_bool, check_choice
from delaytron.errors import InvalidInput
from delaytron.records import Array, Ints

Real = float | Array
P = ParamSpec("P")


class Arguments(TypedDict, total=False):
    """The arguments of bounds; `ALLOWED` says what each is, and its range."""

    norm: Real
    comparator_loss: Real
    loss_bound: Real | None
    radius: Real
    eta: Real | None
    budget: Real | None
    gamma: Real
    n_classes: Real
    n_rounds: Real | Ints
    delay_received: Real
    total_delay: Real
    missing: Real
    outstanding: Real
    max_outstanding: Real
    greedy_mistakes: Real
    sharpness: Real | None
    log_regret: Real
    best_loss: Real
    n_models: Real
    plays: Real
    least_loss: Real
    failure: Real
    softmax_error: Real
    pointwise_error: Real
    forecast_gap: Real


NOT_NEGATIVE = ("at least 0", lambda value: value >= 0)
POSITIVE = ("above 0", lambda value: value > 0)
RATE = ("in (0, 1]", lambda value: (value > 0) & (value <= 1))
CLASSES = ("integers of at least 2", lambda value: (value >= 2) & (value == np.floor(value)))
ROUNDS = ("integers of at least 1", lambda value: (value >= 1) & (value == np.floor(value)))

ALLOWED: dict[str, tuple[str, Callable[[Array], Any]]] = {
    "norm": NOT_NEGATIVE,  # ||W||_F, of the weights that the learner is compared with
    "comparator_loss": NOT_NEGATIVE,  # the sum of their hinge losses
    "loss_bound": NOT_NEGATIVE,  # L, above the hinge loss of every unanswered round
    "radius": POSITIVE,  # R, above the length of every row
    "eta": POSITIVE,
    "budget": POSITIVE,  # B, the norm that an anytime learner is tuned for
    "gamma": RATE,
    "n_classes": CLASSES,  # K
    "n_rounds": ROUNDS,  # T
    "delay_received": NOT_NEGATIVE,  # the sum of d_t over the rounds that are answered by round T
    "total_delay": NOT_NEGATIVE,  # the sum of all d_t
    "missing": NOT_NEGATIVE,  # |M|, the number of rounds that are not answered by round T
    "outstanding": NOT_NEGATIVE,  # the sum of o_t, the earlier rounds that are pending when round t predicts
    "max_outstanding": NOT_NEGATIVE,  # the largest o_t
    "greedy_mistakes": NOT_NEGATIVE,
    "sharpness": POSITIVE,  # the gamma of inverse-gap weighting, which is not a rate
    "log_regret": NOT_NEGATIVE,  # Reg, of the predicted losses, in the logarithmic loss
    "best_loss": NOT_NEGATIVE,  # L*, the expected mistakes of the best label of every row
    "n_models": ROUNDS,  # N
    "plays": ROUNDS,  # of one class
    "least_loss": RATE,  # 1 - p of the best label is at least this
    "failure": RATE,  # the probability with which a statement may be false
    "softmax_error": NOT_NEGATIVE,  # L_A, the squared errors of the softmax part of `GatedLogit`
    "pointwise_error": NOT_NEGATIVE,  # L_B, those of its pointwise part
    "forecast_gap": RATE,  # delta, by which their forecasts differ at least
}
AMONG_ROUNDS = ("missing", "max_outstanding")
OPTIONAL = ("eta", "budget", "sharpness")
FLAGS = ("tight", "repaired", "hinge", "greedy_right", "softmax_is_true")


def formula(compute: Callable[P, Any]) -> Callable[P, Any]:
    """Return a formula that checks its arguments and raises InvalidInput; numbers give a float, arrays broadcast."""

    @wraps(compute)
    def checked(*args: P.args, **given: P.kwargs) -> Any:
        for name, value in given.items():
            if name in FLAGS:
                given[name] = check_bool(name, value)
            elif name in ALLOWED and not (name in OPTIONAL and value is None):
                given[name] = check_argument(name, value)
        shapes = {name: value.shape for name, value in given.items() if isinstance(value, np.ndarray) and value.ndim}
        try:
            np.broadcast_shapes(*shapes.values())
        except ValueError:
            listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise InvalidInput.of("arrays", "shapes that broadcast", got=listed, verb="have") from None
        rounds: Any = given.get("n_rounds", np.inf)
        for name in AMONG_ROUNDS:
            count: Any = given.get(name, 0.0)
            if np.any(count > rounds):
                raise InvalidInput.of(name, "at most n_rounds", got=f"{np.max(count):.17g}")
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = compute(*args, **given)
        if np.isnan(found).any():  # a term overflowed: the bound is too large for a float
            found = np.where(np.isnan(found), np.inf, found)
        return float(found) if np.ndim(found) == 0 else found

    return checked


def check_argument_names(names: Iterable[str]) -> None:
    """Raise InvalidInput if a name is not an argument of any bound."""
    if not isinstance(names, Iterable):
        raise InvalidInput.of("arguments", "a dict, as in {'gamma': 0.1}", names)
    for name in names:
        check_choice("an argument of the bounds", name, ALLOWED)


def check_argument(name: str, value: Any) -> Array:
    """Return numbers as an array of float64; raise InvalidInput unless they are in the range of the argument."""
    try:
        given = np.asarray(value)
        large = given.dtype.kind == "O" and all(type(entry) is int for entry in given.flat)  # beyond 64 bits
        numbers = np.asarray(given, np.float64) if given.dtype.kind in "iuf" or large else np.array(np.nan)
    except (ValueError, OverflowError):  # rows of different lengths; beyond all floats
        numbers = np.array(np.nan)
    if not np.isfinite(numbers).all():
        raise InvalidInput.of(name, "a finite number or an array of them", value)
    text, allows = ALLOWED[name]
    bad = ~allows(numbers)
    if bad.any():
        raise InvalidInput.of(name, text, got=f"{numbers[bad].flat[0]:.17g}")
    return numbers


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


# All bounds with a constant step are ||W||^2 / (2 eta) + eta G, with different G. The functions up to `beta` do not
# check their arguments: their callers have.


def with_step(norm: Real, eta: Real | None, growth: Real) -> Real:
    """The bound at a step; for None at the best one, where it is ||W|| sqrt(2 G)."""
    if eta is None:
        return norm * np.sqrt(2 * growth)
    return norm**2 / (2 * eta) + eta * growth


def best_step(norm: Real, growth: Real) -> Real:
    """The step at which the two terms are equal, and their sum the least."""
    return norm / np.sqrt(2 * growth)


def published_growth(n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, waited: Real) -> Real:
    """G of the paper's bounds: (K R^2 / gamma) [T / 2 + what waiting adds]."""
    return n_classes / gamma * radius**2 * (n_rounds / 2 + waited)


def repaired_growth(n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, outstanding: Real, hinge: bool) -> Real:
    """G of the repaired bounds: R^2 beta."""
    return radius**2 * beta(n_classes, gamma, n_rounds, outstanding, hinge)


def beta(n_classes: Real, gamma: Real, n_rounds: Real, outstanding: Real, hinge: bool) -> Real:
    """Half of the largest second moment of an update for every round, and 2 for every outstanding round."""
    longest: Real = second_moment(n_classes=n_classes, gamma=gamma, greedy_right=False, hinge=hinge)
    return longest / 2 * n_rounds + 2 * outstanding


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
    return with_step(norm, eta, published_growth(n_classes, gamma, radius, n_rounds, 2 * delay_received))


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
    return with_step(norm, eta, published_growth(n_classes, gamma, radius, n_rounds, 2 * n_rounds))


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
    growth = published_growth(n_classes, gamma, radius, n_rounds, 2 * delay_received)
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
    answered = with_step(norm, None, published_growth(n_classes, gamma, radius, n_rounds, 2 * total_delay))
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
    growth = published_growth(n_classes, gamma, radius, n_rounds, 2 * delay_received + missing * n_rounds)
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
    growth = published_growth(n_classes, gamma, radius, n_rounds, 2 * total_delay + missing * n_rounds)
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


# The best constant steps, at which the bounds of the same names are the least. From W = 0 a constant step scales the
# weights of Delaytron and changes none of its decisions, so mistakes do not depend on it. The value of a loss and
# `HingeDelaytron` do.


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
    return best_step(norm, published_growth(n_classes, gamma, radius, n_rounds, 2 * n_rounds if tight else 0.0))


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
    return best_step(norm, published_growth(n_classes, gamma, radius, n_rounds, 2 * delay_received))


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
    return best_step(norm, published_growth(n_classes, gamma, radius, n_rounds, waited))


@formula
def theorem_r1_eta(*, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, outstanding: Real) -> Any:
    r"""The step of Theorem R1.

    .. math:: \eta = \|W\|_F \Big/ \Big( R \sqrt{ (1 + K/\gamma)\, T + 4 \sum_t o_t } \Big)

    Examples
    --------
    >>> round(theorem_r1_eta(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, n_rounds=8, outstanding=5), 12)
    0.136082763488
    """
    return best_step(norm, repaired_growth(n_classes, gamma, radius, n_rounds, outstanding, hinge=False))


@formula
def theorem_r4_eta(*, norm: Real, n_classes: Real, gamma: Real, radius: Real, n_rounds: Real, outstanding: Real) -> Any:
    r"""The step of Theorem R4, for the parameter `eta` of `HingeDelaytron`.

    .. math:: \eta = \|W\|_F \Big/ \Big( R \sqrt{ 2 K T/\gamma + 4 \sum_t o_t } \Big)

    Examples
    --------
    >>> round(theorem_r4_eta(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, n_rounds=8, outstanding=5), 12)
    0.105409255339
    """
    return best_step(norm, repaired_growth(n_classes, gamma, radius, n_rounds, outstanding, hinge=True))


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
    D = 2 * radius**2 * norm**2
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
    D = 2 * radius**2 * norm**2
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
