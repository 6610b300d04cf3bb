"""The tables on PostgreSQL: made once, refused if newer; and what a service says that cannot reach them."""

import asyncio
import signal

import psycopg
import pytest
from postgres_play import PATIENCE, ask, check_state, decide, make, run, serving, until, until_learned

from delaytron.answers import Status
from delaytron.errors import InvalidInput, JournalError
from delaytron.service.app import _lifespan
from delaytron.service.postgres import schema
from delaytron.service.postgres.backend import PostgresBackend
from delaytron.service.postgres.learner import purge_model, verify_model
from delaytron.service.postgres.schema import FORMAT
from delaytron.service.problems import Unavailable, UnknownModel


def test_processes_may_create_the_tables_concurrently(dsn):
    async def begin():
        backends = [PostgresBackend(dsn, learns=False) for _ in range(5)]
        await asyncio.gather(*(backend.start() for backend in backends))
        assert [backend.unready() for backend in backends] == [None] * 5
        await asyncio.gather(*(backend.stop() for backend in backends))
        assert all("stopping" in str(backend.unready()) for backend in backends)

    asyncio.run(begin())
    assert ask(dsn, "SELECT value FROM delaytron.meta WHERE name = 'format'") == [(str(FORMAT),)]


@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused_and_left_alone(dsn, number):
    run(make, dsn)
    ask(dsn, "UPDATE delaytron.meta SET value = %s", (str(number),))

    async def begin():
        backend = PostgresBackend(dsn)
        with pytest.raises(InvalidInput, match=f"of format {number}, this version reads {FORMAT}; update"):
            await backend.start()
        assert "update delaytron" in str(backend.unready())
        for ask_for in (decide, make, PostgresBackend.models):
            with pytest.raises(Unavailable, match="update delaytron"):
                await ask_for(backend)
        await backend.stop()

    asyncio.run(begin())
    assert ask(dsn, "SELECT count(*) FROM delaytron.models") == [(1,)]


def test_a_schema_of_another_program_is_refused_and_left_alone(dsn):
    ask(dsn, "CREATE SCHEMA delaytron")
    ask(dsn, "CREATE TABLE delaytron.meta (name text, value text)")
    with pytest.raises(InvalidInput, match="of another program"):
        run(make, dsn)


def test_other_encodings_are_refused(server):
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(InvalidInput, match="encoding UTF8, it has LATIN1"):
        run(make, server.dsn("latin"))


def test_a_service_on_tables_that_it_cannot_use_says_so_in_its_log(dsn, caplog):
    ask(dsn, "CREATE SCHEMA delaytron")
    ask(dsn, "CREATE TABLE delaytron.meta (name text, value text)")

    async def begin():
        async with _lifespan(PostgresBackend(dsn)):
            await asyncio.sleep(0.5)

    asyncio.run(begin())
    assert (
        "is not ready: the schema delaytron of this database is of another program; give another database"
        in caplog.text
    )


def test_a_database_without_the_tables_is_refused_in_one_line(dsn):
    nowhere = "postgresql://shop:secret@127.0.0.1:1/shop"
    for use in (lambda given: verify_model(given, "m"), lambda given: purge_model(given, "m", "1d")):
        with pytest.raises(InvalidInput, match="no tables of delaytron; give the DSN that `delaytron serve"):
            use(dsn)
        with pytest.raises(JournalError, match=r"PostgreSQL: .*; check the DSN \(--postgres\), the server") as caught:
            use(nowhere)
        assert "secret" not in str(caught.value)
        assert "\n" not in str(caught.value)
        with pytest.raises(InvalidInput, match="must be a connection string"):
            use(None)


def test_an_invalid_model_name_is_not_looked_up(dsn):
    async def find(backend):
        with pytest.raises(UnknownModel, match="there is no model"):
            await backend.model("a\0b")

    run(find, dsn)


def test_an_invalid_dsn_is_refused_without_its_password():
    with pytest.raises(InvalidInput, match="must be a connection string") as caught:
        PostgresBackend("password=secret and more")
    assert "secret" not in str(caught.value)


def test_without_a_server_nothing_is_acknowledged_and_the_service_recovers(own_server):
    dsn = own_server.new_database()
    own_server.stop()

    async def begin():
        async with serving(dsn) as backend:
            assert "cannot be reached" in str(backend.unready())
            with pytest.raises(Unavailable):
                await decide(backend)
            with pytest.raises(Unavailable):
                await make(backend)
            with pytest.raises(Unavailable):
                await backend.models()
            await asyncio.to_thread(own_server.start)

            async def is_ready():
                return backend.unready() is None

            await until(is_ready, "reaching it")
            await make(backend)
            assert (await decide(backend)).round == 1
            own_server.stop()

            async def is_unready():
                return backend.unready() is not None

            with pytest.raises(Unavailable, match="nothing was acknowledged"):
                await decide(backend)
            await until(is_unready, "noticing it")

    asyncio.run(asyncio.wait_for(begin(), 4 * PATIENCE))


def test_a_request_to_a_server_that_hangs_times_out(own_server, monkeypatch):
    monkeypatch.setattr(schema, "LONGEST", 1.0)
    monkeypatch.setitem(schema.DEFAULTS, "connect_timeout", "2")  # the least that there is
    dsn = own_server.new_database()

    async def scenario(backend):
        await make(backend)
        own_server.freeze(signal.SIGSTOP)
        try:
            with pytest.raises(Unavailable):
                await asyncio.wait_for(decide(backend, "x"), PATIENCE)

            async def is_unready():
                return backend.unready() is not None

            await until(is_unready)
        finally:
            own_server.freeze(signal.SIGCONT)

        async def is_ready():
            return backend.unready() is None

        await until(is_ready)
        assert (await decide(backend, "y")).id == "y"
        await until_learned(dsn)

    run(scenario, dsn)
    check_state(dsn)


def test_after_an_interrupted_round_the_state_is_loaded_again(dsn, monkeypatch):
    async def scenario(backend):
        await make(backend)
        front = await backend._models.find("router")
        with monkeypatch.context() as patched:
            patched.setattr(type(front.state.encoder), "new_names", lambda self: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await decide(backend)
        with pytest.raises(Unavailable, match="being loaded"):
            await decide(backend)
        await backend._refresh()
        assert (await decide(backend)).round == 1

    run(scenario, dsn, learns=False)


def test_commits_are_synced_even_if_the_default_of_the_server_is_not(server):
    dsn = server.new_database()
    ask(dsn, f"ALTER DATABASE {dsn.split('dbname=')[1].split()[0]} SET synchronous_commit = off")

    async def scenario(backend):
        return await backend._connections.rows("SHOW synchronous_commit")

    assert run(scenario, dsn) == [("on",)]


def test_numbers_stored_in_the_tables_do_not_change():
    assert (Status.OPEN, Status.ANSWERED, Status.EXPIRED, Status.CANCELLED) == (0, 1, 2, 3)
