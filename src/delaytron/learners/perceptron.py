"""The multiclass Perceptron: full information, the yardstick for what bandit feedback costs."""

from typing import Any, NamedTuple, Unpack

from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import follow_greedily
from delaytron.kernels.linear import add_row
from delaytron.learners.base import Learner
from delaytron.learners.options import Common
from delaytron.learners.rule import Rule, true_label
from delaytron.records import Play


class Params(NamedTuple):
    """Nothing to choose; the compiler wants one field all the same."""

    eta: float = 1.0


@kernel
def step(state: Any, params: Any, past: Play, y: int) -> None:
    """On a mistake of the greedy label at prediction time: W[y] += x, W[greedy] -= x."""
    if past.greedy != y:
        add_row(state.W, y, params.eta, past.x.indices, past.x.values)
        add_row(state.W, past.greedy, -params.eta, past.x.indices, past.x.values)


class Perceptron(Learner):
    r"""The Perceptron in Kesler's multiclass form; it is told the true label, late like any feedback.

    .. math:: W \leftarrow W + 1[\hat y \ne y]\; x \otimes (e_y - e_{\hat y})

    Examples
    --------
    >>> learner = Perceptron(n_classes=3, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, label=2)
    'accepted'
    >>> learner.decide([1.0, 0.0]).label
    2
    """

    name = "perceptron"
    remark = "is told the true label, not only right or wrong"
    rule = Rule(name, Params, follow_greedily, step, observation=true_label)
    feedback_type = "label"
    grid = {}

    def __init__(self, n_classes: int, n_features: int, **common: Unpack[Common]) -> None:
        super().__init__(n_classes, n_features, Params(), common)
