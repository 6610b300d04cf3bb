"""Copies of learners, as `copy`, `pickle`, joblib and multiprocessing make them."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from delaytron.learners.base import Learner

MADE_ANEW = {"rule", "scratch"}  # what the constructor gives to the copy: the one cannot be pickled, the other need not

Recipe: TypeAlias = "tuple[Any, tuple[type[Learner], dict[str, Any]], dict[str, Any]]"


def reduce_learner(learner: "Learner") -> Recipe:
    """Return what `__reduce__` must: a learner with the same settings is made, and takes over all but rule and scratch.

    The rule of some learners depends on their settings. It is found again, not copied: it consists of functions, and
    runs are grouped by its identity.
    """
    taken = {name: value for name, value in vars(learner).items() if name not in MADE_ANEW}
    return make_learner, (type(learner), learner.settings()), taken


def make_learner(cls: "type[Learner]", settings: Any) -> "Learner":
    """Return a learner with these settings."""
    return cls(**settings)


def take_over(learner: "Learner", taken: dict[str, Any]) -> None:
    """Do what `__setstate__` must; arrays that another process only lends (joblib does) are copied."""
    vars(learner).update(taken)
    learner.state = type(learner.state)(*map(_own, learner.state))
    if learner.average:
        learner._average.total = _own(learner._average.total)


def _own(field: Any) -> Any:
    return field if field.flags.writeable else np.array(field)
