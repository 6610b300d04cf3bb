"""Services that tests share, because to start one takes a second; conftest.py offers them to all."""

import pytest

ADMIN_KEY, CLIENT_KEY = "an-admin-key-of-some-length", "a-client-key-of-some-length"


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A service with default limits and without keys; tests use models of their own, or "m" with any history."""
    from services import serving

    with serving(tmp_path_factory.mktemp("shop")) as running:
        running.make(features=2)
        yield running
        assert running.process.poll() is None, list(running.lines.queue)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory):
    """A service with keys, on all addresses, with three open decisions at most."""
    from services import serving

    keys = {"DELAYTRON_ADMIN_KEY": ADMIN_KEY, "DELAYTRON_CLIENT_KEY": CLIENT_KEY}
    options = ("--host", "0.0.0.0", "--max-open", 3)
    with serving(tmp_path_factory.mktemp("guarded"), *options, environment=keys) as running:
        yield running
