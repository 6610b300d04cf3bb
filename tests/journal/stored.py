"""Helpers of the tests of stores."""

import json
import sqlite3
from contextlib import closing, contextmanager
from threading import Thread

import pytest

import delaytron as dt
from delaytron.journal.sqlite import SqliteStore
from delaytron.records import Moment

CLASSES = ["small", "medium", "large"]
CONFIG = json.dumps({"classes": CLASSES, "rewards": True}).encode()
NOW = Moment(1_700_000_000_000_000_000, 5)
DECISION, ANSWER = 1, 2


def open_store(path, config=CONFIG):
    return SqliteStore(path, config=config)


@contextmanager
def transaction(store):
    """A transaction, rolled back after an error."""
    store.begin()
    try:
        yield
        store.commit()
    finally:
        store.rollback()


def decide(store, id, label=0, body=b"x", now=NOW):
    """Store a decision as a model does; return its number."""
    with transaction(store):
        seq = store.append(DECISION, id, body, now)
        store.issue(id, label, b"digest", seq)
    return seq


def settle(store, id, status, value=None, **options):
    with transaction(store):
        return store.set_status(id, status, value, **options)


def take(store):
    with transaction(store):
        return store.take_inbox()


def describe(store):
    """Return all that is in a store."""
    return {
        "facts": list(store.facts()),
        "ids": dict(store.all_ids()),
        "snapshot": store.snapshot(),
        "last_seq": store.last_seq,
    }


def change_file(path, sql, values=()):
    """Change a file behind the store's back."""
    with closing(sqlite3.connect(path)) as file, file:
        return file.execute(sql, values).fetchall()


def in_threads(*actions):
    """Run actions side by side; return what each returned or raised."""
    results = [None] * len(actions)

    def run(place, action):
        try:
            results[place] = action()
        except BaseException as problem:
            results[place] = problem

    threads = [Thread(target=run, args=pair, daemon=True) for pair in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    return results


def refused(open_it, *words):
    """Raise unless this is InvalidInput, in one line with these words."""
    with pytest.raises(dt.InvalidInput) as caught:
        open_it()
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)
