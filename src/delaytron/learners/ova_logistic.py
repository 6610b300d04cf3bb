"""One-vs-all logistic regression on the played label, with AdaGrad."""

from math import sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import allowed_label, argmax, exclude_others, mix_greedily, n_allowed
from delaytron.kernels.linear import score, zero_weights
from delaytron.kernels.logistic import logistic_step, sigmoid
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Ints, Play, Row, Size


class Params(NamedTuple):
    """Exploration rate, learning rate, and how SquareCB sharpens."""

    gamma: float
    lr: float
    squarecb: bool
    c: float


class State(NamedTuple):
    """The weights, the sums of squared gradients, and the round."""

    W: Array
    G: Array
    now: Ints


def init(params: Any, size: Size) -> State:
    """W = 0, G = 1."""
    n_runs = params.gamma.size
    G = zero_weights(n_runs, size)
    G += 1.0
    return State(zero_weights(n_runs, size), G, np.zeros((n_runs, 1), np.int64))


@kernel
def tick(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
    """Count the rounds: SquareCB explores less as they pass."""
    state.now[0] = now


@kernel
def policy(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Explore uniformly at the rate gamma, or by inverse gap weighting of the predicted chances (SquareCB)."""
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
def step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """One AdaGrad step on the logistic loss of "is the played label right?"."""
    logistic_step(state.W, state.G, past.label, answer, params.lr, past.x.indices, past.x.values)


class OvaLogistic(Learner):
    r"""One-vs-all logistic regression with AdaGrad, played epsilon-greedily or by SquareCB.

    .. math::
        f_k = \sigma(w_k \cdot x), \qquad g = (f_{\tilde y} - 1[\tilde y = y])\, x, \qquad
        G_{\tilde y} \leftarrow G_{\tilde y} + g^2, \qquad
        w_{\tilde y} \leftarrow w_{\tilde y} - \mathrm{lr} \frac{g}{\sqrt{G_{\tilde y}}}

    It learns from every answer, right or wrong, and divides by no probability; so it keeps its quality when little
    is explored and answers are late. A "right" that comes after its round expired as "wrong" is applied as it comes.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1], with explore="epsilon".
    lr : float
        Learning rate, above 0.
    explore : {"epsilon", "squarecb"}
        Explore uniformly, or each label by how little worse it looks, 1 / (K + c sqrt(t) gap).
    c : float
        How fast SquareCB sharpens, above 0.

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
    rule = Rule(name, Params, policy, step, State, init, tick)
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
        squarecb = self.explore == "squarecb"  # what is not used must not tell two settings apart
        params = Params(1.0 if squarecb else self.gamma, self.lr, squarecb, self.c if squarecb else 1.0)
        super().__init__(n_classes, n_features, params, common)
