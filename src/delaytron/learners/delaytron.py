"""Delaytron (Algorithm 1): Banditron's update with a constant step, whenever the answer comes."""

from typing import Any, NamedTuple, Unpack

from delaytron.checks import check_exploration, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import explore_greedily
from delaytron.kernels.updates import banditron_revision, banditron_update
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, Common
from delaytron.learners.rule import Rule
from delaytron.records import Play


class Params(NamedTuple):
    """Exploration rate and step size."""

    gamma: float
    eta: float


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """W += eta U~ (Algorithm 1, line 11)."""
    banditron_update(state.W, params.eta, past, answer)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Add the part of eta U~ that a "right" has and a "wrong" has not."""
    banditron_revision(state.W, params.eta, past, reward)


class Delaytron(Learner):
    r"""Delaytron, the paper's Algorithm 1.

    .. math::
        W \leftarrow W + \eta \sum_{s \in S_t} \tilde U^s, \qquad
        \tilde U^s = x_s \otimes \Big( \frac{1[\tilde y_s = y_s]}{P_s(\tilde y_s)} e_{\tilde y_s} - e_{\hat y_s} \Big)

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1]; the paper's theory wants at most 1/2.
    eta : float
        Step size. From W = 0 it scales the weights and changes no decision.

    Examples
    --------
    >>> learner = Delaytron(n_classes=3, n_features=2, gamma=0.1, seed=7)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.pending
    1
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    """

    name = "delaytron"
    takes_rewards = True
    rule = Rule(name, Params, explore_greedily, step, revise=revise)

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        eta: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.eta = check_scale("eta", eta)
        super().__init__(n_classes, n_features, Params(self.gamma, self.eta), common)
