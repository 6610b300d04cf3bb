"""Many decisions at once: as if one after another, in one batch."""

from collections.abc import Iterable
from typing import Any

from delaytron.errors import InvalidInput
from delaytron.journal.clock import Moment
from delaytron.journal.ids import check_id, new_id
from delaytron.model import facts
from delaytron.model.classes import Name
from delaytron.model.keeper import Keeper
from delaytron.records import Decision, Ints, Row


def decide_many(keeper: Keeper, xs: Any, ids: Any, allowed: Any) -> list[Decision[str, Name]]:
    """Choose a class for each of many."""
    rows = [keeper.encoder.encode(x) for x in xs]
    names = [new_id() for _ in rows] if ids is None else check_ids(ids, len(rows))
    return keeper.run(lambda now: _decide_all(keeper, now, rows, names, allowed), decides=1)


def check_ids(ids: Iterable[str], count: int) -> list[str]:
    """Return as many different ids, or raise."""
    checked = [check_id(given) for given in ids]
    if len(checked) != count or len(set(checked)) < count:
        raise InvalidInput(f"ids must be {count} different ones, one for each x; got {len(checked)}, some twice or not")
    return checked


def decide_one(keeper: Keeper, now: Moment, row: Row, id: str, labels: Ints, restricted: bool) -> Decision[str, Name]:
    """Play a round and write the fact of it; the id is new."""
    core = keeper.core
    play = core.decide(id, row, labels, now)
    keeper.store.open_id(id, play.label)
    keeper.note(facts.DECIDED, id, facts.encode_decided(play, labels if restricted else None), now)
    names = core.classes.names
    return Decision(id, play.round, names[play.label], names[play.greedy], play.prob)


def check_unused(keeper: Keeper, id: str) -> str:
    """Return an id that was never issued, or raise."""
    if keeper.store.status(check_id(id)) is not None:
        raise InvalidInput(f"id {id!r} was issued before; ids are never reused: give another one, or none")
    return id


def _decide_all(
    keeper: Keeper, now: Moment, rows: list[Row], ids: list[str], allowed: Any
) -> list[Decision[str, Name]]:
    labels = keeper.core.classes.allowed(allowed)
    for given in ids:
        check_unused(keeper, given)
    made = []
    for row, given in zip(rows, ids, strict=True):
        keeper.expire_due(now, decides=1)
        made.append(decide_one(keeper, now, row, given, labels, allowed is not None))
    return made
