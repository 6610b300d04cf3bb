"""Confidit (Crammer and Gentile, 2011): per class a ridge regression and an upper confidence bound; no exploration."""

from math import sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_choice, check_integer, check_number, check_scale, shown
from delaytron.compiler.kernel import fill, kernel, slot
from delaytron.errors import InvalidInput
from delaytron.kernels.diagonal import grow_class, inverse_diagonal
from delaytron.kernels.explore import argmax
from delaytron.kernels.linear import score, score_of, zero_weights
from delaytron.kernels.second_order import (
    UNSAFE_SHRINKAGE,
    add_class,
    check_memory,
    dot,
    multiply,
    quadratic,
    rank_one,
)
from delaytron.learners.base import Learner
from delaytron.learners.options import Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Play, Row, Size

spread: Any = slot()  # (state, x, out): write x'A_k^-1 x to `out` for every class

SIGN = 0  # the extra: what a wrong answer counts as


class Params(NamedTuple):
    """The model's alpha, and the width of the bounds."""

    alpha: float
    eta: float


class Diagonal(NamedTuple):
    """The weights, 1/A, and room for the squares of a row."""

    W: Array
    inverse: Array
    squares: Array


class Full(NamedTuple):
    """The weights, the inverse of every class's A, and room for one product."""

    W: Array
    B: Array
    v: Array


def init_diagonal(params: Any, size: Size) -> Diagonal:
    """W = 0, A_k = (1 + alpha)^2."""
    n_runs = params.alpha.size
    inverse = inverse_diagonal((1.0 + params.alpha) ** -2.0, size)
    return Diagonal(zero_weights(n_runs, size), inverse, np.zeros((n_runs, size.n_features)))


def init_full(params: Any, size: Size) -> Full:
    """W = 0, A_k = (1 + alpha)^2 I."""
    n_runs = params.alpha.size
    K = size.n_classes
    d = size.n_features
    B = np.zeros((n_runs, K, d, d))
    B.reshape(n_runs, K, d * d)[:, :, :: d + 1] = (1.0 + params.alpha[:, None, None]) ** -2.0
    return Full(zero_weights(n_runs, size), B, np.zeros((n_runs, d)))


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
def pick(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play the label of the best bound, always; the draw decides what a wrong answer will count as."""
    scores, bounds = scratch
    greedy, label = bound(state, params, x, allowed, scores, bounds)
    extra[SIGN] = -1.0 if u < (1.0 + params.alpha) / 2.0 else 1.0
    return greedy, label, 1.0


@kernel
def look(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
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
def step_diagonal(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
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
def step_full(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """A_k += x x', b_k += s x, w_k = A_k^-1 b_k for the label played."""
    k = past.label
    x = past.x
    B = state.B[past.label]
    v = state.v
    multiply(B, x.indices, x.values, v)
    c = 1.0 + dot(v, x.indices, x.values)
    if c < UNSAFE_SHRINKAGE:  # rounding has left nothing of A_k^-1 where a huge row points
        return
    shrink = 1.0 / c
    sign = sign_of(past, answer)
    add_class(state.W, k, (sign - score_of(state.W, k, x.indices, x.values)) * shrink, v, x.indices)
    rank_one(B, v, shrink)


@kernel
def revise_full(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """b_k += 2 x, if the wrong answer counted as -1; A_k has the row already."""
    multiply(state.B[past.label], past.x.indices, past.x.values, state.v)
    add_class(state.W, past.label, reward * (1.0 - past.extra[SIGN]), state.v, past.x.indices)


def bind(name: str, state: type, init: Any, spread: Any, step: Any, revise: Any, scratch: str) -> Rule:
    """Return the rule for one kind of A."""
    return Rule(
        name,
        Params,
        None,
        step,
        state,
        init,
        extras=("number",),
        revise=revise,
        pick=fill(pick, spread=spread),
        look=fill(look, spread=spread),
        scratch=(scratch,),
    )


DIAGONAL = bind(
    "confidit_diagonal", Diagonal, init_diagonal, spread_diagonal, step_diagonal, revise_diagonal, "squares"
)


class Confidit(Learner):
    r"""Confidit, with the practical bound; it assumes rows of norm 1 and explores only where a bound is wide.

    .. math::
        \tilde y = \arg\max_k\; w_k'x + \sqrt{\eta\, x'A_k^{-1}x}, \qquad
        k = \tilde y{:}\;\; A_k \leftarrow A_k + xx',\;\; b_k \leftarrow b_k + s x,\;\; w_k = A_k^{-1} b_k

    where s = 1 for a right answer, and for a wrong one -1 with probability (1 + alpha)/2, else 1. A "right" that
    comes after its round expired as "wrong" is corrected exactly.

    Parameters
    ----------
    alpha : float
        Of the model P(y = k) = (alpha + u_k'x)/(alpha + 1), in (-1, 1].
    eta : float
        Scales the squared width of the bounds.
    matrix : {"full", "diagonal"}
        Keep a d x d matrix for every class, and K d^2 time for a round; or only their diagonals.

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
    rule = bind(name, Full, init_full, spread_full, step_full, revise_full, "v")
    grid = {"eta": tuple(2.0**k for k in range(-10, 6)), "matrix": ("diagonal",)}  # full matrices take their time

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
            raise InvalidInput(f"alpha must be in (-1, 1], got {shown(alpha)}")
        if self.matrix == "full":
            check_memory(
                check_integer("n_classes", n_classes, at_least=2), check_integer("n_features", n_features, at_least=1)
            )
            self.averages = False
        else:
            self.rule = DIAGONAL
        super().__init__(n_classes, n_features, Params(self.alpha, self.eta), common)
