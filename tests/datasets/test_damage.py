"""Files with overwritten bytes: they are loaded, or refused in one line; the process never dies, and never hangs."""

import gzip
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from damage import FORMATS
from pyarrow import feather
from pyarrow import parquet as pq

import delaytron as dt
from delaytron.datasets.columns import plan_columns
from delaytron.datasets.tables import table_source
from delaytron.delays import Trace
from delaytron.files import compressed

SCRIPT = Path(__file__).with_name("damage.py")
QUICK, MANY = 300, 10_000


def survive(kind, count, folder):
    """Load damaged files in a process of their own; the last number that it printed is that of the deadly one."""
    command = [sys.executable, SCRIPT, kind, "0", str(count), folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False, env=os.environ)
    last = done.stdout.split()[-1:]
    assert done.returncode == 0, f"file {last} of {kind}: exit code {done.returncode}\n{done.stderr[-2000:]}"
    assert last == [str(count - 1)]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_file_is_loaded_or_refused_in_one_line(kind, tmp_path):
    survive(kind, QUICK, tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("kind", FORMATS)
def test_many_damaged_files_are_loaded_or_refused_in_one_line(kind, tmp_path):
    survive(kind, MANY, tmp_path)


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


@pytest.mark.parametrize("told", [-1, 0, 59, 61, 10**15])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_table_with_another_number_of_rows_than_it_says_is_refused(told, sparse):
    columns = {"a": [f"word {i % (30 if sparse else 3)}" for i in range(60)], "label": ["u", "v"] * 30}
    source = table_source("a.parquet", pa.table(columns), str)._replace(n_rows=told)
    with pytest.raises(dt.InvalidInput, match=r"must have .* rows as it says|but this machine has"):
        plan_columns(source, "label").whole()


def npz_with_header(path, header):
    """Write an NPZ file whose X says of itself what one likes."""
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
from delaytron.files import compressed
compressed.UNSUSPICIOUS = int(sys.argv[3])
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


def in_another_process(path, folder, allowed=compressed.UNSUSPICIOUS):
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
    """Where a file raises in the threads of pyarrow, they wait for ever at the end of the process."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(HEADER + ZEROS * 60))
    assert "MB of it unpack to more than" in in_another_process(path, tmp_path, allowed=40_000_000)


class TestUnpacking:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(compressed, "UNSUSPICIOUS", 2**20)

    @pytest.mark.parametrize("ending", compressed.OPENERS)
    @pytest.mark.parametrize(
        ("name", "head", "row"), [("a.csv", b"a,b,label\n", b"0,0,%d\n"), ("a.svm", b"", b"%d 1:0 2:0\n")]
    )
    def test_a_small_file_that_unpacks_to_a_large_one_is_refused(self, name, head, row, ending, tmp_path):
        path = tmp_path / f"{name}{ending}"
        with compressed.OPENERS[ending](path, "wb") as file:
            file.write(head + b"".join(row % (i % 2) for i in range(300_000)))
        assert "MB of it unpack to more than" in refused(path)

    def test_a_trace_that_unpacks_to_a_large_one_is_refused(self, tmp_path):
        path = tmp_path / "a.txt.gz"
        with compressed.OPENERS[".gz"](path, "wb") as file:
            file.write(b"1\n" * 1_000_000)
        assert "MB of it unpack to more than" in refused(path, Trace)

    def test_an_npz_that_unpacks_to_a_large_one_is_refused(self, tmp_path):
        path = tmp_path / "a.npz"
        np.savez_compressed(path, X=np.zeros((10_000, 100)), y=np.arange(10_000) % 2)
        assert "save it by numpy.savez, or as CSR" in refused(path)

    def test_what_is_packed_as_data_are_is_read(self, tmp_path):
        path = tmp_path / "a.csv.gz"
        rows = "".join(f"{a:.3f},{i % 2}\n" for i, a in enumerate(np.random.default_rng(0).random(200_000)))
        with compressed.OPENERS[".gz"](path, "wt") as file:
            file.write("a,label\n" + rows)
        assert dt.datasets.load(path).n_rows == 200_000
