"""kill -9, loss of power, a full disk, errors of the disk: nothing acknowledged is lost, the store stays usable."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from shutil import rmtree, which
from tempfile import TemporaryDirectory
from time import sleep

import pytest
from crash_workload import NAME, check, lines, open_store

from crashes import Disk, build_recorder, images, read_log

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
MEMORY = Path("/dev/shm")  # noqa: S108
ALWAYS = 10**9
KINDS = {"w": 40, "s": 15, "t": 1}  # write, sync, truncate: the least number of calls

with_recorder = pytest.mark.skipif(sys.platform != "linux" or which("gcc") is None, reason="needs gcc and LD_PRELOAD")


def torture(*values):
    return pytest.param(*values, marks=pytest.mark.torture)


# kill -9 at random moments: four threads decide, two other processes answer


def start(*arguments):
    command = [sys.executable, HERE / "crash_workload.py", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)


def wait_for(*children):
    for child in children:
        assert child.stdout.readline() == b"ready\n"


def kill(child):
    child.kill()
    child.communicate()
    assert child.returncode == -signal.SIGKILL, "it had ended by itself"


def whole_lines(path):
    content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1]


def play_round(folder, random, number):
    """Start all, kill them in a random order, check what is there; the file stays for the next round."""
    owner = start("own", folder, f"{number}", "full")
    wait_for(owner)
    others = [start("answer", folder, f"{number} {each}") for each in range(2)]
    wait_for(*others)
    children = [owner, *others]
    random.shuffle(children)
    for child in children:
        sleep(random.uniform(0, 0.3))
        kill(child)
    acknowledged = b"".join(whole_lines(path) for path in folder.glob("acks *"))
    return acknowledged.count(b"answered"), check(folder, acknowledged)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
@pytest.mark.parametrize(("seed", "rounds"), [(-1, 3), *[torture(seed, 10) for seed in range(10)]])
def test_kills_at_random_moments(tmp_path, seed, rounds):
    random = Random(seed)
    answers, facts = zip(*[play_round(tmp_path, random, number) for number in range(rounds)], strict=True)
    assert sorted(facts) == list(facts)
    assert facts[-1] > 10
    assert answers[-1] > 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
def test_with_batched_commits_a_kill_costs_at_most_what_is_at_risk(tmp_path):
    owner = start("own", tmp_path, "0", "batched")
    wait_for(owner)
    sleep(0.5)
    kill(owner)
    (acks,) = tmp_path.glob("acks *")
    acknowledged = [int(seq) for _, _, seq in lines(acks.read_bytes())]
    with open_store(tmp_path / NAME) as store:
        kept = store.last_seq
    assert kept > 0
    assert len([seq for seq in acknowledged if seq > kept]) <= 1000 + 4
    check(tmp_path, b"")


# Loss of power: whatever is left of the unsynced writes


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    return build_recorder(tmp_path_factory.mktemp("recorder"))


@pytest.fixture
def folder(tmp_path):
    folder = Path(os.path.realpath(tmp_path)) / "journal"
    folder.mkdir()
    return folder


def play(recorder, folder, seed, number):
    """Play the workload in a child; return the calls that it made."""
    log = folder.parent / "log"
    recording = {"LD_PRELOAD": str(recorder), "RECORDER_FOLDER": str(folder), "RECORDER_LOG": str(log)}
    command = [sys.executable, HERE / "crash_workload.py", "decide", folder, str(seed), str(number)]
    subprocess.run(command, check=True, env={**ENVIRONMENT, **recording}, timeout=300)
    return read_log(log)


def try_images(calls, folder, random, count):
    found = []
    for image, acknowledged in images(calls, random, count):
        folder.mkdir()
        for name, content in image.items():
            (folder / name).write_bytes(content)
        found.append((len(lines(acknowledged)), check(folder, acknowledged)))
        rmtree(folder)
    return found


@with_recorder
def test_60_losses_of_power(recorder, folder, tmp_path):
    calls = play(recorder, folder, seed=1, number=15)
    assert {call.kind for call in calls} >= {"w", "s", "c", "u"}
    assert len(lines(b"".join(call.data for call in calls if call.name == "acks"))) == 180
    found = try_images(calls, tmp_path / "image", Random(1), 60)
    assert len({acknowledged for acknowledged, _ in found}) > 20


@with_recorder
@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
def test_600_losses_of_power(recorder, folder, tmp_path, seed):
    calls = play(recorder, folder, seed, number=60)
    try_images(calls, tmp_path / "image", Random(seed), 60)


@with_recorder
def test_the_images_show_a_missing_sync(recorder, folder, tmp_path):
    """The test of the test: without the syncs of the log, acknowledged facts are lost."""
    calls = [
        call for call in play(recorder, folder, seed=2, number=15) if not call.name.endswith("-wal") or call.kind != "s"
    ]
    with pytest.raises(AssertionError, match="was lost"):
        try_images(calls, tmp_path / "image", Random(2), 60)


@with_recorder
def test_without_a_crash_the_recorded_calls_make_the_file(recorder, folder):
    disk = Disk()
    for call in play(recorder, folder, seed=3, number=5):
        disk.apply(call)
    for file in disk.names.values():
        file.sync()
    assert {name: bytes(file.stored) for name, file in disk.names.items()} == {NAME: (folder / NAME).read_bytes()}


# A full disk and errors of the disk, at every write


@with_recorder
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("durability", ["full", "batched"])
@pytest.mark.parametrize(
    ("error", "times"),
    [("ENOSPC", ALWAYS), ("EIO", 1), torture("EIO", ALWAYS), torture("ENOSPC", 1), torture("EIO", 3)],
)
def test_every_site_of_an_error(recorder, tmp_path, kind, durability, error, times):
    """In a folder in memory, where there is such a thing: what fails here is not the disk."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as place:
        folder = Path(os.path.realpath(place)) / "journal"
        recording = {"LD_PRELOAD": str(recorder), "RECORDER_FOLDER": str(folder)}
        command = [sys.executable, HERE / "crash_faults.py", folder, durability, kind, error, str(times)]
        done = subprocess.run(
            command, env={**ENVIRONMENT, **recording}, timeout=500, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    sites, errors = map(int, done.stdout.split())
    assert sites >= KINDS[kind]
    assert errors > 0 or kind == "t"  # those of a checkpoint are SQLite's: it does it again later
