"""Who may own a file: one process, as long as it lives, and no child of it."""

import os
import signal
import subprocess
import sys
from multiprocessing import get_context

import pytest
from journals import decide, open_store, refused

from delaytron.errors import JournalError
from delaytron.journal import Journal

posix = pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")


def test_a_second_owner_in_this_process_is_refused_until_the_first_closes(tmp_path):
    path = tmp_path / "a.db"
    first = open_store(path)
    refused(lambda: open_store(path), "open in this process already")
    decide(first, "a")
    first.close()
    with open_store(path) as second:
        assert second.last_seq == 1


OWNER = """
import sys
from journals import decide, open_store
store = open_store(sys.argv[1])
decide(store, "a")
print("open", flush=True)
sys.stdin.read()
"""


def start_owner(path, script=OWNER):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert owner.stdout.readline() == b"open\n"
    return owner


@posix
def test_a_second_owner_is_refused_until_the_first_is_dead(tmp_path):
    path = tmp_path / "a.db"
    owner = start_owner(path)
    refused(lambda: open_store(path), f"in use by process {owner.pid};", "dt.Journal")
    with Journal(path) as journal:
        assert journal.feedback("a", correct=False) == "accepted"
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    with open_store(path) as store:
        assert store.last_seq == 1
        with store.batch():
            assert [arrival.id for arrival in store.inbox()] == ["a"]


def use_in_child(store, journal, pipe):
    errors = []
    for use in (lambda: decide(store, "b"), lambda: store.status("a"), lambda: journal.feedback("a", correct=True)):
        try:
            use()
        except JournalError as problem:
            errors.append(str(problem))
    store.close()
    journal.close()
    pipe.send(errors)
    pipe.recv()


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_must_open_it_again_and_holds_no_lock(tmp_path):
    path = tmp_path / "a.db"
    store = open_store(path)
    decide(store, "a")
    journal = Journal(path)
    ours, theirs = get_context("fork").Pipe()
    child = get_context("fork").Process(target=use_in_child, args=(store, journal, theirs))
    child.start()
    assert ours.poll(30)
    errors = ours.recv()
    assert len(errors) == 3
    assert all("forked; open it again" in error for error in errors)
    refused(lambda: open_store(path), "open in this process already")
    assert decide(store, "b") == 2
    journal.close()
    store.close()
    open_store(path).close()  # while the child lives
    ours.send("end")
    child.join()


@posix
def test_a_child_of_a_dead_owner_does_not_keep_the_file(tmp_path):
    owner = start_owner(tmp_path / "a.db", OWNER.replace("print(", "import os; os.fork() or print("))
    owner.kill()
    owner.wait()
    open_store(tmp_path / "a.db").close()
    owner.communicate()  # ends the child


FORKS = """
import os, sys
from journals import NOW, open_store
store = open_store(sys.argv[1])
with store.batch():
    store._database.execute("PRAGMA cache_size = 1")  # so that some of it is in the log already
    store.append(1, None, b"x" * 100_000, NOW)
    if os.fork() == 0:
        sys.exit(0)
    assert os.wait()[1] == 0
    store.append(1, None, b"", NOW)
    assert len(list(store.facts())) == 2
store.close()
"""


@posix
def test_a_child_that_leaves_a_batch_of_its_parent_changes_nothing(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", FORKS, tmp_path / "a.db"], check=True, env=environment)
    with open_store(tmp_path / "a.db") as store:
        assert [(fact.seq, len(fact.body)) for fact in store.facts()] == [(1, 100_000), (2, 0)]
