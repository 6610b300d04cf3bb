"""Compiled code on disk: damaged files, read-only and full disks; the program computes the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from cases import SOURCE, run

from delaytron.compiler.cache import seal, unseal
from delaytron.compiler.kernel import CompilerWarning, fill, kernel

pytestmark = pytest.mark.cold

DECIDE = """
import delaytron as dt
learner = dt.AdaptiveDelaytron(3, 2, gamma=0.3, seed=1)
for round in range(20):
    learner.decide([1.0, round % 3])
    learner.feedback(round + 1, correct=round % 2 == 0)
learner.flush()
print(learner.weights.tobytes().hex())
"""
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))" + DECIDE


@pytest.fixture(scope="module")
def decided(tmp_path_factory):
    """Return what the program prints, and the folder with its compiled code."""
    folder = tmp_path_factory.mktemp("compiled")
    return succeed(run(sys.executable, ["-W", "error", "-c", DECIDE], folder)), folder


def succeed(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def warnings_of(done):
    return [line for line in done.stderr.splitlines() if "Warning" in line]


def files_in(folder):
    return sorted(folder.rglob("*.nbc"))


@pytest.fixture
def package_that_cannot_be_written(tmp_path):
    """Copy the package; a file is in the place of the folder for compiled code, which also stops root."""
    copy = tmp_path / "src"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for package in {path.parent for path in copy.rglob("*.py")}:
        (package / "__pycache__").touch()
    return copy


def homeless(folder):
    nowhere = folder / "a file"
    nowhere.touch()
    below = str(nowhere / "folder")
    return {"HOME": below, "XDG_CACHE_HOME": below, "NUMBA_CACHE_DIR": below}


def test_without_a_folder_to_write_to_everything_is_compiled_in_memory(
    package_that_cannot_be_written, tmp_path, decided
):
    environment = homeless(tmp_path) | {"PYTHONPATH": str(package_that_cannot_be_written)}
    done = run(sys.executable, ["-c", DECIDE], **environment)
    assert succeed(done) == decided[0]
    (line,) = warnings_of(done)
    assert "CompilerWarning: compiled code is not kept, since no folder for it can be written" in line
    assert "set NUMBA_CACHE_DIR" in line


def test_a_file_that_cannot_be_written_whole_is_not_kept(tmp_path, decided):
    done = run(sys.executable, ["-c", LIMITED], tmp_path)
    assert succeed(done) == decided[0]
    (line,) = warnings_of(done)
    assert f"compiled code is not kept, since {tmp_path}" in line
    assert line.endswith("cannot be written: File too large; set NUMBA_CACHE_DIR to another folder")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def in_own_mounts(mount, program, environment):
    """Run a program that sees a mount of its own."""
    shell = f'{mount} && exec "$0" -c "$1"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", shell, sys.executable, program]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def can_mount():
    try:
        return in_own_mounts("mount -t tmpfs none /mnt", "", {}).returncode == 0
    except FileNotFoundError:
        return False


mounts = pytest.mark.skipif(not can_mount(), reason="this machine allows no mounts (unshare --mount)")


@mounts
def test_a_full_disk_stops_nothing(tmp_path, decided):
    mount = f"mount -t tmpfs -o size=16k none {tmp_path}"
    done = in_own_mounts(mount, DECIDE, {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(SOURCE)})
    assert succeed(done) == decided[0]
    (line,) = warnings_of(done)
    assert line.endswith("cannot be written: No space left on device; set NUMBA_CACHE_DIR to another folder")


@mounts
def test_a_read_only_disk_stops_nothing(tmp_path, decided):
    mount = f"mount --bind {SOURCE} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    environment = {name: str(tmp_path / "home") for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    done = in_own_mounts(mount, DECIDE, environment | {"PYTHONPATH": str(tmp_path)})
    assert succeed(done) == decided[0]
    assert len(warnings_of(done)) == 1


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def cut(path, length):
    os.truncate(path, length)


def test_a_learner_decides_in_spite_of_damaged_files_and_replaces_them(decided, tmp_path):
    folder = shutil.copytree(decided[1], tmp_path / "compiled")
    whole = {path: path.read_bytes() for path in files_in(folder)}
    assert whole
    for path, content in whole.items():
        flip(path, len(content) // 2)
    done = run(sys.executable, ["-W", "error", "-c", DECIDE], folder)
    assert succeed(done) == decided[0]
    assert files_in(folder) == list(whole)
    for path in whole:
        assert unseal(path.name, path.read_bytes())


@kernel
def part(x):
    return 3.0 * x


@kernel
def add_tripled(a, x):
    for i in range(a.size):
        a[i] += part(x)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Let this process keep its compiled code in an empty folder."""
    with monkeypatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        numba.config.reload_config()
        yield tmp_path
    numba.config.reload_config()


