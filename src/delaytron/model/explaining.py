"""What a model would choose, and why; nothing is explored and nothing changes."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from delaytron.learners import looking
from delaytron.model.classes import Name
from delaytron.model.core import Core
from delaytron.model.keeper import Keeper
from delaytron.records import Array, Row


class Look(NamedTuple):
    """The class that looks best, and with which probability each would be chosen."""

    label: Name
    probabilities: dict[Name, float]


class Explanation(NamedTuple):
    """Why a class looks best.

    `scores` has a number for each class; it is the class's `constant` plus what each of the `features` adds to it. The
    features stand in the order of how much they tell the classes apart.
    """

    label: Name
    scores: dict[Name, float]
    constant: dict[Name, float]
    features: dict[str, dict[Name, float]]


def look(keeper: Keeper, x: Any, allowed: Any) -> Look:
    """Return what would be chosen for x."""

    def looked(core: Core) -> Look:
        labels = core.classes.allowed(allowed)
        row = keeper.encoder.encode(x)
        greedy, p = looking.look(core.learner, row, labels)
        if core.learner.average:  # decisions use the last weights, predictions the average
            greedy = int(labels[np.argmax(_scores(*core.learner._contributions(row))[labels])])
        names = core.classes.names
        return Look(names[greedy], {names[label]: float(p[label]) for label in labels.tolist()})

    return keeper.read(looked)


def explain(keeper: Keeper, x: Any) -> Explanation:
    """Return why a class looks best for x."""
    return keeper.read(lambda core: explain_row(core, core.encoder.encode(x)))


def explain_row(core: Core, row: Row) -> Explanation:
    """Return why a class looks best for a row."""
    labels = core.classes.allowed(None)
    names = [core.classes.names[label] for label in labels.tolist()]
    constant, parts = core.learner._contributions(row)
    chosen = parts[labels]
    scores = _scores(constant, parts)[labels]
    spread = np.ptp(chosen, axis=0) if chosen.size else np.empty(0)
    features = _distinct(core.encoder.names_of(row), row)
    order = np.argsort(-spread, kind="stable").tolist()
    return Explanation(
        names[int(np.argmax(scores))],
        dict(zip(names, scores.tolist(), strict=True)),
        dict(zip(names, constant[labels].tolist(), strict=True)),
        {features[j]: dict(zip(names, chosen[:, j].tolist(), strict=True)) for j in order},
    )


def _scores(constant: Array, parts: Array) -> Array:
    scores: Array = constant + parts.sum(axis=1)
    return scores


def _distinct(names: list[str], row: Row) -> list[str]:
    """Return the names of a row, with their indices where two are the same: only the beginning of long ones is kept."""
    counts = Counter(names)
    if len(counts) == len(names):
        return names
    return [name if counts[name] == 1 else f"{name} #{index}" for name, index in zip(names, row.indices, strict=True)]
