r"""Exploration by inverse gaps, as `BanditLogit` does it: what it costs with late answers.

Proofs are in `docs/explanation/theory.md`.

Label r is predicted to err with the chance :math:`\hat f_r`, and errs with the chance :math:`f_r`. With b the label
that looks best, r is played with the probability :math:`\hat f_b / (K \hat f_b + \gamma (\hat f_r - \hat f_b))`, and
what remains goes to b, or to all that look as good. This gamma is called `sharpness` here: a large number and no rate.
"""

from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_number, shown
from delaytron.errors import InvalidInput
from delaytron.kernels.inverse_gaps import LEAST_LOSS, SHARPENING, SHARPEST_START
from delaytron.records import Array
from delaytron.theory.arguments import Real, check, formula
from delaytron.theory.finding_classes import plays_until_known

EXPLORATION = 3.0  # c1: times K / gamma and the expected mistakes
TRIANGLE = 9 / 8  # a squared error over the sum is at most so many relative entropies


class RoundBound(NamedTuple):
    """The expected regret of one round, and the two terms of Theorem R7 that it is at most: of E_P f and of E_P D."""

    regret: float
    exploring: float
    learning: float

    @property
    def bound(self) -> float:
        """What the regret is at most."""
        return self.exploring + self.learning


def inverse_gap_chances(losses: Any, sharpness: Any) -> Array:
    r"""Return the probability to play each label.

    .. math:: P(r) = \frac{\hat f_b}{K \hat f_b + \gamma_r (\hat f_r - \hat f_b)} \text{ for } r \ne b

    All labels that look best share the rest.

    Parameters
    ----------
    losses : array of K
        How often each label is predicted to err, at least 0.
    sharpness : float or array of K
        Gamma, or one for each label.

    Examples
    --------
    >>> inverse_gap_chances([0.5, 0.25, 0.75], sharpness=12).round(3).tolist()
    [0.067, 0.896, 0.037]
    >>> inverse_gap_chances([0.5, 0.5, 1.0], sharpness=3).round(3).tolist()
    [0.417, 0.417, 0.167]
    """
    predicted = _losses("losses", losses)
    gamma = _sharpness(sharpness, predicted.size)
    least = predicted.min()
    best = predicted == least
    chances = np.full(predicted.size, 1 / predicted.size)
    pushed = gamma * (predicted - least) > 0  # the others are explored as if nothing were known
    chances[pushed] = least / (predicted.size * least + (gamma * (predicted - least))[pushed])
    chances[best] = (1 - chances[~best].sum()) / best.sum()
    return chances


def inverse_gap_round(predicted: Any, true: Any, sharpness: Any) -> RoundBound:
    r"""Theorem R7: the expected regret of inverse gaps in one round, and its bound.

    .. math::
        \sum_r P(r) f_r - \min_r f_r \le \frac{3K}\gamma \sum_r P(r) f_r
        + \Big(1 + \frac5{4K}\Big) \gamma \sum_r P(r) \frac{(\hat f_r - f_r)^2}{\hat f_r + f_r}

    Holds for all losses of at least 0, however they were predicted, and every gamma above 0.

    Examples
    --------
    >>> told = inverse_gap_round([0.2, 0.5, 0.9], true=[0.3, 0.25, 0.9], sharpness=20)
    >>> round(told.regret, 6), round(told.bound, 6)
    (0.056704, 0.751298)
    """
    expected = _losses("predicted", predicted)
    actual = _losses("true", true)
    if expected.shape != actual.shape:
        raise InvalidInput(f"true must have one loss per label, {expected.size}, as predicted has; got {actual.size}")
    gamma = float(check("sharpness", check_number("sharpness", sharpness)))
    chances = inverse_gap_chances(expected, gamma)
    played = float(chances @ actual)
    exploring = EXPLORATION * expected.size / gamma * played
    learning = _learning(expected.size) * gamma * (chances @ _triangular(expected, actual))
    return RoundBound(played - float(actual.min()), exploring, float(learning))


@formula
def pooled_log_regret(*, n_models: Real, max_outstanding: Real) -> Any:
    r"""Regret in the logarithmic loss of a pool of Bayes mixtures over N models, with at most G answers outstanding.

    .. math:: \text{Reg}_T \le (G + 1) \ln N

    Holds on every path, also where delays depend on the answers. No forecaster has a smaller bound for all models.

    Examples
    --------
    >>> round(pooled_log_regret(n_models=8, max_outstanding=4), 6)
    10.397208
    """
    return (max_outstanding + 1) * np.log(n_models)


