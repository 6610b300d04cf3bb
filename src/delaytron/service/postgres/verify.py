"""A model played again: the state that the next learner would have, and the one that the facts make from nothing."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from psycopg import IsolationLevel

from delaytron.errors import InvalidInput, JournalError
from delaytron.journal.records import Fact, Snapshot
from delaytron.model.making import Recipe
from delaytron.model.snapshots import digest
from delaytron.service.postgres import queries
from delaytron.service.postgres.connections import reading
from delaytron.service.postgres.folding import FoldedModel

MODEL = "SELECT number, recipe FROM delaytron.models WHERE name = %s"
SNAPSHOTS = "SELECT seq, body FROM delaytron.snapshots WHERE model = %s ORDER BY seq"
COUNTS = "SELECT count(*), coalesce(max(seq), 0) FROM delaytron.facts WHERE model = %s AND seq > %s"
WAITING = "SELECT count(*) FROM delaytron.inbox WHERE model = %s"


class Verified(NamedTuple):
    """What was found: `state` is that of the newest snapshot and the facts after it, `replayed` that of the facts.

    `after` is the fact after which the replay began: 0, unless facts were purged. `waiting` rows are in the inbox.
    """

    state: str
    replayed: str
    facts: int
    after: int
    waiting: int


def verify_model(dsn: str, name: str) -> Verified:
    """Return the digests of both, which must be equal; what was committed when this began is looked at.

    Raises
    ------
    JournalError
        If a fact is missing, or cannot be done again, or PostgreSQL cannot be reached.
    """
    with reading(dsn) as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        rows = connection.execute(MODEL, (name,)).fetchall()
        if not rows:
            raise InvalidInput(f"there is no model {name!r} in this database; check its name")
        return _verify(connection, rows[0][0], Recipe.from_bytes(rows[0][1]))


def _verify(connection: Any, number: int, recipe: Recipe) -> Verified:
    snapshots = [Snapshot(*row) for row in connection.execute(SNAPSHOTS, (number,)).fetchall()]
    begin = _complete(connection, number, [None, *snapshots])
    digests = []
    for snapshot in (snapshots[-1] if snapshots else None, begin):
        model = FoldedModel(number, recipe, snapshot)
        model.replay(_facts(connection, number, model.seq))
        digests.append(digest(model.core, recipe))
    ((waiting,),) = connection.execute(WAITING, (number,)).fetchall()
    after = 0 if begin is None else begin.seq
    return Verified(digests[0], digests[1], model.seq - after, after, waiting)


def _complete(connection: Any, number: int, snapshots: list[Snapshot | None]) -> Snapshot | None:
    """Return the first one after which all facts are there; None is the beginning."""
    for snapshot in snapshots:
        after = 0 if snapshot is None else snapshot.seq
        ((count, last),) = connection.execute(COUNTS, (number, after)).fetchall()
        if count == max(0, last - after):
            return snapshot
    raise JournalError("facts are missing that no snapshot knows; restore the database from a backup")


def _facts(connection: Any, number: int, after: int) -> Iterator[Fact]:
    while rows := connection.execute(queries.FACTS_AFTER, (number, after, queries.PAGE)).fetchall():
        yield from map(queries.as_fact, rows)
        after = rows[-1][0]
