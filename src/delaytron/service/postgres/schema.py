"""PostgreSQL: the tables of the schema `delaytron`, the statements, the connections, and one mapping of errors."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from logging import getLogger
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.errors import UndefinedTable, UniqueViolation
from psycopg.pq import TransactionStatus

from delaytron.answers import Known, Status
from delaytron.errors import DelaytronError, InvalidInput, JournalError
from delaytron.journal.sqlite import checksum
from delaytron.journal.store import Fact
from delaytron.model.facts import RECORDED
from delaytron.records import Moment
from delaytron.service.problems import failed

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]
Rows: TypeAlias = list[tuple[Any, ...]]
T = TypeVar("T")

log = getLogger("delaytron.service")

# Tables

FORMAT = 1
LOCKS = 0x64656C61  # "dela": our advisory locks are (LOCKS, number)
MAKING, LEARNING = 1, 2

TABLES = (
    "CREATE SCHEMA IF NOT EXISTS delaytron",
    # ns since 1970: the clock of the database is the one clock of all machines
    """CREATE FUNCTION delaytron.now() RETURNS bigint LANGUAGE sql VOLATILE AS
        $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint $$""",
    "CREATE TABLE delaytron.meta (name text PRIMARY KEY, value text NOT NULL)",
    # `classes` are the names by label, `retired` some of the labels, both as JSON: front ends change them before the
    # learner has a fact of it
    """CREATE TABLE delaytron.models (
        number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
        recipe bytea NOT NULL, classes text NOT NULL, retired text NOT NULL,
        wall bigint NOT NULL DEFAULT delaytron.now())""",
    # the status of every decision, changed by compare-and-set: the one that changes a row writes the fact to the inbox
    """CREATE TABLE delaytron.ids (
        model int NOT NULL, id text COLLATE "C" NOT NULL, status smallint NOT NULL, value float8, label int NOT NULL,
        correctable bool NOT NULL DEFAULT false, purged bool NOT NULL DEFAULT false, digest bytea,
        PRIMARY KEY (model, id)) WITH (fillfactor = 90)""",
    # what becomes facts: the `place` of a row is above those of all rows that were committed before it was written
    """CREATE TABLE delaytron.inbox (
        place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, model int NOT NULL, kind smallint NOT NULL,
        id text COLLATE "C", wall bigint NOT NULL DEFAULT delaytron.now(), body bytea NOT NULL)
        WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000)""",
    "CREATE INDEX waiting ON delaytron.inbox (model, id)",
    """CREATE TABLE delaytron.facts (
        model int NOT NULL, seq bigint NOT NULL, kind smallint NOT NULL, id text COLLATE "C", wall bigint NOT NULL,
        clock bigint NOT NULL, body bytea NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (model, seq))""",
    f"CREATE INDEX decisions ON delaytron.facts (model, id) WHERE kind = {RECORDED}",
    # the whole state after a fact, for the next learner; and the part of it that front ends need
    """CREATE TABLE delaytron.snapshots (
        model int NOT NULL, seq bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (model, seq))""",
    """CREATE TABLE delaytron.published (
        model int PRIMARY KEY, seq bigint NOT NULL, wall bigint NOT NULL, body bytea NOT NULL, names bytea)""",
    # idempotency keys
    """CREATE TABLE delaytron.replies (
        model int NOT NULL, key text COLLATE "C" NOT NULL, fingerprint bytea NOT NULL, reply bytea NOT NULL,
        wall bigint NOT NULL DEFAULT delaytron.now(), PRIMARY KEY (model, key))""",
    "CREATE INDEX old ON delaytron.replies (wall)",
    *(
        f"ALTER TABLE delaytron.{table} ALTER COLUMN body SET STORAGE EXTERNAL"  # it is compressed
        for table in ("snapshots", "published")
    ),
)


async def make_tables(connection: Connection) -> None:
    """Create the tables if there are none; raise InvalidInput if they are not ours, or of another format."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, MAKING))
        ((missing,),) = await fetch(connection, "SELECT to_regclass('delaytron.meta') IS NULL")
        if not missing:
            found = await fetch(connection, "SELECT value FROM delaytron.meta WHERE name = 'format'")
            if not found or not str(found[0][0]).isdigit():
                raise InvalidInput(
                    "the schema delaytron of this database is of another program", "give another database"
                )
            if int(found[0][0]) != FORMAT:
                raise InvalidInput(
                    f"the tables are of format {found[0][0]}, this version reads {FORMAT}",
                    "update delaytron, or use the version that made them",
                )
            return
        ((encoding,),) = await fetch(connection, "SHOW server_encoding")
        if encoding != "UTF8":
            raise InvalidInput(f"the database must have the encoding UTF8, it has {encoding}", "make another database")
        for statement in TABLES:
            await connection.execute(statement)
        await connection.execute("INSERT INTO delaytron.meta VALUES ('format', %s)", (str(FORMAT),))


