"""Gap exploration: explore where the margin is small (after van der Hoeven, 2020, and Shibukawa et al., 2025)."""

from typing import Any, NamedTuple, Unpack

from delaytron.checks import check_exploration, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import argmax, mix_greedily, n_allowed, rival_of
from delaytron.kernels.linear import add_row, score
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Play, Row

RIVAL, SLOPE = 0, 1  # what is noted of a round


class Params(NamedTuple):
    """The least exploration rate, and the step size."""

    gamma: float
    eta: float


@kernel
def policy(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
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
def step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """Gradient of the smooth hinge at prediction time, weighed by 1/P; a "wrong" tells nothing."""
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
    rule = Rule(name, Params, policy, step, note=note, extras=("label", "number"))
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
        super().__init__(n_classes, n_features, Params(self.gamma, self.eta), common)
