"""Other processes answer and are killed; only one process at a time owns a journal."""

import subprocess
import sys

import pytest
from models import environment, learner_of, refused, replayed_digest, run_python, small_model

import delaytron as dt
from delaytron.model.verify import verify_journal


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
    assert len(model.open_decisions()) == 3  # not taken yet
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


def test_a_late_answer_from_another_process_is_kept_and_not_learned_from(path, clock):
    model, twin = (small_model(journal=journal, expire_after=1) for journal in (path, None))
    for one in (model, twin):
        one.decide_many([[1, 0], [1, 1]], ids=["a", "b"])
    with dt.Journal(path) as journal:
        assert journal.feedback("a", correct=True) == twin.feedback("a", correct=True) == "late"
        assert journal.feedback("a", correct=True) == "duplicate"
    assert model.decide([1, 3], id="d") == twin.decide([1, 3], id="d")
    assert model.digest() == twin.digest()
    assert (model.stats().late, model.stats().answered) == (1, 0)
    assert verify_journal(path).facts["answered late"] == 1
    model.close()


def test_answers_given_while_the_model_was_closed_are_taken_later(path):
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
        refused(again, lambda: again.decide([1, 0], id="29"), "issued before", error=dt.ConflictingDecision)
        assert again.decide([1, 29], id="29").round == 30  # a retry


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
import gc, os, subprocess, sys, warnings
warnings.simplefilter("ignore")
import delaytron as dt
from models import small_model
path, durability = sys.argv[1:]
model, memory = small_model(journal=path, durability=durability), small_model()
for one in (model, memory):
    one.decide([1, 0], id="a")
child = os.fork()
if child == 0:
    calls = {
        "decide": lambda: model.decide([1, 0]),
        "feedback": lambda: model.feedback("a", correct=True),
        "predict": lambda: model.predict([1, 0]),
        "stats": lambda: model.stats(),
        "decision": lambda: model.decision("a"),
        "digest": lambda: model.digest(),
        "save": lambda: model.save(path + ".model"),
    }
    for round in range(2):
        for name, call in calls.items():
            try:
                call()
            except dt.JournalError as problem:
                assert "was opened before this process was forked; open it again" in str(problem), problem
            else:
                raise AssertionError(name)
        # What needs no journal is as it was when the process was forked, also after a close, which does nothing.
        assert model.classes == memory.classes and repr(model) == repr(memory), model
        assert "decisions" in model._repr_html_()
        model.close()
    assert memory.predict([1, 0]) in model.classes and memory.decide([1, 0]).round == 2
    del model, one, calls, call
    gc.collect()
    print("closed", flush=True)
    sys.exit(0)  # through all finalizers
assert os.waitpid(child, 0)[1] == 0
command = f"import delaytron as dt; dt.Model.open({path!r})"
other = subprocess.run([sys.executable, "-c", command], stderr=-1, text=True)
print(f"in use by process {os.getpid()}" in other.stderr)
print(model.decide([1, 0]).round, memory.decide([1, 0]).round)
model.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.parametrize("durability", ["full", "batched"])
def test_a_forked_child_leaves_the_journal_to_its_parent(path, durability):
    done = run_python(FORK, path, durability)
    assert done.stdout.splitlines() == ["closed", "True", "2 2"], done.stderr
    with dt.Model.open(path) as model:
        assert model.stats().decisions == 2
    assert verify_journal(path).mismatch is None