# Statements of front ends

CLOCK = "SELECT delaytron.now()"
MODELS = """
SELECT delaytron.now(), coalesce(seq, 1), classes, retired, number, name, recipe
FROM delaytron.models LEFT JOIN delaytron.published ON model = number
"""
ONE_MODEL = MODELS + "WHERE name = %s"
STATE = """
SELECT classes, retired, coalesce(seq, 1), coalesce(published.wall, models.wall), body
FROM delaytron.models LEFT JOIN delaytron.published ON model = number WHERE number = %s
"""
NAMES = "SELECT names FROM delaytron.published WHERE model = %s AND names IS NOT NULL"
COUNT_MODELS = "SELECT count(*) FROM delaytron.models"
MAKE_MODEL = """
INSERT INTO delaytron.models (name, recipe, classes, retired) VALUES (%s, %s, %s, '[]')
ON CONFLICT (name) DO NOTHING RETURNING number
"""
CLASSES = "SELECT classes, retired FROM delaytron.models WHERE number = %s FOR UPDATE"
SET_CLASSES = "UPDATE delaytron.models SET classes = %s, retired = %s WHERE number = %s"
SUBMIT = "INSERT INTO delaytron.inbox (model, kind, id, body) VALUES (%s, %s, NULL, %s)"
ISSUE = f"""
WITH replied AS (
    INSERT INTO delaytron.replies (model, key, fingerprint, reply)
    SELECT * FROM unnest(%b::int[], %b::text[], %b::bytea[], %b::bytea[])
), given AS (
    SELECT * FROM unnest(%b::int[], %b::text[], %b::int[], %b::bytea[], %b::bytea[])
        AS listed (model, id, label, digest, body)
), issued AS (
    INSERT INTO delaytron.ids (model, id, status, label, digest)
    SELECT model, id, {Status.OPEN:d}, label, digest FROM given
)
INSERT INTO delaytron.inbox (model, kind, id, body) SELECT model, {RECORDED}, id, body FROM given
"""  # noqa: S608 - numbers of ours
REPLY = "SELECT fingerprint, reply FROM delaytron.replies WHERE model = %s AND key = %s"
KNOWN = "status, value, label, correctable, purged, digest"  # of `ids`, as `as_known` takes them
STATUS = f"""
SELECT model, id, {KNOWN} FROM delaytron.ids
JOIN unnest(%b::int[], %b::text[]) AS given (model, id) USING (model, id)
"""  # noqa: S608
SETTLE = """
WITH given AS (
    SELECT * FROM unnest(%b::int[], %b::text[], %b::smallint[], %b::bool[], %b::smallint[], %b::float8[],
        %b::smallint[], %b::bytea[]) AS listed (model, id, known, correctable, status, value, kind, body)
), locked AS (
    SELECT model, id FROM delaytron.ids JOIN given USING (model, id) ORDER BY model, id FOR UPDATE OF ids
), settled AS (
    UPDATE delaytron.ids SET status = given.status, value = given.value, correctable = false
    FROM locked JOIN given USING (model, id)
    WHERE ids.model = locked.model AND ids.id = locked.id AND ids.status = given.known
        AND ids.correctable = given.correctable AND ids.value IS NULL AND NOT ids.purged
    RETURNING ids.model, ids.id, given.kind, given.body
)
INSERT INTO delaytron.inbox (model, kind, id, body) SELECT model, kind, id, body FROM settled RETURNING model, id
"""
FIND = f"""
SELECT ids.id, {KNOWN}, body, wall FROM delaytron.ids LEFT JOIN LATERAL (
    SELECT body, wall FROM delaytron.facts
    WHERE facts.model = ids.model AND facts.id = ids.id AND kind = {RECORDED}
    UNION ALL
    SELECT body, wall FROM delaytron.inbox
    WHERE inbox.model = ids.model AND inbox.id = ids.id AND kind = {RECORDED}
    LIMIT 1
) AS decided ON true WHERE ids.model = %s AND ids.id = ANY(%s)
"""  # noqa: S608 - the kind is written out so that the index is found
RECENT = f"""
WITH last AS (
    (SELECT id, body, wall, true AS waits, place FROM delaytron.inbox
     WHERE model = %(model)s AND kind = {RECORDED} ORDER BY place DESC LIMIT %(count)s)
    UNION ALL
    (SELECT id, body, wall, false, seq FROM delaytron.facts
     WHERE model = %(model)s AND kind = {RECORDED} ORDER BY seq DESC LIMIT %(count)s)
)
SELECT last.id, {KNOWN}, body, wall
FROM last JOIN delaytron.ids ON ids.model = %(model)s AND ids.id = last.id
ORDER BY waits DESC, place DESC LIMIT %(count)s
"""  # noqa: S608
BEHIND = f"""
SELECT min(wall), count(*) FILTER (WHERE kind = {RECORDED}) FROM (
    SELECT kind, wall FROM delaytron.facts WHERE model = %(model)s AND seq > %(seq)s
    UNION ALL SELECT kind, wall FROM delaytron.inbox WHERE model = %(model)s
) AS since
"""  # noqa: S608

