"""Second-order learners: SOBA, Newtron and Confidit, each with a full matrix or its diagonal."""

from collections import namedtuple
from math import exp, sqrt
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_integer, check_number, check_scale
from delaytron.compiler.kernel import fill, kernel, slot
from delaytron.errors import InvalidInput, Setting
from delaytron.kernels.explore import (
    allowed_label,
    argmax,
    draw,
    exclude_others,
    explore_greedily,
    mix_greedily,
    n_allowed,
    rival_of,
)
from delaytron.kernels.linear import score, zero_weights
from delaytron.kernels.second_order import (
    Full,
    absorb,
    add_class,
    compare,
    full_state,
    grow_class,
    grow_classes,
    inverse_diagonal,
    multiply,
    probe,
    quadratic,
    regress,
)
from delaytron.learners.arguments import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.learner import Learner
from delaytron.learners.rule import Rule
from delaytron.records import Array, Play, Row, Size

MEMORY_LIMIT = 2 * 2**30  # bytes of one learner's matrices


def check_full_matrix(n_classes: Any, n_features: Any, *, per_class: bool) -> None:
    """Raise InvalidInput if one full matrix over all weights, or one per class, would take too much memory.

    Examples
    --------
    >>> check_full_matrix(9, 400, per_class=False)
    >>> check_full_matrix(10, 4_000, per_class=False)
    Traceback (most recent call last):
    delaytron.errors.InvalidInput: matrix='full' needs 11.9 GiB, the limit is 2 GiB; use matrix='diagonal'
    """
    K = check_integer("n_classes", n_classes, at_least=2)
    d = check_integer("n_features", n_features, at_least=1)
    needed = 8 * (K * d * d if per_class else (K * d) ** 2)
    if needed > MEMORY_LIMIT:
        sizes = f" needs {needed / 2**30:.3g} GiB, the limit is {MEMORY_LIMIT / 2**30:.3g} GiB"
        raise InvalidInput((Setting("matrix", "'full'"), sizes), ("use ", Setting("matrix", "'diagonal'")))


class SobaParams(NamedTuple):
    """Exploration rate, and what A starts from."""

    gamma: float
    a: float


class SobaDiagonal(NamedTuple):
    """The weights, 1/A, and the running sum of the m."""

    W: Array
    inverse: Array
    credit: Array


# What `kernels.second_order` keeps of a full A, and the running sum of the m.
SobaFull: Any = cast(Any, namedtuple)("SobaFull", (*Full._fields, "credit"), module=__name__)


def soba_init_diagonal(params: Any, size: Size) -> SobaDiagonal:
    """W = 0, A = a."""
    n_runs = params.a.size
    return SobaDiagonal(zero_weights(n_runs, size), inverse_diagonal(1.0 / params.a, size), np.zeros((n_runs, 1)))


def soba_init_full(params: Any, size: Size) -> Any:
    """W = 0, A = a I."""
    return SobaFull(*full_state(1.0 / params.a, size), np.zeros((params.a.size, 1)))


@kernel
def note(state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array) -> None:  # noqa: ARG001
    """Keep the best other class."""
    extra[0] = rival_of(scores, None, p.size, label)


@kernel
def earns(credit: Array, prob: float, delta: float, hv: float) -> bool:
    """Add m to the running sum, and return whether that keeps it at 0 or above; else leave it as it was."""
    # h = (e_rival - e_label) (x) x, delta = <h, W>
    m = (delta * delta + 2.0 * delta) / prob / (1.0 + hv / prob)
    if credit[0] + m < 0.0:
        return False
    credit[0] += m
    return True


@kernel
def soba_step_diagonal(state: Any, params: Any, past: Play, correct: bool) -> None:  # noqa: ARG001
    """A += h^2/p, theta -= h/p, W = theta/A, if the answer is right and earns it."""
    if correct:
        rival = int(past.extra[0])
        label = past.label
        x = past.x
        delta, hv = compare(state.W, state.inverse, rival, label, x.indices, x.values)
        if earns(state.credit, past.prob, delta, hv):
            grow_class(state.W, state.inverse, rival, 1.0 / past.prob, -1.0 / past.prob, x.indices, x.values)
            grow_class(state.W, state.inverse, label, 1.0 / past.prob, 1.0 / past.prob, x.indices, x.values)


@kernel
def soba_step_full(state: Any, params: Any, past: Play, correct: bool) -> None:  # noqa: ARG001
    """The same with A += h h'/p and W = A^-1 theta."""
    if correct:
        rival = int(past.extra[0])
        label = past.label
        state.h[:] = 0.0
        state.h[rival], state.h[label] = 1.0, -1.0
        state.alike[rival], state.alike[label] = False, False
        hv, delta = probe(state, past.x.indices, past.x.values)
        if earns(state.credit, past.prob, delta, hv):
            absorb(state, past.x.indices, past.x.values, 1.0 / past.prob, -1.0 / past.prob, hv, delta)


