"""Learners by their names in the registry."""

from collections.abc import Mapping
from typing import Any

from delaytron.checks import check_choice, shown
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS
from delaytron.learners.base import Learner
from delaytron.learners.options import COMMON, own_parameters


def make_named(
    learner: Any, parameters: Mapping[str, Any] | None, n_classes: int, n_features: int, seed: int | None
) -> Learner:
    """Return a learner by its name, with its parameters by theirs.

    Examples
    --------
    >>> make_named("delaytron", {"gamma": 0.25}, n_classes=3, n_features=4, seed=7)
    Delaytron(n_classes=3, n_features=4, gamma=0.25, eta=1.0, seed=7)
    >>> make_named("delaytron", {"lr": 0.25}, n_classes=3, n_features=4, seed=7)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: a parameter of delaytron must be one of gamma, eta, ...; got 'lr'
    """
    cls: Any = LEARNERS[check_choice("learner", learner, LEARNERS)]
    if not isinstance(parameters, Mapping | None):
        raise InvalidInput(f"parameters must be a dict, as in {{'gamma': 0.1}}, or None; got {shown(parameters)}")
    known = [*own_parameters(cls), *(name for name in COMMON if name != "seed")]
    for name in parameters or {}:
        check_choice(f"a parameter of {cls.name}", name, known)
    made: Learner = cls(n_classes, n_features, seed=seed, **(parameters or {}))
    return made
