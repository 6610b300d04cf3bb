"""A rule: the few functions in which learners differ, bound into the one delay loop."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from delaytron._jit import fill, kernel, taker
from delaytron.kernels import loop
from delaytron.kernels.linear import add_row, zero_weights
from delaytron.records import Array, Play


class LinearState(NamedTuple):
    """The weights, held the way `kernels.linear` wants them; stacked when there are several runs."""

    W: Array


def linear_state(n_runs: int, shape: tuple[int, int]) -> LinearState:
    """Start every run from W = 0."""
    return LinearState(zero_weights(n_runs, shape))


@kernel
def keep_no_clock(state: Any, params: Any, now: int, outstanding: int) -> None:
    """Ignore the passing of rounds: most learners need no clock."""


@kernel
def right_or_wrong(label: int, y: int) -> bool:
    """Bandit feedback: whether the played label was the true one."""
    return label == y


@kernel
def true_label(label: int, y: int) -> int:  # noqa: ARG001
    """Full information: the true label itself."""
    return y


@kernel
def banditron_update(W: Array, eta: float, past: Play, correct: bool) -> None:
    r"""Add :math:`\eta\tilde U^s`, Algorithm 1 line 9, read with x_s where the paper prints x_t.

    .. math::
        \tilde U^s_{r,j} = x_s(j)\left[\frac{1[\tilde y_s = y_s]\,1[\tilde y_s = r]}{P_s(r)} - 1[\hat y_s = r]\right]
    """
    if not correct:
        add_row(W, past.greedy, -eta, past.x.indices, past.x.values)
    elif past.label == past.greedy:
        add_row(W, past.label, eta * (1.0 / past.prob - 1.0), past.x.indices, past.x.values)
    else:
        add_row(W, past.label, eta / past.prob, past.x.indices, past.x.values)
        add_row(W, past.greedy, -eta, past.x.indices, past.x.values)


@dataclass(frozen=True)
class Rule:
    """What a paper fixes: a state, a policy (how to explore) and a step (what an answer does)."""

    name: str
    params: type
    policy: Callable[..., int]
    step: Callable[..., None]
    state: type = LinearState
    init: Callable[[int, tuple[int, int]], Any] = linear_state
    tick: Callable[..., None] = keep_no_clock
    told: Callable[..., Any] = right_or_wrong

    @property
    def keeps_clock(self) -> bool:
        """Whether the passing of rounds matters to this rule."""
        return self.tick is not keep_no_clock

    @cached_property
    def play(self) -> Any:
        """The whole loop with this rule in it."""
        return self._bind("play", loop.play)

    @cached_property
    def advance(self) -> Any:
        """The beginning of one round."""
        return self._bind("advance", loop.advance)

    @cached_property
    def learn(self) -> Any:
        """The update of one answer."""
        return self._bind("learn", loop.learn)

    @cached_property
    def choose(self) -> Any:
        """The choice of one round."""
        return self._bind("choose", loop.choose)

    def _bind(self, part: str, template: Callable[..., Any]) -> Any:
        return fill(
            template,
            f"{self.name}.{part}",
            policy=self.policy,
            step=self.step,
            tick=self.tick,
            told=self.told,
            state_of=taker(self.state),
            params_of=taker(self.params),
        )
