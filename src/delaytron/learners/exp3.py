"""Exp3 with delayed feedback (Cesa-Bianchi et al., 2016; Bistritz et al., 2019): the yardstick that sees no context."""

from math import exp, log, sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import allowed_label, argmax, exclude_others, n_allowed
from delaytron.learners.base import Learner
from delaytron.learners.looking import Contributions
from delaytron.learners.options import Common
from delaytron.learners.rule import Rule
from delaytron.matrices import check_matrix
from delaytron.records import Array, Ints, Play, Row, Size

WAITED, EPOCH, EPOCH_START = 0, 1, 2  # the cells of the clock: sum of m_s, e, and the round in which e began
LEAST_PROB = 1e-300  # whose inverse is a float still


class Params(NamedTuple):
    """A constant step, or the word that it follows the clock."""

    eta: float
    adaptive: bool


class State(NamedTuple):
    """The estimated losses of every label, the clock and the present step."""

    L: Array
    clock: Ints
    eta: Array


def init(params: Any, size: Size) -> State:
    """L = 0, e = 0."""
    n_runs = params.eta.size
    losses = np.zeros((n_runs, size.n_classes))
    clock = np.zeros((n_runs, 3), np.int64)
    return State(losses, clock, params.eta[:, None].copy())


@kernel
def tick(state: Any, params: Any, now: int, outstanding: int) -> None:
    """Let the epoch e grow while the sum of the m_t has reached 2^e; a new epoch knows nothing of the old ones."""
    if not params.adaptive:
        return
    state.clock[WAITED] += outstanding
    while state.clock[EPOCH] < 62 and state.clock[WAITED] >= 1 << state.clock[EPOCH]:
        state.clock[EPOCH] += 1
        state.clock[EPOCH_START] = now
        state.eta[0] = sqrt(log(state.L.size) / (1 << state.clock[EPOCH]))
        state.L[:] = 0.0


@kernel
def policy(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:  # noqa: ARG001
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
    if (
        past.round >= state.clock[EPOCH_START] and past.prob > LEAST_PROB
    ):  # less is drawn only because a sum was rounded
        state.L[past.label] += loss / past.prob


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """A "wrong" is a loss of 1, a "right" none, a reward what it lacks of 1."""
    loss = 1.0 - 1.0 * answer
    if loss > 0.0:
        add_loss(state, past, loss)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """Take the loss back."""
    add_loss(state, past, -reward)


def begin_class(state: Any, label: int) -> None:
    """Let a new class look as good as the best one: with no loss at all it would be played alone for long."""
    state.L[label] = state.L[:label].min()


class Exp3(Learner):
    r"""Exponential weights over the K labels, from losses weighed by 1/P as they were when played.

    .. math::
        P_t(r) \propto e^{-\eta L_r}, \qquad
        L_{\tilde y_s} \leftarrow L_{\tilde y_s} + \frac{1[\tilde y_s \ne y_s]}{P_s(\tilde y_s)}, \qquad
        \eta_e = \sqrt{\ln K / 2^e}, \qquad e = \min\Big\{ e : \sum_{s \le t} m_s < 2^e \Big\}

    with m_t the rounds that wait for an answer, this one included. It never looks at x: what a learner with
    contexts gains, it gains over this one. `weights` is the column -L, which is also every row's scores.

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
        name, Params, policy, step, State, init, tick, revise=revise, begin_class=begin_class, standardizable=False
    )
    averages = False
    grid = {"eta": (None, 1e-3, 3e-3, 1e-2, 3e-2)}

    def __init__(self, n_classes: int, n_features: int, *, eta: float | None = None, **common: Unpack[Common]) -> None:
        self.eta = None if eta is None else check_scale("eta", eta)
        params = Params(1.0 if self.eta is None else self.eta, self.eta is None)
        super().__init__(n_classes, n_features, params, common)

    def scores(self, X: Any) -> Array:
        """Return -L for every row, as an (n, K) array."""
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        return np.repeat(self.weights.T, rows.shape[0], axis=0)

    def _contributions(self, row: Row) -> Contributions:
        """The scores do not depend on the row."""
        return Contributions(-self.state.L, np.zeros((self.n_classes, row.values.size)))

    @property
    def weights(self) -> Array:
        """The estimated losses, with a minus, as a (K, 1) column, a copy."""
        return self.weights_of(self.state)

    def weights_of(self, state: Any) -> Array:
        """Return -L of a state as a (K, 1) column."""
        return np.asarray(0.0 - state.L[:, None])
