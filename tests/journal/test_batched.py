"""durability="batched": acknowledged before the sync, committed soon, and errors are told."""

import os
import signal
import sqlite3
import subprocess
import sys
from itertools import chain
from time import monotonic, sleep

import pytest
from journals import NOW, decide, in_threads, open_store

from delaytron.errors import JournalError
from delaytron.journal import Journal


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "a.db", durability="batched")
    yield store
    store.close()


def committed(path):
    rows = sqlite3.connect(path)
    count = rows.execute("SELECT count(*) FROM facts").fetchone()[0]
    rows.close()
    return count


def wait_until(condition, seconds=30):
    until = monotonic() + seconds
    while not condition():
        assert monotonic() < until
        sleep(0.002)


def test_it_says_what_is_at_risk(store, tmp_path):
    assert store.at_risk == (0.05, 1000)
    with open_store(tmp_path / "b.db") as full:
        assert full.at_risk == (0, 0)


def test_it_commits_by_itself(store, tmp_path):
    for i in range(5):
        decide(store, str(i))
    wait_until(lambda: committed(tmp_path / "a.db") == 5)
    decide(store, "later")
    wait_until(lambda: committed(tmp_path / "a.db") == 6)


def test_a_thousand_facts_are_committed_at_once(store, tmp_path):
    with store.batch():
        for _ in range(1000):
            store.append(1, None, b"", NOW)
    assert committed(tmp_path / "a.db") == 1000


def test_close_commits(store, tmp_path):
    decide(store, "a")
    store.close()
    assert committed(tmp_path / "a.db") == 1


def test_a_failed_member_undoes_only_its_own(store):
    decide(store, "a")

    def attempt():
        with store.batch():
            store.open_id("b")
            store.append(1, "b", b"", NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt()
    assert store.generation == 1
    assert decide(store, "c") == 2
    store._group._commit_now()
    assert [fact.id for fact in store.facts()] == ["a", "c"]
    assert store.status("b") is None


def test_an_error_of_the_commit_reaches_the_next_caller(store, monkeypatch):
    def commit():
        raise JournalError("disk full")

    monkeypatch.setattr(store._database, "commit", commit)
    decide(store, "a")
    wait_until(lambda: store.generation == 1)
    monkeypatch.undo()
    with pytest.raises(JournalError, match="disk full; they are lost"):
        decide(store, "b")
    assert decide(store, "c") == 1


def test_an_error_of_the_last_commit_reaches_the_one_who_closes(tmp_path, monkeypatch):
    store = open_store(tmp_path / "a.db", durability="batched")

    def commit():
        raise JournalError("disk full")

    monkeypatch.setattr(store._database, "commit", commit)
    decide(store, "a")
    with pytest.raises(JournalError, match="disk full"):
        store.close()
    open_store(tmp_path / "a.db").close()


def test_many_threads(store):
    def play(thread):
        return [decide(store, f"{thread} {i}") for i in range(300)]

    numbers = in_threads(*[lambda thread=thread: play(thread) for thread in range(8)])
    assert sorted(chain(*numbers)) == list(range(1, 2401))
    store._group._commit_now()
    assert store.last_seq == 2400


def test_a_decision_is_known_to_other_processes_at_once(store, tmp_path):
    with Journal(tmp_path / "a.db") as journal:
        for i in range(5):
            decide(store, str(i))
            assert journal.feedback(str(i), correct=True) == "accepted"


EXITS = """
import sys
from journals import decide, open_store
store = open_store(sys.argv[1], durability="batched")
decide(store, "a")
"""


def test_the_end_of_the_program_commits(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", EXITS, tmp_path / "a.db"], check=True, env=environment)
    assert committed(tmp_path / "a.db") == 1
    assert not (tmp_path / "a.db-lock").exists()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
def test_a_killed_program_loses_at_most_what_was_at_risk(tmp_path):
    script = EXITS + "import time; time.sleep(0.5); print('now', flush=True); time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, "-c", script, tmp_path / "a.db"], stdout=subprocess.PIPE, env=environment)
    assert child.stdout.readline() == b"now\n"
    child.kill()
    child.communicate()
    assert committed(tmp_path / "a.db") == 1


def test_what_an_undone_member_took_out_of_the_inbox_is_there_again(tmp_path):
    path = tmp_path / "a.db"
    with open_store(path, durability="batched") as store:
        decide(store, "a")
        wait_until(lambda: committed(path) == 1)
        with Journal(path) as journal:
            journal.feedback("a", correct=True)
        with pytest.raises(ZeroDivisionError), store.batch():
            1 / len(store.inbox()[1:])
        with store.batch():
            assert [arrival.id for arrival in store.inbox()] == ["a"]
            assert store.inbox() == []
