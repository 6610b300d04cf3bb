"""Text files that are compressed."""

import subprocess
import sys

import pytest

OPEN = """
import sys
from pathlib import Path
from delaytron.files.text import open_binary
try:
    open_binary(Path(sys.argv[1]))
except FileNotFoundError:
    print("missing")
"""


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_a_missing_file_is_one_error(tmp_path, suffix):
    """In Python's development mode an error in the destructor would be printed, too."""
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", OPEN, str(tmp_path / f"a{suffix}")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("missing\n", "")
