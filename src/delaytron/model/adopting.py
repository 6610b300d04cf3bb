"""Decisions that were made elsewhere: by a log's policy, or by another machine with an older state of this model."""

from typing import NamedTuple

import numpy as np

from delaytron.checks import shown
from delaytron.errors import InvalidInput
from delaytron.journal.clock import Moment
from delaytron.journal.ids import check_id, issued_before
from delaytron.learners.looking import look
from delaytron.model import facts
from delaytron.model.keeper import Keeper
from delaytron.records import Array, Ints, Play, Row

NOTHING_NOTED = np.empty(0)


class Elsewhere(NamedTuple):
    """What was chosen elsewhere: the label, and its probability among those allowed (None: all).

    `greedy` is the label that looked best there, and `extra` what the learner noted; None and nothing if unknown.
    """

    row: Row
    label: int
    prob: float
    allowed: Ints | None = None
    greedy: int | None = None
    extra: Array = NOTHING_NOTED


def adopt(keeper: Keeper, now: Moment, id: str, chosen: Elsewhere) -> Play:
    """Take a decision in as one's own: its answer will be learned from as it should be, by its probability."""
    if keeper.store.status(check_id(id)) is not None:
        raise issued_before(id)
    if not 0 < chosen.prob <= 1:
        raise InvalidInput(
            f"the probability of decision {id!r} must be above 0 and at most 1, got {shown(chosen.prob)}"
        )
    labels = keeper.core.classes.allowed(None) if chosen.allowed is None else chosen.allowed
    greedy = look(keeper.core.learner, chosen.row, labels)[0] if chosen.greedy is None else chosen.greedy
    keeper.expire_due(now, keeper.core.rounds + 1)
    keeper.begin_change()
    play = keeper.core.adopt(id, Play(0, chosen.row, greedy, chosen.label, chosen.prob, chosen.extra), now)
    keeper.store.open_id(id, play.label, keeper.store.last_seq + 1)
    keeper.note_decision(facts.ADOPTED, id, play, chosen.allowed, now)
    return play