class Soba(Learner):
    r"""SOBA: ridge regression on the margins of right answers, used only while the sum of m stays positive.

    .. math::
        g = \tfrac1p (e_{\bar y} - e_{\tilde y}) \otimes x, \quad z = \sqrt p\, g, \quad
        m = \frac{\langle W, z\rangle^2 + 2\langle W, g\rangle}{1 + z'A^{-1}z}, \qquad
        \text{if } \sum m \ge 0{:}\;\;
        A \leftarrow A + zz',\;\; \theta \leftarrow \theta - g,\;\; W = A^{-1}\theta

    The best other class :math:`\bar y` is that of the round when it was played, m that of the present W. A "wrong"
    changes nothing, so a "right" after an expiry as "wrong" is corrected exactly.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    a : float
        A starts as a I; a larger a makes the first steps smaller.
    matrix : {"diagonal", "full"}
        Keep only the diagonal of A; or all of its (K d)^2 numbers, which an answer takes as much time to update.

    Examples
    --------
    >>> learner = Soba(n_classes=2, n_features=2, gamma=0.5, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    >>> learner.flush()
    >>> learner.weights.round(3).tolist()
    [[0.571, 0.0], [-0.571, 0.0]]
    """

    name = "soba"
    rule = Rule(
        name,
        SobaParams,
        explore_greedily,
        soba_step_diagonal,
        SobaDiagonal,
        soba_init_diagonal,
        note=note,
        extras=("label",),
    )
    grid = {"gamma": GAMMAS, "a": (0.1, 1.0, 10.0)}

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        a: float = 1.0,
        matrix: str = "diagonal",
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.a = check_scale("a", a)
        self.matrix = check_choice("matrix", matrix, ("diagonal", "full"))
        if self.matrix == "full":
            check_full_matrix(n_classes, n_features, per_class=False)
            self.rule = SOBA_FULL
        super().__init__(n_classes, n_features, SobaParams(self.gamma, self.a), common)


SOBA_FULL = Rule(
    "soba_full", SobaParams, explore_greedily, soba_step_full, SobaFull, soba_init_full, note=note, extras=("label",)
)


grow: Any = slot()  # (state, past, omega, tau): A += omega h h', b -= tau h, W = -A^-1 b, h = (e_label - 1/K) (x) x


MOST_CURVATURE = 1e10  # beyond it, rounding leaves no correct digit of the inverse of A


class NewtronParams(NamedTuple):
    """Exploration rate, the constants of the paper, and whether the greedy label is played instead of a sampled one."""

    gamma: float
    alpha: float
    beta: float
    diameter: float
    greedy: bool


class NewtronDiagonal(NamedTuple):
    """The weights, 1/A, and -1/K for every class."""

    W: Array
    inverse: Array
    h: Array


def newtron_init_diagonal(params: Any, size: Size) -> NewtronDiagonal:
    """W = 0, A = 1/D."""
    W = zero_weights(params.diameter.size, size)
    h = np.zeros((W.shape[0], W.shape[2] if size.sparse else W.shape[1]))
    h[:, : size.n_classes] = -1.0 / size.n_classes
    return NewtronDiagonal(W, inverse_diagonal(params.diameter, size), h)


def newtron_init_full(params: Any, size: Size) -> Full:
    """W = 0, A = I/D."""
    return full_state(params.diameter, size)


