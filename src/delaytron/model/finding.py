"""One decision of a journal, found by its id: what was decided, and what became of it."""

from typing import NamedTuple

from delaytron.journal import FactStore
from delaytron.journal.clock import Moment
from delaytron.journal.ids import never_issued
from delaytron.journal.records import Fact, Status
from delaytron.model import facts
from delaytron.model.keeper import Keeper


class Found(NamedTuple):
    """What became of a decision and, unless it was purged, what was decided and when."""

    status: Status
    told: facts.Decided | None
    now: Moment | None


def find_decision(keeper: Keeper, id: str) -> Found:
    """Return what is known of a decision; raise if it was never made."""
    status = keeper.store.status(id)
    if status is None:
        raise never_issued(id)
    fact = _fact(keeper, status)
    return Found(status, None, None) if fact is None else Found(status, facts.decode_decided(fact.body), fact.now)


def _fact(keeper: Keeper, status: Status) -> Fact | None:
    store = keeper.store
    return store.fact(status.seq) if isinstance(store, FactStore) and status.seq is not None else None
