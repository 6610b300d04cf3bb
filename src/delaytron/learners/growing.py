"""A class that comes later: the state of a learner with room for one more."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.kernels.linear import zero_weights
from delaytron.learners.average import Average
from delaytron.learners.fixed import stored_as
from delaytron.learners.rule import no_runs, stack
from delaytron.learners.scoring import new_scratch
from delaytron.records import Size

if TYPE_CHECKING:
    from delaytron.learners.base import Learner

Axes: TypeAlias = dict[str, list[int]]  # of every field, those along which classes stand

MANY = 16  # so many more classes make every axis of classes longer by as many, padded or not


def add_class(learner: "Learner") -> int:
    """Give a learner one more class, of which it knows nothing; return its label."""
    K = learner.n_classes
    if not learner.rule.grows:
        raise InvalidInput(
            f"{learner.name} cannot take another class while it learns; make a new one with n_classes={K + 1}"
        )
    twin = type(learner)(**learner.settings() | {"n_classes": K + 1})
    size = twin.size(learner.sparse)
    axes = _axes_of(twin, size)
    state = _grown(learner, twin, size, axes)
    if twin.rule.begin_class is not None:
        twin.rule.begin_class(state, K)
    new: dict[str, Any] = {stored_as("n_classes"): K + 1, "params": twin.params, "rule": twin.rule, "state": state}
    new |= {"_labels": twin._labels, "scratch": (*new_scratch(K + 1), learner._marks)}
    new |= {"_is_compiled": False, "_run_reward": None}
    if learner.average:
        room = zero_weights(1, size)[0]
        new["_average"] = Average(_copy_classes(learner._average.total, room, axes["W"], K))
    vars(learner).update(new)  # all at once: compiled code trusts that they fit
    return K


def _grown(learner: "Learner", twin: "Learner", size: Size, axes: Axes) -> Any:
    """Return the state of the twin with all that the learner knows."""
    stacked = twin.rule.init(stack(twin.params), size)
    fields = {name: field[0] for name, field in stacked._asdict().items()}
    for name, field in fields.items():
        fields[name] = _copy_classes(getattr(learner.state, name), field, axes[name], learner.n_classes)
    return type(stacked)(**fields)


def _copy_classes(old: Any, new: Any, axes: list[int], n_classes: int) -> Any:
    """Write what was known to a new field: along an axis of classes, the first `n_classes` entries."""
    part = tuple(slice(n_classes) if axis in axes else slice(None) for axis in range(new.ndim))
    new[part] = old[part]
    return new


def _axes_of(twin: "Learner", size: Size) -> Axes:
    """Return for every field of a state along which of its axes the classes stand; raise if not one after another."""
    params = no_runs(twin.params)
    some = twin.rule.init(params, size)
    more = twin.rule.init(params, size._replace(n_classes=size.n_classes + MANY))
    longer = {name: np.subtract(getattr(more, name).shape, getattr(some, name).shape)[1:] for name in some._fields}
    if not all(np.isin(by, (0, MANY)).all() for by in longer.values()):
        raise InvalidInput(f"{twin.name} with these settings cannot take another class; use matrix='diagonal'")
    return {name: np.flatnonzero(by).tolist() for name, by in longer.items()}
