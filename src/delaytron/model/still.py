"""A model at one moment: copied in some milliseconds, and packed as a snapshot while the model itself goes on."""

from copy import copy, deepcopy
from typing import Any, NamedTuple

import numpy as np

from delaytron.learners.base import Learner
from delaytron.learners.ledger import Ledger
from delaytron.model.classes import Classes
from delaytron.model.core import Core
from delaytron.model.making import Recipe
from delaytron.model.snapshots import compress, pack_core


class Still(NamedTuple):
    """What a model knows after a fact."""

    seq: int
    core: Core
    recipe: Recipe
    names: Any

    def packed(self) -> bytes:
        """Return it as a journal keeps it."""
        return compress(pack_core(self.core, self.recipe, {"names": self.names}))


def still_copy(core: Core) -> Core:
    """Return a copy that can be packed, and nothing else. What never changes is shared: rows, decisions, settings."""
    twin = copy(core)
    twin.learner = _still_learner(core.learner)
    twin.classes = Classes(list(core.classes.names), list(core.classes.retired))
    twin.open = dict(core.open)
    twin.lapsed = dict(core.lapsed)
    twin.tally = deepcopy(core.tally)
    return twin


def _still_learner(learner: Learner) -> Learner:
    twin: Any = object.__new__(type(learner))
    changing: dict[str, Any] = {
        "state": type(learner.state)(*map(np.array, learner.state)),
        "ledger": _still_ledger(learner.ledger),
        "_marks": np.array(learner._marks),
    }
    if learner.average:
        changing["_average"] = deepcopy(learner._average)
    vars(twin).update(vars(learner) | changing)
    still: Learner = twin
    return still


def _still_ledger(ledger: Ledger) -> Ledger:
    twin = copy(ledger)
    twin.plays = dict(ledger.plays)
    twin.answers = ledger.answers[:]
    twin.arrived = dict(ledger.arrived)
    return twin
