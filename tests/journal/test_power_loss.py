"""Loss of power: whatever of the unsynced writes is left, all that was acknowledged is there."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from shutil import rmtree, which

import pytest
from workload import check, lines

from crashes import Disk, build_recorder, images, read_log

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(sys.platform != "linux" or which("gcc") is None, reason="needs gcc and LD_PRELOAD")


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    return build_recorder(tmp_path_factory.mktemp("recorder"))


def play(recorder, folder, seed, number):
    """Play the workload in a child; return the calls that it made."""
    log = folder.parent / "log"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "LD_PRELOAD": str(recorder),
        "RECORDER_FOLDER": str(folder),
        "RECORDER_LOG": str(log),
    }
    command = [sys.executable, HERE / "workload.py", "decide", folder, str(seed), str(number)]
    subprocess.run(command, check=True, env=environment, timeout=300)
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


@pytest.fixture
def folder(tmp_path):
    folder = Path(os.path.realpath(tmp_path)) / "journal"
    folder.mkdir()
    return folder


def test_60_crashes(recorder, folder, tmp_path):
    calls = play(recorder, folder, seed=1, number=15)
    assert {call.kind for call in calls} >= {"w", "s", "c", "u"}
    assert len(lines(b"".join(call.data for call in calls if call.name == "acks"))) == 180
    found = try_images(calls, tmp_path / "image", Random(1), 60)
    assert len({acknowledged for acknowledged, _ in found}) > 20


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
def test_600_crashes(recorder, folder, tmp_path, seed):
    calls = play(recorder, folder, seed, number=60)
    try_images(calls, tmp_path / "image", Random(seed), 60)


def test_the_images_show_a_missing_sync(recorder, folder, tmp_path):
    """The test of the test: without the syncs of the log, acknowledged facts are lost."""
    calls = [
        call for call in play(recorder, folder, seed=2, number=15) if not call.name.endswith("-wal") or call.kind != "s"
    ]
    with pytest.raises(AssertionError, match="was lost"):
        try_images(calls, tmp_path / "image", Random(2), 60)


def test_without_a_crash_the_recorded_calls_make_the_file(recorder, folder):
    disk = Disk()
    for call in play(recorder, folder, seed=3, number=5):
        disk.apply(call)
    for file in disk.names.values():
        file.sync()
    assert {name: bytes(file.stored) for name, file in disk.names.items()} == {"a.db": (folder / "a.db").read_bytes()}