@kernel
def weigh(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> tuple[int, float, float]:
    """Fill p by q = softmax(alpha W x), or greedily, mixed with uniform; return the greedy label and two sums."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, allowed, p.size)
    K = n_allowed(allowed, p.size)
    total, summed = 0.0, 0.0
    exclude_others(allowed, p)
    for i in range(K):
        r = allowed_label(allowed, i)
        p[r] = exp(params.alpha * (scores[r] - scores[greedy]))  # at most 1: no overflow
        total += p[r]
        summed += scores[r]
    if params.greedy:
        mix_greedily(greedy, params.gamma, allowed, p)
    else:
        for i in range(K):
            r = allowed_label(allowed, i)
            p[r] = (1.0 - params.gamma) * (p[r] / total) + params.gamma / K
    return greedy, total, summed


@kernel
def newtron_look(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Fill p; return the greedy label."""
    greedy, _, _ = weigh(state, params, x, allowed, scores, p)
    return greedy


@kernel
def newtron_pick(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play by p; store q of the label, and how far its score in W_s is above the mean."""
    scores, p = scratch
    greedy, total, summed = weigh(state, params, x, allowed, scores, p)
    K = n_allowed(allowed, p.size)
    label = draw(p, allowed, u)
    below = 0.0
    for r in range(label):
        below += p[r]
    explored = not params.greedy and u - below < params.gamma / K  # then W_s = 0 was played
    extra[0] = exp(params.alpha * (scores[label] - scores[greedy])) / total
    extra[1] = 0.0 if explored else scores[label] - summed / K
    return greedy, label, p[label]


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


def newtron_rule(name: str, state: type, init: Any, grow: Any) -> Rule:
    """Return the rule for one kind of A."""
    return Rule(
        name,
        NewtronParams,
        None,
        fill(step, grow=grow),
        state,
        init,
        extras=("number", "number"),
        revise=fill(revise, grow=grow),
        pick=newtron_pick,
        look=newtron_look,
        grows=False,
        softmax=lambda _state, params: params.alpha,
    )


NEWTRON_FULL = newtron_rule("newtron_full", Full, newtron_init_full, grow_full)


class Newtron(Learner):
    r"""Newtron, without the projection onto a ball.

    With :math:`q = \mathrm{softmax}(\alpha W x)`, every answer adds an estimate g of the gradient
    :math:`(q - e_y) \otimes x` to two sums:

    .. math::
        g = \frac{q_{\tilde y} - 1[\tilde y = y]}{P(\tilde y)} \big(e_{\tilde y} - \tfrac1K\big) \otimes x, \quad
        A = \tfrac1D I + \beta \sum_s \kappa_s g_s g_s', \quad
        b = \sum_s (1 - \kappa_s\beta\langle g_s, W_s\rangle)\, g_s, \quad W = -A^{-1} b

    where kappa is P after a right answer and 1 after a wrong one. A "right" after an expiry as "wrong" is
    corrected exactly.

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
        Keep only the diagonal of A; or all of its (K d)^2 numbers, which an answer takes as much time to update.
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
    rule = newtron_rule(name, NewtronDiagonal, newtron_init_diagonal, grow_diagonal)
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
            check_full_matrix(n_classes, n_features, per_class=False)
            self.rule = NEWTRON_FULL
        params = NewtronParams(self.gamma, self.alpha, self.beta, self.diameter, self.play == "argmax")
        super().__init__(n_classes, n_features, params, common)


spread: Any = slot()  # (state, x, out): write x'A_k^-1 x to `out` for every class

SIGN = 0  # extra of a round: what a wrong answer counts as


class ConfiditParams(NamedTuple):
    """The model's alpha, and the width of the bounds."""

    alpha: float
    eta: float


class ConfiditDiagonal(NamedTuple):
    """The weights, 1/A, and a buffer for the squares of a row."""

    W: Array
    inverse: Array
    squares: Array


class ConfiditFull(NamedTuple):
    """The weights, the inverse of every class's A, and a buffer for one product."""

    W: Array
    B: Array
    v: Array


def confidit_init_diagonal(params: Any, size: Size) -> ConfiditDiagonal:
    """W = 0, A_k = (1 + alpha)^2."""
    n_runs = params.alpha.size
    inverse = inverse_diagonal((1.0 + params.alpha) ** -2.0, size)
    return ConfiditDiagonal(zero_weights(n_runs, size), inverse, np.zeros((n_runs, size.n_features)))


def confidit_init_full(params: Any, size: Size) -> ConfiditFull:
    """W = 0, A_k = (1 + alpha)^2 I."""
    n_runs = params.alpha.size
    K = size.n_classes
    d = size.n_features
    B = np.zeros((n_runs, K, d, d))
    B.reshape(n_runs, K, d * d)[:, :, :: d + 1] = (1.0 + params.alpha[:, None, None]) ** -2.0
    return ConfiditFull(zero_weights(n_runs, size), B, np.zeros((n_runs, d)))


@kernel
def bound(state: Any, params: Any, x: Row, allowed: Any, scores: Array, bounds: Array) -> tuple[int, int]:
    """Fill the bounds w_k'x + sqrt(eta x'A_k^-1 x); return the label of the best score, and that of the best bound."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, allowed, bounds.size)
    for k in range(bounds.size):
        bounds[k] = scores[k]
    spread(state, x, scores)
    for k in range(bounds.size):
        bounds[k] += sqrt(params.eta * max(scores[k], 0.0))  # rounding may go below 0
    return greedy, argmax(bounds, allowed, bounds.size)


@kernel
def confidit_pick(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play the label of the best bound, always; the draw decides what a wrong answer will count as."""
    scores, bounds = scratch
    greedy, label = bound(state, params, x, allowed, scores, bounds)
    extra[SIGN] = -1.0 if u < (1.0 + params.alpha) / 2.0 else 1.0
    return greedy, label, 1.0


@kernel
def confidit_look(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Give the label of the best bound probability 1; return that of the best score."""
    greedy, label = bound(state, params, x, allowed, scores, p)
    p[:] = 0.0
    p[label] = 1.0
    return greedy


@kernel
def spread_diagonal(state: Any, x: Row, out: Array) -> None:
    """Write x'A_k^-1 x to `out`: the scores that 1/A gives to the squares of x."""
    for i in range(x.values.size):
        state.squares[i] = x.values[i] * x.values[i]
    score(state.inverse, x.indices, state.squares[: x.values.size], out)


@kernel
def spread_full(state: Any, x: Row, out: Array) -> None:
    """Write x'A_k^-1 x to `out`."""
    for k in range(state.B.shape[0]):
        out[k] = quadratic(state.B[k], x.indices, x.values, state.v)


@kernel
def sign_of(past: Play, answer: Any) -> float:
    """Return s: 1 for a right answer, what was drawn for a wrong one, between them for a reward."""
    reward = 1.0 * answer
    return float(reward + (1.0 - reward) * past.extra[SIGN])


@kernel
def confidit_step_diagonal(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """A_k += x^2, b_k += s x, w_k = b_k/A_k for the label played."""
    sign = sign_of(past, answer)
    grow_class(state.W, state.inverse, past.label, 1.0, sign, past.x.indices, past.x.values)


@kernel
def revise_diagonal(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """b_k += 2 x, if the wrong answer counted as -1."""
    grow_class(
        state.W, state.inverse, past.label, 0.0, reward * (1.0 - past.extra[SIGN]), past.x.indices, past.x.values
    )


@kernel
def confidit_step_full(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """A_k += x x', b_k += s x, w_k = A_k^-1 b_k for the label played."""
    sign = sign_of(past, answer)
    regress(state.W, state.B[past.label], state.v, past.label, sign, past.x.indices, past.x.values)


@kernel
def revise_full(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """b_k += 2 x, if the wrong answer counted as -1; A_k has the row already."""
    multiply(state.B[past.label], past.x.indices, past.x.values, state.v)
    add_class(state.W, past.label, reward * (1.0 - past.extra[SIGN]), state.v, past.x.indices)


def confidit_rule(name: str, state: type, init: Any, spread: Any, step: Any, revise: Any, scratch: str) -> Rule:
    """Return the rule for one kind of A."""
    return Rule(
        name,
        ConfiditParams,
        None,
        step,
        state,
        init,
        extras=("number",),
        revise=revise,
        pick=fill(confidit_pick, spread=spread),
        look=fill(confidit_look, spread=spread),
        scratch=(scratch,),
    )


DIAGONAL = confidit_rule(
    "confidit_diagonal",
    ConfiditDiagonal,
    confidit_init_diagonal,
    spread_diagonal,
    confidit_step_diagonal,
    revise_diagonal,
    "squares",
)


class Confidit(Learner):
    r"""Confidit, with the practical bound; it assumes rows of norm 1, and explores only where a bound is wide.

    .. math::
        \tilde y = \arg\max_k\; w_k'x + \sqrt{\eta\, x'A_k^{-1}x}, \qquad
        k = \tilde y{:}\;\; A_k \leftarrow A_k + xx',\;\; b_k \leftarrow b_k + s x,\;\; w_k = A_k^{-1} b_k

    where s = 1 for a right answer, and for a wrong one -1 with probability (1 + alpha)/2, else 1. A "right"
    after an expiry as "wrong" is corrected exactly.

    Parameters
    ----------
    alpha : float
        Of the model P(y = k) = (alpha + u_k'x)/(alpha + 1), in (-1, 1].
    eta : float
        Scales the squared width of the bounds.
    matrix : {"full", "diagonal"}
        Keep a d x d matrix for every class, which takes K d^2 time for a round; or only their diagonals.

    Examples
    --------
    >>> learner = Confidit(n_classes=2, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    >>> learner.flush()
    >>> learner.weights.tolist()
    [[0.2, 0.0], [0.0, 0.0]]
    """

    name = "confidit"
    takes_rewards = True
    rule = confidit_rule(name, ConfiditFull, confidit_init_full, spread_full, confidit_step_full, revise_full, "v")
    grid = {"eta": tuple(2.0**k for k in range(-10, 6)), "matrix": ("diagonal",)}  # full matrices would take too long

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        alpha: float = 1.0,
        eta: float = 0.1,
        matrix: str = "full",
        **common: Unpack[Common],
    ) -> None:
        self.alpha = check_number("alpha", alpha)
        self.eta = check_scale("eta", eta)
        self.matrix = check_choice("matrix", matrix, ("full", "diagonal"))
        if not -1 < self.alpha <= 1:
            raise InvalidInput.of("alpha", "in (-1, 1]", alpha, "1 is the default")
        if self.matrix == "full":
            check_full_matrix(n_classes, n_features, per_class=True)
        else:
            self.rule = DIAGONAL
        super().__init__(n_classes, n_features, ConfiditParams(self.alpha, self.eta), common)
