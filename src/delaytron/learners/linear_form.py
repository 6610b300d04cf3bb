r"""The greedy prediction of a learner as one formula, which other tools can compute.

.. math::
    s = c\, \frac{W z + b}{\|(z, 1)\|}, \qquad z_j = \mathrm{clip}\Big(\frac{x_j - \mu_j}{\sigma_j},\, -5,\, 5\Big)

where the learner standardises its rows; where it does not, s = c (W x + b). The greedy label is the first of those with
the highest (W z + b); c is 1 for all learners but one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.kernels.linear import lanes_of
from delaytron.kernels.standard import CENTRE, INVERSE
from delaytron.learners.bandit_logit import BanditLogit
from delaytron.learners.base import Learner
from delaytron.learners.bold import Bold
from delaytron.learners.exp3 import Exp3
from delaytron.learners.hinge_delaytron import HingeDelaytron, rate
from delaytron.learners.newtron import Newtron
from delaytron.records import Array, Ints


class Standard(NamedTuple):
    """How rows are standardised: the mean of every feature, and one over its deviation (0 if it never varied)."""

    centre: Array
    inverse: Array


class LinearForm(NamedTuple):
    """The formula above: (K, d) weights, K constants, and c; `sharpness` where softmax(sharpness s) means something.

    `lanes` and `sparse` say in which order the learner takes sums, see `kernels.linear.lanes_of`.
    """

    weights: Array
    constant: Array
    standard: Standard | None = None
    scale: float = 1.0
    sharpness: float | None = None
    lanes: int = 4
    sparse: bool = False

    def only(self, labels: Ints) -> "LinearForm":
        """Return the formula for some of the labels."""
        return self._replace(weights=self.weights[labels], constant=self.constant[labels])


def linear_form(learner: Learner) -> LinearForm:
    """Return the formula of `predict` and `scores`.

    Examples
    --------
    >>> import delaytron as dt
    >>> learner = dt.Banditron(n_classes=2, n_features=2, gamma=0.5, seed=0)
    >>> learner.feedback(learner.decide([3.0, 1.0], allowed=[1]).id, correct=False)
    'accepted'
    >>> learner.flush()
    >>> linear_form(learner).weights.tolist()
    [[0.0, 0.0], [-3.0, -1.0]]
    """
    cls = type(learner)
    form = FORMS.get((cls.scores, cls.predict))
    if form is None:
        raise InvalidInput(
            f"{cls.__name__} computes its scores in its own way, not by a linear formula; export another learner"
        )
    with learner._lock:
        found = form(learner)
    if not all(np.isfinite(part).all() for part in (found.weights, found.constant, found.scale)):
        raise InvalidInput(
            f"the weights of this {cls.__name__} are not finite: they are of no use; begin with a new one"
        )
    sparse = learner.sparse and found.standard is None
    return found._replace(lanes=lanes_of(learner.n_classes, sparse), sparse=sparse)


def _of_weights(learner: Any) -> LinearForm:
    form = _split(learner, learner.weights)
    return form._replace(sharpness=learner.alpha) if isinstance(learner, Newtron) else form


def _split(learner: Any, W: Array) -> LinearForm:
    """Return the form of these weights, of which the last column is the constant's where rows are standardised."""
    if not learner.rule.standardizes:
        return LinearForm(W, np.zeros(len(W)))
    table = learner.state.row_features
    return LinearForm(W[:, :-1], W[:, -1], Standard(table[CENTRE].copy(), table[INVERSE].copy()))


def _of_theta(learner: Any) -> LinearForm:
    form = _split(learner, learner._matrix(learner.state.W))
    return form._replace(scale=float(rate(learner.state.clock, learner.params)))


def _of_logit(learner: Any) -> LinearForm:
    W = learner.weights_of(learner.state)
    table = learner.state.features.T if learner.sparse else learner.state.features
    return LinearForm(W[:, :-1], W[:, -1], Standard(table[CENTRE].copy(), table[INVERSE].copy()), sharpness=1.0)


def _of_losses(learner: Any) -> LinearForm:
    losses = learner.weights[:, 0]
    return LinearForm(np.zeros((losses.size, learner.n_features)), losses, sharpness=float(learner.state.eta[0]))


def _of_instance(learner: Any) -> LinearForm:
    return linear_form(learner._speaker(learner.state))


FORMS: dict[tuple[Any, Any], Callable[[Any], LinearForm]] = {  # by the methods whose results it must equal
    (Learner.scores, Learner.predict): _of_weights,
    (Learner.scores, HingeDelaytron.predict): _of_theta,
    (BanditLogit.scores, Learner.predict): _of_logit,
    (Exp3.scores, Learner.predict): _of_losses,
    (Bold.scores, Bold.predict): _of_instance,
}
