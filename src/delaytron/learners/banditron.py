"""Banditron (Kakade, Shalev-Shwartz and Tewari, 2008): Delaytron with step 1, usually run without delay."""

from typing import Any, NamedTuple, Unpack

from delaytron.checks import check_exploration
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import explore_greedily
from delaytron.kernels.updates import banditron_revision, banditron_update
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, Common
from delaytron.learners.rule import Rule
from delaytron.records import Play


class Params(NamedTuple):
    """Exploration rate."""

    gamma: float


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """W += U~."""
    banditron_update(state.W, 1.0, past, answer)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:  # noqa: ARG001
    """Add the part of U~ that a "right" has and a "wrong" has not."""
    banditron_revision(state.W, 1.0, past, reward)


class Banditron(Learner):
    r"""Banditron, the paper's reference without delay; answered late it is Delaytron with step 1.

    .. math:: W \leftarrow W + x \otimes \left( \frac{1[\tilde y = y]}{P(\tilde y)} e_{\tilde y} - e_{\hat y} \right)

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].

    Examples
    --------
    >>> learner = Banditron(n_classes=2, n_features=2, gamma=0.5, seed=1)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=False)
    'accepted'
    >>> learner.flush()
    >>> learner.weights[decision.greedy].tolist()
    [-1.0, 0.0]
    """

    name = "banditron"
    takes_rewards = True
    rule = Rule(name, Params, explore_greedily, step, revise=revise)

    def __init__(
        self, n_classes: int, n_features: int, *, gamma: float = DEFAULT_GAMMA, **common: Unpack[Common]
    ) -> None:
        self.gamma = check_exploration(gamma)
        super().__init__(n_classes, n_features, Params(self.gamma), common)
