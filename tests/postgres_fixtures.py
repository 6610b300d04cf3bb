"""Fixtures of PostgreSQL: a server, and an empty database for each test; conftest.py imports them."""

import pytest


def started():
    """Yield a running server, and stop it afterwards."""
    from postgres_server import PostgresServer

    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def server():
    yield from started()


@pytest.fixture(scope="session")
def database(server):
    return server.new_database()


@pytest.fixture
def dsn(database):
    """Return the DSN of a database without our schema; it is used by all tests, because to create one takes seconds."""
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS delaytron CASCADE")
    return database


@pytest.fixture
def own_server():
    """Return a server that a test may stop and start."""
    yield from started()
