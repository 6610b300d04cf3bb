"""What a learner would do, and why: it explores nothing and changes nothing."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.learners.rows import as_kind_of_row
from delaytron.learners.scoring import new_scratch
from delaytron.learners.standardize import seen_row
from delaytron.records import Array, Ints, Row

if TYPE_CHECKING:
    from delaytron.learners.base import Learner


class Contributions(NamedTuple):
    """The scores of one row in parts: `constant` has one number for each class, `parts` a column for each feature.

    The features are those of the row: all of a dense one, the non-zeros of a sparse one. A score is the constant plus
    the sum of its parts.
    """

    constant: Array
    parts: Array


Room = dict[str, Array]


def room_to_look(learner: "Learner") -> Room:
    """Return fresh room for what a learner computes on the way; one who looks often keeps it."""
    fields = {name: getattr(learner.state, name) for name in learner.rule.scratch}
    return {name: np.zeros(field.shape, field.dtype) for name, field in fields.items()}


def with_own_scratch(learner: "Learner", room: Room | None = None) -> Any:
    """Return the state with room of its own for what is computed on the way, so that looking leaves no trace."""
    return learner.state._replace(**(room_to_look(learner) if room is None else room))


def look(learner: "Learner", row: Row, allowed: Ints, room: Room | None = None) -> tuple[int, Array]:
    """Return the greedy label, and with which probability each label would be played."""
    if learner.rule.peek is None:
        raise InvalidInput(f"{learner.name} plays sets of labels: a single label has no probability; look at scores(x)")
    scores, p = new_scratch(learner.n_classes)
    seen = as_kind_of_row(row, learner.n_features, learner.sparse)
    greedy = learner.rule.peek.compiled(with_own_scratch(learner, room), learner.params, seen, allowed, scores, p)
    return int(greedy), p


def contributions_of(learner: "Learner", row: Row, W: Array) -> Contributions:
    """Return the parts of the scores W x of a row, or of the standardised row if the learner sees that."""
    K = learner.n_classes
    if learner.rule.standardizes:
        return _standardized_contributions(learner, row, W)
    parts = W * row.values if row.indices is None else (W[row.indices, :K] * row.values[:, None]).T
    return Contributions(np.zeros(K), np.ascontiguousarray(parts))


def _standardized_contributions(learner: "Learner", row: Row, W: Array) -> Contributions:
    """Features that a sparse row does not have count for the constant: standardised, a zero is something, too."""
    every = W * seen_row(learner, row)
    features = np.arange(learner.n_features) if row.indices is None else row.indices
    parts = every[:, features]
    others = np.delete(every, features, axis=1)
    return Contributions(others.sum(axis=1), np.ascontiguousarray(parts))
