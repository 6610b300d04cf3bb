"""The paper's central formula: what one answer adds to the weights."""

from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.kernels.linear import add_row
from delaytron.records import Array, Play


@kernel
def banditron_revision(W: Array, eta: float, past: Play, reward: float) -> None:
    r"""Add what :math:`\eta\tilde U^s` lacked when the answer was counted as wrong; the update is affine in it."""
    add_row(W, past.label, eta * reward / past.prob, past.x.indices, past.x.values)


@kernel
def banditron_update(W: Array, eta: float, past: Play, answer: Any) -> None:
    r"""Add :math:`\eta\tilde U^s`, Algorithm 1 line 9, read with x_s where the paper prints x_t.

    .. math::
        \tilde U^s_{r,j} = x_s(j)\left[\frac{1[\tilde y_s = y_s]\,1[\tilde y_s = r]}{P_s(r)} - 1[\hat y_s = r]\right]

    A reward between 0 and 1 takes the place of :math:`1[\tilde y_s = y_s]`.
    """
    reward = 1.0 * answer
    if reward == 0.0:
        add_row(W, past.greedy, -eta, past.x.indices, past.x.values)
    elif past.label == past.greedy:
        add_row(W, past.label, eta * (reward / past.prob - 1.0), past.x.indices, past.x.values)
    else:
        add_row(W, past.label, eta * reward / past.prob, past.x.indices, past.x.values)
        add_row(W, past.greedy, -eta, past.x.indices, past.x.values)
