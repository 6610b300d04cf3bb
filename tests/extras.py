"""Libraries that only the extras bring: without one its tests are skipped, and in CI they fail."""

import os
from importlib import import_module

import pytest


def needed(library):
    """Return an optional library; where it is missing, skip the test, or the module of tests as a whole."""
    try:
        return import_module(library)
    except ImportError:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"needs {library}: make extras", allow_module_level=True)
