"""What is read of a journal that another process may own: its recipe, and facts beside the table of ids."""

import json
from collections.abc import Callable

from delaytron.checks import reason_of
from delaytron.errors import JournalError
from delaytron.journal.records import ANSWERED, CANCELLED, EXPIRED, Fact, Status
from delaytron.journal.view import JournalView
from delaytron.learners.files import UNREADABLE
from delaytron.model import facts
from delaytron.model.core import Core
from delaytron.model.making import Recipe, make_core

WORDS = ("open", "answered", "expired", "cancelled")  # by the numbers that a journal has for them


def begin(view: JournalView) -> tuple[Recipe, Core]:
    """Return what a journal was made for, and a model of this kind that knows nothing yet."""
    try:
        recipe = Recipe(**json.loads(view.config)["recipe"])
        return recipe, make_core(recipe)
    except UNREADABLE as problem:
        step = "update delaytron, or restore it from a backup"
        told = f"has no configuration that this version can read: {reason_of(problem)}"
        raise JournalError(f"{view.path} {told}; {step}") from None


def check_fact(fact: Fact, known: Status | None, as_wrong: bool) -> None:
    """Raise if the table of ids has something else of a fact's decision; it has the last word of each decision.

    Where decisions expire `as_wrong`, one that had expired may have been answered later.
    """
    agrees = CHECKS.get(fact.kind)
    if agrees is not None and (known is None or not agrees(fact.body, known, as_wrong)):
        raise JournalError(f"the table of ids has {_told(known)}")


def kind_of(kind: int) -> str:
    """Return the name of a kind of facts."""
    return facts.KINDS[kind] if 0 <= kind < len(facts.KINDS) else f"kind {kind}"


def _agrees_decided(body: bytes, known: Status, _: bool) -> bool:
    return facts.decode_decided(body).label == known.label


def _agrees_answered(body: bytes, known: Status, _: bool) -> bool:
    value = facts.decode(body)
    return known.status == ANSWERED and isinstance(value, float) and value == known.value


def _agrees_expired(_: bytes, known: Status, as_wrong: bool) -> bool:
    return known.status == EXPIRED or (as_wrong and known.status == ANSWERED)


def _agrees_cancelled(_: bytes, known: Status, __: bool) -> bool:
    return known.status == CANCELLED


def _told(known: Status | None) -> str:
    if known is None:
        return "nothing"
    answer = "" if known.value is None else f" {known.value!r}"
    return f"label {known.label}, {WORDS[known.status]}{answer}"


def _agrees_recorded(body: bytes, known: Status, _: bool) -> bool:
    return known.status == EXPIRED and facts.decode(body) == known.value


CHECKS: dict[int, Callable[[bytes, Status, bool], bool]] = {
    facts.DECIDED: _agrees_decided,
    facts.ANSWERED: _agrees_answered,
    facts.EXPIRED: _agrees_expired,
    facts.CANCELLED: _agrees_cancelled,
    facts.ADOPTED: _agrees_decided,
    facts.RECORDED: _agrees_recorded,
}
