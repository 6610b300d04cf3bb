"""A child of the tests: lets every write, sync or truncation of a small workload fail, one at a time.

`python crash_faults.py FOLDER DURABILITY KIND ERROR TIMES`, with recorder.c loaded. Prints how many sites failed, and
how many errors came.
"""

import ctypes
import errno
import sys
from itertools import count
from pathlib import Path
from shutil import rmtree

from crash_workload import DECISION, NAME, Owner, check

from delaytron.errors import InvalidInput, JournalError
from delaytron.journal.outside import Journal

SHIM = ctypes.CDLL(None)


def let_fail(kind, n, error, times):
    """Let the n-th call from now fail, and those after it, this many times in all."""
    SHIM.recorder_fail(ctypes.c_char(kind.encode()), ctypes.c_long(n), error, ctypes.c_long(times))


def heal():
    let_fail("-", 0, 0, 0)


class Session:
    """Plays the workload while something fails; tries again, first with the fault and then without it."""

    def __init__(self, folder, durability):
        self.folder = folder
        self.durability = durability
        self.errors = 0
        self.acks = b""

    def attempt(self, action, *allowed):
        for _ in range(2):
            try:
                return action()
            except (JournalError, *allowed):
                self.errors += 1
        heal()
        return action()

    def play(self):
        path = self.folder / NAME
        owner = self.attempt(lambda: Owner(self.folder, self.durability), InvalidInput)
        owner.store._database.rows("PRAGMA wal_autocheckpoint = 5")
        journal = self.attempt(lambda: Journal(path), InvalidInput)
        for i in range(6):
            self.decide(owner, f"id {i}")
            if i % 2:
                self.attempt(lambda i=i: journal.feedback(f"id {i}", correct=True))
                self.acks += f"answered\tid {i}\t1.0\n".encode()
        journal.close()
        self.attempt(owner.close)

    def decide(self, owner, id):
        def decide_and_flush():
            with owner.writer.reading():
                known = {name: place for place, (kind, name) in enumerate(owner.state, 1) if kind == DECISION}
            seq = known.get(id) or owner.decide(id, id.encode() * 300)
            owner.writer.flush()
            return seq

        seq = self.attempt(decide_and_flush)
        self.acks += f"decided\t{id}\t{seq}\n".encode()


def sweep(folder, durability, kind, error, times):
    """Return how many sites there are, and how many errors came."""
    errors = 0
    for n in count(1):
        folder.mkdir()
        session = Session(folder, durability)
        let_fail(kind, n, getattr(errno, error), times)
        session.play()
        failed = SHIM.recorder_failures()
        healed = session.errors > 1
        heal()
        check(folder, session.acks)
        rmtree(folder)
        errors += session.errors
        if not failed and not healed:
            return n - 1, errors
    return None


if __name__ == "__main__":
    place, *how, often = sys.argv[1:]
    print(*sweep(Path(place), *how, int(often)))  # noqa: T201
