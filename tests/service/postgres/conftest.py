"""A PostgreSQL for the tests of this folder, and a database for each test."""

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


@pytest.fixture
def dsn(server):
    return server.new_database()


@pytest.fixture
def own_server():
    """Return a server that a test may stop and start."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()
