"""A PostgreSQL for the tests that want one, and an empty database for each test; conftest.py offers them to all."""

import pytest


def started():
    """Run a server as long as it is wanted."""
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
    """Return how a database is reached in which nothing is left of the test before; a new one takes seconds."""
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS delaytron CASCADE")
    return database


@pytest.fixture
def own_server():
    """Return a server that a test may stop and start."""
    yield from started()
