"""The chances of the classes, for learners whose model is a distribution over them."""

from typing import Any

import numpy as np

from delaytron.learners.base import Learner
from delaytron.records import Array

SHARPNESS = {"bandit_logit": None, "newtron": "alpha"}  # by what the scores of a softmax are multiplied, if at all


def has_chances(name: Any) -> bool:
    """Whether the learner of this name models the chance of every class.

    Examples
    --------
    >>> has_chances("bandit_logit"), has_chances("banditron")
    (True, False)
    """
    return isinstance(name, str) and name in SHARPNESS


def chances_of(learner: Learner, X: Any) -> Array:
    """Return for every row how likely each class is the right one, as the learner models it: an (n, K) array.

    That is not with which probability each label would be played: see `Learner.probabilities`.

    Examples
    --------
    >>> import delaytron as dt
    >>> chances_of(dt.BanditLogit(n_classes=2, n_features=1, seed=0), [[3.0]]).tolist()
    [[0.5, 0.5]]
    """
    sharpness = SHARPNESS[learner.name]
    logits = learner.scores(X) * (1.0 if sharpness is None else getattr(learner, sharpness))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
