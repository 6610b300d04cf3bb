"""Dilute bandit feedback (after Batra and Manwani, 2021): play m labels, learn whether the true one is among them."""

from functools import cache
from math import comb
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_integer, shown
from delaytron.compiler.kernel import kernel
from delaytron.errors import InvalidInput
from delaytron.kernels.explore import argmax
from delaytron.kernels.linear import score, zero_weights
from delaytron.kernels.subsets import (
    MAX_SMALLER_SIDE,
    add_per_label,
    add_per_set,
    add_to_all,
    holds,
    n_numbers,
    put_best,
    put_ranked,
)
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Bools, Ints, Play, Row, Size

MOST_SETS = 2**53  # more could not be drawn by one uniform number


class SetDecision(NamedTuple):
    """What was decided in one round: `labels`, of which `label` is the lowest; `prob` is the probability of the set."""

    id: int
    round: int
    label: int
    greedy: int
    prob: float
    labels: tuple[int, ...]

    def _repr_html_(self) -> str:
        from delaytron.notebooks import facts, page  # noqa: PLC0415 - for notebooks only

        return page("Decision", facts(self._asdict()))


class Params(NamedTuple):
    """Exploration rate, the size of a set, the number of such sets, and the estimator."""

    gamma: float
    m: int
    n_sets: int
    per_set: bool


class State(NamedTuple):
    """The weights, and room for what one answer adds to the score of each label."""

    W: Array
    change: Array


def init(params: Any, size: Size) -> State:
    """W = 0."""
    n_runs = params.gamma.size
    return State(zero_weights(n_runs, size), np.zeros((n_runs, size.n_classes)))


@kernel
def pick(
    state: Any,
    params: Any,
    x: Row,
    allowed: Any,  # noqa: ARG001 - a set is drawn from all labels
    u: float,
    scratch: tuple[Array, Array],
    extra: Array,
) -> tuple[int, int, float]:
    """Play the m best labels or, with probability gamma, any m; note the set that is played and the best one."""
    scores, room = scratch
    score(state.W, x.indices, x.values, scores)
    half, exploit = extra.size // 2, 1.0 - params.gamma
    extra[:] = 0.0
    put_best(scores, params.m, room, extra, half)
    if u >= exploit:
        rank = int((u - exploit) / params.gamma * params.n_sets)
        put_ranked(min(rank, params.n_sets - 1), params.n_sets, params.m, room.size, extra)
    prob = exploit
    for i in range(half):
        if u < exploit:
            extra[i] = extra[half + i]
        elif extra[i] != extra[half + i]:
            prob = 0.0
    label = 0
    while label < room.size - 1 and not holds(extra, 0, label):
        label += 1
    return argmax(scores, None, room.size), label, prob + params.gamma / params.n_sets


@kernel
def is_correct(label: int, extra: Array, y: int) -> bool:  # noqa: ARG001
    """Whether the true label is in the set that was played."""
    return holds(extra, 0, y)


@kernel
def add_right(change: Array, params: Any, past: Play, reward: float) -> None:
    """Add the part of the estimate that a "right" has and a "wrong" has not, or a share of it for a reward."""
    before = change[0]  # the same for all labels
    if params.per_set:
        add_per_set(past.extra, params.m, params.n_sets, past.prob, change)
    else:
        add_per_label(past.extra, params.m, params.gamma, change)
    if reward < 1.0:
        for r in range(change.size):
            change[r] = before + reward * (change[r] - before)


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """W += (ehat - e_greedy) (x) x; the set estimator subtracts tau2 / (tau1 - tau2) whatever the answer is."""
    state.change[:] = -(params.m - 1.0) / (state.change.size - params.m) if params.per_set else 0.0
    reward = 1.0 * answer
    if reward > 0.0:
        add_right(state.change, params, past, reward)
    state.change[past.greedy] -= 1.0
    add_to_all(state.W, state.change, past.x.indices, past.x.values)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Add what a "right" has and a "wrong" has not."""
    state.change[:] = 0.0
    add_right(state.change, params, past, reward)
    add_to_all(state.W, state.change, past.x.indices, past.x.values)


@cache
def rule_for(numbers: int) -> Rule:
    """Return the rule that notes two sets of so many numbers each."""
    extras = ("number",) * 2 * numbers
    return Rule(
        "dilute",
        Params,
        None,
        step,
        State,
        init,
        revise=revise,
        pick=pick,
        is_correct=is_correct,
        extras=extras,
        restricts=False,
        grows=False,
    )


class Dilute(Learner):
    r"""Banditron's update for dilute feedback: a set S of m labels is played, f = 1[y in S] is heard.

    .. math::
        W \leftarrow W + x \otimes (\hat e - e_{\hat y}), \qquad
        \hat e = \Pi^{-1} f 1_S, \qquad
        \Pi = (1 - \gamma) 1_{\hat S} 1_{\hat S}^\top + \gamma \big[ c_2 11^\top + (c_1 - c_2) I \big]

    With probability 1 - gamma the m best labels :math:`\hat S` are played, else any m, which hold a label with the
    chance :math:`c_1 = m/K` and two with :math:`c_2 = m(m-1)/(K(K-1))`. `decide` returns a `SetDecision`, whose
    `labels` are S; `feedback(id, correct=...)` tells whether the true label is one of them. A "right" that comes
    after its round expired as "wrong" is corrected exactly.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    m : int
        How many labels to play, below K.
    estimator : {"inclusion", "set"}
        As above; or :math:`\hat e_r = (f 1[r \in S] / P(S) - \tau_2) / (\tau_1 - \tau_2)` with
        :math:`\tau_i = \binom{K-i}{m-i}`, which has the same mean and, as a rule, twice the variance.

    Examples
    --------
    >>> learner = Dilute(n_classes=5, n_features=2, m=3, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> decision.labels
    (0, 1, 2)
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    """

    name = "dilute"
    takes_rewards = True
    remark = "plays sets of labels: wrong is a set without the true one"
    rule = rule_for(1)

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        m: int = 2,
        estimator: str = "inclusion",
        **common: Unpack[Common],
    ) -> None:
        K = check_integer("n_classes", n_classes, at_least=2)
        self.gamma, self.m = check_exploration(gamma), check_integer("m", m, at_least=1)
        self.estimator = check_choice("estimator", estimator, ("inclusion", "set"))
        if self.m >= K:
            raise InvalidInput(f"m must be below n_classes = {K}, got {shown(m)}")
        n_sets = comb(K, self.m) if min(self.m, K - self.m) <= MAX_SMALLER_SIDE else MOST_SETS
        if n_sets >= MOST_SETS:
            raise InvalidInput(f"{K} labels have 2^53 or more sets of m = {m}, too many to draw from; choose another m")
        self.rule = rule_for(n_numbers(K))
        super().__init__(K, n_features, Params(self.gamma, self.m, n_sets, self.estimator == "set"), common)

    def _decision(self, play: Play) -> SetDecision:
        """Return what the caller gets to know of a round: the set, too."""
        every = np.arange(self.n_classes)
        extras = np.broadcast_to(play.extra, (self.n_classes, play.extra.size))
        labels = tuple(every[self._is_correct(every, extras, every)].tolist())
        return SetDecision(play.round, play.round, play.label, play.greedy, play.prob, labels)

    def _is_correct(self, labels: Ints, extras: Array, y: Ints) -> Bools:  # noqa: ARG002
        """Return in which of the rounds the true label was in the set."""
        numbers = extras[np.arange(len(y)), y >> 5].astype(np.int64)
        return np.asarray(numbers >> (y & 31) & 1, np.bool_)
