"""One-vs-all logistic regression, exploration where the margin is small, and Exp3 with delayed feedback."""

from math import exp, log, sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_matrix, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import allowed_label, argmax, exclude_others, mix_greedily, n_allowed, rival_of
from delaytron.kernels.linear import add_row, score, zero_weights
from delaytron.kernels.logit import logistic_step, sigmoid
from delaytron.learners.arguments import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.delaytron import EPOCH, EPOCH_START, WAITED
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import Contributions, LinearForm
from delaytron.learners.rule import Rule
from delaytron.records import Array, Ints, Play, Row, Size


class OvaParams(NamedTuple):
    """Exploration rate, learning rate, whether SquareCB explores, and its c."""

    gamma: float
    lr: float
    squarecb: bool
    c: float


class OvaState(NamedTuple):
    """The weights, the sums of squared gradients, and the round."""

    W: Array
    G: Array
    now: Ints


def ova_init(params: Any, size: Size) -> OvaState:
    """W = 0, G = 1."""
    n_runs = params.gamma.size
    G = zero_weights(n_runs, size)
    G += 1.0
    return OvaState(zero_weights(n_runs, size), G, np.zeros((n_runs, 1), np.int64))


@kernel
def ova_tick(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
    """Store the round: SquareCB explores less in later ones."""
    state.now[0] = now


@kernel
def ova_policy(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Explore uniformly at the rate gamma, or by inverse-gap weighting of the predicted probabilities (SquareCB)."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, allowed, p.size)
    if params.squarecb:
        weigh_gaps(scores, greedy, params.c * sqrt(state.now[0]), allowed, p)
    else:
        mix_greedily(greedy, params.gamma, allowed, p)
    return greedy


@kernel
def weigh_gaps(scores: Array, greedy: int, sharpness: float, allowed: Any, p: Array) -> None:
    """P(r) = 1 / (K + c sqrt(t) (f_b - f_r)) for r other than the best b, which gets the rest."""
    best = sigmoid(scores[greedy])
    rest = 1.0
    K = n_allowed(allowed, p.size)
    exclude_others(allowed, p)
    for i in range(K):
        r = allowed_label(allowed, i)
        if r != greedy:
            p[r] = 1.0 / (K + sharpness * (best - sigmoid(scores[r])))
            rest -= p[r]
    p[greedy] = rest


@kernel
def ova_step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """One AdaGrad step on the logistic loss of "is the played label right?"."""
    logistic_step(state.W, state.G, past.label, answer, params.lr, past.x.indices, past.x.values)


class OvaLogistic(Learner):
    r"""One-vs-all logistic regression with AdaGrad, played epsilon-greedily or by SquareCB.

    .. math::
        f_k = \sigma(w_k \cdot x), \qquad g = (f_{\tilde y} - 1[\tilde y = y])\, x, \qquad
        G_{\tilde y} \leftarrow G_{\tilde y} + g^2, \qquad
        w_{\tilde y} \leftarrow w_{\tilde y} - \mathrm{lr} \frac{g}{\sqrt{G_{\tilde y}}}

    It learns from every answer, right or wrong, and divides by no probability, so it degrades little when
    exploration is low and answers are late. A "right" after an expiry as "wrong" is applied as one more answer.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1], with explore="epsilon".
    lr : float
        Learning rate, above 0.
    explore : {"epsilon", "squarecb"}
        Explore uniformly, or by inverse-gap weighting, 1 / (K + c sqrt(t) gap).
    c : float
        How fast SquareCB stops exploring, above 0.

    Examples
    --------
    >>> learner = OvaLogistic(n_classes=2, n_features=1, lr=0.5, seed=0)
    >>> decision = learner.decide([1.0])
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    >>> learner.flush()
    >>> float(learner.weights[decision.label, 0].round(4))    # lr x .5 / sqrt(1 + .25)
    0.2236
    """

    name = "ova_logistic"
    takes_rewards = True
    rule = Rule(name, OvaParams, ova_policy, ova_step, OvaState, ova_init, ova_tick, corrects_exactly=False)
    grid = {"gamma": GAMMAS, "lr": (0.05, 0.2, 1.0), "explore": ("epsilon", "squarecb")}

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        lr: float = 0.2,
        explore: str = "epsilon",
        c: float = 10.0,
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.lr = check_scale("lr", lr)
        self.c = check_scale("c", c)
        self.explore = check_choice("explore", explore, ("epsilon", "squarecb"))
        squarecb = self.explore == "squarecb"  # settings that differ only in what is not used get equal parameters
        params = OvaParams(1.0 if squarecb else self.gamma, self.lr, squarecb, self.c if squarecb else 1.0)
        super().__init__(n_classes, n_features, params, common)


RIVAL, SLOPE = 0, 1  # extras of a round


class GapParams(NamedTuple):
    """The least exploration rate, and the step size."""

    gamma: float
    eta: float


@kernel
def gap_policy(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Explore at the rate gamma_t = max(gamma, max(0, 1 - margin)^2)."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, allowed, p.size)
    short = 0.0
    if n_allowed(allowed, p.size) > 1:
        short = max(0.0, 1.0 - (scores[greedy] - scores[rival_of(scores, allowed, p.size, greedy)]))
    mix_greedily(greedy, max(params.gamma, short * short), allowed, p)
    return greedy


@kernel
def note(state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array) -> None:  # noqa: ARG001
    """Keep the best other class and the slope of the smooth hinge, should the label turn out right."""
    rival = rival_of(scores, None, p.size, label)
    extra[RIVAL] = rival
    extra[SLOPE] = 2.0 if label != greedy else 2.0 * max(0.0, 1.0 - (scores[label] - scores[rival]))


@kernel
def gap_step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """Gradient of the smooth hinge at prediction time, weighted by 1/P; a "wrong" changes nothing."""
    reward = 1.0 * answer
    if reward > 0.0 and past.extra[SLOPE] > 0.0:
        move = params.eta * past.extra[SLOPE] * reward / past.prob
        add_row(state.W, past.label, move, past.x.indices, past.x.values)
        add_row(state.W, int(past.extra[RIVAL]), -move, past.x.indices, past.x.values)


class Gap(Learner):
    r"""Surrogate-gap learner: the smaller the margin, the more it explores; it learns from "right" only.

    .. math::
        \gamma_t = \max\big(\gamma,\ \max(0, 1 - m_t)^2\big), \qquad
        W \leftarrow W + 1[\tilde y = y] \frac{\eta\, c}{P(\tilde y)}\, x \otimes (e_{\tilde y} - e_j), \qquad
        c = \begin{cases} 2 & \tilde y \ne \hat y \\ 2 \max(0, 1 - m(\tilde y)) & \tilde y = \hat y \end{cases}

    where m(k) is the score of k minus that of its best rival j, at prediction time. A "wrong" changes nothing, so
    a "right" that comes after its round expired as "wrong" is corrected exactly.

    Parameters
    ----------
    gamma : float
        The least exploration rate, in (0, 1].
    eta : float
        Step size, above 0; the margins are measured against 1, so it matters.

    Examples
    --------
    >>> learner = Gap(n_classes=2, n_features=2, seed=0)
    >>> learner.decide([1.0, 0.0]).prob    # W = 0, so there is no margin: the label is drawn at random
    0.5
    """

    name = "gap"
    takes_rewards = True
    rule = Rule(name, GapParams, gap_policy, gap_step, note=note, extras=("label", "number"))
    grid = {"gamma": GAMMAS, "eta": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)}

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        eta: float = 0.01,
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.eta = check_scale("eta", eta)
        super().__init__(n_classes, n_features, GapParams(self.gamma, self.eta), common)


LEAST_PROB = 1e-300  # its inverse is still finite


class Exp3Params(NamedTuple):
    """The constant step, and whether an adaptive one replaces it."""

    eta: float
    adaptive: bool


class Exp3State(NamedTuple):
    """The estimated losses of every label, the clock and the present step."""

    L: Array
    clock: Ints
    eta: Array


def exp3_init(params: Any, size: Size) -> Exp3State:
    """L = 0, e = 0."""
    n_runs = params.eta.size
    losses = np.zeros((n_runs, size.n_classes))
    clock = np.zeros((n_runs, 3), np.int64)
    return Exp3State(losses, clock, params.eta[:, None].copy())


@kernel
def exp3_tick(state: Any, params: Any, now: int, outstanding: int) -> None:
    """Let the epoch e grow while the sum of the m_t has reached 2^e; each epoch starts from L = 0."""
    if not params.adaptive:
        return
    state.clock[WAITED] += outstanding
    while state.clock[EPOCH] < 62 and state.clock[WAITED] >= 1 << state.clock[EPOCH]:  # 1 << 63 would overflow
        state.clock[EPOCH] += 1
        state.clock[EPOCH_START] = now
        state.eta[0] = sqrt(log(state.L.size) / (1 << state.clock[EPOCH]))
        state.L[:] = 0.0


@kernel
def exp3_policy(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:  # noqa: ARG001
    """P(r) ~ exp(-eta (L_r - min L)); the greedy label has the least loss."""
    for r in range(p.size):
        scores[r] = -state.L[r]
    greedy = argmax(scores, allowed, p.size)
    total = 0.0
    exclude_others(allowed, p)
    for i in range(n_allowed(allowed, p.size)):
        r = allowed_label(allowed, i)
        p[r] = exp(-state.eta[0] * (state.L[r] - state.L[greedy]))
        total += p[r]
    for r in range(p.size):
        p[r] /= total
    return greedy


@kernel
def add_loss(state: Any, past: Play, loss: float) -> None:
    """L_label += loss / P(label), unless the round belongs to an earlier epoch."""
    # A label of smaller probability is drawn only where rounding of a sum let it.
    if past.round >= state.clock[EPOCH_START] and past.prob > LEAST_PROB:
        state.L[past.label] += loss / past.prob


@kernel
def exp3_step(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """A "wrong" is a loss of 1, a "right" one of 0, a reward r one of 1 - r."""
    loss = 1.0 - 1.0 * answer
    if loss > 0.0:
        add_loss(state, past, loss)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """Take the loss back."""
    add_loss(state, past, -reward)


def begin_class(state: Any, label: int) -> None:
    """Give a new class the loss of the best one: with none it would be played alone for long."""
    state.L[label] = state.L[:label].min()


class Exp3(Learner):
    r"""Exponential weights over the K labels, from losses weighted by 1/P of the time when they were played.

    .. math::
        P_t(r) \propto e^{-\eta L_r}, \qquad
        L_{\tilde y_s} \leftarrow L_{\tilde y_s} + \frac{1[\tilde y_s \ne y_s]}{P_s(\tilde y_s)}, \qquad
        \eta_e = \sqrt{\ln K / 2^e}, \qquad e = \min\Big\{ e : \sum_{s \le t} m_s < 2^e \Big\}

    with m_t the rounds that wait for an answer, this one included. It ignores x, so it is the baseline for what a
    context is worth. `weights` is the column -L, which is also every row's scores.

    Parameters
    ----------
    eta : float, optional
        A constant step. By default it follows the waiting rounds as above, and each epoch starts from L = 0 and
        ignores the answers to rounds before it.

    Examples
    --------
    >>> learner = Exp3(n_classes=3, n_features=2, eta=0.1, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=False)
    'accepted'
    >>> learner.flush()
    >>> sorted(learner.weights[:, 0].round(6).tolist())    # -1 / (1/3)
    [-3.0, 0.0, 0.0]
    """

    name = "exp3"
    takes_rewards = True
    remark = "does not look at the example"
    rule = Rule(
        name,
        Exp3Params,
        exp3_policy,
        exp3_step,
        Exp3State,
        exp3_init,
        exp3_tick,
        revise=revise,
        begin_class=begin_class,
        standardizable=False,
    )
    grid = {"eta": (None, 1e-3, 3e-3, 1e-2, 3e-2)}

    def __init__(self, n_classes: int, n_features: int, *, eta: float | None = None, **common: Unpack[Common]) -> None:
        self.eta = None if eta is None else check_scale("eta", eta)
        params = Exp3Params(1.0 if self.eta is None else self.eta, self.eta is None)
        super().__init__(n_classes, n_features, params, common)

    def scores(self, X: Any) -> Array:
        """Return -L for every row, as an (n, K) array."""
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        return np.repeat(self.weights.T, rows.shape[0], axis=0)

    def _contributions(self, row: Row) -> Contributions:
        """The scores do not depend on the row."""
        return Contributions(-self.state.L, np.zeros((self.n_classes, row.values.size)))

    def _linear_form(self) -> LinearForm:
        losses = self.weights[:, 0]
        return LinearForm(np.zeros((losses.size, self.n_features)), losses, sharpness=float(self.state.eta[0]))

    @property
    def weights(self) -> Array:
        """The estimated losses, with a minus, as a (K, 1) column, a copy."""
        with self._lock:
            return self.weights_of(self.state)

    def weights_of(self, state: Any) -> Array:
        """Return -L of a state as a (K, 1) column."""
        return np.asarray(0.0 - state.L[:, None])  # not -L, which would make a -0.0 of every 0.0
