"""LinUCB and linear Thompson sampling: a ridge regression of the reward for each label, with a full matrix."""

from math import sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_integer, check_number, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.errors import InvalidInput
from delaytron.kernels.explore import allowed_label, argmax, exclude_others, n_allowed
from delaytron.kernels.linear import padded, score, zero_weights
from delaytron.kernels.second_order import add_class, multiply, quadratic, regress
from delaytron.kernels.thompson import weigh_chances
from delaytron.learners.arguments import Common
from delaytron.learners.learner import Learner
from delaytron.learners.rule import Rule
from delaytron.learners.second_order import MEMORY_LIMIT
from delaytron.records import Array, Play, Row, Size

MOST_FEATURES = 500  # a decision takes K d^2 steps
RIDGES = (1e-6, 1e6)  # beyond them, rounding leaves few correct digits of the inverse of A


def check_matrices(name: str, n_classes: Any, n_features: Any) -> None:
    """Raise InvalidInput if the matrices of all classes would take too much time or memory.

    Examples
    --------
    >>> check_matrices("lin_ucb", 10, 500)
    >>> check_matrices("lin_ucb", 10, 501)
    Traceback (most recent call last):
    delaytron.errors.InvalidInput: n_features must be at most 500 for lin_ucb, got 501; take logistic_ts
    """
    K = check_integer("n_classes", n_classes, at_least=2)
    d = check_integer("n_features", n_features, at_least=1)
    if d > MOST_FEATURES:
        raise InvalidInput.of("n_features", f"at most {MOST_FEATURES} for {name}", n_features, "take logistic_ts")
    most = MEMORY_LIMIT // (8 * d * d)
    if most < K:
        allowed = f"at most {most} for {name} with {d} features"
        raise InvalidInput.of("n_classes", allowed, n_classes, "take logistic_ts")


def check_ridge(ridge: Any) -> float:
    """Return the number that A starts from; raise InvalidInput where rounding would spoil the inverse."""
    number = check_number("ridge", ridge)
    if not RIDGES[0] <= number <= RIDGES[1]:
        raise InvalidInput.of("ridge", "from 1e-06 to 1000000", ridge, "1 is the default")
    return number


class Params(NamedTuple):
    """The factor of the deviations, and what A starts from."""

    factor: float
    ridge: float


class UcbState(NamedTuple):
    """The weights, the inverse of every class's A, and a buffer for one product."""

    W: Array
    B: Array
    v: Array


class TsState(NamedTuple):
    """The same with buffers for the deviations of the scores, and for `kernels.thompson`."""

    W: Array
    B: Array
    v: Array
    deviations: Array
    hazards: Array


def ucb_init(params: Any, size: Size) -> UcbState:
    """W = 0, A_k = ridge I."""
    n_runs, K, d = params.ridge.size, size.n_classes, size.n_features
    B = np.zeros((n_runs, K, d, d))
    B.reshape(n_runs, K, d * d)[:, :, :: d + 1] = 1.0 / params.ridge[:, None, None]
    return UcbState(zero_weights(n_runs, size), B, np.zeros((n_runs, d)))


def ts_init(params: Any, size: Size) -> TsState:
    """Return the same with empty buffers."""
    buffer = np.zeros((params.ridge.size, padded(size.n_classes)))
    return TsState(*ucb_init(params, size), buffer, buffer.copy())


@kernel
def deviation(state: Any, k: int, x: Row) -> float:
    """Return sqrt(x'A_k^-1 x)."""
    return sqrt(max(0.0, quadratic(state.B[k], x.indices, x.values, state.v)))  # rounding may go below 0


