"""Settings that all tests share."""

import os

from hypothesis import HealthCheck, settings

import optional  # noqa: F401 - finds the real data
from optional import browser, pyvw  # noqa: F401 - for tests of pages, and of logs
from postgres_fixtures import database, dsn, own_server, server  # noqa: F401 - for the tests on PostgreSQL
from service_fixtures import guarded, shop  # noqa: F401 - for the tests over HTTP

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # no test may need a network

TORTURE = bool(os.environ.get("DELAYTRON_TORTURE"))  # set by `make torture`

settings.register_profile(
    "ours",
    deadline=None,  # the first example compiles
    max_examples=30 if os.environ.get("CI") else 15,  # others each time, where CI repeats the same
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("ours")


def pytest_collection_modifyitems(config, items):
    """Leave the long tests to `make torture`."""
    long = [item for item in items if item.get_closest_marker("torture")]
    if long and not TORTURE:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
