"""Answers from other processes: their replies, and that the owner gets each once."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from threading import Event

import pytest
from crash_workload import NAME, Owner, check
from stored import ANSWER, CLASSES, DECISION, decide, in_threads, open_store, settle, take, transaction

import delaytron as dt
from delaytron.answers import Status
from delaytron.errors import JournalError
from delaytron.journal import outside
from delaytron.journal.outside import Journal


@pytest.fixture
def make(tmp_path):
    """Open a store with this configuration, and a journal beside it."""
    opened = []

    def make(**config):
        store = open_store(tmp_path / "a.db", json.dumps({"classes": CLASSES, **config}).encode())
        journal = Journal(tmp_path / "a.db")
        opened.extend((journal, store))
        return store, journal

    yield make
    for each in opened:
        each.close()


def test_an_answer_reaches_the_owner_once(make):
    store, journal = make(rewards=True)
    decide(store, "a")
    decide(store, "b")
    assert journal.feedback("b", reward=0.25) == "accepted"
    assert journal.feedback("a", True) == "accepted"
    assert store.known("b")[:3] == (Status.ANSWERED, 0.25, 0)
    arrivals = take(store)
    assert [(arrival.id, arrival.value, arrival.reply) for arrival in arrivals] == [
        ("b", 0.25, "accepted"),
        ("a", 1.0, "accepted"),
    ]
    assert 0 <= store.now().clock - arrivals[0].now.clock < 60e9
    assert take(store) == []


def test_the_same_answer_again_and_another_one(make):
    store, journal = make()
    decide(store, "a")
    assert journal.feedback("a", correct=True) == "accepted"
    assert journal.feedback("a", correct=True) == "duplicate"
    assert journal.feedback("a", label="small") == "duplicate"
    with pytest.raises(dt.ConflictingFeedback, match="'a' was answered 'correct', now 'wrong' came"):
        journal.feedback("a", correct=False)
    assert len(take(store)) == 1
    with pytest.raises(dt.UnknownDecision, match="'b' was never issued"):
        journal.feedback("b", correct=True)
    assert take(store) == []
    assert decide(store, "b") == 2  # the transaction of the unknown id is over


@pytest.mark.parametrize(("label", "value"), [("small", 0.0), ("medium", 1.0)])
def test_a_label_is_compared_with_the_one_that_was_played(make, label, value):
    store, journal = make()
    decide(store, "a", label=1)
    assert journal.feedback("a", label=label) == "accepted"
    assert take(store)[0].value == value


def test_where_the_true_class_is_the_answer_its_index_arrives(make):
    store, journal = make(feedback_type="label")
    decide(store, "a", label=1)
    with pytest.raises(dt.InvalidInput, match=r"one of label=\.\.\.; got correct=True"):
        journal.feedback("a", correct=True)
    assert journal.feedback("a", label="large") == "accepted"
    with pytest.raises(dt.ConflictingFeedback, match="'large', now 'small' came"):
        journal.feedback("a", label="small")
    assert take(store)[0].value == 2.0


def test_an_answer_by_a_class_that_was_just_added_is_no_damage(make, monkeypatch):
    store, journal = make(feedback_type="label")
    decide(store, "a")
    read_known = outside.read_known

    def add_class_first(*given):
        monkeypatch.undo()
        with transaction(store):
            store.set_meta("classes", json.dumps([*CLASSES, "huge"]).encode())
            store.set_status("a", Status.ANSWERED, float(len(CLASSES)))
        return read_known(*given)

    monkeypatch.setattr(outside, "read_known", add_class_first)
    with pytest.raises(dt.ConflictingFeedback, match="'huge', now 'small' came"):
        journal.feedback("a", label="small")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"correct": True, "label": "small"},
        {"correct": 2},
        {"correct": "yes"},
        {"label": "smal"},
        {"label": 0},
        {"reward": 0.5},
    ],
)
def test_what_is_not_an_answer_is_refused_and_changes_nothing(make, answer):
    store, journal = make()
    decide(store, "a")
    with pytest.raises(dt.InvalidInput) as caught:
        journal.feedback("a", **answer)
    assert "\n" not in str(caught.value)
    assert store.known("a").status == Status.OPEN
    assert take(store) == []


@pytest.mark.parametrize("reward", [-0.1, 1.1, float("nan"), float("inf"), "1", True])
def test_a_reward_is_from_0_to_1(make, reward):
    store, journal = make(rewards=True)
    decide(store, "a")
    with pytest.raises(dt.InvalidInput, match="reward"):
        journal.feedback("a", reward=reward)
    assert take(store) == []


@pytest.mark.parametrize("id", ["", 7, None, "a\0"])
def test_what_is_not_an_id_is_refused(make, id):
    _, journal = make()
    with pytest.raises(dt.InvalidInput, match=r"^id must"):
        journal.feedback(id, correct=True)


@pytest.mark.parametrize(
    ("correctable", "reply", "status"), [(True, "corrected", Status.ANSWERED), (False, "late", Status.EXPIRED)]
)
def test_the_first_answer_after_an_expiry(make, correctable, reply, status):
    store, journal = make()
    decide(store, "a")
    settle(store, "a", Status.EXPIRED, correctable=correctable)
    assert journal.feedback("a", correct=True) == reply
    assert journal.feedback("a", correct=True) == "duplicate"
    with pytest.raises(dt.ConflictingFeedback):
        journal.feedback("a", correct=False)
    assert [arrival.reply for arrival in take(store)] == [reply]
    assert store.known("a")[:4] == (status, 1.0, 0, False)


def test_a_cancelled_decision_takes_no_answer(make):
    store, journal = make()
    decide(store, "a")
    settle(store, "a", Status.CANCELLED)
    assert journal.feedback("a", correct=True) == "cancelled"
    assert take(store) == []


def test_classes_that_were_added_later_are_known(make):
    store, journal = make()
    decide(store, "a", label=3)
    with pytest.raises(dt.InvalidInput, match="'huge'; known are small, medium, large"):
        journal.feedback("a", label="huge")
    with transaction(store):
        store.set_meta("classes", json.dumps([*CLASSES, "huge"]).encode())
    assert journal.feedback("a", label="huge") == "accepted"
    assert take(store)[0].value == 1.0


def test_a_closed_journal_says_so(make):
    store, journal = make()
    decide(store, "a")
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.feedback("a", correct=True)


def test_the_owner_need_not_be_there(make, tmp_path):
    store, journal = make()
    decide(store, "a")
    store.close()
    assert journal.feedback("a", correct=True) == "accepted"
    journal.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        assert file.execute("SELECT count(*) FROM inbox").fetchone() == (1,)
    with open_store(tmp_path / "a.db", None) as store:
        assert len(take(store)) == 1


def test_a_journal_can_be_used_after_an_error_of_the_disk(make):
    store, journal = make()
    decide(store, "a")
    journal._database._connection.close()
    with pytest.raises(JournalError, match="the answer was not accepted"):
        journal.feedback("a", correct=True)
    assert journal.feedback("a", correct=True) == "accepted"
    assert len(take(store)) == 1


# Beside the writer of a model


@pytest.fixture(params=["full", "batched"])
def owner(request, tmp_path):
    """The smallest model, in this process."""
    owner = Owner(tmp_path, request.param)
    yield owner
    owner.close()


def test_a_decision_is_known_to_other_processes_when_it_is_acknowledged(owner, tmp_path):
    """With batched commits it is not committed yet: the answer waits for that."""
    with Journal(tmp_path / NAME) as journal:
        for number in range(5):
            owner.decide(f"{number}", b"")
            assert journal.feedback(f"{number}", correct=True) == "accepted"


def test_what_an_undone_operation_took_from_the_inbox_is_there_again(owner, tmp_path):
    owner.decide("a", b"")
    with Journal(tmp_path / NAME) as journal:
        journal.feedback("a", correct=True)

    def breaks(now):
        assert owner.state[-1] == (ANSWER, "a")  # the transaction took it before
        owner.writer.changing()
        owner.store.append(DECISION, "b", b"", now)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        owner.writer.run(breaks)
    owner.decide("c", b"")
    with owner.writer.reading():
        assert owner.state == [(DECISION, "a"), (ANSWER, "a"), (DECISION, "c")]


def test_a_busy_writer_leaves_room_for_others(owner, tmp_path):
    """Threads that decide without a pause do not starve the processes that answer."""
    for number in range(30):
        owner.decide(f"{number}", b"")
    answered = Event()

    def busy(thread):
        for number in range(10**9):
            if answered.is_set():
                return
            owner.decide(f"{thread} {number}", b"")

    def answers():
        try:
            with Journal(tmp_path / NAME) as journal:
                return [journal.feedback(f"{number}", correct=True) for number in range(30)]
        finally:
            answered.set()

    results = in_threads(answers, *[lambda k=k: busy(f"busy {k}") for k in range(4)])
    assert results == [["accepted"] * 30, None, None, None, None]
    owner.decide("last", b"")
    with owner.writer.reading():
        assert sum(kind == ANSWER for kind, _ in owner.state) == 30


ANOTHER = """
import sqlite3, sys, time
path, copy = sys.argv[1:]
file = sqlite3.connect(path, isolation_level=None, timeout=0)

