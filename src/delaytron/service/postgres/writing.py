"""Decisions, written before anybody gets to know of them; the same request again gets the same."""

from collections.abc import Sequence
from typing import NamedTuple

from psycopg.errors import UniqueViolation

from delaytron.errors import DelaytronError
from delaytron.journal.ids import issued_before
from delaytron.journal.requests import Request
from delaytron.model import facts
from delaytron.service.backend import Repeatable
from delaytron.service.messages import DecisionReply
from delaytron.service.postgres.connections import Connection, Connections
from delaytron.service.postgres.deciding import Made
from delaytron.service.postgres.groups import Groups
from delaytron.service.problems import Unavailable
from delaytron.service.reading import encode_replies, repeated

INSERT = """
WITH request AS (
    INSERT INTO delaytron.requests (model, key, fingerprint, reply)
    SELECT * FROM unnest(%b::int[], %b::text[], %b::bytea[], %b::bytea[])
), known AS (
    INSERT INTO delaytron.ids (model, id, status, label)
    SELECT model, id, 0, label FROM unnest(%b::int[], %b::text[], %b::int[]) AS given (model, id, label)
)
INSERT INTO delaytron.inbox (model, kind, id, body)
SELECT * FROM unnest(%b::int[], %b::smallint[], %b::text[], %b::bytea[])
"""
REQUEST = "SELECT fingerprint, reply FROM delaytron.requests WHERE model = %s AND key = %s"
TAKEN = "SELECT id FROM delaytron.ids WHERE model = %s AND id = ANY(%s) LIMIT 1"


class Writing(NamedTuple):
    """The decisions of a request, to be written."""

    model: int
    made: Made
    repeatable: Repeatable | None


class _TakenError(Exception):
    """An id or a key is there already."""


class DecisionWriter:
    """Writes decisions, those of several requests together."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._groups: Groups[Writing, None] = Groups(self._write)
        self.close = self._groups.close

    async def write(self, writing: Writing) -> list[DecisionReply]:
        """Return the replies of a request when its decisions are on disk."""
        try:
            await self._groups.add(writing)
        except _TakenError:
            return await self._find_again(writing)
        return writing.made.replies

    async def repeat(self, model: int, repeatable: Repeatable | None) -> list[DecisionReply] | None:
        """Return what a request got that came before; None if it did not."""
        if repeatable is None:
            return None
        rows = await self._connections.rows(REQUEST, (model, repeatable.key))
        return repeated(Request(*rows[0]), repeatable) if rows else None

    async def _find_again(self, writing: Writing) -> list[DecisionReply]:
        """Return what the same request got before; else raise what is wrong with it."""
        before = await self.repeat(writing.model, writing.repeatable)
        if before is not None:
            return before
        raise await self._problem(writing)

    async def _problem(self, writing: Writing) -> DelaytronError:
        ids = [entry.id for entry in writing.made.entries]
        rows = await self._connections.rows(TAKEN, (writing.model, ids))
        return issued_before(rows[0][0]) if rows else Unavailable("the decision could not be written; try again")

    async def _write(self, group: list[Writing]) -> Sequence[Exception | None]:
        """Write all together; if something is there already, each alone."""
        try:
            await self._connections.run(lambda connection: _insert(connection, group))
        except UniqueViolation:
            if len(group) == 1:
                return [_TakenError()]
            return [outcome for one in group for outcome in await self._write_alone(one)]
        return [None] * len(group)

    async def _write_alone(self, writing: Writing) -> Sequence[Exception | None]:
        try:
            return await self._write([writing])
        except Unavailable as problem:
            return [problem]


async def _insert(connection: Connection, group: list[Writing]) -> None:
    entries = [(one.model, *entry) for one in group for entry in one.made.entries]
    kept = [entry for entry in entries if entry[1] == facts.ADOPTED]
    requests = [
        (one.model, *one.repeatable, encode_replies(one.made.replies)) for one in group if one.repeatable is not None
    ]
    models, keys, fingerprints, replies = columns(requests, 4)
    kept_models, _, kept_ids, labels, _ = columns(kept, 5)
    all_models, kinds, ids, _, bodies = columns(entries, 5)
    values = (models, keys, fingerprints, replies, kept_models, kept_ids, labels, all_models, kinds, ids, bodies)
    await connection.execute(INSERT, values, binary=True)


def columns(rows: Sequence[tuple[object, ...]], count: int) -> list[list[object]]:
    """Return the columns of rows.

    Examples
    --------
    >>> columns([(1, "a"), (2, "b")], 2), columns([], 2)
    ([[1, 2], ['a', 'b']], [[], []])
    """
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]
