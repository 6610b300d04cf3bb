"""Newtron (Hazan and Kale, 2011): online Newton steps on the log-loss; PNewtron is its diagonal, greedy form."""

from math import exp
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_integer, check_scale
from delaytron.compiler.kernel import fill, kernel, slot
from delaytron.kernels.diagonal import grow_classes, inverse_diagonal
from delaytron.kernels.explore import allowed_label, argmax, draw, exclude_others, mix_greedily, n_allowed
from delaytron.kernels.linear import score, zero_weights
from delaytron.kernels.second_order import Full, absorb, check_memory, full_state, probe
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Play, Row, Size

grow: Any = slot()  # (state, past, omega, tau): A += omega h h', b -= tau h, W = -A^-1 b, h = (e_label - 1/K) (x) x


MOST_CURVATURE = 1e10  # beyond it the inverse of A loses all its digits to rounding


class Params(NamedTuple):
    """Exploration rate, the constants of the paper, and whether the greedy label is played, not a sampled one."""

    gamma: float
    alpha: float
    beta: float
    diameter: float
    greedy: bool


class Diagonal(NamedTuple):
    """The weights, 1/A, and -1/K for every class."""

    W: Array
    inverse: Array
    h: Array


def init_diagonal(params: Any, size: Size) -> Diagonal:
    """W = 0, A = 1/D."""
    W = zero_weights(params.diameter.size, size)
    h = np.zeros((W.shape[0], W.shape[2] if size.sparse else W.shape[1]))
    h[:, : size.n_classes] = -1.0 / size.n_classes
    return Diagonal(W, inverse_diagonal(params.diameter, size), h)


def init_full(params: Any, size: Size) -> Full:
    """W = 0, A = I/D."""
    return full_state(params.diameter, size)


