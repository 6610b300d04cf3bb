"""A rule: the few functions in which learners differ, bound into the one delay loop."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from delaytron.compiler.kernel import fill, kernel, taker
from delaytron.kernels import looking, loop, online
from delaytron.kernels.explore import explore_greedily, follow_greedily, note_nothing, pick_one
from delaytron.kernels.linear import zero_weights
from delaytron.records import Array, Play, Size

step, observation = loop.step, loop.observation  # the slots


class LinearState(NamedTuple):
    """The weights, held the way `kernels.linear` wants them; stacked when there are several runs."""

    W: Array


def stack(fields: Any) -> Any:
    """Make a batch of one of a state or of parameters."""
    return type(fields)(*(np.array([field]) for field in fields))


def no_runs(params: Any) -> Any:
    """Make a batch of none of parameters: states for it have their shapes, and take no memory."""
    return type(params)(*(np.array([field])[:0] for field in params))


def linear_state(params: Any, size: Size) -> LinearState:
    """Start every run from W = 0."""
    return LinearState(zero_weights(params[0].size, size))


@kernel
def keep_no_clock(state: Any, params: Any, now: int, outstanding: int) -> None:
    """Ignore the passing of rounds: most learners need no clock."""


@kernel
def same_label(label: int, extra: Array, y: int) -> bool:  # noqa: ARG001
    """One label was played: it is the true one, or not."""
    return label == y


@kernel
def right_or_wrong(right: bool, y: int) -> bool:  # noqa: ARG001
    """Bandit feedback: whether the played label was the true one."""
    return right


@kernel
def true_label(right: bool, y: int) -> int:  # noqa: ARG001
    """Full information: the true label itself."""
    return y


@kernel
def step_late(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """Correct a "wrong" by applying the "right" as it comes: exact where "wrong" changes nothing, else the nearest."""
    step(state, params, past, observation(True, past.label))


@kernel
def step_late_by(state: Any, params: Any, past: Play, reward: float) -> None:
    """Do the same with a reward, which is 1 for a "right"."""
    step(state, params, past, reward)


@kernel
def no_revision(state: Any, params: Any, past: Play, reward: float) -> None:
    """Leave it to `step`."""


@kernel
def as_they_are(state: Any, params: Any) -> float:  # noqa: ARG001
    """The scores are those of the weights."""
    return 1.0


@cache
def sharing_ties(rule: "Rule") -> "Rule":
    """Return the rule that lets labels of equal scores share the chance of the greedy one."""
    return replace(rule, name=f"{rule.name}_ties", ties="random")


@dataclass(frozen=True)
class Rule:
    """What a paper fixes: a state, a policy (how to explore) and a step (what an answer does).

    `pick` may replace the policy where a round plays more than one label drawn from K probabilities. `extras`
    names what `note` keeps of a round, each a "label" (it will be used as an index) or a "number".
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
    scale: Callable[..., float] = as_they_are
    look: Callable[..., int] | None = None  # the policy, if that would leave a trace, or if `pick` replaces it
    scratch: tuple[str, ...] = ()  # the fields of the state that are only room for what is computed on the way
    ties: str = (
        "first"  # of equal scores the first is greedy; or all share its chance, "random"; or the policy "shares"
    )
    restricts: bool = True  # whether it can choose among some of the labels only
    grows: bool = True  # whether a class can be added
    begin_class: Callable[[Any, int], None] | None = (
        None  # what a new class starts from, if not from what all start from
    )
    per_round_state: bool = False  # whether the state needs room for every round that may be open at once
    standardizes: bool = False  # whether it sees rows standardised, with a constant as the last feature
    standardizable: bool = True  # not if it looks at no row, or standardises each by itself

    def __deepcopy__(self, memo: Any) -> "Rule":
        return self  # functions only: nothing in it changes

    @property
    def is_linear(self) -> bool:
        """Whether the scores by which it decides are linear in the row, so that they have a hinge loss."""
        return self.policy in (explore_greedily, follow_greedily)

    @property
    def keeps_clock(self) -> bool:
        """Whether the passing of rounds matters to this rule."""
        return self.tick is not keep_no_clock

    @cached_property
    def play(self) -> Any:
        """The whole loop with this rule in it."""
        return self._bind("play", loop.play)

    @cached_property
    def play_round(self) -> Any:
        """One round, or a part of it."""
        return self._bind("play_round", online.play_round)

    @cached_property
    def play_rounds(self) -> Any:
        """Rounds one after another in which no answer comes."""
        return self._bind("play_rounds", online.play_rounds)

    @cached_property
    def deliver(self) -> Any:
        """The update by one event."""
        return self._bind("deliver", online.deliver)

    @cached_property
    def deliver_reward(self) -> Any:
        """The update by a reward between 0 and 1."""
        return self._bind("deliver_reward", online.deliver_reward)

    @cached_property
    def deliver_averaged(self) -> Any:
        """The update by one event, of the average, too."""
        return self._bind("deliver_averaged", online.deliver_averaged)

    @property
    def peek(self) -> Any:
        """The probabilities of one round, without playing it; None if it plays sets."""
        look = self.look or self.policy
        return look and self._peek

    @cached_property
    def _peek(self) -> Any:
        return self._bind("peek", looking.peek)

    @cached_property
    def choose(self) -> Any:
        """The choice of one round."""
        return self._bind("choose", online.choose)

    def _bind(self, part: str, template: Callable[..., Any]) -> Any:
        names = ("policy", "step", "tick", "observation", "note", "revise", "pick", "is_correct", "scale")
        slots = {name: getattr(self, name) for name in names}
        slots["look"] = self.look or self.policy
        slots["shares_ties"] = self.ties == "random"
        if self.revise is step_late:
            slots["revise"] = no_revision  # `apply_event` then takes the step itself: half the code to compile
        return fill(
            template,
            f"{self.name}.{part}",
            **slots,
            revises=slots["revise"] is not no_revision,
            state_of=taker(self.state),
            params_of=taker(self.params),
        )
