"""How soon `BanditLogit` plays every class: Theorem R9, proved in `docs/explanation/theory.md`."""

from typing import Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.kernels.inverse_gaps import SHARPNESS_OF_UNKNOWN, TRIES
from delaytron.theory.arguments import Real, formula


@formula
def rounds_until_played(*, n_classes: Real, failure: Real, least_loss: Real = 1.0) -> Any:
    r"""Theorem R9: after how many doubtful rounds `BanditLogit` has played every class, but for a small probability.

    .. math:: \Big\lceil \Big(K + \frac{20}{\ell}\Big) \ln \frac{K}{\delta} \Big\rceil

    A round is doubtful if the best label is predicted to err with a chance of at least :math:`\ell`; other rounds do
    not count. Holds for all rows, labels, answers and delays.

    Examples
    --------
    >>> [rounds_until_played(n_classes=K, failure=0.01, least_loss=0.5) for K in (50, 200)]
    [767.0, 2377.0]
    """
    return np.ceil(_rounds_a_play(n_classes, least_loss) * np.log(n_classes / failure))


@formula
def rounds_until_tried(*, n_classes: Real, plays: Real, least_loss: Real = 1.0) -> Any:
    r"""Theorem R9: how many doubtful rounds `BanditLogit` needs on average to play a class m times.

    .. math:: m \Big(K + \frac{20}{\ell}\Big)

    Holds while no play of the class was confirmed and m is at most 2 K ln K + 1. A round is doubtful if the best label
    is predicted to err with a chance of at least :math:`\ell`; other rounds do not count.

    Examples
    --------
    >>> rounds_until_tried(n_classes=50, plays=100, least_loss=0.5)
    9000.0
    """
    if np.any(plays > plays_until_known(n_classes) + 1):
        raise InvalidInput(f"plays must be at most 2 K ln K + 1, got {np.max(plays):.17g}")
    return plays * _rounds_a_play(n_classes, least_loss)


def plays_until_known(n_classes: Real) -> Any:
    """After so many plays a label is known."""
    return TRIES * n_classes * np.log(n_classes)


def _rounds_a_play(n_classes: Real, least_loss: Real) -> Any:
    """So many doubtful rounds pass on average until an unknown label is played."""
    return n_classes + SHARPNESS_OF_UNKNOWN / least_loss
