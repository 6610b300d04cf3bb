"""Adaptive Delaytron (Algorithm 2): the step shrinks as unanswered rounds add up."""

from math import sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_bool, check_choice, check_exploration
from delaytron.compiler.kernel import kernel
from delaytron.errors import InvalidInput
from delaytron.kernels.explore import explore_greedily
from delaytron.kernels.linear import zero_weights
from delaytron.kernels.updates import banditron_revision, banditron_update
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Ints, Play, Size

WAITED, EPOCH, EPOCH_START = 0, 1, 2  # the cells of the clock: sum of m_s, e, and the round in which e began


class Params(NamedTuple):
    """Exploration rate and the readings of the doubling test."""

    gamma: float
    instant: bool
    count_self: bool
    restart: bool


class State(NamedTuple):
    """The weights, the clock and the present step."""

    W: Array
    clock: Ints
    eta: Array


def init(params: Any, size: Size) -> State:
    """W = 0, e = 0, eta_0 = 1."""
    n_runs = params.gamma.size
    return State(zero_weights(n_runs, size), np.zeros((n_runs, 3), np.int64), np.ones((n_runs, 1)))


@kernel
def tick(state: Any, params: Any, now: int, outstanding: int) -> None:
    """Algorithm 2, lines 8 and 9: count m_t, and let the epoch e grow while the count has reached 2^e."""
    m = outstanding if params.count_self else outstanding - 1
    state.clock[WAITED] += m
    reached = m if params.instant else state.clock[WAITED]
    while state.clock[EPOCH] < 62 and reached >= 1 << state.clock[EPOCH]:
        state.clock[EPOCH] += 1
        state.clock[EPOCH_START] = now
        state.eta[0] = sqrt(1.0 / (1 << state.clock[EPOCH]))  # eta_e
        if params.restart:
            state.W[:] = 0.0


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """W += eta_e U~ (line 13); with `restart`, answers to rounds before this epoch are dropped."""
    if not (params.restart and past.round < state.clock[EPOCH_START]):
        banditron_update(state.W, state.eta[0], past, answer)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Add the part of U~ that a "right" has and a "wrong" has not, with the present eta_e."""
    if not (params.restart and past.round < state.clock[EPOCH_START]):
        banditron_revision(state.W, state.eta[0], past, reward)


class AdaptiveDelaytron(Learner):
    r"""Adaptive Delaytron, the paper's Algorithm 2.

    .. math::
        W \leftarrow W + \eta_e \sum_{s \in S_t} \tilde U^s, \qquad \eta_e = \sqrt{1/2^e}, \qquad
        e = \min\Big\{ e : \sum_{s \le t} m_s < 2^e \Big\}, \qquad m_t = t - \sum_{s \le t} |S_s|

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    tracker : {"cumulative", "instant"}
        Compare the sum of all m_s with 2^e (as printed), or the present m_t alone (the authors' code).
    count_self : bool
        Whether the present round counts as waiting (the paper's text) or not (the authors' code).
    restart : bool
        Forget the weights and all older feedback when an epoch begins: what the proof of Theorem 4 needs.

    Examples
    --------
    >>> learner = AdaptiveDelaytron(n_classes=3, n_features=2, gamma=0.3, seed=0)
    >>> _ = learner.decide([1.0, 0.0])
    >>> learner.state.eta.tolist()
    [0.7071067811865476]
    """

    name = "adaptive_delaytron"
    takes_rewards = True
    rule = Rule(name, Params, explore_greedily, step, State, init, tick, revise=revise)
    grid = {"gamma": GAMMAS, "tracker": ("cumulative", "instant")}

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        tracker: str = "cumulative",
        count_self: bool = True,
        restart: bool = False,
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.tracker = check_choice("tracker", tracker, ("cumulative", "instant"))
        self.count_self = check_bool("count_self", count_self)
        self.restart = check_bool("restart", restart)
        params = Params(self.gamma, self.tracker == "instant", self.count_self, self.restart)
        super().__init__(n_classes, n_features, params, common)
        if self.average and self.restart:
            raise InvalidInput(
                "restart=True forgets the weights now and then, so they have no average; leave out average=True"
            )
