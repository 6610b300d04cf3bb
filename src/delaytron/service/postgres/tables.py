"""The tables in the schema `delaytron`: made by whoever comes first, and recognised by all others."""

from typing import Any

from psycopg import AsyncConnection

from delaytron.errors import InvalidInput
from delaytron.model.facts import ADOPTED

FORMAT = 1
LOCKS = 0x64656C61  # "dela": our advisory locks are (LOCKS, number)
MAKING, LEARNING = 1, 2

TABLES = (
    "CREATE SCHEMA IF NOT EXISTS delaytron",
    # ns since 1970: all machines tell time by this one clock
    """CREATE FUNCTION delaytron.now() RETURNS bigint LANGUAGE sql VOLATILE AS
        $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint $$""",
    "CREATE TABLE delaytron.meta (name text PRIMARY KEY, value text NOT NULL)",
    # `classes` are the names by label, `retired` some of the labels, both as JSON: changed before any fact tells of it
    """CREATE TABLE delaytron.models (
        number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE, uid text NOT NULL,
        recipe bytea NOT NULL, stateless bool NOT NULL, classes text NOT NULL, retired text NOT NULL,
        wall bigint NOT NULL DEFAULT delaytron.now())""",
    # what became of every decision: who changes a row here is the one who may write to the inbox about it
    """CREATE TABLE delaytron.ids (
        model int NOT NULL, id text COLLATE "C" NOT NULL, status smallint NOT NULL, value float8, label int NOT NULL,
        purged bool NOT NULL DEFAULT false, PRIMARY KEY (model, id)) WITH (fillfactor = 90)""",
    # facts to be: `place` grows from any row to those that were written after it was committed
    """CREATE TABLE delaytron.inbox (
        place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, model int NOT NULL, kind smallint NOT NULL,
        id text COLLATE "C", wall bigint NOT NULL DEFAULT delaytron.now(), body bytea NOT NULL)
        WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000)""",
    """CREATE TABLE delaytron.facts (
        model int NOT NULL, seq bigint NOT NULL, kind smallint NOT NULL, id text COLLATE "C", wall bigint NOT NULL,
        clock bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (model, seq))""",
    f"CREATE INDEX decisions ON delaytron.facts (model, id) WHERE kind = {ADOPTED}",
    # the round of every token, and every token that was answered
    """CREATE TABLE delaytron.tokens (
        model int NOT NULL, id text COLLATE "C" NOT NULL, round bigint NOT NULL, PRIMARY KEY (model, id))""",
    """CREATE TABLE delaytron.redeemed (
        model int NOT NULL, id text COLLATE "C" NOT NULL, value float8 NOT NULL, PRIMARY KEY (model, id))""",
    # the whole state after a fact, for the next learner; and what front ends need of it
    """CREATE TABLE delaytron.snapshots (
        model int NOT NULL, seq bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (model, seq))""",
    """CREATE TABLE delaytron.published (
        model int PRIMARY KEY, seq bigint NOT NULL, wall bigint NOT NULL, body bytea NOT NULL, names bytea)""",
    """CREATE TABLE delaytron.requests (
        model int NOT NULL, key text COLLATE "C" NOT NULL, fingerprint bytea NOT NULL, reply bytea NOT NULL,
        wall bigint NOT NULL DEFAULT delaytron.now(), PRIMARY KEY (model, key))""",
    *(
        f"ALTER TABLE delaytron.{table} ALTER COLUMN body SET STORAGE EXTERNAL"  # it is compressed
        for table in ("snapshots", "published")
    ),
)


async def make_tables(connection: AsyncConnection[Any]) -> None:
    """Make the tables if there are none; raise if they are of a newer version."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, MAKING))
        if await _read_one(connection, "SELECT to_regclass('delaytron.meta') IS NULL"):
            await _make(connection)
        else:
            _check_format(await _read_one(connection, "SELECT value FROM delaytron.meta WHERE name = 'format'"))


async def _make(connection: AsyncConnection[Any]) -> None:
    encoding = await _read_one(connection, "SHOW server_encoding")
    if encoding != "UTF8":
        raise InvalidInput(f"the database must have the encoding UTF8, it has {encoding}; make another database")
    for statement in TABLES:
        await connection.execute(statement)
    await connection.execute("INSERT INTO delaytron.meta VALUES ('format', %s)", (str(FORMAT),))


def _check_format(found: Any) -> None:
    if found is None or not str(found).isdigit():
        raise InvalidInput("the schema delaytron of this database is not ours; give another database")
    if int(found) > FORMAT:
        raise InvalidInput(f"the tables are of format {found}, this version reads up to {FORMAT}; update delaytron")


async def _read_one(connection: AsyncConnection[Any], sql: str) -> Any:
    row = await (await connection.execute(sql)).fetchone()
    return None if row is None else row[0]
