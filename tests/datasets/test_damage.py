"""Damaged files and decompression bombs: read right, or refused in one line; no crash, no hang, bounded memory."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from damage import FORMATS
from mutations import KINDS
from pyarrow import feather
from pyarrow import parquet as pq

import delaytron as dt
from delaytron.datasets.tables import fit, table_source
from delaytron.delays import Trace
from delaytron.files import text

DAMAGE = Path(__file__).with_name("damage.py")
FEW_DAMAGED, MANY_DAMAGED = 300, 10_000


def load_damaged(kind, count, folder):
    """Load damaged files in a process of their own; the last number printed is that of the file that ended it."""
    command = [sys.executable, DAMAGE, kind, "0", str(count), folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False, env=os.environ)
    last = done.stdout.split()[-1:]
    assert done.returncode == 0, f"file {last} of {kind}: exit code {done.returncode}\n{done.stderr[-2000:]}"
    assert last == [str(count - 1)]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_file_is_loaded_or_refused_in_one_line(kind, tmp_path):
    load_damaged(kind, FEW_DAMAGED, tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("kind", FORMATS)
def test_many_damaged_files_are_loaded_or_refused_in_one_line(kind, tmp_path):
    load_damaged(kind, MANY_DAMAGED, tmp_path)


def refused(path, read=dt.datasets.load):
    with pytest.raises(dt.InvalidInput) as problem:
        read(path)
    (line,) = str(problem.value).splitlines()
    assert str(path) in line
    return line


def test_a_string_offset_that_was_overwritten_is_refused(tmp_path):
    path = tmp_path / "a.feather"
    feather.write_feather(pa.table({"a": ["x", "y"] * 50, "label": ["u", "v"] * 50}), path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    offsets = content.index(np.arange(101, dtype=np.int32).tobytes())
    content[offsets + 40 : offsets + 44] = (2**31 - 1).to_bytes(4, "little")
    path.write_bytes(content)
    assert "cannot be read as a Feather file" in refused(path)


@pytest.mark.parametrize("metadata", [b"{", b"[" * 100_000, b"\xff", b"3"])
def test_broken_metadata_of_pandas_are_refused(metadata, tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"a": [1, 2], "label": ["u", "v"]}).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(table, path)
    assert "cannot be read as a Parquet file" in refused(path)


@pytest.mark.parametrize("later", [0, 59, 61])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_table_with_another_number_of_rows_in_the_second_pass_is_refused(later, sparse):
    columns = {"a": [f"word {i % (30 if sparse else 3)}" for i in range(61)], "label": (["u", "v"] * 31)[:61]}
    table = pa.table(columns)
    fitted = fit(table_source("a.parquet", table.slice(0, 60)))
    fitted.source = table_source("a.parquet", table.slice(0, later))
    with pytest.raises(dt.InvalidInput, match=r"a.parquet: must have 60 rows as before"):
        fitted.whole()


def test_more_rows_than_fit_into_memory_are_refused():
    fitted = fit(table_source("a.parquet", pa.table({"a": [1, 2], "label": ["u", "v"]})))
    fitted.n_rows = 10**15
    with pytest.raises(dt.InvalidInput, match="but this machine has"):
        fitted.whole()


def npz_with_header(path, header):
    """Write an NPZ file whose array X has this header."""
    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(80)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", body)
        archive.writestr("y.npy", body)


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 100)}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-5, 100)}",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (10,)}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (10,",
        b"(" * 5000,
    ],
)
def test_an_absurd_array_is_refused_before_it_takes_memory(header, tmp_path):
    path = tmp_path / "a.npz"
    npz_with_header(path, header)
    assert "the array X cannot be read" in refused(path)
    trace = tmp_path / "a.npy"
    with zipfile.ZipFile(path) as archive:
        trace.write_bytes(archive.read("X.npy"))
    assert ": cannot be read, " in refused(trace, Trace)


def test_an_encrypted_npz_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.eye(3), y=np.arange(3))
    content = bytearray(path.read_bytes())
    for sign, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(sign)
        while place >= 0:
            content[place + flags] |= 1
            place = content.find(sign, place + 1)
    path.write_bytes(content)
    assert "encrypted" in refused(path)


LOADING = """
import resource, sys
from delaytron.datasets import load
from delaytron.errors import InvalidInput
from delaytron.files import text
text.UNSUSPICIOUS = int(sys.argv[3])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
load(sys.argv[1])  # imports
before = peak()
try:
    load(sys.argv[2])
except InvalidInput as problem:
    sys.stdout.write(str(problem))
else:
    sys.stdout.write(str(peak() - before))
