"""Answers to decisions, as the model takes them; and decisions that nobody wants an answer to any more."""

from typing import Any

from delaytron.journal.answers import read_value, reply, reply_to_cancel
from delaytron.journal.clock import Moment
from delaytron.journal.records import EXPIRED, Status
from delaytron.model import facts
from delaytron.model.keeper import Keeper

Given = tuple[Any, Any, Any]  # correct, label, reward: one of them
SAID = {  # to the one who answers a model, by what became of the answer
    "applied": "accepted",
    "late_corrected": "accepted",
    "late_recorded": "expired",
    "late_duplicate": "expired",
    "late_conflict": "expired",
}


def answer(keeper: Keeper, now: Moment, id: str, given: Given) -> str:
    """Take an answer; return what became of it.

    It is "applied", a "duplicate" or for nobody, since the decision was "cancelled". After expiry it is
    "late_corrected" where the decision had been counted as wrong; else only recorded: "late_recorded" the first time,
    "late_duplicate" or "late_conflict" after that.
    """
    known = keeper.store.status(id)
    answering = keeper.core.answering
    value = read_value(answering, *given, None if known is None else known.label)
    said = reply(id, known, value, answering)
    if known is None or said not in ("accepted", "expired"):
        return said
    if said == "expired":
        return _record(keeper, now, id, known, value)
    keeper.answer(id, value, now)
    return "late_corrected" if known.status == EXPIRED else "applied"


def _record(keeper: Keeper, now: Moment, id: str, known: Status, value: float) -> str:
    """Keep the first answer that comes after nobody waits for it: it teaches nothing, and logs have it."""
    if known.value is not None:
        return "late_duplicate" if known.value == value else "late_conflict"
    keeper.begin_change()
    keeper.store.settle(id, EXPIRED, value)
    keeper.note(facts.RECORDED, id, facts.encode(value), now)
    return "late_recorded"


def cancel(keeper: Keeper, now: Moment, id: str) -> str:
    """Want no answer to a decision; return "cancelled", or "duplicate" if it was already."""
    said = reply_to_cancel(id, keeper.store.status(id))
    if said == "cancelled":
        keeper.cancel(id, now)
    return said
