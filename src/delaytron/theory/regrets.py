"""Regret of runs against fixed weights: hinge, gated hinge and mistakes."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from delaytron.checks import check_integer, shown
from delaytron.errors import InvalidInput
from delaytron.records import Array, Ints
from delaytron.simulation.results import Result
from delaytron.simulation.scenarios import draw_delays, draw_rows
from delaytron.theory.comparators import hinge_losses

if TYPE_CHECKING:
    from delaytron.datasets import Dataset
    from delaytron.simulation.scenarios import SimulationConfig


class Regret(NamedTuple):
    r"""What runs lost more than fixed weights W, so far: each (runs, checkpoints).

    .. math::
        \sum_t \ell_H(W_t) - \ell_H(W), \qquad \sum_t \ell_P(W_t) - \ell_H(W), \qquad
        \sum_t 1[\hat y_t \ne y_t] - \ell_H(W)

    The gated hinge :math:`\ell_P` is the hinge where the greedy label is wrong, else 0.
    """

    hinge: Array
    gated: Array
    mistakes: Array


def regret(result: Result, data: "Dataset", W: Array) -> Regret:
    """Return the regret of runs that were simulated with `regret=True`, against fixed weights.

    Examples
    --------
    >>> import delaytron as dt
    >>> data = dt.datasets.load("synsep", n_samples=1000)
    >>> result = dt.simulate("delaytron", data, runs=2, gamma=0.1, regret=True)
    >>> lost = regret(result, data, data.certificate)
    >>> bool((lost.mistakes <= lost.gated).all() and (lost.gated <= lost.hinge).all())
    True
    """
    if not isinstance(result, Result):
        raise InvalidInput(f"result must be what dt.simulate(..., regret=True) returns, got {shown(result)}")
    if result.losses is None:
        raise InvalidInput("these runs did not note their losses; call simulate(..., regret=True)")
    theirs = comparator_losses(result, data, W)
    hinge = result.losses[:, :, 0]
    gated = result.losses[:, :, 1]
    return Regret(hinge - theirs, gated - theirs, result.mistakes[:, :, 1] - theirs)


def comparator_losses(result: Result, data: "Dataset", W: Array) -> Array:
    """Return the hinge loss of fixed weights on the rows of every run, so far: (runs, checkpoints)."""
    config = _config(result)
    per_row = hinge_losses(W, data)
    so_far = {run: np.cumsum(per_row[draw_rows(config, run)])[result.rounds - 1] for run in set(result.run.tolist())}
    return np.array([so_far[run] for run in result.run.tolist()])


def delays_of(result: Result, run: int) -> Ints:
    """Return the delays of one run, as they were drawn."""
    config = _config(result)
    return draw_delays(config.delay, config.n_rounds, config.seed, check_integer("run", run, at_least=0))


def _config(result: Result) -> "SimulationConfig":
    if not isinstance(result, Result) or result.config is None:
        raise InvalidInput(f"result must be what dt.simulate(..., regret=True) returns, got {shown(result)}")
    return result.config
