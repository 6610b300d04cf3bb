"""A KeyboardInterrupt at any moment: nothing acknowledged is lost, nobody hangs, and the store goes on."""

import signal
from random import Random
from threading import Event, Thread, main_thread

import pytest
from journals import NOW, decide, open_store

from delaytron.errors import JournalError

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")


class Alarm:
    """Raises KeyboardInterrupt in the main thread after a while, as Ctrl-C does."""

    def __init__(self):
        self.armed = False

    def ring(self, *_):
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def __enter__(self):
        self.before = signal.signal(signal.SIGALRM, self.ring)
        return self

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)

    def set(self, seconds):
        self.armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds)


def interrupted_decisions(store, alarm, random, rounds):
    """Decide in the main thread and be interrupted; return the ids that were acknowledged."""
    acknowledged, interruptions = [], 0
    for number in range(rounds):
        try:
            alarm.set(random.uniform(1e-5, 3e-3))
            for step in range(1000):
                name = f"main {number} {step}"
                decide(store, name)
                acknowledged.append(name)
        except KeyboardInterrupt:
            interruptions += 1
        except JournalError:  # a batch after an interrupted one, or spoiled by it
            alarm.armed = False
    assert interruptions > rounds / 2
    return acknowledged


@pytest.mark.parametrize("durability", ["full", "batched"])
@pytest.mark.parametrize("n_threads", [0, 3])
def test_interruptions_at_random(tmp_path, n_threads, durability):
    store = open_store(tmp_path / "a.db", durability=durability)
    acknowledged, stop = [], Event()

    def play(thread):
        count = 0
        while not stop.is_set():
            count += 1
            try:
                decide(store, f"{thread} {count}")
            except JournalError:
                continue
            acknowledged.append(f"{thread} {count}")

    threads = [Thread(target=play, args=(thread,)) for thread in range(n_threads)]
    for thread in threads:
        thread.start()
    with Alarm() as alarm:
        acknowledged += interrupted_decisions(store, alarm, Random(n_threads), 60)
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    store._group.abandon()
    with store.batch():
        last = store.append(2, None, b"", NOW)
    store.close()
    with open_store(tmp_path / "a.db") as store:
        facts = list(store.facts())
    assert [fact.seq for fact in facts] == list(range(1, last + 1))
    ids = [fact.id for fact in facts]
    assert set(acknowledged) <= set(ids)
    assert len(set(ids)) == len(ids)


def test_a_batch_that_was_left_by_an_interruption_of_its_end_does_not_block(tmp_path):
    """The worst moment: between the last line of the batch and the first one of its end."""
    with open_store(tmp_path / "a.db") as store:
        left = store.batch()
        left.__enter__()
        store.append(1, None, b"half", NOW)
        with pytest.raises(JournalError, match="after an interrupted one"):
            decide(store, "a")
        assert decide(store, "a") == 1
        left = store.batch()
        left.__enter__()
        store.append(1, None, b"half", NOW)
        del left  # the garbage collector ends it
        assert not store._group.is_open
        assert [fact.id for fact in store.facts()] == ["a"]


def test_a_store_can_be_closed_after_an_interruption(tmp_path):
    store = open_store(tmp_path / "a.db")
    left = store.batch()
    left.__enter__()
    store.append(1, None, b"half", NOW)
    store.close()
    with open_store(tmp_path / "a.db") as store:
        assert list(store.facts()) == []
    assert main_thread().is_alive()
