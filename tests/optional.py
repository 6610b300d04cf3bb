"""Libraries that most users do without: tests that need one are skipped where it is not installed, but not in CI."""

import os
from importlib.util import find_spec

import pytest


def need(extra, *libraries):
    """Skip, but not where everything has to be there."""
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        reason = f"{', '.join(missing)} is not installed: pip install 'delaytron[{extra}]'"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason, allow_module_level=True)
