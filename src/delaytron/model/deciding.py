"""Decisions: one, or many at once, as if one after another in one batch."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from delaytron.errors import InvalidInput
from delaytron.journal.clock import Moment
from delaytron.journal.ids import check_id, new_id
from delaytron.model.classes import Name
from delaytron.model.keeper import Keeper
from delaytron.model.values import shown
from delaytron.records import Decision, Ints, Row


def decide(keeper: Keeper, x: Any, id: Any, allowed: Any) -> Decision[str, Name]:
    """Choose a class."""

    def chosen(now: Moment) -> Decision[str, Name]:
        row = keeper.encoder.encode(x)
        labels = keeper.core.classes.allowed(allowed)
        name = new_id() if id is None else _check_unused(keeper, id)
        return _decide_one(keeper, now, row, name, labels, allowed is not None)

    return keeper.run(chosen)


def decide_many(keeper: Keeper, xs: Any, ids: Any, allowed: Any) -> list[Decision[str, Name]]:
    """Choose a class for each of many."""
    listed = _listed("xs", xs)

    def chosen(now: Moment) -> list[Decision[str, Name]]:
        rows = [keeper.encoder.encode(x) for x in listed]
        labels = keeper.core.classes.allowed(allowed)
        names = [new_id() for _ in rows] if ids is None else _check_ids(keeper, ids, len(rows))
        restricted = allowed is not None
        return [_decide_one(keeper, now, row, name, labels, restricted) for row, name in zip(rows, names, strict=True)]

    return keeper.run(chosen)


def _decide_one(keeper: Keeper, now: Moment, row: Row, id: str, labels: Ints, restricted: bool) -> Decision[str, Name]:
    play = keeper.decide(id, row, labels, now, restricted=restricted)
    names = keeper.core.classes.names
    return Decision(id, play.round, names[play.label], names[play.greedy], play.prob)


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        raise InvalidInput(f"{name} must be a list, one for each decision; got {shown(given)}")
    return list(given)


def _check_ids(keeper: Keeper, ids: Any, count: int) -> list[str]:
    """Return as many different ids, none of which was issued, or raise."""
    checked = [_check_unused(keeper, given) for given in _listed("ids", ids)]
    if len(checked) != count:
        raise InvalidInput(f"ids must be one for each of the {count} xs, got {len(checked)}")
    if len(set(checked)) < count:
        raise InvalidInput(f"ids must all be different, got {Counter(checked).most_common(1)[0][0]!r} twice")
    return checked


def _check_unused(keeper: Keeper, id: Any) -> str:
    """Return an id that was never issued, or raise."""
    checked = check_id(id)
    if keeper.store.status(checked) is not None:
        raise InvalidInput(f"id {checked!r} was issued before; ids are never reused: give another one, or none")
    return checked
