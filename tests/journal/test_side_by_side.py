"""Processes that answer while another one decides."""

import sqlite3
from threading import Event

import pytest
from journals import NOW, decide, in_threads, open_store

from delaytron.errors import JournalError
from delaytron.journal import Journal, database


@pytest.fixture
def make(tmp_path):
    """Open a store and a journal beside it."""
    with open_store(tmp_path / "a.db") as store, Journal(tmp_path / "a.db") as journal:
        yield lambda: (store, journal)


def take(store):
    with store.batch():
        return store.inbox()


def test_it_waits_for_the_owner_and_gives_up_in_the_end(make, monkeypatch):
    store, journal = make()
    decide(store, "a")
    inside, tried = Event(), Event()

    def owner():
        with store.batch():
            store.append(2, None, b"", NOW)
            inside.set()
            assert tried.wait(30)

    def other():
        assert inside.wait(30)
        monkeypatch.setattr(database, "PATIENCE", 0.05)
        with pytest.raises(JournalError, match="the answer was not accepted: database is locked"):
            journal.feedback("a", correct=True)
        monkeypatch.undo()
        tried.set()
        return journal.feedback("a", correct=True)

    assert in_threads(owner, other) == [None, "accepted"]
    assert len(take(store)) == 1


def test_a_busy_owner_leaves_room_for_others(make):
    """Threads that decide without a pause do not starve those who answer."""
    store, journal = make()
    for i in range(30):
        decide(store, str(i))
    answered = Event()

    def busy(thread):
        count = 0
        while not answered.is_set():
            decide(store, f"{thread} {count}")
            count += 1

    def answers():
        try:
            return [journal.feedback(str(i), correct=True) for i in range(30)]
        finally:
            answered.set()

    results = in_threads(answers, *[lambda thread=thread: busy(thread) for thread in range(4)])
    assert results == [["accepted"] * 30, None, None, None, None]
    assert len(take(store)) == 30


def test_the_gap_comes_after_a_busy_while_only(make, monkeypatch):
    """Batches one after the other leave half a millisecond every 100 ms; a store that rests leaves nothing."""
    store, _ = make()
    time, slept = [1000.0], []
    monkeypatch.setattr(database, "monotonic", lambda: time[0])
    monkeypatch.setattr(
        database, "sleep", lambda seconds: (slept.append(time[0]), time.__setitem__(0, time[0] + seconds))
    )
    for i in range(100):
        time[0] += 0.005
        store._database._committed_at = time[0] - 0.0001
        decide(store, str(i))
    assert 4 <= len(slept) <= 5
    slept.clear()
    for i in range(100):
        time[0] += 0.001
        decide(store, f"rests {i}")
    assert slept == []


def test_of_many_who_answer_at_once_one_is_accepted(make, tmp_path):
    store, _ = make()
    for i in range(20):
        decide(store, str(i))

    def answer(_):
        with Journal(tmp_path / "a.db") as journal:
            return [journal.feedback(str(i), correct=True) for i in range(20)]

    replies = in_threads(*[lambda thread=thread: answer(thread) for thread in range(4)])
    for said in zip(*replies, strict=True):
        assert sorted(said) == ["accepted"] + ["duplicate"] * 3
    assert sorted(int(arrival.id) for arrival in take(store)) == list(range(20))


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
    file = sqlite3.connect(tmp_path / "a.db")
    assert file.execute("SELECT count(*) FROM inbox").fetchone() == (1,)
    file.close()
    with open_store(tmp_path / "a.db", None) as store:
        assert len(take(store)) == 1
