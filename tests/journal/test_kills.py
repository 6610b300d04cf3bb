"""kill -9 at random moments: four threads decide, two other processes answer, and nothing acknowledged is lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from time import sleep

import pytest
from workload import check

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")


def start(what, folder, seed):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, Path(__file__).with_name("workload.py"), what, folder, seed]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


def wait_for(*children):
    for child in children:
        assert child.stdout.readline() == b"ready\n"


def kill(child):
    child.kill()
    child.communicate()
    assert child.returncode == -signal.SIGKILL, "it had ended by itself"


def play_round(folder, random, number):
    """Start all, kill them one after the other, check what is there; the file stays for the next round."""
    owner = start("own", folder, f"{number}")
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


def whole_lines(path):
    content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1]


def play(folder, seed, rounds):
    random = Random(seed)
    found = [play_round(folder, random, number) for number in range(rounds)]
    answers, facts = zip(*found, strict=True)
    assert sorted(facts) == list(facts)
    assert facts[-1] > 10
    assert answers[-1] > 0


def test_3_rounds_of_kills(tmp_path):
    play(tmp_path, seed=-1, rounds=3)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
def test_10_rounds_of_kills(tmp_path, seed):
    play(tmp_path, seed, rounds=10)
