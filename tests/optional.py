"""What tests need that not every machine has."""

import os
from shutil import which

import pytest


def do_without(reason):
    """Skip, but not where everything has to be there."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture(scope="module")
def browser():
    """Return a Chromium without a window."""
    executable = which("chromium") or which("chromium-browser") or which("google-chrome")
    if executable is None:
        do_without("no Chromium is found: install the system's package `chromium`")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        do_without("playwright is not installed: run `make extras`")
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()