# Statements of the learner, of verification and of retention

TAKE_LOCK = "SELECT pg_try_advisory_lock(%s, %s)"
RECIPES = "SELECT number, recipe FROM delaytron.models ORDER BY number"
UNPUBLISHED = """
SELECT number FROM delaytron.models LEFT JOIN delaytron.published ON model = number
WHERE (SELECT max(seq) FROM delaytron.facts WHERE facts.model = number) > greatest(1, published.seq)
"""
RECIPE = "SELECT recipe FROM delaytron.models WHERE number = %s"
NEWEST_SNAPSHOT = "SELECT seq, body FROM delaytron.snapshots WHERE model = %s ORDER BY seq DESC LIMIT 1"
FACTS_AFTER = """
SELECT seq, kind, id, wall, clock, body, checksum FROM delaytron.facts
WHERE model = %s AND seq > %s ORDER BY seq LIMIT %s
"""
PAGE = 2000  # facts that are read at once
WAITING = """
SELECT DISTINCT model FROM (SELECT model FROM delaytron.inbox WHERE model <> ALL(%s) ORDER BY place LIMIT %s) AS first
"""
TAKE = """
WITH first AS (SELECT place FROM delaytron.inbox WHERE model = ANY(%s) ORDER BY place LIMIT %s)
DELETE FROM delaytron.inbox USING first WHERE inbox.place = first.place
RETURNING inbox.model, inbox.place, inbox.kind, inbox.id, inbox.wall, inbox.body
"""
EXPIRE = f"""
WITH due AS (
    SELECT model, id FROM delaytron.ids
    WHERE model = %s AND id = ANY(%s) AND status = %s AND correctable = %s FOR UPDATE SKIP LOCKED
)
UPDATE delaytron.ids SET status = {Status.EXPIRED:d}, correctable = %s FROM due
WHERE ids.model = due.model AND ids.id = due.id RETURNING ids.id
"""  # noqa: S608
APPEND = """
INSERT INTO delaytron.facts (model, seq, kind, id, wall, clock, body, checksum)
SELECT * FROM unnest(%b::int[], %b::bigint[], %b::smallint[], %b::text[], %b::bigint[], %b::bigint[], %b::bytea[],
    %b::bigint[])
"""
PUBLISH = """
INSERT INTO delaytron.published (model, seq, wall, body, names) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (model) DO UPDATE SET seq = excluded.seq, wall = excluded.wall, body = excluded.body,
    names = coalesce(excluded.names, published.names)
"""
PUT_SNAPSHOT = "INSERT INTO delaytron.snapshots (model, seq, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
DROP_SNAPSHOTS = """
DELETE FROM delaytron.snapshots WHERE model = %s AND seq NOT IN (
    SELECT seq FROM delaytron.snapshots WHERE model = %s ORDER BY seq DESC LIMIT %s)
"""
# A few at a time, so that it ends in time however many there are. The subquery lets the index be used, as `now` is
# volatile.
DROP_REPLIES = """
DELETE FROM delaytron.replies WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM delaytron.replies WHERE wall < (SELECT delaytron.now()) - %s ORDER BY wall LIMIT %s))
"""
NUMBER = "SELECT number, recipe FROM delaytron.models WHERE name = %s"
SNAPSHOTS = "SELECT seq, body FROM delaytron.snapshots WHERE model = %s ORDER BY seq"
COUNT_FACTS = "SELECT count(*), coalesce(max(seq), 0) FROM delaytron.facts WHERE model = %s AND seq > %s"
COUNT_INBOX = "SELECT count(*) FROM delaytron.inbox WHERE model = %s"
PURGEABLE = f"""
CREATE TEMP TABLE settled ON COMMIT DROP AS
SELECT facts.id FROM delaytron.facts JOIN delaytron.ids ON ids.model = facts.model AND ids.id = facts.id
WHERE facts.model = %(model)s AND ids.status <> {Status.OPEN:d} AND NOT ids.correctable
    AND facts.id NOT IN (SELECT id FROM delaytron.inbox WHERE model = %(model)s AND id IS NOT NULL)
GROUP BY facts.id
HAVING max(facts.seq) <= (SELECT min(seq) FROM delaytron.snapshots WHERE model = %(model)s)
    AND max(facts.wall) < delaytron.now() - %(age)s
"""  # noqa: S608
MARK_PURGED = "UPDATE delaytron.ids SET purged = true WHERE model = %(model)s AND id IN (SELECT id FROM settled)"
# A late answer may have become a fact since PURGEABLE: that one stays, it may be in no snapshot.
DROP_FACTS = """
DELETE FROM delaytron.facts WHERE model = %(model)s AND id IN (SELECT id FROM settled)
    AND seq <= (SELECT min(seq) FROM delaytron.snapshots WHERE model = %(model)s)
"""

