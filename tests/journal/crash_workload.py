"""The children of the crash tests, and the check of the files that they leave.

`python crash_workload.py decide FOLDER SEED COUNT`: four threads decide, the main thread answers by a Journal.
`python crash_workload.py own FOLDER SEED DURABILITY`: four threads decide until the process is killed.
`python crash_workload.py answer FOLDER SEED`: answers what was decided, until it is killed.
"""

import os
import sqlite3
import sys
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread

from stored import ANSWER, DECISION, open_store, transaction

from delaytron.answers import Status
from delaytron.errors import JournalError
from delaytron.journal.outside import Journal
from delaytron.journal.writer import Snapshots, Writer
from delaytron.records import Moment

NAME = "a.db"


class Owner:
    """The smallest model: its state is the list of its decisions and answers, in order."""

    def __init__(self, folder, durability="full"):
        self.store = open_store(folder / NAME)
        self.state = []
        snapshots = Snapshots(self.due, lambda: "\n".join(map(str, self.state)), str.encode)
        self.writer = Writer(
            self.store, catch_up=self.catch_up, restore=self.restore, durability=durability, snapshots=snapshots
        )
        self.copied = 0
        self.restore()

    def due(self):
        due = len(self.state) >= self.copied + 20
        self.copied = len(self.state) if due else self.copied
        return due

    def restore(self):
        self.state = [(fact.kind, fact.id) for fact in self.store.facts()]

    def catch_up(self):
        now = self.store.now()
        for arrival in self.store.take_inbox():
            self.writer.changing()
            self.state.append((ANSWER, arrival.id))
            self.store.append(ANSWER, arrival.id, b"%r" % arrival.value, now)
        return now

    def decide(self, name, body):
        """Return the number of the decision when it is acknowledged."""

        def operation(now):
            self.writer.changing()
            self.state.append((DECISION, name))
            seq = self.store.append(DECISION, name, body, now)
            self.store.issue(name, 0, None, seq)
            return seq

        return self.writer.run(operation)

    def close(self):
        self.writer.close()
        assert self.state == self.stored()

    def stored(self):
        with open_store(self.store.path) as store:
            return [(fact.kind, fact.id) for fact in store.facts()]


def open_acks(path):
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def decide_many(owner, acks, prefix, random, numbers, decided):
    for number in numbers:
        name = f"{prefix} {number}"
        seq = owner.decide(name, random.randbytes(random.randint(0, 2000)))
        os.write(acks, f"decided\t{name}\t{seq}\n".encode())
        decided.append(name)


def start_threads(owner, acks, seed, numbers):
    """Start four threads that decide; return them, and the list of what they decided."""
    decided = []
    prefixes = [f"{os.getpid()} {seed} {thread}" for thread in range(4)]
    threads = [
        Thread(target=decide_many, args=(owner, acks, prefix, Random(prefix), numbers(), decided))
        for prefix in prefixes
    ]
    for thread in threads:
        thread.start()
    return threads, decided


def answer(journal, acks, name):
    """Give an answer that depends on the id only."""
    correct = sum(name.encode()) % 2 == 0
    if journal.feedback(name, correct=correct) in ("accepted", "duplicate"):
        os.write(acks, f"answered\t{name}\t{float(correct)}\n".encode())


def decide(folder, seed, number):
    acks = open_acks(folder / "acks")
    for part in range(2):  # closed and opened again in between
        owner = Owner(folder)
        with closing(owner), Journal(folder / NAME) as journal:
            owner.store._database.rows("PRAGMA wal_autocheckpoint = 30")
            threads, decided = start_threads(owner, acks, f"{seed} {part}", lambda: range(number))
            done = 0
            while done < 2 * number:
                if done < len(decided):
                    answer(journal, acks, decided[done])
                    done += 1
            for thread in threads:
                thread.join()


def own(folder, seed, durability):
    owner = Owner(folder, durability)
    print("ready", flush=True)  # noqa: T201
    threads, _ = start_threads(owner, open_acks(folder / f"acks {os.getpid()}"), seed, count)
    for thread in threads:
        thread.join()


def answer_all(folder, seed):
    random = Random(seed)
    acks = open_acks(folder / f"acks {os.getpid()}")
    with Journal(folder / NAME) as journal:
        print("ready", flush=True)  # noqa: T201
        while True:
            decided = [line[1] for path in folder.glob("acks *") for line in lines(path.read_bytes()) if len(line) == 3]
            for name in random.sample(decided, min(20, len(decided))):
                answer(journal, acks, name)


def lines(acknowledged):
    """Return the lines that were written whole."""
    return [line.decode().split("\t") for line in acknowledged.split(b"\n")[:-1]]


def check(folder, acknowledged):
    """Open a journal after a crash; assert that all that was acknowledged is there, and nothing is incomplete."""
    with open_store(folder / NAME) as store:
        facts = list(store.facts())
        with transaction(store):
            waiting = [arrival.id for arrival in store.take_inbox()]
        check_acknowledged(store, facts, lines(acknowledged))
        check_whole(store, facts, waiting)
        with transaction(store):
            for name in waiting:
                store.append(ANSWER, name, b"", store.now())
            assert store.append(3, None, b"", Moment(0, 0)) == len(facts) + len(waiting) + 1
    with closing(sqlite3.connect(folder / NAME)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert {row[0] for row in file.execute("SELECT id FROM ids")} == {f.id for f in facts if f.kind == DECISION}
    return len(facts)


def check_acknowledged(store, facts, acknowledged):
    decisions = {fact.id: fact.seq for fact in facts if fact.kind == DECISION}
    for what, name, value in acknowledged:
        if what == "decided":
            assert decisions.get(name) == int(value), f"the decision {name} was lost"
        else:
            known = store.known(name)
            assert known is not None
            assert known[:2] == (Status.ANSWERED, float(value)), f"the answer to {name} was lost"


def check_whole(store, facts, waiting):
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    decided = [fact.id for fact in facts if fact.kind == DECISION]
    assert len(set(decided)) == len(decided), "an id was issued twice"
    taken = [fact.id for fact in facts if fact.kind == ANSWER] + waiting
    assert len(set(taken)) == len(taken), "an answer was taken twice"
    answered = {name for name in decided if store.known(name).status == Status.ANSWERED}
    assert answered == set(taken)
    assert all(store.known(name).status == Status.OPEN for name in set(decided) - answered)
    snapshot = store.snapshot()
    if snapshot is not None:
        expected = "\n".join(str((fact.kind, fact.id)) for fact in facts if fact.seq <= snapshot.seq)
        assert snapshot.body.decode() == expected, "a snapshot is not that of its facts"


if __name__ == "__main__":
    what, place, *rest = sys.argv[1:]
    try:
        if what == "decide":
            decide(Path(place), rest[0], int(rest[1]))
        else:
            {"own": own, "answer": answer_all}[what](Path(place), *rest)
    except JournalError as problem:
        sys.exit(str(problem))