@kernel
def play_best_bound(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Play the label of the best bound, any of them if several are equal; return the label of the best score."""
    score(state.W, x.indices, x.values, scores)
    exclude_others(allowed, p)
    K = n_allowed(allowed, p.size)
    for i in range(K):
        r = allowed_label(allowed, i)
        p[r] = scores[r] + params.factor * deviation(state, r, x)
    best = p[argmax(p, allowed, p.size)]
    equals = 0
    for i in range(K):
        if p[allowed_label(allowed, i)] == best:
            equals += 1
    for i in range(K):
        r = allowed_label(allowed, i)
        p[r] = 1.0 / equals if p[r] == best else 0.0
    return argmax(scores, allowed, p.size)


@kernel
def sample_scores(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Play each label as often as its score, drawn from the posterior, is the largest; return that of the best mean."""
    score(state.W, x.indices, x.values, scores)
    for i in range(n_allowed(allowed, p.size)):
        r = allowed_label(allowed, i)
        state.deviations[r] = params.factor * deviation(state, r, x)
    weigh_chances(scores, state.deviations, allowed, state.hazards, p)
    return argmax(scores, allowed, p.size)


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """A_k += x x', b_k += r x, w_k = A_k^-1 b_k for the label played; r is 1 for a "right", 0 for a "wrong"."""
    regress(state.W, state.B[past.label], state.v, past.label, 1.0 * answer, past.x.indices, past.x.values)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """b_k += r x; A_k has the row already."""
    multiply(state.B[past.label], past.x.indices, past.x.values, state.v)
    add_class(state.W, past.label, reward, state.v, past.x.indices)


class LinUcb(Learner):
    r"""LinUCB, disjoint: a ridge regression of the reward for each label, played by its upper confidence bound.

    .. math::
        \tilde y = \arg\max_k\; w_k \cdot x + \alpha \sqrt{x'A_k^{-1}x}, \qquad
        k = \tilde y{:}\;\; A_k \leftarrow A_k + xx',\;\; b_k \leftarrow b_k + r x,\;\; w_k = A_k^{-1} b_k

    where r is 1 for a right answer, 0 for a wrong one, or a reward. Labels with equal bounds are played equally often;
    else nothing is random. A "right" after an expiry as "wrong" is corrected exactly.

    Parameters
    ----------
    alpha : float
        Scales the width of the bounds, above 0.
    ridge : float
        A starts as ridge I; from 1e-6 to 1e6.

    Examples
    --------
    >>> learner = LinUcb(n_classes=2, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    >>> learner.flush()
    >>> learner.weights[decision.label].tolist()
    [0.5, 0.0]
    """

    name = "lin_ucb"
    takes_rewards = True
    rule = Rule(name, Params, play_best_bound, step, UcbState, ucb_init, revise=revise, scratch=("v",), ties="shares")
    grid = {"alpha": (0.1, 0.3, 1.0)}

    def __init__(
        self, n_classes: int, n_features: int, *, alpha: float = 0.3, ridge: float = 1.0, **common: Unpack[Common]
    ) -> None:
        self.alpha = check_scale("alpha", alpha)
        self.ridge = check_ridge(ridge)
        check_matrices(self.name, n_classes, n_features)
        super().__init__(n_classes, n_features, Params(self.alpha, self.ridge), common)


class LinTs(Learner):
    r"""Linear Thompson sampling, disjoint: the regressions of LinUCB, played by scores drawn from their posteriors.

    .. math::
        P(k) = \Pr\big(k = \arg\max_j \theta_j\big), \qquad \theta_j \sim N\big(w_j \cdot x,\ v^2\, x'A_j^{-1}x\big)

    with A and w as in `LinUcb`. P is computed, not sampled (`kernels.thompson`), so it is what the decision logs. A
    "right" after an expiry as "wrong" is corrected exactly.

    Parameters
    ----------
    v : float
        Scales the deviations of the scores, above 0.
    ridge : float
        A starts as ridge I; from 1e-6 to 1e6.

    Examples
    --------
    >>> learner = LinTs(n_classes=4, n_features=2, seed=0)
    >>> learner.decide([1.0, 0.0]).prob    # all labels have the same posterior
    0.25
    """

    name = "lin_ts"
    takes_rewards = True
    rule = Rule(
        name,
        Params,
        sample_scores,
        step,
        TsState,
        ts_init,
        revise=revise,
        scratch=("v", "deviations", "hazards"),
        ties="shares",
    )
    grid = {"v": (0.03, 0.1, 0.3)}

    def __init__(
        self, n_classes: int, n_features: int, *, v: float = 0.1, ridge: float = 1.0, **common: Unpack[Common]
    ) -> None:
        self.v = check_scale("v", v)
        self.ridge = check_ridge(ridge)
        check_matrices(self.name, n_classes, n_features)
        super().__init__(n_classes, n_features, Params(self.v, self.ridge), common)
