"""Damaged and crafted files of learners: refused in one line, quickly, without the memory that they claim to need."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_files import changed, with_header
from test_online import ROWS, trained

import delaytron as dt
from delaytron.files.tensors import MAX_HEADER, pack_tensors, read_tensors


def small(path):
    """Save a learner in a small file: no feature too many, one decision open, one answer queued."""
    learner = dt.Gap(2, 1, seed=0)
    learner.decide([0.5])
    learner.feedback(learner.decide([0.25]).id, correct=True)
    learner.save(path)
    return path.read_bytes()


def refusal(path):
    with pytest.raises(dt.InvalidInput) as caught:
        dt.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_every_flipped_bit_is_refused(tmp_path):
    path = tmp_path / "a"
    content = bytearray(small(path))
    with path.open("r+b", buffering=0) as file:
        for place, byte in enumerate(content):
            for bit in range(8):
                file.seek(place)
                file.write(bytes([byte ^ 1 << bit]))
                refusal(path)
            file.seek(place)
            file.write(bytes([byte]))
    assert dt.load(path).pending == 1


def test_a_flipped_bit_among_the_numbers_is_a_digest_mismatch(tmp_path):
    content = bytearray(small(tmp_path / "a"))
    content[-1] ^= 1
    (tmp_path / "a").write_bytes(content)
    message = f"{tmp_path / 'a'} is damaged: it does not match its SHA-256 digest; restore it from a backup"
    assert refusal(tmp_path / "a") == message


def test_a_truncated_or_longer_file_is_refused(tmp_path):
    path = tmp_path / "a"
    content = small(path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        refusal(path)
    path.write_bytes(content + b"\0")
    refusal(path)


def test_a_file_without_a_digest_is_refused(tmp_path):
    from safetensors.numpy import save_file

    small(tmp_path / "a")
    texts, tensors = read_tensors(tmp_path / "a")
    save_file(tensors, tmp_path / "a", texts)
    assert "has no SHA-256 digest" in refusal(tmp_path / "a")


def test_the_digest_can_be_checked_without_this_library(tmp_path):
    from hashlib import sha256

    from safetensors import safe_open

    small(tmp_path / "a")
    with safe_open(tmp_path / "a", framework="numpy") as file:
        digest = file.metadata()["sha256"].encode()
    assert sha256((tmp_path / "a").read_bytes().replace(digest, b"0" * 64)).hexdigest().encode() == digest


def test_a_setting_with_as_many_zeros_as_a_digest_is_loaded(tmp_path):
    learner = dt.Banditron(2, 1, seed=10**70)
    learner.save(tmp_path / "a")
    assert dt.load(tmp_path / "a").seed == 10**70


@pytest.mark.parametrize("rows", [ROWS, [csr_matrix(row) for row in ROWS]])
@pytest.mark.parametrize("cls", dt.LEARNERS.values())
def test_two_saves_have_the_same_bytes(cls, rows, tmp_path):
    learner = trained(cls, rows)
    contents = set()
    for _ in range(8):
        learner.save(tmp_path / "a")
        contents.add((tmp_path / "a").read_bytes())
    dt.load(tmp_path / "a").save(tmp_path / "b")
    assert contents == {(tmp_path / "b").read_bytes()}


LOADING = """
import resource, sys, time
import delaytron as dt
import safetensors.numpy
from delaytron.learners import files
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 64 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sys.argv[1:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    try:
        dt.load(path)
        message = "loaded"
    except dt.InvalidInput as problem:
        message = str(problem)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{time.perf_counter() - start:.3f}", grown, message)
"""

SETTINGS = {"soba": [{}, {"matrix": "full"}], "newtron": [{}, {"matrix": "full"}], "rcnbf": [{}, {"estimate": True}]}
SETTINGS |= {"confidit": [{"matrix": "full"}, {"matrix": "diagonal"}]}
HUGE = [{"n_features": 3 * 10**8}, {"n_classes": 3 * 10**8}, {"n_features": 2**62}, {"n_classes": 2**62, "m": 2}]


def resized(header, huge):
    """Change the sizes that a file claims, those of the learner inside it if there is one."""
    inner = header["settings"].get("base", header)
    known = {name: value for name, value in huge.items() if name in inner["settings"]}
    inner["settings"] |= known
    return json.dumps(header)


def crafted(learner, path, huge):
    learner.save(path)
    texts, _ = read_tensors(path)
    with_header(resized(json.loads(texts["header"]), huge))(path)
    return path


def variants():
    for name, cls in dt.LEARNERS.items():
        for settings in SETTINGS.get(name, [{}]):
            yield cls(3, 2, seed=0, **settings)
            yield dt.Bold(cls(3, 2, seed=0, **settings))


@pytest.mark.skipif(sys.platform != "linux", reason="measures the memory of a process as Linux reports it")
def test_sizes_that_the_file_has_no_numbers_for_cost_neither_time_nor_memory(tmp_path):
    cases = [(learner, huge) for learner in variants() for huge in HUGE]
    paths = [crafted(learner, tmp_path / str(i), huge) for i, (learner, huge) in enumerate(cases)]
    for (learner, _), path in zip(cases, paths, strict=True):  # `gated_logit` keeps rows of answers for two models
        assert path.stat().st_size < (100_000 if "GatedLogit" in repr(learner) else 12_000)
    done = subprocess.run([sys.executable, "-c", LOADING, *paths], capture_output=True, text=True, check=True)
    for (learner, huge), line in zip(cases, done.stdout.splitlines(), strict=True):
        seconds, kilobytes, message = line.split(" ", 2)
        assert float(seconds) < 1
        assert int(kilobytes) < 20_000
        if "exp3" in repr(learner).lower() and huge == {"n_features": 3 * 10**8}:
            assert message == "loaded"  # it sees no features, and has no numbers for them
        else:
            assert "is not a learner that this version can read" in message


@pytest.mark.parametrize("length", [MAX_HEADER + 1, 100_000_000, 2**63])
def test_a_header_that_claims_to_be_long_is_not_read(length, tmp_path):
    (tmp_path / "a").write_bytes(length.to_bytes(8, "little") + b"{" * 1000)
    assert f"its header would have {length} bytes" in refusal(tmp_path / "a")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"__metadata__":{"a":'])
def test_a_nested_header_is_refused(opening, tmp_path):
    header = opening * (60_000 // len(opening))
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header)
    assert "is not a safetensors file" in refusal(tmp_path / "a")


def test_deeply_nested_pools_are_refused(tmp_path):
    learner = dt.Bold(dt.Banditron(2, 1, seed=0))
    learner.save(tmp_path / "a")
    deep = '{"learner":"bold","settings":{"base":' * 900 + "{}" + "}}" * 900
    with_header(deep)(tmp_path / "a")
    assert "is not a learner that this version can read" in refusal(tmp_path / "a")


@pytest.mark.parametrize("name", ["folder", "none", "pipe"])
def test_a_path_that_is_no_regular_file_is_refused(name, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    refusal(tmp_path / name)


def test_unknown_metadata_is_refused(tmp_path):
    small(tmp_path / "a")
    texts, tensors = read_tensors(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"".join(pack_tensors(tensors, texts | {"more": ""})))
    assert "is damaged: its header has ['format', 'header', 'more']" in refusal(tmp_path / "a")


def test_a_file_without_numbers_is_refused(tmp_path):
    small(tmp_path / "a")
    texts, _ = read_tensors(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"".join(pack_tensors({}, texts)))
    assert "is not a learner that this version can read" in refusal(tmp_path / "a")


def test_a_state_of_another_type_is_refused(tmp_path):
    small(tmp_path / "a")
    changed(**{"state.W": np.zeros((2, 1), np.float32)})(tmp_path / "a")
    assert "state.W has shape (2, 1) of float32, expected (2, 1) of float64" in refusal(tmp_path / "a")


SAVING = """
import sys
import delaytron as dt
learner = dt.load(sys.argv[1])
while True:
    learner.decide([1.0] * 500)
    learner.save(sys.argv[1])
    print(learner.book.rounds, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_a_learner_that_is_killed_while_it_saves_leaves_a_whole_file(tmp_path):
    """Each process continues from the file of the one before; 20 kills, at moments spread over several saves."""
    path = tmp_path / "model"
    random = np.random.default_rng(9)
    dt.Banditron(3, 500, seed=0).save(path)
    interpreted = os.environ | {"NUMBA_DISABLE_JIT": "1"}  # the compiler takes two seconds to start
    rounds = 0
    for _ in range(20):
        process = subprocess.Popen([sys.executable, "-c", SAVING, path], stdout=subprocess.PIPE, env=interpreted)
        assert int(process.stdout.readline()) == rounds + 1
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=random.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        reported = [int(line) for line in process.communicate()[0].split()]
        assert len(list(tmp_path.iterdir())) <= 2
        last = max([rounds + 1, *reported])
        rounds = dt.load(path).book.rounds
        assert rounds in (last, last + 1)  # the last save that was reported, or the one after it
    dt.load(path).save(path)
    assert list(tmp_path.iterdir()) == [path]
