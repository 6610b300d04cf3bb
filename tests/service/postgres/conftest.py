"""A PostgreSQL for the tests of this folder, and an empty database for each test."""

import psycopg
import pytest
from postgres_server import PostgresServer


@pytest.fixture(scope="session")
def server():
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def database(server):
    return server.new_database()


@pytest.fixture
def dsn(database):
    """Return how a database is reached in which nothing is left of the test before; a new one takes seconds."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS delaytron CASCADE")
    return database


@pytest.fixture
def own_server():
    """Return a server that a test may stop and start."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()
