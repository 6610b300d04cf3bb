"""kill -9 and loss of power: nothing that a model acknowledged is lost, and its state is the replay of its journal."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from shutil import rmtree, which
from time import monotonic, sleep

import pytest
from model_workload import acknowledged_in, check, lines

from crashes import build_recorder, images, read_log
from forking import Forker

HERE = Path(__file__).parent
WORKLOAD = HERE / "model_workload.py"

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs fork and SIGKILL"),
    pytest.mark.xdist_group("bandit_logit"),
]


@pytest.fixture
def folder(tmp_path):
    folder = Path(os.path.realpath(tmp_path)) / "journal"
    folder.mkdir()
    return folder


class Players(Forker):
    """Owners and answerers of a journal."""

    def __init__(self, folder):
        self.folder = folder
        super().__init__(WORKLOAD, "kill", folder)

    def start_owner(self, seed):
        number = self.start(f"own {seed}")
        until = monotonic() + 60
        while not (self.folder / f"acks {number}").exists():
            assert monotonic() < until, "the owner did not begin"
            sleep(0.002)
        return number

    def check(self):
        assert self.ask(f"wait {self.ask('check')}") == 0


@pytest.fixture
def players(folder):
    players = Players(folder)
    yield players
    players.close()


@pytest.mark.parametrize("kills", [20, pytest.param(300, marks=pytest.mark.torture)])
def test_kills(players, folder, kills):
    random = Random(kills)
    players.kill(players.start_owner("first"))
    answerers = [players.start(f"answer {each}") for each in range(2)]
    for number in range(kills):
        owner = players.start_owner(number)
        sleep(random.uniform(0, 0.3))
        players.kill(owner)
        players.check()
    for answerer in answerers:
        players.kill(answerer)
    players.check()
    told = acknowledged_in(folder)
    assert sum(what == "decided" for what, *_ in told) > 3 * kills
    assert sum(what == "answered" for what, *_ in told) > kills


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    if which("gcc") is None:
        pytest.skip("needs gcc")
    return build_recorder(tmp_path_factory.mktemp("recorder"))


def record(recorder, folder, seed, number):
    log = folder.parent / "log"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]),
        "LD_PRELOAD": str(recorder),
        "RECORDER_FOLDER": str(folder),
        "RECORDER_LOG": str(log),
    }
    command = [sys.executable, WORKLOAD, "decide", folder, str(seed), str(number)]
    subprocess.run(command, check=True, env=environment, timeout=300)
    return read_log(log)


def try_images(calls, place, random, count):
    found = set()
    for image, acknowledged in images(calls, random, count):
        place.mkdir()
        for name, content in image.items():
            (place / name).write_bytes(content)
        if "decided" in acknowledged.decode():  # before, there may be no model yet
            found.add(check(place, lines(acknowledged)))
        rmtree(place)
    return found


@pytest.mark.parametrize(
    ("seed", "number", "count"), [(1, 12, 40), pytest.param(2, 60, 500, marks=pytest.mark.torture)]
)
def test_loss_of_power(recorder, folder, tmp_path, seed, number, count):
    calls = record(recorder, folder, seed, number)
    assert len(try_images(calls, tmp_path / "image", Random(seed), count)) > 10
