"""Threads that share a store: what each is told, and what the others see."""

from collections import Counter
from random import Random
from threading import Event

import pytest
from journals import NOW, in_threads, open_store

from delaytron.errors import JournalError


def raise_if(condition, problem):
    if condition:
        raise problem


def test_threads_at_random_keep_the_order_and_the_promises(tmp_path):
    """Some fail before a change, some after it; what was acknowledged is there, and nothing of those who failed."""
    store = open_store(tmp_path / "a.db")
    acknowledged, refused, spoiled = [], [], Counter()

    def play(thread):
        random = Random(thread)
        for i in range(60):
            name = f"{thread} {i}"
            fails = random.random()
            try:
                with store.batch():
                    raise_if(fails < 0.05, KeyError(name))
                    store.open_id(name)
                    seq = store.append(1, name, b"", NOW)
                    raise_if(fails < 0.1, ZeroDivisionError(name))
                    assert store.status(name) is not None
            except (KeyError, ZeroDivisionError, JournalError) as problem:
                spoiled[type(problem).__name__] += 1
                refused.append(name)
            else:
                acknowledged.append((seq, name))

    assert in_threads(*[lambda thread=thread: play(thread) for thread in range(12)]) == [None] * 12
    facts = [(fact.seq, fact.id) for fact in store.facts()]
    assert facts == sorted(acknowledged)
    assert [seq for seq, _ in facts] == list(range(1, len(facts) + 1))
    assert all(store.status(name) is None for name in refused)
    assert spoiled["KeyError"] > 0
    assert spoiled["ZeroDivisionError"] > 0
    assert store.generation == spoiled["ZeroDivisionError"]
    store.close()


def test_readers_see_what_is_committed_only(tmp_path):
    store = open_store(tmp_path / "a.db")
    written, looked = Event(), Event()

    def writes():
        with store.batch():
            store.open_id("a")
            store.append(1, "a", b"", NOW)
            written.set()
            assert looked.wait(30)

    def reads():
        assert written.wait(30)
        found = store.status("a"), list(store.facts()), store.last_seq
        looked.set()
        return found

    assert in_threads(writes, reads) == [None, (None, [], 0)]
    assert store.status("a") is not None
    store.close()


def test_nothing_is_written_after_sqlite_ended_the_transaction_by_itself(tmp_path):
    store = open_store(tmp_path / "a.db")

    def attempt():
        with store.batch():
            store.append(1, None, b"", NOW)
            store._database._connection.execute("ROLLBACK")  # as SQLite does when the disk is full
            store.append(1, None, b"", NOW)

    with pytest.raises(JournalError, match="the transaction has ended"):
        attempt()
    assert list(store.facts()) == []
    with store.batch():
        assert store.append(1, None, b"", NOW) == 1
    store.close()
