"""How a model looks in a notebook."""

from collections.abc import Iterator
from typing import Any

from delaytron.model.core import Core
from delaytron.model.keeper import Keeper
from delaytron.notebooks import facts, page, table

COLUMNS = ("class", "chosen", "answered", "mean reward")


def show(keeper: Keeper) -> str:
    """Return what a model has counted so far, also of one that is closed."""
    core, asked = keeper.core, keeper.recipe.asked
    answered = sum(core.tally.answered)
    counts = {
        "learner": asked["learner"],
        "features": _form(asked["features"]),
        "decisions": core.rounds,
        "open": len(core.open),
        "answered": answered,
        "mean reward": sum(core.tally.reward) / answered if answered else None,
        "expired": core.tally.expired,
    }
    return page("Model", facts(counts), table(COLUMNS, _rows(core), len(core.classes.names)))


def _form(features: Any) -> str:
    """Return in a few words which features a model takes."""
    if isinstance(features, int):
        return f"vectors of {features} numbers"
    return features if isinstance(features, str) else f"{len(features)} named numbers: {', '.join(features[:20])}"


def _rows(core: Core) -> Iterator[tuple[Any, ...]]:
    for label, name in enumerate(list(core.classes.names)):
        retired = " (retired)" if label in core.classes.retired else ""
        yield (f"{name}{retired}", *core.tally.of_class(label))
