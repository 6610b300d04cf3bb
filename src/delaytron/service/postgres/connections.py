"""Connections to PostgreSQL: made when needed, used by one task at a time, dropped after an error."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from logging import getLogger
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.pq import TransactionStatus

from delaytron.errors import InvalidInput, JournalError
from delaytron.service.problems import NOT_TAKEN, Unavailable

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]
T = TypeVar("T")

MOST = 8  # connections of a front end
AWAY = f"PostgreSQL cannot be reached, or refuses this; {NOT_TAKEN}"
CHECK = "check the DSN (--postgres), the server, and the rights of the user there"
DEFAULTS = {  # a server that is gone without a word is noticed within some seconds
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
SAFE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
PATIENT = {"statement_timeout": "10s"}
LONGEST = 15.0  # seconds after which a server that does not even refuse is given up

log = getLogger("delaytron.service")


def read_dsn(dsn: str) -> dict[str, Any]:
    """Return the parameters of a connection, or raise; a password is not repeated.

    Examples
    --------
    >>> read_dsn("postgresql://shop@db.example/shop")["host"]
    'db.example'
    """
    try:
        given = conninfo.conninfo_to_dict(dsn)
    except (psycopg.ProgrammingError, AttributeError, TypeError):
        example = "'postgresql://user@host/database' or 'host=... dbname=...'"
        raise InvalidInput(
            f"the DSN must be a connection string of PostgreSQL, such as {example}, got another"
        ) from None
    return {**DEFAULTS, **given, "client_encoding": "UTF8", "application_name": "delaytron"}


@contextmanager
def reading(dsn: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Give a connection to tables that are there; what the database refuses is one line, without the password."""
    try:
        with psycopg.connect(**read_dsn(dsn)) as connection:
            yield connection
    except psycopg.errors.UndefinedTable:
        tables = "the database has no tables of delaytron"
        raise InvalidInput(f"{tables}; give the DSN that `delaytron serve --postgres` was started with") from None
    except psycopg.Error as problem:
        raise JournalError(f"PostgreSQL: {_text(problem)}; {CHECK}") from None


def _text(problem: Exception) -> str:
    return " ".join(str(problem).split())


async def connect(parameters: dict[str, Any], settings: dict[str, str]) -> Connection:
    """Return a new connection; what is committed by it is on disk."""
    ours = " ".join(f"-c {name}={value}" for name, value in settings.items())
    options = f"{parameters.get('options', '')} {ours}".strip()
    connection = await psycopg.AsyncConnection.connect(autocommit=True, **{**parameters, "options": options})
    try:
        await connection.execute(SAFE)
    except BaseException:
        await connection.close()
        raise
    return connection


class Connections:
    """Some connections for all tasks of a front end."""

    def __init__(self, dsn: str, most: int = MOST) -> None:
        self.parameters = read_dsn(dsn)
        self._free: list[Connection] = []
        self._places = asyncio.Semaphore(most)
        self._logged = ""

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Return what `work` does with a connection; an error is `Unavailable`, unless something is there already."""
        async with self._places:
            try:
                connection = self._free.pop() if self._free else await connect(self.parameters, PATIENT)
            except (psycopg.Error, OSError) as problem:
                raise self._unavailable(problem) from problem
            watch = asyncio.get_running_loop().call_later(LONGEST, connection.pgconn.finish)
            try:
                result = await work(connection)
            except psycopg.errors.UniqueViolation:
                raise
            except psycopg.Error as problem:
                raise self._unavailable(problem) from problem
            finally:
                watch.cancel()
                await self._give_back(connection)
            self._logged = ""
            return result

    def _unavailable(self, problem: Exception) -> Unavailable:
        """Return what a client is told of an error of the database; the log has more, once."""
        text = _text(problem)
        if text != self._logged:
            log.warning("PostgreSQL: %s; %s; it is tried again", text, CHECK)
        self._logged = text
        return Unavailable(AWAY)

    async def _give_back(self, connection: Connection) -> None:
        """Keep a connection on which nothing is under way; where one is lost, the others are, too."""
        if connection.closed:
            await self.close()
        elif connection.info.transaction_status == TransactionStatus.IDLE:
            self._free.append(connection)
            return
        await connection.close()

    async def close(self) -> None:
        """Close those that nobody uses."""
        while self._free:
            await self._free.pop().close()

    async def rows(self, sql: Any, values: Any = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""

        async def fetch(connection: Connection) -> list[tuple[Any, ...]]:
            return await (await connection.execute(sql, values)).fetchall()

        return await self.run(fetch)
