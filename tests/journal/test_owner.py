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


def start_owner(path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
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