def compiled_or_loaded():
    """Return how often a new kernel was found on disk, having checked what it does."""
    fresh = fill(add_tripled, "test.add_tripled")
    a = np.zeros(3)
    fresh(a, 2.0)
    assert a.tolist() == [6.0, 6.0, 6.0]
    return sum(fresh.compiled.stats.cache_hits.values())


def test_no_flipped_or_missing_byte_is_overlooked(folder):
    assert compiled_or_loaded() == 0
    (path,) = files_in(folder)
    content = path.read_bytes()
    for place in (0, 31, 32, *range(33, len(content), len(content) // 20), len(content) - 1):
        flip(path, place)
        assert compiled_or_loaded() == 0
        assert compiled_or_loaded() == 1
    for length in (0, 1, 31, 32, 33, len(content) // 3, len(content) - 1):
        cut(path, length)
        assert compiled_or_loaded() == 0
        assert compiled_or_loaded() == 1
    for damaged in (bytes(len(content)), content + b"x"):
        path.write_bytes(damaged)
        assert compiled_or_loaded() == 0
        assert compiled_or_loaded() == 1


def test_the_digest_covers_every_bit_and_the_name():
    sealed = seal("a.nbc", bytes(range(40)))
    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="damaged"):
            unseal("a.nbc", bytes(flipped))
    for length in range(len(sealed)):
        with pytest.raises(ValueError, match="damaged"):
            unseal("a.nbc", sealed[:length])
    with pytest.raises(ValueError, match="damaged"):
        unseal("b.nbc", sealed)


def test_code_for_other_types_is_not_taken_for_that_of_these(folder):
    """The name of a file holds a short digest of the types: two may meet in it."""
    fresh = fill(add_tripled, "test.add_tripled")
    fresh(np.zeros(3), 2.0)
    (path,) = files_in(folder)
    cache = fresh.compiled._cache
    other = numba.typeof((np.zeros(3, np.float32), 2.0)).types
    cache._path = lambda signature, codegen: path
    assert cache.load_overload(other, fresh.compiled.targetctx) is None
    assert path.exists()


def test_a_folder_in_the_place_of_a_file_costs_a_warning(folder):
    assert compiled_or_loaded() == 0
    (path,) = files_in(folder)
    path.unlink()
    path.mkdir()
    with pytest.warns(CompilerWarning, match="cannot be written: Is a directory"):
        assert compiled_or_loaded() == 0


def test_compiling_again_removes_the_files(folder):
    fresh = fill(add_tripled, "test.add_tripled")
    fresh(np.zeros(3), 2.0)
    fresh.compiled.recompile()
    assert len(files_in(folder)) == 1
    assert sum(fresh.compiled.stats.cache_hits.values()) == 0


def test_the_folder_is_that_of_numba(folder):
    assert Path(fill(add_tripled, "test.add_tripled").compiled.stats.cache_path).parent == folder


SWAPPED = """
import delaytron as dt
learner = dt.Delaytron(2, 1, gamma=0.25, eta=3.0, seed=1)
decision = learner.decide([1.0])
learner.feedback(decision.id, correct=False)
learner.flush()
print(decision.prob, learner.weights.min())
"""


def changed_copy(tmp_path, file, old, new):
    """Return a copy of the package, and how to change one of its files."""
    copy = tmp_path / "src"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / "delaytron" / file

    def change():
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return copy, change


def run_copy(copy, script):
    environment = {"PATH": os.environ["PATH"], "HOME": str(copy), "PYTHONPATH": str(copy)}
    command = [sys.executable, "-B", "-c", script]
    return succeed(subprocess.run(command, env=environment, capture_output=True, text=True, check=False))


def test_code_for_parameters_in_another_order_is_not_used(tmp_path):
    """Machine code finds gamma by its place in the tuple of parameters."""
    fields = "    gamma: float\n    eta: float\n"
    copy, change = changed_copy(tmp_path, "learners/delaytron.py", fields, "    eta: float\n    gamma: float\n")
    path = copy / "delaytron" / "learners" / "delaytron.py"
    given = "Params(self.gamma, self.eta)"
    path.write_text(path.read_text().replace(given, "Params(gamma=self.gamma, eta=self.eta)"))
    before = run_copy(copy, SWAPPED)
    change()
    assert run_copy(copy, SWAPPED) == before


def test_code_compiled_with_other_options_is_not_used(tmp_path):
    copy, change = changed_copy(tmp_path, "compiler/kernel.py", '"error_model": "numpy"', '"error_model": "python"')
    run_copy(copy, SWAPPED)
    kept = set(files_in(copy))
    change()
    run_copy(copy, SWAPPED)
    assert kept
    assert set(files_in(copy)) > kept
