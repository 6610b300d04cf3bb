"""Files that something happened to: a right answer or one clear line, never a traceback, a hang or too much memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutations import KINDS

SCRIPT = Path(__file__).with_name("mutations.py")
QUICK = {"csv": 120, "tsv": 60, "jsonl": 100, "libsvm": 100, "parquet": 60}
ALL = {"csv": 3000, "tsv": 1000, "jsonl": 2500, "libsvm": 2000, "parquet": 1500}

assert sum(ALL.values()) == 10_000


def survive(kind, count, folder):
    """Load files in a process of their own; the last number that it printed is that of the deadly one."""
    command = [sys.executable, SCRIPT, kind, "0", str(count), folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False, env=os.environ)
    lines = done.stdout.split()
    assert done.returncode == 0, f"file {lines[-1:]} of {kind}: exit code {done.returncode}\n{done.stderr[-2000:]}"
    assert lines[-3:-2] == [str(count - 1)]
    n_refused = int(lines[-2])
    assert count // 20 < n_refused < count - count // 20, "most files are neither all refused nor all read"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_read_rightly_or_refused_in_one_line(kind, tmp_path):
    survive(kind, QUICK[kind], tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_files_are_read_rightly_or_refused_in_one_line(kind, tmp_path):
    survive(kind, ALL[kind], tmp_path)
