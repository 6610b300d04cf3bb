"""Others answer, are killed, or want to decide as well: one process owns a journal."""

import subprocess
import sys

import pytest
from models import clock_fixture, environment, learner_of, refused, replayed_digest, run_python, small_model  # noqa: F401

import delaytron as dt

WORDS = {"learner": "delaytron", "bits": 6, "seed": 3, "gamma": 0.5}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "router.db"


ANSWER = """
import sys, delaytron as dt
with dt.Journal(sys.argv[1]) as journal:
    print(journal.feedback("a", correct=True), journal.feedback("b", reward=0.25), journal.feedback("c", label="huge"))
"""


def test_answers_from_another_process_are_applied_at_the_next_decision(path, clock):
    model, twin = small_model(journal=path), small_model()
    for one in (model, twin):
        one.add_class("huge")
        one.decide_many([[1, 0], [1, 1], [1, 2]], ids=["a", "b", "c"])
    done = run_python(ANSWER, path)
    assert done.stdout.split() == ["accepted"] * 3, done.stderr
    assert len(model.open_decisions()) == 3  # not taken in yet
    twin.feedback("a", correct=True)
    twin.feedback("b", reward=0.25)
    twin.feedback("c", label="huge")
    assert model.decide([1, 3], id="d") == twin.decide([1, 3], id="d")
    assert [decision.id for decision in model.open_decisions()] == ["d"]
    assert learner_of(model).weights.tobytes() == learner_of(twin).weights.tobytes()
    assert model.feedback("a", correct=True) == "duplicate"
    model.close()
    assert run_python(ANSWER, path).stdout.split() == ["duplicate"] * 3
    with dt.Model.open(path) as again:
        digest = again.digest()
    assert replayed_digest(path) == digest


def test_answers_that_came_while_nobody_decided_are_taken_in(path):
    model = small_model(journal=path)
    model.add_class("huge")
    model.decide_many([[1, 0]] * 3, ids=["a", "b", "c"])
    model.close()
    assert run_python(ANSWER, path).stdout.split() == ["accepted"] * 3
    with dt.Model.open(path) as again:
        assert again.stats().answered == 0
        again.decide([1, 0])
        assert again.stats().answered == 3


OWN = """
import sys, os, signal
from models import small_model
model = small_model(journal=sys.argv[1])
count = int(sys.argv[2])
for t in range(count):
    model.decide([1, t], id=str(t))
    if t % 2:
        model.feedback(str(t), correct=True)
print(model.digest(), flush=True)
if sys.argv[3] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


def test_a_killed_process_loses_nothing(path):
    done = run_python(OWN, path, 30, "kill")
    assert done.returncode < 0
    with small_model(journal=path) as again:
        assert again.digest() == done.stdout.strip()
        assert again.stats().decisions == 30
        refused(again, lambda: again.decide([1, 0], id="29"), "issued before")


def test_a_second_owner_is_refused_until_the_first_is_dead(path):
    command = [sys.executable, "-c", OWN, str(path), "3", "wait"]
    with subprocess.Popen(command, env=environment(), stdin=-1, stdout=-1, text=True) as owner:
        digest = owner.stdout.readline().strip()
        for make in (dt.Model.open, lambda path: small_model(journal=path)):
            with pytest.raises(dt.InvalidInput, match=f"in use by process {owner.pid}"):
                make(path)
        with dt.Journal(path) as journal:
            assert journal.feedback("2", correct=True) == "accepted"
        owner.kill()
    with dt.Model.open(path) as model:
        assert model.digest() != digest  # the answer has come
        assert model.stats().answered == 2


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
import delaytron as dt
from models import small_model
model, memory = small_model(journal=sys.argv[1]), small_model()
for one in (model, memory):
    one.decide([1, 0], id="a")
if os.fork() == 0:
    try:
        model.decide([1, 0])
    except dt.JournalError as problem:
        print(problem, flush=True)
    print(model.predict([1, 0]) in model.classes, memory.decide([1, 0]).round, flush=True)
    with model:
        pass
    print("closed", flush=True)
    os._exit(0)
os.wait()
print(model.decide([1, 0]).round, memory.decide([1, 0]).round)
model.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_forked_child_leaves_the_journal_to_its_parent(path):
    done = run_python(FORK, path)
    lines = done.stdout.splitlines()
    assert "was opened before this process was forked" in lines[0], done.stderr
    assert lines[1:] == ["True 2", "closed", "2 2"]
    with dt.Model.open(path) as model:
        assert model.stats().decisions == 2
