"""What tests need that not every machine has: they are skipped without it, and fail in CI without a library."""

import os
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("DELAYTRON_DATA", str(BESIDE))
REAL_DATA = Path(os.environ.get("DELAYTRON_DATA", "absent"))
needs_data = pytest.mark.skipif(not REAL_DATA.is_dir(), reason="needs the real data: DELAYTRON_DATA names no folder")


def do_without(reason):
    """Skip a test, or the whole module of tests; fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def need(*libraries):
    """Skip a module of tests unless these are installed; fail in CI."""
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        do_without(f"{', '.join(missing)} is not installed: run `make setup extras`")


@pytest.fixture(scope="module")
def pyvw():
    """Return Vowpal Wabbit."""
    need("vowpalwabbit")
    from vowpalwabbit import pyvw

    return pyvw


@pytest.fixture(scope="module")
def browser():
    """Yield a headless Chromium."""
    executable = which("chromium") or which("chromium-browser") or which("google-chrome")
    if executable is None:
        do_without("no Chromium is found: install the system's package `chromium`")
    need("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()
