"""Fixtures that the tests of models share."""

import pytest
from models import FakeClock


@pytest.fixture
def clock():
    """Return the clock of all models of a test; time passes only by its methods."""
    with FakeClock().used() as fake:
        yield fake
