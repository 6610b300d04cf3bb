"""Delaytron (Algorithm 1), Adaptive Delaytron (Algorithm 2), Hinge Delaytron, and Banditron, their ancestor."""

from math import sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_bool, check_choice, check_exploration, check_integer, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import explore_greedily, rival_of
from delaytron.kernels.linear import add_row, banditron_revision, banditron_update, squared_norm, zero_weights
from delaytron.learners.arguments import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import LinearForm, form_of_weights
from delaytron.learners.rule import Rule
from delaytron.records import Array, Ints, Play, Row, Size


class DelaytronParams(NamedTuple):
    """Exploration rate and step size."""

    gamma: float
    eta: float


@kernel
def delaytron_step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """W += eta U~ (Algorithm 1, line 11)."""
    banditron_update(state.W, params.eta, past, answer)


@kernel
def delaytron_revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Add the part of eta U~ that a "right" has and a "wrong" has not."""
    banditron_revision(state.W, params.eta, past, reward)


class Delaytron(Learner):
    r"""Delaytron, the paper's Algorithm 1.

    .. math::
        W \leftarrow W + \eta \sum_{s \in S_t} \tilde U^s, \qquad
        \tilde U^s = x_s \otimes \Big( \frac{1[\tilde y_s = y_s]}{P_s(\tilde y_s)} e_{\tilde y_s} - e_{\hat y_s} \Big)

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1]; the paper's theory assumes at most 1/2.
    eta : float
        Step size. From W = 0 it scales the weights and changes no decision.

    Examples
    --------
    >>> learner = Delaytron(n_classes=3, n_features=2, gamma=0.1, seed=7)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.pending
    1
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    """

    name = "delaytron"
    takes_rewards = True
    rule = Rule(name, DelaytronParams, explore_greedily, delaytron_step, revise=delaytron_revise)

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        eta: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.eta = check_scale("eta", eta)
        super().__init__(n_classes, n_features, DelaytronParams(self.gamma, self.eta), common)


WAITED, EPOCH, EPOCH_START = 0, 1, 2  # cells of the clock: sum of m_s, e, and the round in which e began


class AdaptiveParams(NamedTuple):
    """Exploration rate, and which version of the doubling test is used."""

    gamma: float
    instant: bool
    count_self: bool
    restart: bool


class AdaptiveState(NamedTuple):
    """The weights, the clock and the present step."""

    W: Array
    clock: Ints
    eta: Array


def adaptive_init(params: Any, size: Size) -> AdaptiveState:
    """W = 0, e = 0, eta_0 = 1."""
    n_runs = params.gamma.size
    return AdaptiveState(zero_weights(n_runs, size), np.zeros((n_runs, 3), np.int64), np.ones((n_runs, 1)))


@kernel
def adaptive_tick(state: Any, params: Any, now: int, outstanding: int) -> None:
    """Algorithm 2, lines 8 and 9: count m_t, and let the epoch e grow while the count has reached 2^e."""
    m = outstanding if params.count_self else outstanding - 1
    state.clock[WAITED] += m
    reached = m if params.instant else state.clock[WAITED]
    while state.clock[EPOCH] < 62 and reached >= 1 << state.clock[EPOCH]:  # 1 << 63 would overflow
        state.clock[EPOCH] += 1
        state.clock[EPOCH_START] = now
        state.eta[0] = sqrt(1.0 / (1 << state.clock[EPOCH]))  # eta_e
        if params.restart:
            state.W[:] = 0.0


@kernel
def adaptive_step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """W += eta_e U~ (line 13); with `restart`, answers to rounds before this epoch are dropped."""
    if not (params.restart and past.round < state.clock[EPOCH_START]):
        banditron_update(state.W, state.eta[0], past, answer)


@kernel
def adaptive_revise(state: Any, params: Any, past: Play, reward: float) -> None:
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
    rule = Rule(
        name,
        AdaptiveParams,
        explore_greedily,
        adaptive_step,
        AdaptiveState,
        adaptive_init,
        adaptive_tick,
        revise=adaptive_revise,
    )
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
        params = AdaptiveParams(self.gamma, self.tracker == "instant", self.count_self, self.restart)
        super().__init__(n_classes, n_features, params, common)


BETA, RADIUS = 0, 1  # cells of the clock: beta_t and R_t
RIVAL, LOSS = 0, 1  # extras of a round


class HingeParams(NamedTuple):
    """Exploration rate, K / gamma, the norm B, and a constant step and radius (0: adaptive)."""

    gamma: float
    per_round: float
    B: float
    eta: float
    R: float


class HingeState(NamedTuple):
    """Theta, the sum of all updates (W = eta_t theta has the same greedy labels), and the clock."""

    W: Array
    clock: Array


def hinge_init(params: Any, size: Size) -> HingeState:
    """Theta = 0, beta = 0."""
    return HingeState(zero_weights(params.gamma.size, size), np.zeros((params.gamma.size, 2)))


@kernel
def hinge_tick(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
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
def hinge_step(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
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
        name,
        HingeParams,
        explore_greedily,
        hinge_step,
        HingeState,
        hinge_init,
        hinge_tick,
        note=note,
        extras=("label", "number"),
        scale=scale,
    )
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
        params = HingeParams(self.gamma, n_classes / self.gamma, self.B, self.eta or 0.0, self.R or 0.0)
        super().__init__(n_classes, n_features, params, common)

    def predict(self, X: Any) -> Ints:
        """Return the greedy label of every row by theta, as `decide` does: the step could round two scores to equal."""
        return np.asarray(np.argmax(self._score(X, lambda: self.state.W), axis=1), np.int64)

    def _linear_form(self) -> LinearForm:
        form = form_of_weights(self, self._matrix(self.state.W))
        return form._replace(scale=float(rate(self.state.clock, self.params)))

    def _held_weights(self, state: Any) -> Array:
        """W_t = eta_t theta_t, with the present step."""
        return np.asarray(rate(state.clock, self.params) * state.W)


class BanditronParams(NamedTuple):
    """Exploration rate."""

    gamma: float


@kernel
def banditron_step(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """W += U~."""
    banditron_update(state.W, 1.0, past, answer)


@kernel
def banditron_revise(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """Add the part of U~ that a "right" has and a "wrong" has not."""
    banditron_revision(state.W, 1.0, past, reward)


class Banditron(Learner):
    r"""Banditron, the paper's reference without delay; answered late it is Delaytron with step 1.

    .. math:: W \leftarrow W + x \otimes \left( \frac{1[\tilde y = y]}{P(\tilde y)} e_{\tilde y} - e_{\hat y} \right)

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].

    Examples
    --------
    >>> learner = Banditron(n_classes=2, n_features=2, gamma=0.5, seed=1)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=False)
    'accepted'
    >>> learner.flush()
    >>> learner.weights[decision.greedy].tolist()
    [-1.0, 0.0]
    """

    name = "banditron"
    takes_rewards = True
    rule = Rule(name, BanditronParams, explore_greedily, banditron_step, revise=banditron_revise)

    def __init__(
        self, n_classes: int, n_features: int, *, gamma: float = DEFAULT_GAMMA, **common: Unpack[Common]
    ) -> None:
        self.gamma = check_exploration(gamma)
        super().__init__(n_classes, n_features, BanditronParams(self.gamma), common)
