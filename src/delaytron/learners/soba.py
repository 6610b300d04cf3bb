"""SOBA (Beygelzimer, Orabona and Zhang, 2017): the second-order Banditron, fed by right answers only."""

from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_integer, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.diagonal import compare, grow_class, inverse_diagonal
from delaytron.kernels.explore import explore_greedily, rival_of
from delaytron.kernels.linear import zero_weights
from delaytron.kernels.second_order import absorb, check_memory, full_state, probe
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Bools, Ints, Play, Row, Size


class Params(NamedTuple):
    """Exploration rate, and what A starts from."""

    gamma: float
    a: float


class Diagonal(NamedTuple):
    """The weights, 1/A, and the running sum of the m."""

    W: Array
    inverse: Array
    credit: Array


class Full(NamedTuple):
    """What `kernels.second_order` keeps of a full A, and the running sum of the m."""

    W: Array
    B: Array
    theta: Array
    late: Array
    signs: Array
    h: Array
    alike: Bools
    steps: Ints
    credit: Array


def init_diagonal(params: Any, size: Size) -> Diagonal:
    """W = 0, A = a."""
    n_runs = params.a.size
    return Diagonal(zero_weights(n_runs, size), inverse_diagonal(1.0 / params.a, size), np.zeros((n_runs, 1)))


def init_full(params: Any, size: Size) -> Full:
    """W = 0, A = a I."""
    return Full(*full_state(1.0 / params.a, size), np.zeros((params.a.size, 1)))


@kernel
def note(state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array) -> None:  # noqa: ARG001
    """Keep the best other class."""
    extra[0] = rival_of(scores, None, p.size, label)


@kernel
def earns(credit: Array, prob: float, delta: float, hv: float) -> bool:
    """Add m to the running sum, unless that would make it negative; h = (e_rival - e_label) (x) x, delta = <h, W>."""
    m = (delta * delta + 2.0 * delta) / prob / (1.0 + hv / prob)
    if credit[0] + m < 0.0:
        return False
    credit[0] += m
    return True


@kernel
def step_diagonal(state: Any, params: Any, past: Play, correct: bool) -> None:  # noqa: ARG001
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
def step_full(state: Any, params: Any, past: Play, correct: bool) -> None:  # noqa: ARG001
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
    r"""SOBA: ridge regression on the margins of right answers, taken in only while their sum of m stays positive.

    .. math::
        g = \tfrac1p (e_{\bar y} - e_{\tilde y}) \otimes x, \quad z = \sqrt p\, g, \quad
        m = \frac{\langle W, z\rangle^2 + 2\langle W, g\rangle}{1 + z'A^{-1}z}, \qquad
        \text{if } \sum m \ge 0{:}\;\;
        A \leftarrow A + zz',\;\; \theta \leftarrow \theta - g,\;\; W = A^{-1}\theta

    The best other class :math:`\bar y` is that of the round played, m that of the present W. A "wrong" teaches
    nothing, so an answer that comes after its round expired is applied exactly.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    a : float
        A starts as a I: the larger, the smaller the first steps.
    matrix : {"diagonal", "full"}
        Keep only the diagonal of A; or all of its (K d)^2 numbers, and as much time for an answer.

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
    rule = Rule(name, Params, explore_greedily, step_diagonal, Diagonal, init_diagonal, note=note, extras=("label",))
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
            check_memory(
                1,
                check_integer("n_classes", n_classes, at_least=2) * check_integer("n_features", n_features, at_least=1),
            )
            self.rule, self.averages = FULL, False
        super().__init__(n_classes, n_features, Params(self.gamma, self.a), common)


FULL = Rule("soba_full", Params, explore_greedily, step_full, Full, init_full, note=note, extras=("label",))
