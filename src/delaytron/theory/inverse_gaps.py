r"""Inverse-gap weighting as in `BanditLogit`: its regret with delayed answers, and how soon every class is played.

Proofs are in `docs/explanation/theory.md`.

Label r is wrong with the probability :math:`f_r`, predicted as :math:`\hat f_r`. With b the label of the least
prediction, r is played with the probability :math:`\hat f_b / (K \hat f_b + \gamma (\hat f_r - \hat f_b))`, and b, or
all labels with the same prediction, with the rest. This gamma is called `sharpness` here: it is large, and not a rate.
"""

from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_number
from delaytron.errors import InvalidInput
from delaytron.kernels.logit import LEAST_LOSS, SHARPENING, SHARPEST_START, SHARPNESS_OF_UNKNOWN, TRIES
from delaytron.records import Array
from delaytron.theory.bounds import Real, check_argument, formula


@formula
def rounds_until_played(*, n_classes: Real, failure: Real, least_loss: Real = 1.0) -> Any:
    r"""Theorem R9: the doubtful rounds after which `BanditLogit` has played every class, with high probability.

    .. math:: \Big\lceil \Big(K + \frac{20}{\ell}\Big) \ln \frac{K}{\delta} \Big\rceil

    A round is doubtful if the best label is predicted to be wrong with a probability of at least :math:`\ell`; other
    rounds do not count. Holds for all rows, labels, answers and delays.

    Examples
    --------
    >>> [rounds_until_played(n_classes=K, failure=0.01, least_loss=0.5) for K in (50, 200)]
    [767.0, 2377.0]
    """
    return np.ceil(_rounds_a_play(n_classes, least_loss) * np.log(n_classes / failure))


@formula
def rounds_until_tried(*, n_classes: Real, plays: Real, least_loss: Real = 1.0) -> Any:
    r"""Theorem R9: the expected number of doubtful rounds until `BanditLogit` has played a class m times.

    .. math:: m \Big(K + \frac{20}{\ell}\Big)

    Holds while no play of the class was confirmed and m is at most 2 K ln K + 1. A round is doubtful if the best label
    is predicted to be wrong with a probability of at least :math:`\ell`; other rounds do not count.

    Examples
    --------
    >>> rounds_until_tried(n_classes=50, plays=100, least_loss=0.5)
    9000.0
    """
    if np.any(plays > plays_until_known(n_classes) + 1):
        raise InvalidInput.of("plays", "at most 2 K ln K + 1", got=f"{np.max(plays):.17g}")
    return plays * _rounds_a_play(n_classes, least_loss)


def plays_until_known(n_classes: Real) -> Any:
    """Return the number of plays after which a label counts as known."""
    return TRIES * n_classes * np.log(n_classes)


def _rounds_a_play(n_classes: Real, least_loss: Real) -> Any:
    """Return the expected number of doubtful rounds until an unknown label is played."""
    return n_classes + SHARPNESS_OF_UNKNOWN / least_loss


EXPLORATION = 3.0  # c1, the factor of K / gamma and the expected mistakes
TRIANGLE = 9 / 8  # the triangular error is at most this times the relative entropy


class RoundBound(NamedTuple):
    """The expected regret of one round, and the two terms of its bound in Theorem R7: of E_P f and of E_P D."""

    regret: float
    exploring: float
    learning: float

    @property
    def bound(self) -> float:
        """The bound of the regret."""
        return self.exploring + self.learning


