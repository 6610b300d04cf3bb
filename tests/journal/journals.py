"""What the tests of the journal share."""

import json
from threading import Thread

import pytest

import delaytron as dt
from delaytron.journal import FactStore, Moment

CONFIG = json.dumps({"classes": ["small", "medium", "large"], "rewards": True, "on_expiry": "drop"}).encode()
NOW = Moment(1_700_000_000_000_000_000, 5)


def open_store(path, config=CONFIG, **options):
    return FactStore(path, config=config, **options)


def decide(store, id, label=0, body=b"x"):
    """Write a decision as a model does; return its number."""
    with store.batch():
        store.open_id(id, label=label)
        return store.append(1, id, body, NOW)


def in_threads(*actions):
    """Run actions side by side; return what each returned or raised."""
    results = [None] * len(actions)

    def run(place, action):
        try:
            results[place] = action()
        except BaseException as problem:
            results[place] = problem

    threads = [Thread(target=run, args=pair) for pair in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    return results


def refused(open_it, *words):
    """Raise unless this is bad input, told in one line with these words."""
    with pytest.raises(dt.InvalidInput) as caught:
        open_it()
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)
