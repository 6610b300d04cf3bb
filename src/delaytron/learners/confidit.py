"""Confidit (Crammer and Gentile, 2011): per class a ridge regression and an upper confidence bound; no exploration."""

from math import sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_choice, check_integer, check_number, check_scale
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
def pick(
    state: Any, params: Any, x: Row, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play argmax_k w_k'x + sqrt(eta x'A_k^-1 x), always; the draw decides what a wrong answer will count as."""
    scores, bounds = scratch
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, bounds.size)
    for k in range(bounds.size):
        bounds[k] = scores[k]
    spread(state, x, scores)
    for k in range(bounds.size):
        bounds[k] += sqrt(params.eta * max(scores[k], 0.0))  # rounding may go below 0
    extra[SIGN] = -1.0 if u < (1.0 + params.alpha) / 2.0 else 1.0
    return greedy, argmax(bounds, bounds.size), 1.0


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
def step_diagonal(state: Any, params: Any, past: Play, correct: bool) -> None:  # noqa: ARG001
    """A_k += x^2, b_k += s x, w_k = b_k/A_k for the label played."""
    grow_class(
        state.W, state.inverse, past.label, 1.0, 1.0 if correct else past.extra[SIGN], past.x.indices, past.x.values
    )


@kernel
def revise_diagonal(state: Any, params: Any, past: Play) -> None:  # noqa: ARG001
    """b_k += 2 x, if the wrong answer counted as -1."""
    grow_class(state.W, state.inverse, past.label, 0.0, 1.0 - past.extra[SIGN], past.x.indices, past.x.values)


@kernel
def step_full(state: Any, params: Any, past: Play, correct: bool) -> None:  # noqa: ARG001
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
    sign = 1.0 if correct else past.extra[SIGN]
    add_class(state.W, k, (sign - score_of(state.W, k, x.indices, x.values)) * shrink, v, x.indices)
    rank_one(B, v, shrink)


@kernel
def revise_full(state: Any, params: Any, past: Play) -> None:  # noqa: ARG001
    """b_k += 2 x, if the wrong answer counted as -1; A_k has the row already."""
    multiply(state.B[past.label], past.x.indices, past.x.values, state.v)
    add_class(state.W, past.label, 1.0 - past.extra[SIGN], state.v, past.x.indices)


def bind(name: str, state: type, init: Any, spread: Any, step: Any, revise: Any) -> Rule:
    """Return the rule for one kind of A."""
    chosen = fill(pick, spread=spread)
    return Rule(name, Params, None, step, state, init, extras=("number",), revise=revise, pick=chosen)


DIAGONAL = bind("confidit_diagonal", Diagonal, init_diagonal, spread_diagonal, step_diagonal, revise_diagonal)


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
    rule = bind(name, Full, init_full, spread_full, step_full, revise_full)
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
            raise InvalidInput(f"alpha must be in (-1, 1], got {alpha!r}")
        if self.matrix == "full":
            check_memory(
                check_integer("n_classes", n_classes, at_least=2), check_integer("n_features", n_features, at_least=1)
            )
            self.averages = False
        else:
            self.rule = DIAGONAL
        super().__init__(n_classes, n_features, Params(self.alpha, self.eta), common)