"""
HEADER = b",".join(b"c%d" % i for i in range(50)) + b",label\n"
ZEROS = b"".join(b"0," * 50 + b"%d\n" % (i % 3) for i in range(10_000))  # a megabyte


def in_another_process(path, folder, allowed=text.UNSUSPICIOUS):
    small = folder / "small.csv"
    small.write_bytes(HEADER + ZEROS[:1020])
    command = [sys.executable, "-c", LOADING, small, path, str(allowed)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_text_takes_little_more_memory_than_its_numbers(tmp_path):
    """Two bytes of text are eight of a number; twelve times the file were taken before."""
    path = tmp_path / "a.csv"
    path.write_bytes(HEADER + ZEROS * 60)
    assert int(in_another_process(path, tmp_path)) < 10 * path.stat().st_size


def test_a_file_that_is_refused_half_way_lets_the_process_end(tmp_path):
    """If a file raises in the threads of pyarrow, the process hangs at its end."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(HEADER + ZEROS * 60))
    assert "MB of it unpack to more than" in in_another_process(path, tmp_path, allowed=40_000_000)


class TestUnpacking:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(text, "UNSUSPICIOUS", 2**20)

    @pytest.mark.parametrize("ending", text.OPENERS)
    @pytest.mark.parametrize(
        ("name", "head", "row"), [("a.csv", b"a,b,label\n", b"0,0,%d\n"), ("a.svm", b"", b"%d 1:0 2:0\n")]
    )
    def test_a_small_file_that_unpacks_to_a_large_one_is_refused(self, name, head, row, ending, tmp_path):
        path = tmp_path / f"{name}{ending}"
        with text.OPENERS[ending](path, "wb") as file:
            file.write(head + b"".join(row % (i % 2) for i in range(300_000)))
        assert "MB of it unpack to more than" in refused(path)

    def test_a_trace_that_unpacks_to_a_large_one_is_refused(self, tmp_path):
        path = tmp_path / "a.txt.gz"
        with text.OPENERS[".gz"](path, "wb") as file:
            file.write(b"1\n" * 1_000_000)
        assert "MB of it unpack to more than" in refused(path, Trace)

    def test_an_npz_that_unpacks_to_a_large_one_is_refused(self, tmp_path):
        path = tmp_path / "a.npz"
        np.savez_compressed(path, X=np.zeros((10_000, 100)), y=np.arange(10_000) % 2)
        assert "save it by numpy.savez, or as CSR" in refused(path)

    def test_an_ordinary_compressed_file_is_read(self, tmp_path):
        path = tmp_path / "a.csv.gz"
        rows = "".join(f"{a:.3f},{i % 2}\n" for i, a in enumerate(np.random.default_rng(0).random(200_000)))
        with text.OPENERS[".gz"](path, "wt") as file:
            file.write("a,label\n" + rows)
        assert dt.datasets.load(path).n_rows == 200_000


MUTATIONS = Path(__file__).with_name("mutations.py")
FEW_MUTATED = {"csv": 120, "tsv": 60, "jsonl": 100, "libsvm": 100, "parquet": 60}
ALL_MUTATED = {"csv": 3000, "tsv": 1000, "jsonl": 2500, "libsvm": 2000, "parquet": 1500}

assert sum(ALL_MUTATED.values()) == 10_000


def load_mutated(kind, count, folder):
    """Load files in a process of their own; the last number printed is that of the file that ended it."""
    command = [sys.executable, MUTATIONS, kind, "0", str(count), folder]
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
    load_mutated(kind, FEW_MUTATED[kind], tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_files_are_read_rightly_or_refused_in_one_line(kind, tmp_path):
    load_mutated(kind, ALL_MUTATED[kind], tmp_path)


PEAK = """
import re, sys
from pathlib import Path
import delaytron as dt
from delaytron.files import text
text.UNSUSPICIOUS, text.LONGEST_LINE = text.UNSUSPICIOUS // 2, text.LONGEST_LINE // 2
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
    """150 MB of a few bytes, in some 150 kB, with limits of half the real ones."""
    name, good, more = BOMBS[bomb]
    (tmp_path / name).write_bytes(good)
    with gzip.open(tmp_path / bomb, "wb", compresslevel=1) as file:
        file.write(good)
        for _ in range(150 * 2**20 // len(more)):
            file.write(more)
    command = [sys.executable, "-c", PEAK, tmp_path / name, tmp_path / bomb]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    *said, taken = done.stdout.splitlines()
    assert len(said) == 2, "it is refused as a whole and in blocks"
    assert all(bomb in line for line in said)
    assert int(taken) < 4 * text.LONGEST_LINE + 64 * 2**20, f"{int(taken) / 2**20:.0f} MB"


def test_a_parquet_file_of_few_bytes_and_many_rows_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    zeros = pa.repeat(pa.scalar(0.0), 20_000_000)
    pq.write_table(pa.table({"a": zeros, "b": zeros, "label": zeros}), path, compression="zstd")
    assert path.stat().st_size < 2**20
    with pytest.raises(dt.InvalidInput, match=r"unpack to more than .* read it in blocks: datasets.stream, --stream"):
        dt.datasets.load(path)


def test_a_line_that_is_too_long_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 1000)
    for name, content in (("a.csv", "a,label\n" + "1" * 2000), ("a.svm", "0 1:1\n" + "1 " + "3" * 2000)):
        (tmp_path / name).write_text(content)
        monkeypatch.setattr("delaytron.datasets.libsvm.BLOCK_BYTES", 8)
        with pytest.raises(dt.InvalidInput, match=r"line 2: a line may have at most 0 MB, got more"):
            dt.datasets.load(tmp_path / name)
