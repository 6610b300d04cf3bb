"""Passive-aggressive with full information (Crammer et al., 2006), a yardstick like the Perceptron."""

from math import inf
from typing import Any, NamedTuple, Unpack

from delaytron.checks import check_integer
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import follow_greedily, rival_of
from delaytron.kernels.linear import score
from delaytron.learners.aggression import ScoringState, read_aggression, scoring_state, separate
from delaytron.learners.base import Learner
from delaytron.learners.options import Common
from delaytron.learners.rule import Rule, true_label
from delaytron.records import Play


class Params(NamedTuple):
    """The limits of a step, and K."""

    cap: float
    slack: float
    n_classes: int


@kernel
def step(state: Any, params: Any, past: Play, y: int) -> None:
    """Move y up and its best rival down, by the loss that the present W has on the row."""
    score(state.W, past.x.indices, past.x.values, state.scores)
    rival = rival_of(state.scores, None, params.n_classes, y)
    separate(state.W, state.scores, y, rival, past.x, params.cap, params.slack)


class PassiveAggressive(Learner):
    r"""Multiclass passive-aggressive: PA, PA-I, PA-II; it is told the true label, late like any feedback.

    .. math::
        \ell = \max\big(0,\ 1 - (Wx)_y + \max_{j \ne y} (Wx)_j\big), \qquad
        W \leftarrow W + \tau\, x \otimes (e_y - e_j), \qquad
        \tau = \frac{\ell}{2\|x\|^2},\ \ \min\Big(C, \frac{\ell}{2\|x\|^2}\Big)\ \text{or}\
        \frac{\ell}{2\|x\|^2 + 1/(2C)}

    Parameters
    ----------
    C : float
        Aggressiveness of the variants I and II, above 0.
    variant : {"PA", "I", "II"}
        Repair the loss in full; at most by C; or damped by 1/(2C).

    Examples
    --------
    >>> learner = PassiveAggressive(n_classes=3, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, label=2)
    'accepted'
    >>> learner.flush()
    >>> learner.weights[:, 0].tolist()
    [-0.5, 0.0, 0.5]
    """

    name = "passive_aggressive"
    remark = "is told the true label, not only right or wrong"
    rule = Rule(name, Params, follow_greedily, step, ScoringState, scoring_state, observation=true_label)
    feedback_type = "label"
    grid = {"C": (inf, 1.0, 0.25, 2.0**-4, 2.0**-6, 2.0**-8), "variant": ("I", "II")}

    def __init__(
        self, n_classes: int, n_features: int, *, C: float = inf, variant: str = "PA", **common: Unpack[Common]
    ) -> None:
        self.C, self.variant, cap, slack = read_aggression(C, variant)
        super().__init__(
            n_classes, n_features, Params(cap, slack, check_integer("n_classes", n_classes, at_least=2)), common
        )
