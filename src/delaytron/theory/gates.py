r"""The gate of `GatedLogit` between two forecasts of the reward: its errors, and how long the worse part plays.

Proofs are in `docs/explanation/theory.md`.
"""

from typing import Any

import numpy as np

from delaytron.theory.bounds import Real, formula

SHARE = 0.847  # the squared error of the mean forecast is at most the mixed loss of the two, divided by this


@formula
def gate_error(*, softmax_error: Real, pointwise_error: Real) -> Any:
    r"""Theorem R11: the squared errors of the mixed forecast of `GatedLogit`, added up, by those of its two parts.

    .. math::
        \sum_i (r_i - q_i)^2 \le \frac1{0.847} \min\Big\{ L_A + c,\; L_B + \tfrac12 \sqrt{1 + L_B} + c \Big\}, \qquad
        c = \tfrac12 \ln(1 + 1/e)

    Holds for all rewards and forecasts from 0 to 1, in the order in which the answers come, for `forget=0`.

    Examples
    --------
    >>> round(gate_error(softmax_error=100, pointwise_error=50), 4)
    63.4325
    """
    start = 0.5 * np.log1p(np.exp(-1.0))
    of_pointwise = pointwise_error + 0.5 * np.sqrt(1 + pointwise_error)
    return (np.minimum(softmax_error, of_pointwise) + start) / SHARE


@formula
def gate_rounds(*, forecast_gap: Real, max_outstanding: Real, softmax_is_true: bool) -> Any:
    r"""Theorem R12: the expected rounds that the other part of `GatedLogit` plays if the forecasts of one are true.

    .. math::
        \tfrac12 e^{-1/2} \Big(G + 1 + \frac2{\delta^2}\Big) \text{ if those of the softmax part are}, \qquad
        G + \frac1{\delta^4} + \frac{2.6}{\delta^2} + 1.7 \text{ if those of the pointwise part are}

    Holds if the two forecasts of every answer differ by at least :math:`\delta`, delays do not depend on the answers,
    and no round begins with more than G earlier ones unanswered.

    Parameters
    ----------
    softmax_is_true : bool
        Which of the two parts forecasts the mean of every answer.

    Examples
    --------
    >>> round(gate_rounds(forecast_gap=0.2, max_outstanding=100, softmax_is_true=True), 4)
    45.7931
    >>> round(gate_rounds(forecast_gap=0.2, max_outstanding=100, softmax_is_true=False), 4)
    791.7
    """
    if softmax_is_true:
        return 0.5 * np.exp(-0.5) * (max_outstanding + 1 + 2 / forecast_gap**2)
    return max_outstanding + 1 / forecast_gap**4 + 2.6 / forecast_gap**2 + 1.7
