"""Hinge Delaytron: the update for which the paper's statement about the hinge loss is true, at any time."""

from math import sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_exploration, check_integer, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import explore_greedily, rival_of
from delaytron.kernels.linear import add_row, squared_norm, zero_weights
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Ints, Play, Row, Size

BETA, RADIUS = 0, 1  # the cells of the clock: beta_t and R_t
RIVAL, LOSS = 0, 1  # what is noted of a round


class Params(NamedTuple):
    """Exploration rate, K / gamma, the size B, and the constant step and radius (0 where they adapt)."""

    gamma: float
    per_round: float
    B: float
    eta: float
    R: float


class State(NamedTuple):
    """Theta, the sum of all updates (W = eta_t theta has the same greedy labels), and the clock."""

    W: Array
    clock: Array


def init(params: Any, size: Size) -> State:
    """Theta = 0, beta = 0."""
    return State(zero_weights(params.gamma.size, size), np.zeros((params.gamma.size, 2)))


@kernel
def tick(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
    """beta_t = beta_{t-1} + K / gamma + 2 o_t, o_t the earlier rounds that still wait."""
    state.clock[BETA] += params.per_round + 2.0 * (outstanding - 1)


@kernel
def rate(clock: Array, params: Any) -> float:
    """eta_t = B / (2 R_t sqrt(beta_t))."""
    if params.eta > 0.0:
        return float(params.eta)
    radius: float = params.R if params.R > 0.0 else clock[RADIUS]
    scale = 2.0 * radius * sqrt(clock[BETA])
    return float(params.B / scale if scale > 0.0 else 0.0)


@kernel
def note(state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array) -> None:  # noqa: ARG001
    """Keep the best other class and the hinge loss that the label would have if it is right."""
    state.clock[RADIUS] = max(state.clock[RADIUS], sqrt(squared_norm(x.values)))
    rival = rival_of(scores, None, p.size, label)
    extra[RIVAL] = rival
    extra[LOSS] = 1.0 - rate(state.clock, params) * (scores[label] - scores[rival])


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """Add 1[right, loss > 0] / P x (e_label - e_rival) to theta."""
    reward = 1.0 * answer
    if reward > 0.0 and past.extra[LOSS] > 0.0:
        weight = reward / past.prob
        add_row(state.W, past.label, weight, past.x.indices, past.x.values)
        add_row(state.W, int(past.extra[RIVAL]), -weight, past.x.indices, past.x.values)


@kernel
def scale(state: Any, params: Any) -> float:
    """W_t = eta_t theta_t."""
    return float(rate(state.clock, params))


class HingeDelaytron(Learner):
    r"""Delayed dual averaging on the hinge loss, learning from "right" only, with a step that needs no horizon.

    .. math::
        \theta \leftarrow \theta + \frac{1[\tilde y = y]\,1[\ell > 0]}{P(\tilde y)}\, x \otimes (e_{\tilde y} - e_j),
        \qquad W_t = \eta_t \theta_t, \qquad
        \eta_t = \frac{B}{2 R_t \sqrt{\beta_t}}, \quad \beta_t = \sum_{s \le t} \Big(\frac K\gamma + 2 o_s\Big)

    where j is the best class apart from the played one and the loss is that of prediction time. A "wrong" changes
    nothing, so a "right" that comes after its round expired as "wrong" is corrected exactly.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1]; as it learns from "right" only, small rates learn slowly.
    B : float
        The norm of the weights it should compete with, above 0.
    eta : float, optional
        A constant step instead of the one that adapts.
    R : float, optional
        A bound on the length of the rows, where one is known; by default the longest row so far.

    Examples
    --------
    >>> learner = HingeDelaytron(n_classes=3, n_features=2, gamma=0.3, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=False)
    'accepted'
    >>> learner.flush()
    >>> bool(learner.weights.any())
    False
    """

    name = "hinge_delaytron"
    takes_rewards = True
    rule = Rule(
        name, Params, explore_greedily, step, State, init, tick, note=note, extras=("label", "number"), scale=scale
    )
    averages = False
    grid = {"gamma": GAMMAS, "B": (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)}

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        B: float = 1.0,
        eta: float | None = None,
        R: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        n_classes = check_integer("n_classes", n_classes, at_least=2)
        self.gamma = check_exploration(gamma)
        self.B = check_scale("B", B)
        self.eta = None if eta is None else check_scale("eta", eta)
        self.R = None if R is None else check_scale("R", R)
        params = Params(self.gamma, n_classes / self.gamma, self.B, self.eta or 0.0, self.R or 0.0)
        super().__init__(n_classes, n_features, params, common)

    def predict(self, X: Any) -> Ints:
        """Return the greedy label of every row by theta, as `decide` has it: the step may round a lead away."""
        return np.asarray(np.argmax(self._score(X, lambda: self.state.W), axis=1), np.int64)

    def _held_weights(self, state: Any) -> Array:
        """W_t = eta_t theta_t, with the present step."""
        return np.asarray(rate(state.clock, self.params) * state.W)
