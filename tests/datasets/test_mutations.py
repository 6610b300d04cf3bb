"""Files that something happened to: a right answer or one clear line, never a traceback, a hang or too much memory."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from mutations import KINDS
from pyarrow import parquet as pq

import delaytron as dt
from delaytron.files import compressed, lines

SCRIPT = Path(__file__).with_name("mutations.py")
QUICK = {"csv": 120, "tsv": 60, "jsonl": 100, "libsvm": 100, "parquet": 60}
ALL = {"csv": 3000, "tsv": 1000, "jsonl": 2500, "libsvm": 2000, "parquet": 1500}

assert sum(ALL.values()) == 10_000


def survive(kind, count, folder):
    """Load files in a process of their own; the last number that it printed is that of the deadly one."""
    command = [sys.executable, SCRIPT, kind, "0", str(count), folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False, env=os.environ)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"file {lines[-1:]} of {kind}: exit code {done.returncode}\n{done.stderr[-2000:]}"
    outcomes = json.loads(lines[-1])
    assert sum(outcomes.values()) == count
    assert outcomes["refused"] < 0.9 * count
    if kind != "parquet":  # for which there is no other reader
        assert outcomes["right"] > 0.05 * count


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_read_rightly_or_refused_in_one_line(kind, tmp_path):
    survive(kind, QUICK[kind], tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_files_are_read_rightly_or_refused_in_one_line(kind, tmp_path):
    survive(kind, ALL[kind], tmp_path)


PEAK = """
import re, sys
from pathlib import Path
import delaytron as dt
dt.datasets.load(sys.argv[1])
Path("/proc/self/clear_refs").write_text("5")
def taken(which):
    return int(re.search(which + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
before = taken("VmRSS")
for read in (dt.datasets.load, dt.datasets.stream):
    try:
        read(sys.argv[2])
    except dt.InvalidInput as problem:
        print(problem)
print(taken("VmHWM") - before)
"""
BOMBS = {
    "rows.csv.gz": ("a.csv", b"a,b,label\n1,2,x\n3,4,y\n", b"0,0,x\n" * 2**18),
    "one line.csv.gz": ("a.csv", b"a,b,label\n1,2,x\n3,4,y\n", b"1" * 2**20),
    "one line.jsonl.gz": ("a.jsonl", b'{"a": 1, "y": 0}\n{"a": 2, "y": 1}\n', b"[" * 2**20),
    "one line.svm.gz": ("a.svm", b"0 1:1\n1 2:1\n", b" 3:1" * 2**18),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_is_made_to_fill_the_memory_does_not(bomb, tmp_path):
    """300 MB of a few bytes, in some 300 kB."""
    name, good, more = BOMBS[bomb]
    (tmp_path / name).write_bytes(good)
    with gzip.open(tmp_path / bomb, "wb", compresslevel=1) as file:
        file.write(good)
        for _ in range(300 * 2**20 // len(more)):
            file.write(more)
    command = [sys.executable, "-c", PEAK, tmp_path / name, tmp_path / bomb]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    *said, taken = done.stdout.splitlines()
    assert len(said) == 2, "it is refused as a whole and in blocks"
    assert all(bomb in line for line in said)
    assert int(taken) < 4 * compressed.LONGEST_LINE + 64 * 2**20, f"{int(taken) / 2**20:.0f} MB"


def test_a_parquet_file_of_few_bytes_and_many_rows_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    zeros = pa.repeat(pa.scalar(0.0), 20_000_000)
    pq.write_table(pa.table({"a": zeros, "b": zeros, "label": zeros}), path, compression="zstd")
    assert path.stat().st_size < 2**20
    with pytest.raises(dt.InvalidInput, match=r"unpack to more than .* read it in blocks \(--stream\)"):
        dt.datasets.load(path)


def test_a_line_that_is_too_long_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(compressed, "LONGEST_LINE", 1000)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    for name, text in (("a.csv", "a,label\n" + "1" * 2000), ("a.svm", "0 1:1\n" + "1 " + "3" * 2000)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr("delaytron.datasets.libsvm.BLOCK_BYTES", 8)
        with pytest.raises(dt.InvalidInput, match=r"line 2: a line may have at most 0 MB, got more"):
            dt.datasets.load(tmp_path / name)
