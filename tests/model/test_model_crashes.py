"""kill -9 and loss of power: nothing that a model acknowledged is lost, and its state is the replay of its journal."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from shutil import rmtree, which
from time import monotonic, sleep

import pytest
from model_workload import acknowledged_in, check, lines

from crashes import build_recorder, images, read_log

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


class Players:
    """A process that forks owners and answerers; each can be killed."""

    def __init__(self, folder):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
        command = [sys.executable, WORKLOAD, "kill", folder]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        self.folder = folder
        self.living = set()
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, line):
        number = self.ask(line)
        self.living.add(number)
        return number

    def start_owner(self, seed):
        number = self.start(f"own {seed}")
        until = monotonic() + 60
        while not (self.folder / f"acks {number}").exists():
            assert monotonic() < until, "the owner did not begin"
            sleep(0.002)
        return number

    def kill(self, number):
        self.living.remove(number)
        os.kill(number, signal.SIGKILL)
        assert self.ask(f"wait {number}") == -signal.SIGKILL, "it had ended by itself"

    def check(self):
        assert self.ask(f"wait {self.ask('check')}") == 0

    def close(self):
        for number in self.living:  # of a test that failed
            os.kill(number, signal.SIGKILL)
        self.process.communicate()


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
