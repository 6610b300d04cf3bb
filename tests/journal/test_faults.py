"""A full disk and errors of the disk, at every write: told, nothing acknowledged lost, and the same store goes on."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import pytest

from crashes import build_recorder

pytestmark = pytest.mark.skipif(sys.platform != "linux" or which("gcc") is None, reason="needs gcc and LD_PRELOAD")

MEMORY = Path("/dev/shm")  # noqa: S108
ALWAYS = 10**9
KINDS = {"w": 40, "s": 15, "t": 1}  # write, sync, truncate: at least so many of them


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    return build_recorder(tmp_path_factory.mktemp("recorder"))


@pytest.fixture
def place(tmp_path):
    """A folder in memory where there is such a thing: what fails here is not the disk."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as folder:
        yield Path(os.path.realpath(folder))


def long(*values):
    return pytest.param(*values, marks=pytest.mark.torture)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("error", "times"), [("ENOSPC", ALWAYS), ("EIO", 1), long("EIO", ALWAYS), long("ENOSPC", 1), long("EIO", 3)]
)
def test_every_site(recorder, place, kind, error, times):
    folder = place / "journal"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "LD_PRELOAD": str(recorder),
        "RECORDER_FOLDER": str(folder),
    }
    command = [sys.executable, Path(__file__).with_name("faults.py"), folder, kind, error, str(times)]
    done = subprocess.run(command, env=environment, timeout=500, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sites, errors = map(int, done.stdout.split())
    assert sites >= KINDS[kind]
    assert errors > 0 or kind == "t"  # those of a checkpoint are SQLite's: it does it again later
