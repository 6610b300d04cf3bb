"""PAB (Zhong, Dauce and Ralaivola, 2015): passive-aggressive on the played label, right or wrong."""

from math import inf
from typing import Any, NamedTuple, Unpack

from delaytron.checks import check_exploration
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import explore_greedily
from delaytron.kernels.linear import add_row, score_of, squared_norm
from delaytron.learners.aggression import read_aggression, tau
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Play


class Params(NamedTuple):
    """Exploration rate, and the limits of a step."""

    gamma: float
    cap: float
    slack: float


@kernel
def repair_score(W: Array, past: Play, sign: float, cap: float, slack: float) -> None:
    """Move the played label's score just far enough that sign (W x) >= 1."""
    loss = 1.0 - sign * score_of(W, past.label, past.x.indices, past.x.values)
    move = tau(loss, squared_norm(past.x.values), cap, slack)
    if move > 0.0:
        add_row(W, past.label, sign * move, past.x.indices, past.x.values)


@kernel
def step(state: Any, params: Any, past: Play, correct: bool) -> None:
    """The loss is taken with the present W: a passive-aggressive step corrects the model as it is now."""
    repair_score(state.W, past, 1.0 if correct else -1.0, params.cap, params.slack)


class Pab(Learner):
    r"""Bandit passive-aggressive: the score of the played label should be at least 1 if right, at most -1 if wrong.

    .. math::
        \ell = \max(0,\ 1 - s\,(Wx)_{\tilde y}), \quad s = \pm 1, \qquad
        W_{\tilde y} \leftarrow W_{\tilde y} + s \tau x, \qquad
        \tau = \frac{\ell}{\|x\|^2},\ \ \min\Big(C, \frac{\ell}{\|x\|^2}\Big)\ \text{or}\
        \frac{\ell}{\|x\|^2 + 1/(2C)}

    It uses both outcomes and no 1/P, so a small gamma does. A "right" that comes after its round expired as
    "wrong" is applied as it comes: the step depends on the present W, so the wrong one cannot be taken back exactly.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    C : float
        Aggressiveness of the variants I and II, above 0.
    variant : {"PA", "I", "II"}
        Repair the loss in full; at most by C; or damped by 1/(2C).

    Examples
    --------
    >>> learner = Pab(n_classes=2, n_features=2, seed=0)
    >>> decision = learner.decide([2.0, 0.0])
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    >>> learner.flush()
    >>> float(learner.scores([2.0, 0.0])[0, decision.label])
    1.0
    """

    name = "pab"
    rule = Rule(name, Params, explore_greedily, step)
    grid = {"gamma": GAMMAS, "C": (inf, 0.25, 2.0**-4, 2.0**-6), "variant": ("I",)}

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        C: float = inf,
        variant: str = "PA",
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.C, self.variant, cap, slack = read_aggression(C, variant)
        super().__init__(n_classes, n_features, Params(self.gamma, cap, slack), common)
