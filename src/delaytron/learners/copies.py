"""Copies of learners, as `copy`, `pickle`, joblib and multiprocessing make them: each of one moment."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from delaytron.learners import rounds

if TYPE_CHECKING:
    from delaytron.learners.stateful import Stateful

MADE_ANEW = {"rule", "scratch", "_lock", "_run_round", "_run_reward"}  # what a copy makes itself

Fields: TypeAlias = "dict[str, Any]"
Recipe: TypeAlias = "tuple[Any, tuple[type[Stateful], Any], Fields]"


def fields_of(learner: "Stateful") -> Fields:
    """Return copies of all that a learner knows, while no other thread changes it."""
    with learner._lock:
        rounds.recover(learner)
        return deepcopy({name: value for name, value in vars(learner).items() if name not in MADE_ANEW})


def reduce_learner(learner: "Stateful") -> Recipe:
    """Return what `__reduce__` must: a learner with the same settings is made, and takes over what this one knows.

    The rule of some learners depends on their settings. It is found again, not copied: it consists of functions, and
    runs are grouped by its identity.
    """
    return make_learner, (type(learner), learner.settings()), fields_of(learner)


def make_learner(cls: "type[Stateful]", settings: Any) -> "Stateful":
    """Return a learner with these settings."""
    return cls(**settings)


def take_over(learner: "Stateful", fields: Fields) -> None:
    """Do what `__setstate__` must; arrays that another process only lends (joblib does) are copied."""
    vars(learner).update(fields)
    learner.state = type(learner.state)(*map(_own, learner.state))
    if learner.average:
        learner._average.total = _own(learner._average.total)
    rounds.use_marks(learner, _own(learner._marks))


def copy_deeply(learner: "Stateful", memo: Any) -> "Stateful":  # noqa: ARG001 - a learner refers to nothing that refers to it
    """Do what `__deepcopy__` must."""
    twin = learner._knowing(learner.sparse, learner.state)
    twin._lock = type(learner._lock)()
    take_over(twin, fields_of(learner))
    return twin


def _own(field: Any) -> Any:
    return field if field.flags.writeable else np.array(field)
