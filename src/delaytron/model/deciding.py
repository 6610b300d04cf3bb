"""Decisions: one, or many at once, as if one after another in one batch."""

from collections import Counter
from collections.abc import Iterable, Sized
from typing import Any, NamedTuple

from delaytron.checks import shown
from delaytron.errors import InvalidInput
from delaytron.journal.clock import Moment
from delaytron.journal.ids import check_id, issued_before, new_id, new_ids
from delaytron.matrices import check_matrix, is_sparse
from delaytron.model.classes import Name
from delaytron.model.fixed import VectorEncoder
from delaytron.model.keeper import Keeper
from delaytron.records import Decision, Ints, Row


class Checked(NamedTuple):
    """What is to be decided, checked: nothing can be wrong with it any more."""

    row: Row
    id: str
    labels: Ints
    restricted: bool


def check(keeper: Keeper, x: Any, id: Any, allowed: Any) -> Checked:
    """Return what is to be decided, or raise."""
    row = keeper.encoder.encode(x)
    labels = keeper.core.classes.allowed(allowed)
    return Checked(row, new_id() if id is None else _check_unused(keeper, id), labels, allowed is not None)


def decide(keeper: Keeper, now: Moment, x: Any, id: Any, allowed: Any) -> Decision[str, Name]:
    """Choose a class."""
    return decide_checked(keeper, now, check(keeper, x, id, allowed))


def decide_many(keeper: Keeper, xs: Any, ids: Any, allowed: Any) -> list[Decision[str, Name]]:
    """Choose a class for each of many."""
    encoder = keeper.encoder
    if isinstance(encoder, VectorEncoder) and keeper.core.wait is None and _has_rows(xs):
        vectors: Any = check_matrix(xs, encoder.n_features)
        return keeper.run(lambda now: _decide_together(keeper, now, vectors, ids, allowed))
    listed = _listed("xs", xs)

    def chosen(now: Moment) -> list[Decision[str, Name]]:
        rows = [keeper.encoder.encode(x) for x in listed]
        labels = keeper.core.classes.allowed(allowed)
        names = _ids_for(keeper, ids, len(rows))
        restricted = allowed is not None
        checked = [Checked(row, name, labels, restricted) for row, name in zip(rows, names, strict=True)]
        return [decide_checked(keeper, now, one) for one in checked]

    return keeper.run(chosen)


def _has_rows(xs: Any) -> bool:
    return is_sparse(xs) or (isinstance(xs, Sized) and getattr(xs, "ndim", 1) > 0 and len(xs) > 0)


def _decide_together(keeper: Keeper, now: Moment, vectors: Any, ids: Any, allowed: Any) -> list[Decision[str, Name]]:
    """Play all rounds in one call of compiled code: nothing expires between them."""
    labels = keeper.core.classes.allowed(allowed)
    issued = _ids_for(keeper, ids, vectors.shape[0])
    first = keeper.core.rounds + 1
    greedy, label, prob = keeper.decide_many(issued, vectors, labels, now, restricted=allowed is not None)
    names = keeper.core.classes.names
    numbers = range(first, first + len(issued))
    return list(map(Decision, issued, numbers, map(names.__getitem__, label), map(names.__getitem__, greedy), prob))


def _ids_for(keeper: Keeper, ids: Any, count: int) -> list[str]:
    return new_ids(count) if ids is None else _check_ids(keeper, ids, count)


def decide_checked(keeper: Keeper, now: Moment, wanted: Checked) -> Decision[str, Name]:
    """Choose a class."""
    play = keeper.decide(wanted.id, wanted.row, wanted.labels, now, restricted=wanted.restricted)
    names = keeper.core.classes.names
    return Decision(wanted.id, play.round, names[play.label], names[play.greedy], play.prob)


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
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
        raise issued_before(checked)
    return checked