def inverse_gap_chances(losses: Any, sharpness: Any) -> Array:
    r"""Return the probability to play each label.

    .. math:: P(r) = \frac{\hat f_b}{K \hat f_b + \gamma_r (\hat f_r - \hat f_b)} \text{ for } r \ne b

    All labels with the least prediction share the rest. Raises InvalidInput if a loss or a gamma is negative or not
    finite, or their shapes differ.

    Parameters
    ----------
    losses : array of K
        The predicted probability of each label to be wrong, at least 0.
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
    pushed = gamma * (predicted - least) > 0  # the others are explored uniformly, also where all predictions are 0
    chances[pushed] = least / (predicted.size * least + (gamma * (predicted - least))[pushed])
    chances[best] = (1 - chances[~best].sum()) / best.sum()
    return chances


def inverse_gap_round(predicted: Any, true: Any, sharpness: Any) -> RoundBound:
    r"""Theorem R7: the expected regret of inverse-gap weighting in one round, and its bound.

    .. math::
        \sum_r P(r) f_r - \min_r f_r \le \frac{3K}\gamma \sum_r P(r) f_r
        + \Big(1 + \frac5{4K}\Big) \gamma \sum_r P(r) \frac{(\hat f_r - f_r)^2}{\hat f_r + f_r}

    Holds for all losses of at least 0, however they were predicted, and every gamma above 0. Raises InvalidInput for
    others.

    Examples
    --------
    >>> found = inverse_gap_round([0.2, 0.5, 0.9], true=[0.3, 0.25, 0.9], sharpness=20)
    >>> round(found.regret, 6), round(found.bound, 6)
    (0.056704, 0.751298)
    """
    expected = _losses("predicted", predicted)
    actual = _losses("true", true)
    if expected.shape != actual.shape:
        raise InvalidInput.of(
            "true", f"one loss per label, {expected.size}, as predicted has", got=str(actual.size), verb="have"
        )
    gamma = float(check_argument("sharpness", check_number("sharpness", sharpness)))
    chances = inverse_gap_chances(expected, gamma)
    played = float(chances @ actual)
    exploring = EXPLORATION * expected.size / gamma * played
    total = expected + actual
    triangular = np.divide((expected - actual) ** 2, total, out=np.zeros(total.shape), where=total > 0)
    learning = _learning(expected.size) * gamma * (chances @ triangular)
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
    r"""Theorem R8: expected regret of inverse-gap weighting with a constant gamma, by that of its predictions.

    .. math::
        \frac{3 K L^* + c \gamma^2 \text{Reg}_T}{\gamma - 3K}, \qquad
        2a + 2 \sqrt{a^2 + a L^*} \text{ at best}, \qquad
        c = \frac98 \Big(1 + \frac5{4K}\Big), \quad a = 3cK\, \text{Reg}_T

    Holds if the probability of a label to be wrong depends on the row only, and Reg is measured against it. Delays
    enter through Reg alone: see `pooled_log_regret`.

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
        raise InvalidInput.of("sharpness", "above 3 n_classes for Theorem R8", got=f"{np.min(sharpness):.17g}")
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
    """c2, the factor of gamma and the triangular errors."""
    return 1 + 5 / (4 * n_classes)


def _rate(n_classes: Real) -> Real:
    """c, the factor of gamma and the regret in the logarithmic loss."""
    return TRIANGLE * _learning(n_classes)


def _numbers(name: str, values: Any) -> Array:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput.of(name, "numbers", values) from None


def _losses(name: str, values: Any) -> Array:
    losses = _numbers(name, values)
    if losses.ndim != 1 or losses.size < 2:
        raise InvalidInput.of(name, "a 1-D array of at least 2 losses", got=f"shape {losses.shape}")
    if not (np.isfinite(losses).all() and (losses >= 0).all()):
        raise InvalidInput.of(name, "finite and at least 0", got=f"{losses.min():.17g}")
    return losses


def _sharpness(values: Any, n_classes: int) -> Array:
    given = _numbers("sharpness", values)
    if given.shape not in ((), (n_classes,)):
        raise InvalidInput.of("sharpness", f"a number or one per label, {n_classes}", got=f"shape {given.shape}")
    if not (np.isfinite(given).all() and (given >= 0).all()):
        raise InvalidInput.of("sharpness", "finite and at least 0", got=f"{given.min():.17g}")
    return np.broadcast_to(given, n_classes)