@kernel
def weigh(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> tuple[int, float, float]:
    """Fill p by q = softmax(alpha W x), or greedily, mixed with uniform; return the greedy label and two sums."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, allowed, p.size)
    total, summed = exponentiate(scores, greedy, params.alpha, allowed, p)
    K = n_allowed(allowed, p.size)
    if params.greedy:
        mix_greedily(greedy, params.gamma, allowed, p)
    else:
        for i in range(K):
            r = allowed_label(allowed, i)
            p[r] = (1.0 - params.gamma) * (p[r] / total) + params.gamma / K
    return greedy, total, summed


@kernel
def look(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Fill p; return the greedy label."""
    greedy, _, _ = weigh(state, params, x, allowed, scores, p)
    return greedy


@kernel
def pick(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play by p; keep q of the label, and its lead in W_s."""
    scores, p = scratch
    greedy, total, summed = weigh(state, params, x, allowed, scores, p)
    K = n_allowed(allowed, p.size)
    label = draw(p, allowed, u)
    explored = not params.greedy and u - before(p, label) < params.gamma / K  # then W_s = 0 was played
    extra[0] = exp(params.alpha * (scores[label] - scores[greedy])) / total
    extra[1] = 0.0 if explored else scores[label] - summed / K
    return greedy, label, p[label]


@kernel
def exponentiate(scores: Array, greedy: int, alpha: float, allowed: Any, p: Array) -> tuple[float, float]:
    """Write exp(alpha (score - the best)) to `p`; return the sum of that, and of the scores."""
    total = 0.0
    summed = 0.0
    exclude_others(allowed, p)
    for i in range(n_allowed(allowed, p.size)):
        r = allowed_label(allowed, i)
        p[r] = exp(alpha * (scores[r] - scores[greedy]))
        total += p[r]
        summed += scores[r]
    return total, summed


@kernel
def before(p: Array, label: int) -> float:
    """Return the probability of the classes before `label`."""
    cumulative = 0.0
    for r in range(label):
        cumulative += p[r]
    return cumulative


@kernel
def estimate(params: Any, past: Play, correct: bool) -> tuple[float, float]:
    """Return omega = beta kappa c^2 and tau = -(1 - kappa beta <g, W_s>) c, where g = c h is the estimate."""
    q, lead = past.extra[0], past.extra[1]
    c = (q - 1.0) / past.prob if correct else q / past.prob
    curvature = params.beta * past.prob if correct else params.beta
    return curvature * c * c, -(1.0 - curvature * c * lead) * c


@kernel
def step(state: Any, params: Any, past: Play, correct: bool) -> None:
    """A += beta kappa g g', b += (1 - kappa beta <g, W_s>) g, W = -A^-1 b."""
    omega, tau = estimate(params, past, correct)
    grow(state, past, omega, tau)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001 - it takes none but 1
    """A and b are sums, and both answers add to them along h: one step takes the "wrong" out and the "right" in."""
    omega, tau = estimate(params, past, True)
    wrong_omega, wrong_tau = estimate(params, past, False)
    grow(state, past, omega - wrong_omega, tau - wrong_tau)


@kernel
def grow_diagonal(state: Any, past: Play, omega: float, tau: float) -> None:
    """Step with the diagonal of A."""
    others = state.h[past.label]
    state.h[past.label] += 1.0
    grow_classes(state.W, state.inverse, state.h, omega, tau, past.x.indices, past.x.values)
    state.h[past.label] = others


@kernel
def grow_full(state: Any, past: Play, omega: float, tau: float) -> None:
    """Step with all of A."""
    state.h[:] = -1.0 / state.h.size
    state.h[past.label] += 1.0
    state.alike[past.label] = False
    hv, hW = probe(state, past.x.indices, past.x.values)
    absorb(state, past.x.indices, past.x.values, omega, tau, hv, hW)


def bind(name: str, state: type, init: Any, grow: Any) -> Rule:
    """Return the rule for one kind of A."""
    one_step = fill(step, grow=grow)
    revision = fill(revise, grow=grow)
    numbers = ("number", "number")
    return Rule(
        name, Params, None, one_step, state, init, extras=numbers, revise=revision, pick=pick, look=look, grows=False
    )


FULL = bind("newtron_full", Full, init_full, grow_full)


class Newtron(Learner):
    r"""Newtron, without the projection onto a ball.

    With :math:`q = \mathrm{softmax}(\alpha W x)`, every answer adds an estimate g of the gradient
    :math:`(q - e_y) \otimes x` to two sums:

    .. math::
        g = \frac{q_{\tilde y} - 1[\tilde y = y]}{P(\tilde y)} \big(e_{\tilde y} - \tfrac1K\big) \otimes x, \quad
        A = \tfrac1D I + \beta \sum_s \kappa_s g_s g_s', \quad
        b = \sum_s (1 - \kappa_s\beta\langle g_s, W_s\rangle)\, g_s, \quad W = -A^{-1} b

    where kappa is P after a right answer and 1 after a wrong one. A "right" that comes after its round expired as
    "wrong" is corrected exactly.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    alpha : float
        Sharpness of the softmax.
    beta : float
        How much curvature an answer adds.
    diameter : float
        D: A starts as I/D.
    matrix : {"diagonal", "full"}
        Keep only the diagonal of A; or all of its (K d)^2 numbers, and take as much time for an answer.
    play : {"sample", "argmax"}
        Play a label drawn from q, as the paper does; or the best one, as PNewtron does.

    Examples
    --------
    >>> learner = Newtron(n_classes=2, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    >>> learner.decide([1.0, 0.0]).greedy == decision.label
    True
    """

    name = "newtron"
    rule = bind(name, Diagonal, init_diagonal, grow_diagonal)
    grid = {"gamma": GAMMAS, "alpha": (1.0, 10.0), "diameter": (1.0, 1e-2, 1e-4), "play": ("sample", "argmax")}

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        alpha: float = 10.0,
        beta: float = 0.01,
        diameter: float = 1.0,
        matrix: str = "diagonal",
        play: str = "sample",
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.alpha = check_scale("alpha", alpha)
        self.beta = check_scale("beta", beta, most=MOST_CURVATURE)
        self.diameter = check_scale("diameter", diameter, most=MOST_CURVATURE)
        self.matrix = check_choice("matrix", matrix, ("diagonal", "full"))
        self.play = check_choice("play", play, ("sample", "argmax"))
        if self.matrix == "full":
            check_memory(
                1,
                check_integer("n_classes", n_classes, at_least=2) * check_integer("n_features", n_features, at_least=1),
            )
            self.rule, self.averages = FULL, False
        params = Params(self.gamma, self.alpha, self.beta, self.diameter, self.play == "argmax")
        super().__init__(n_classes, n_features, params, common)
