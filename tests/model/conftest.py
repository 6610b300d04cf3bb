"""Fixtures of the tests of models."""

import pytest
from models import FakeClock


@pytest.fixture
def clock():
    """Return the clock of all models of a test."""
    with FakeClock().used() as fake:
        yield fake
