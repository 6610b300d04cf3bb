"""Decisions: one, or many as if one after another, in one batch."""

from collections.abc import Iterable
from typing import Any

from delaytron.errors import InvalidInput
from delaytron.journal.clock import Moment
from delaytron.journal.ids import check_id, new_ids
from delaytron.matrices import check_matrix
from delaytron.model import facts
from delaytron.model.classes import Name
from delaytron.model.fixed import VectorEncoder
from delaytron.model.keeper import Keeper
from delaytron.records import Decision, Ints, Row


def check_unused(keeper: Keeper, id: str) -> str:
    """Return an id that was never issued, or raise."""
    if keeper.store.status(check_id(id)) is not None:
        raise InvalidInput(f"id {id!r} was issued before; ids are never reused: give another one, or none")
    return id


def decide_one(keeper: Keeper, now: Moment, row: Row, id: str, labels: Ints, restricted: bool) -> Decision[str, Name]:
    """Play a round and write the fact of it; the id is new."""
    core = keeper.core
    play = core.decide(id, row, labels, now)
    keeper.store.open_id(id, play.label)
    if keeper.keeps_facts:
        keeper.note(facts.DECIDED, id, facts.encode_decided(play, labels if restricted else None), now)
    names = core.classes.names
    return Decision(id, play.round, names[play.label], names[play.greedy], play.prob)


def decide_many(keeper: Keeper, xs: Any, ids: Any, allowed: Any) -> list[Decision[str, Name]]:
    """Choose a class for each of many."""
    if isinstance(keeper.encoder, VectorEncoder) and keeper.core.wait is None and len(xs) > 0:
        rows: Any = check_matrix(xs, keeper.encoder.n_features)
        count = rows.shape[0]
        decide = _decide_together
    else:
        rows = [keeper.encoder.encode(x) for x in xs]
        count = len(rows)
        decide = _decide_in_turn
    given = new_ids(count) if ids is None else check_ids(ids, count)
    return keeper.run(lambda now: decide(keeper, now, rows, _unused(keeper, given, ids), allowed), decides=1)


def check_ids(ids: Iterable[str], count: int) -> list[str]:
    """Return as many different ids, or raise."""
    checked = [check_id(given) for given in ids]
    if len(checked) != count or len(set(checked)) < count:
        came = f"{len(checked)}, of which {len(set(checked))} are different"
        raise InvalidInput(f"ids must be {count} different ones, one for each x; got {came}")
    return checked


def _unused(keeper: Keeper, ids: list[str], given: Any) -> list[str]:
    """Return the ids; raise if one of those that the caller gave was issued before."""
    for issued in ids if given is not None else ():
        check_unused(keeper, issued)
    return ids


def _decide_in_turn(
    keeper: Keeper, now: Moment, rows: list[Row], ids: list[str], allowed: Any
) -> list[Decision[str, Name]]:
    labels = keeper.core.classes.allowed(allowed)
    made = []
    for row, issued in zip(rows, ids, strict=True):
        keeper.expire_due(now, decides=1)
        made.append(decide_one(keeper, now, row, issued, labels, allowed is not None))
    return made


def _decide_together(keeper: Keeper, now: Moment, rows: Any, ids: list[str], allowed: Any) -> list[Decision[str, Name]]:
    """Play all rounds in one call of compiled code."""
    core = keeper.core
    labels = core.classes.allowed(allowed)
    first = core.rounds + 1
    greedy, label, prob = core.decide_many(ids, rows, labels, now)
    keeper.store.open_ids(ids, label)
    if keeper.keeps_facts:
        _note_all(keeper, now, ids, first, labels if allowed is not None else None)
    names = core.classes.names
    numbers = range(first, first + len(ids))
    return list(map(Decision, ids, numbers, map(names.__getitem__, label), map(names.__getitem__, greedy), prob))


def _note_all(keeper: Keeper, now: Moment, ids: list[str], first: int, allowed: Ints | None) -> None:
    ledger = keeper.core.learner.ledger
    for number, issued in enumerate(ids, start=first):
        keeper.note(facts.DECIDED, issued, facts.encode_decided(ledger.play(number), allowed), now)