def patiently(sql):
    # SQLite's own retries are up to 100 ms apart; a writer with batched commits holds the lock most of the time.
    until = time.monotonic() + 60
    while True:
        try:
            return file.execute(sql).fetchall()
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or time.monotonic() > until:
                raise
        time.sleep(0.0003)

print("ready", flush=True)
copies = 0
while not sys.stdin.readline().startswith("end"):
    patiently("BEGIN IMMEDIATE")  # as a tool that writes, or VACUUM
    facts = file.execute("SELECT count(*), max(seq) FROM facts").fetchone()
    file.execute("ROLLBACK")
    assert facts[0] == (facts[1] or 0), facts
    file.execute("BEGIN")  # as a long reader, which a checkpoint cannot pass
    before = file.execute("SELECT count(*) FROM ids").fetchone()
    with sqlite3.connect(f"{copy}{copies}") as target:
        file.backup(target)
    target.close()
    assert file.execute("SELECT count(*) FROM ids").fetchone() == before
    file.execute("COMMIT")
    patiently("PRAGMA wal_checkpoint(TRUNCATE)")
    copies += 1
    print("copied", flush=True)
file.close()
"""


def test_side_by_side_with_another_process_of_sqlite(owner, tmp_path):
    """A tool locks, reads, copies and checkpoints the file while threads decide and answer: all of them succeed."""
    folder = tmp_path / "copies"
    folder.mkdir()
    command = [sys.executable, "-c", ANOTHER, tmp_path / NAME, f"{folder}{os.sep}"]
    stop, acknowledged = Event(), []

    def play(thread):
        with Journal(tmp_path / NAME) as journal:
            for number in range(10**9):
                if stop.is_set():
                    return
                name = f"{thread} {number}"
                acknowledged.append(f"decided\t{name}\t{owner.decide(name, name.encode() * 100)}\n")
                assert journal.feedback(name, correct=True) == "accepted"
                acknowledged.append(f"answered\t{name}\t1.0\n")

    def use_tool():
        try:
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as tool:
                assert tool.stdout.readline() == "ready\n"
                for _ in range(5):
                    tool.stdin.write("\n")
                    assert tool.stdout.readline() == "copied\n"
                tool.stdin.write("end\n")
            return tool.returncode
        finally:
            stop.set()

    assert in_threads(use_tool, lambda: play("a"), lambda: play("b")) == [0, None, None]
    owner.close()
    owner.stored = lambda: owner.state  # it is changed below
    assert check(tmp_path, "".join(acknowledged).encode()) > 5
    for number in range(5):
        copied = folder / f"copy {number}"
        copied.mkdir()
        (folder / f"{number}").rename(copied / NAME)
        check(copied, b"")  # a copy of one moment is a journal