@formula
def inverse_gap_regret(*, n_classes: Real, log_regret: Real, best_loss: Real, sharpness: Real | None = None) -> Any:
    r"""Theorem R8: expected regret of inverse gaps with a constant gamma, by the regret of its predictions.

    .. math::
        \frac{3 K L^* + c \gamma^2 \text{Reg}_T}{\gamma - 3K}, \qquad
        2a + 2 \sqrt{a^2 + a L^*} \text{ at best}, \qquad
        c = \frac98 \Big(1 + \frac5{4K}\Big), \quad a = 3cK\, \text{Reg}_T

    Holds if the chances to err depend on the row and the label only, and Reg is measured against them. Delays enter
    through Reg alone: see `pooled_log_regret`.

    Parameters
    ----------
    sharpness : float, optional
        Gamma, above 3 K; by default the best, `inverse_gap_sharpness`.

    Examples
    --------
    >>> late = pooled_log_regret(n_models=2, max_outstanding=4)
    >>> problem = {"n_classes": 2, "log_regret": late, "best_loss": 250}
    >>> round(inverse_gap_regret(**problem), 4), round(inverse_gap_regret(**problem, sharpness=30), 4)
    (285.3028, 300.0924)
    """
    if sharpness is None:
        a = EXPLORATION * _rate(n_classes) * n_classes * log_regret
        return 2 * a + 2 * np.sqrt(a**2 + a * best_loss)
    if np.any(sharpness <= EXPLORATION * n_classes):
        raise InvalidInput(f"sharpness must be above 3 n_classes for Theorem R8, got {np.min(sharpness):.17g}")
    exploring = EXPLORATION * n_classes * best_loss
    return (exploring + _rate(n_classes) * sharpness**2 * log_regret) / (sharpness - EXPLORATION * n_classes)


@formula
def inverse_gap_sharpness(*, n_classes: Real, log_regret: Real, best_loss: Real) -> Any:
    r"""Gamma for which `inverse_gap_regret` is least.

    .. math:: \gamma = 3K \Big(1 + \sqrt{1 + L^* / a}\Big), \qquad a = 3cK\, \text{Reg}_T

    Examples
    --------
    >>> round(inverse_gap_sharpness(n_classes=2, log_regret=3.5, best_loss=250), 6)
    22.444824
    """
    a = EXPLORATION * _rate(n_classes) * n_classes * log_regret
    return EXPLORATION * n_classes * (1 + np.sqrt(1 + best_loss / a))


@formula
def growing_gap_regret(*, n_classes: Real, n_rounds: Real, max_outstanding: Real, log_regret: Real) -> Any:
    r"""Corollary R10: expected regret with the gamma of `BanditLogit`, by the regret of its predictions.

    .. math::
        \tfrac32 \sqrt{KT} + \frac{3K(G + 1)}{1000} + K (2K \ln K + 1)
        + c \max\{1000, 4 \sqrt{KT}\} \big(\text{Reg}_T + 10^{-6} T\big)

    Holds as Theorem R8 does, for `forget=0` and `explore_floor=0`. No bound of Reg is known for the model that
    `BanditLogit` fits.

    Examples
    --------
    >>> round(growing_gap_regret(n_classes=10, n_rounds=10**6, max_outstanding=2500, log_regret=5), 2)
    101343.15
    """
    root = np.sqrt(n_classes * n_rounds)
    late = EXPLORATION * n_classes * (max_outstanding + 1) / SHARPEST_START
    exploring = 2 * EXPLORATION / SHARPENING * root + late + n_classes * (plays_until_known(n_classes) + 1)
    sharpest = np.maximum(SHARPEST_START, SHARPENING * root)
    return exploring + _rate(n_classes) * sharpest * (log_regret + LEAST_LOSS * n_rounds)


def _learning(n_classes: Real) -> Real:
    """c2: times gamma and the triangular errors."""
    return 1 + 5 / (4 * n_classes)


def _rate(n_classes: Real) -> Real:
    """c: times gamma and the regret in the logarithmic loss."""
    return TRIANGLE * _learning(n_classes)


def _triangular(predicted: Array, true: Array) -> Array:
    total = predicted + true
    return np.divide((predicted - true) ** 2, total, out=np.zeros(total.shape), where=total > 0)


def _numbers(name: str, values: Any) -> Array:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be numbers, got {shown(values)}") from None


def _losses(name: str, values: Any) -> Array:
    losses = _numbers(name, values)
    if losses.ndim != 1 or losses.size < 2:
        raise InvalidInput(f"{name} must be a 1-D array of at least 2 losses, got shape {losses.shape}")
    if not (np.isfinite(losses).all() and (losses >= 0).all()):
        raise InvalidInput(f"{name} must be finite and at least 0, got {losses.min():.17g}")
    return losses


def _sharpness(values: Any, n_classes: int) -> Array:
    given = _numbers("sharpness", values)
    if given.shape not in ((), (n_classes,)):
        raise InvalidInput(f"sharpness must be a number or one per label, {n_classes}; got shape {given.shape}")
    if not (np.isfinite(given).all() and (given >= 0).all()):
        raise InvalidInput(f"sharpness must be finite and at least 0, got {given.min():.17g}")
    return np.broadcast_to(given, n_classes)