# Rows


def columns(rows: Sequence[tuple[object, ...]], count: int) -> list[list[object]]:
    """Return the columns of rows, the arguments of `unnest`.

    Examples
    --------
    >>> columns([(1, "a"), (2, "b")], 2), columns([], 2)
    ([[1, 2], ['a', 'b']], [[], []])
    """
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


def fact_columns(facts: Iterable[tuple[int, Fact]]) -> list[list[object]]:
    """Return the columns of APPEND for facts, each with the number of its model."""
    rows = []
    for model, (seq, kind, issued, (wall, clock), body) in facts:
        fields = (seq, kind, issued, wall, clock, body)
        rows.append((model, *fields, checksum(*fields)))
    return columns(rows, 8)


def as_fact(row: tuple[Any, ...]) -> Fact:
    """Return a row of FACTS_AFTER; raise JournalError if its checksum is wrong."""
    seq, kind, issued, wall, clock, body, stored = row
    if checksum(seq, kind, issued, wall, clock, body) != stored:
        raise JournalError(f"the checksum of fact {seq} is wrong", "restore the database from a backup")
    return Fact(seq, kind, issued, Moment(wall, clock), body)


def as_known(row: Sequence[Any]) -> Known:
    """Return the record of an id, from the columns KNOWN."""
    status, value, label, correctable, purged, digest = row
    return Known(Status(status), value, label, correctable, purged, digest=digest)


# Errors

DATABASE_ERRORS = (psycopg.Error, OSError)
CHECK = "check the DSN (--postgres), the server, and the rights of the user there"
AWAY = "PostgreSQL cannot be reached, or refuses this"


