"""How `BanditLogit` learns from an answer: once, and, if it is to, again from some of those it kept."""

from math import sqrt
from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.kernels.centred import add_step, count_gradient, score_row, squared_length
from delaytron.kernels.memory import keep, place_of
from delaytron.kernels.softmax import bandit_gradient, softmax
from delaytron.kernels.standard_rows import standardize_row
from delaytron.records import Array

DAMPING = 0.3


@kernel
def learn(state: Any, indices: Any, values: Array, label: int, reward: float) -> None:
    """Take one damped AdaGrad step on the likelihood of the answer, at the present weights and statistics."""
    more, along = standardize_row(state, indices, values)
    length = squared_length(state, more)
    top = score_row(state, indices, values, length, along, state.scores)
    softmax(state.scores, top, state.p)
    power = bandit_gradient(state.p, label, reward, state.g)
    if power > 0.0:
        spread = count_gradient(state, indices, values, power / length) / length
        damp_steps(state, spread, 1.0 / sqrt(length))
        add_step(state, indices, values, along, state.g)


@kernel
def damp_steps(state: Any, spread: float, scale: float) -> None:
    """Turn the gradient in `g` into steps: about implicit ones, which do not go far beyond where the gradient ends."""
    for k in range(state.power.size):
        g = state.g[k]
        state.power[k] += g * g
        rate = state.rates[k]
        state.g[k] = -scale * rate * g / (1.0 + DAMPING * rate * spread * abs(g))


@kernel
def forget_none(state: Any) -> None:
    """Nothing is kept."""


@kernel
def learn_once(state: Any, times: int, indices: Any, values: Array, label: int, reward: float) -> None:
    """Keep nothing."""


@kernel
def learn_kept(state: Any, times: int, indices: Any, values: Array, label: int, reward: float) -> None:
    """Learn again from some of the answers kept, then keep this one."""
    for i in range(times if state.kept[0] > 0 else 0):
        place = place_of(state.kept[0], i, times)
        size = state.kept_size[place]
        row = state.kept_values[place, :size]
        if indices is None:
            learn(state, indices, row, state.kept_label[place], state.kept_reward[place])
        else:
            learn(state, state.kept_indices[place, :size], row, state.kept_label[place], state.kept_reward[place])
    keep(state, indices, values, label, reward)
