"""Rules: the few functions in which learners differ, bound into the one delay loop (`kernels.loop`)."""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from delaytron.compiler.kernel import fill, kernel, taker
from delaytron.kernels import loop
from delaytron.kernels.explore import explore_greedily, follow_greedily, note_nothing, pick_one
from delaytron.kernels.linear import zero_weights
from delaytron.records import Array, Play, Size

step, observation = loop.step, loop.observation  # the slots of the loop, which `step_late` and `step_late_by` call


class LinearState(NamedTuple):
    """The weights, in the layout of `kernels.linear`; with a leading axis where there are several runs."""

    W: Array


@cache
def extended_state(name: str, fields: tuple[str, ...], more: tuple[str, ...]) -> Any:
    """Return the class of states with these fields and some more; as a global, so that the disk cache finds it."""
    full_name = "__".join((name, *fields))
    globals()[full_name] = namedtuple(full_name, (*fields, *more), module=__name__)
    return globals()[full_name]


def stack(fields: Any) -> Any:
    """Return a state, or parameters, as a batch of one run."""
    return type(fields)(*(np.array([field]) for field in fields))


def no_runs(params: Any) -> Any:
    """Return parameters as a batch of no runs: its states have the right shapes and take no memory."""
    return type(params)(*(np.array([field])[:0] for field in params))


def linear_state(params: Any, size: Size) -> LinearState:
    """Return W = 0 for every run."""
    return LinearState(zero_weights(params[0].size, size))


@kernel
def keep_no_clock(state: Any, params: Any, now: int, outstanding: int) -> None:
    """Do nothing: most learners need no clock."""


@kernel
def same_label(label: int, extra: Array, y: int) -> bool:  # noqa: ARG001
    """Return whether the played label is the true one."""
    return label == y


@kernel
def right_or_wrong(right: bool, y: int) -> bool:  # noqa: ARG001
    """Return bandit feedback: whether the played label was the true one."""
    return right


@kernel
def true_label(right: bool, y: int) -> int:  # noqa: ARG001
    """Return full information: the true label itself."""
    return y


@kernel
def step_late(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """Correct a "wrong" by a step with "right": exact where a "wrong" changes nothing, else an approximation."""
    step(state, params, past, observation(True, past.label))


@kernel
def step_late_by(state: Any, params: Any, past: Play, reward: float) -> None:
    """Correct a "wrong" by a step with a reward, which is 1 for a "right"."""
    step(state, params, past, reward)


@kernel
def no_revision(state: Any, params: Any, past: Play, reward: float) -> None:
    """Do nothing: the loop calls `step` instead."""


@kernel
def unscaled(state: Any, params: Any) -> float:  # noqa: ARG001
    """Return 1: the scores are those of the weights."""
    return 1.0


@cache
def sharing_ties(rule: "Rule") -> "Rule":
    """Return the rule with ties broken at random: labels of equal scores share the probability of the greedy one."""
    return replace(rule, name=f"{rule.name}_ties", ties="random")


@dataclass(frozen=True)
class Rule:
    """What a paper fixes: a state, a policy (how to explore) and a step (what an answer does).

    `pick` may replace the policy where a round is not one draw from K probabilities: a set, a pool, a draw that stores
    more than `note` sees. `extras` names what is kept of a round, each a "label" (it will be used as an index) or a
    "number".
    """

    name: str
    params: type
    policy: Callable[..., int] | None
    step: Callable[..., None]
    state: type = LinearState
    init: Callable[[Any, Size], Any] = linear_state
    tick: Callable[..., None] = keep_no_clock
    observation: Callable[..., Any] = right_or_wrong
    note: Callable[..., None] = note_nothing
    extras: tuple[str, ...] = ()
    revise: Callable[..., None] = step_late
    pick: Callable[..., tuple[int, int, float]] = pick_one
    is_correct: Callable[..., bool] = same_label
    scale: Callable[..., float] = unscaled
    look: Callable[..., int] | None = None  # the policy without side effects, where `policy` has some or is None
    scratch: tuple[str, ...] = ()  # the fields of the state that only hold intermediate results
    # Of equal scores the "first" is greedy; or all share its probability, "random"; or the policy itself "shares".
    ties: str = "first"
    restricts: bool = True  # whether it takes `allowed`
    grows: bool = True  # whether a class can be added
    # (state, label): initialise a class that is added, where zeros will not do.
    begin_class: Callable[[Any, int], None] | None = None
    per_round_state: bool = False  # whether the size of the state depends on how many rounds are open at once
    standardizes: bool = False  # whether it sees rows standardised, with a constant as the last feature
    standardizable: bool = True  # not if it ignores the row, or standardises rows itself
    # (state, params) -> s, where softmax(s * scores) models the probabilities of the classes; None if nothing does
    softmax: Callable[[Any, Any], float] | None = None
    corrects_exactly: bool = True  # whether `revise` leaves the weights as if only the "right" had come

    def __deepcopy__(self, memo: Any) -> "Rule":
        return self  # it is immutable, and runs are grouped by its identity

    @property
    def is_linear(self) -> bool:
        """Whether decisions maximise scores that are linear in the row, so that they have a hinge loss."""
        return self.policy in (explore_greedily, follow_greedily)

    @cached_property
    def keeps_clock(self) -> bool:
        """Whether `tick` does anything."""
        return self.tick is not keep_no_clock

    @cached_property
    def play(self) -> Any:
        """The whole loop with this rule."""
        return self._bind("play", loop.play)

    @cached_property
    def play_round(self) -> Any:
        """One round, or a part of it."""
        return self._bind("play_round", loop.play_round)

    @cached_property
    def play_rounds(self) -> Any:
        """Consecutive rounds without answers."""
        return self._bind("play_rounds", loop.play_rounds)

    @cached_property
    def deliver_reward(self) -> Any:
        """The update by a reward between 0 and 1."""
        return self._bind("deliver_reward", loop.deliver_reward)

    @cached_property
    def peek(self) -> Any:
        """The kernel for the probabilities of one round, without playing it; None for sets of labels and for pools."""
        return self._bind("peek", loop.peek) if self.slots["look"] else None

    @property
    def slots(self) -> dict[str, Any]:
        """The slots of kernels that a rule fills, with the functions of this one."""
        names = ("policy", "step", "tick", "observation", "note", "revise", "pick", "is_correct", "scale")
        functions = {name: getattr(self, name) for name in names}
        return functions | {"look": self.look or self.policy, "shares_ties": self.ties == "random"}

    def as_base(self, *names: str) -> dict[str, Any]:
        """Return functions of this rule, complete, for the slots `base_...` of the kernels of a rule around it."""
        return {f"base_{name}": fill(self.slots[name], **self.slots) for name in names}

    def _bind(self, part: str, template: Callable[..., Any]) -> Any:
        """Return a template of `kernels.loop` with the functions of this rule in its slots."""
        slots = self.slots
        if self.revise is step_late:
            slots["revise"] = no_revision  # `apply_event` then takes the step itself: half as much code to compile
        return fill(
            template,
            f"{self.name}.{part}",
            **slots,
            revises=slots["revise"] is not no_revision,
            state_of=taker(self.state),
            params_of=taker(self.params),
        )