def database_error(problem: BaseException) -> DelaytronError:
    """Return an error of the database as a JournalError or InvalidInput, in one line and without the password.

    It names hosts and tables, so it is for the log and for the operator: clients of the service get `AWAY`.
    """
    if isinstance(problem, UndefinedTable):
        return InvalidInput(
            "the database has no tables of delaytron", "give the DSN that `delaytron serve --postgres` was started with"
        )
    return JournalError(f"PostgreSQL: {' '.join(str(problem).split())}", CHECK)


# Connections

MOST = 8  # connections of a front end
DEFAULTS = {  # a server that disappeared without closing its connections is noticed within seconds
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
SYNC = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
SESSION = {"statement_timeout": "10s"}
LONGEST = 15.0  # seconds until a connection to a server that does not respond is closed


def read_dsn(dsn: str) -> dict[str, Any]:
    """Return the parameters of a connection; raise InvalidInput, which does not repeat the password.

    Examples
    --------
    >>> read_dsn("postgresql://shop@db.example/shop")["host"]
    'db.example'
    """
    try:
        given = conninfo.conninfo_to_dict(dsn)
    except (psycopg.ProgrammingError, AttributeError, TypeError):
        raise InvalidInput(  # without the value, which may have a password in it
            "the DSN must be a connection string of PostgreSQL, got another",
            "give one such as 'postgresql://user@host/database' or 'host=... dbname=...'",
            parameter="dsn",
        ) from None
    return {**DEFAULTS, **given, "client_encoding": "UTF8", "application_name": "delaytron"}


@contextmanager
def reading(dsn: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Give a synchronous connection, in one transaction; raise InvalidInput or JournalError for errors of it."""
    try:
        with psycopg.connect(**read_dsn(dsn)) as connection:
            yield connection
    except DATABASE_ERRORS as problem:
        raise database_error(problem) from None


async def connect(parameters: dict[str, Any], settings: dict[str, str]) -> Connection:
    """Return a new connection; its commits wait for the disk, even where the server's default is another one."""
    ours = " ".join(f"-c {name}={value}" for name, value in settings.items())
    options = f"{parameters.get('options', '')} {ours}".strip()
    connection = await psycopg.AsyncConnection.connect(autocommit=True, **{**parameters, "options": options})
    try:
        await connection.execute(SYNC)
    except BaseException:
        await connection.close()
        raise
    return connection


async def fetch(connection: Connection, sql: Any, *values: Any, **named: Any) -> Rows:
    """Return the rows of a statement."""
    return await (await connection.execute(sql, named or values, binary=True)).fetchall()


class Connections:
    """The connection pool of a front end: opened on demand, used by one task at a time, closed after an error."""

    def __init__(self, dsn: str) -> None:
        self.parameters = read_dsn(dsn)
        self._free: list[Connection] = []
        self._places = asyncio.Semaphore(MOST)
        self._logged = ""

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Call `work` with a connection and return its result; raise Unavailable, or UniqueViolation."""
        async with self._places:
            connection = None
            try:
                connection = self._free.pop() if self._free else await connect(self.parameters, SESSION)
                # Neither keepalives nor timeouts notice a server that is frozen while a statement runs.
                watch = asyncio.get_running_loop().call_later(LONGEST, connection.pgconn.finish)
                try:
                    result = await work(connection)
                finally:
                    watch.cancel()
            except UniqueViolation:
                raise
            except DATABASE_ERRORS as problem:
                reason = str(database_error(problem))
                if reason != self._logged:  # once, not for every request
                    log.warning("%s; retrying", reason)
                self._logged = reason
                raise failed(AWAY) from problem
            finally:
                if connection is not None:
                    await self._give_back(connection)
            self._logged = ""
            return result

    async def _give_back(self, connection: Connection) -> None:
        """Keep a connection without an open transaction; if it was lost, close the free ones too: they may be lost."""
        if connection.closed:
            await self.close()
        elif connection.info.transaction_status == TransactionStatus.IDLE:
            self._free.append(connection)
            return
        await connection.close()

    async def close(self) -> None:
        """Close the free connections."""
        while self._free:
            await self._free.pop().close()

    async def rows(self, sql: Any, *values: Any, **named: Any) -> Rows:
        """Return the rows of one statement."""
        return await self.run(lambda connection: fetch(connection, sql, *values, **named))
