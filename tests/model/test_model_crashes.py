"""kill -9 and loss of power: nothing that a model acknowledged is lost, and its state is the replay of its journal."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random
from shutil import rmtree, which
from time import monotonic, sleep

import pytest
from model_workload import acknowledged_in, check, lines

from crashes import build_recorder, images, read_log
from delaytron.model.verify import verify_journal
from dsjson_lines import event, outcome, write
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
    """Owners and answerers of a journal, and imports of a log."""

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


@pytest.mark.parametrize(("kills", "every"), [(12, 4), pytest.param(300, 1, marks=pytest.mark.torture)])
def test_kills(players, folder, kills, every):
    """Nothing acknowledged is lost; what one kill cost would be missing in every later check."""
    random = Random(kills)
    players.kill(players.start_owner("first"))
    answerers = [players.start(f"answer {each}") for each in range(2)]
    for number in range(kills):
        owner = players.start_owner(number)
        sleep(random.uniform(0, 0.3))
        players.kill(owner)
        if number % every == 0:
            players.check()
    for answerer in answerers:
        players.kill(answerer)
    players.check()
    acknowledged = acknowledged_in(folder)
    assert sum(what == "decided" for what, *_ in acknowledged) > 3 * kills
    assert sum(what == "answered" for what, *_ in acknowledged) > kills


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


# kill -9 during an import: started again, it ends with the same facts as one that was not killed

EVENTS = 2500


def facts_of(journal):
    """Return all facts but for their times."""
    try:
        connection = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    except sqlite3.OperationalError:  # it is not there yet
        return []
    try:
        return connection.execute("SELECT seq, kind, id, body FROM facts ORDER BY seq").fetchall()
    except sqlite3.OperationalError:  # it is being made
        return []
    finally:
        connection.close()


def kill_after(players, count):
    """Import until there are `count` facts, then kill; return whether it was killed before its end."""
    importer = players.ask("import log.dsjson killed.db")
    until = monotonic() + 300
    while len(facts_of(players.folder / "killed.db")) < count:
        assert monotonic() < until, "the import makes no progress"
        sleep(0.001)
    os.kill(importer, signal.SIGKILL)
    return players.ask(f"wait {importer}") == -signal.SIGKILL


def log_lines(random):
    """Return events with answers beside them, much later, before them, and never."""
    made = []
    for i in range(EVENTS):
        kind = random.random()
        reward = round(random.random(), 3)
        made.append(event(f"e{i}", i % 3, 0.5, reward if kind < 0.4 else None, context={"hour": i % 24}))
        if kind > 0.6:
            made.insert(random.randrange(len(made)), outcome(f"e{i - random.randrange(1000)}", reward))
    return made


def test_a_killed_import_continues(players, folder):
    random = Random(5)
    write(folder / "log.dsjson", log_lines(random))
    assert players.ask(f"wait {players.ask('import log.dsjson whole.db')}") == 0
    expected = facts_of(folder / "whole.db")
    points = sorted(random.randrange(len(expected) * 3 // 4) for _ in range(3))
    kills = sum(kill_after(players, point) for point in [1, *points])
    assert kills >= 3
    before = facts_of(folder / "killed.db")
    assert before == expected[: len(before)]
    assert len(before) < len(expected)
    assert players.ask(f"wait {players.ask('import log.dsjson killed.db')}") == 0
    assert facts_of(folder / "killed.db") == expected
    assert verify_journal(folder / "killed.db").mismatch is None
