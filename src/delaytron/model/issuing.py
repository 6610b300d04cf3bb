"""Decisions that the model does not keep: what the answer will need travels with the one who will bring it."""

from typing import NamedTuple

from delaytron.journal.answers import read_value, reply_to_token
from delaytron.journal.clock import Moment
from delaytron.model import facts
from delaytron.model.answering import Given
from delaytron.model.classes import Name
from delaytron.model.deciding import Checked
from delaytron.model.keeper import Keeper
from delaytron.records import Decision


class Issued(NamedTuple):
    """A decision to be handed out: what the caller gets to know, and what the answer will need."""

    decision: Decision[str, Name]
    told: facts.Decided
    now: Moment


def issue(keeper: Keeper, now: Moment, wanted: Checked) -> Issued:
    """Choose a class, and keep nothing of it but that the round was played."""
    keeper.expire_due(now, keeper.core.rounds + 1)
    keeper.begin_change()
    play = keeper.core.issue(wanted.row, wanted.labels)
    restricted = wanted.labels if wanted.restricted else None
    keeper.note_decision(facts.ISSUED, wanted.id, play, restricted, now)
    names = keeper.core.classes.names
    decision = Decision(wanted.id, play.round, names[play.label], names[play.greedy], play.prob)
    return Issued(decision, facts.decided(play, restricted), now)


def redeem(keeper: Keeper, now: Moment, id: str, told: facts.Decided, decided: Moment, given: Given) -> str:
    """Take the answer to a decision that was handed out; return "applied", or "duplicate"."""
    answering = keeper.core.answering
    value = read_value(answering, *given, told.label)
    said = reply_to_token(id, keeper.core.answer_to_token(told.round), value)
    if said == "applied":
        keeper.begin_change()
        keeper.core.redeem(told.play, value, now.clock - decided.clock)
        keeper.note(facts.REDEEMED, id, facts.encode(facts.Redeemed(value, told, *decided)), now)
    return said
