"""What the children of the crash tests do, and the check of what they leave.

`python workload.py decide FOLDER SEED COUNT`: four threads decide, the main thread answers by a Journal.
`python workload.py own FOLDER SEED`: four threads decide until the process is killed.
`python workload.py answer FOLDER SEED`: answers what was decided, until it is killed.
"""

import os
import sqlite3
import sys
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread

from journals import open_store

from delaytron.errors import JournalError
from delaytron.journal import ANSWERED, OPEN, Journal, Moment

DECISION, FEEDBACK = 1, 2
NAME = "a.db"


def open_acks(path):
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def decide_once(store, name, body):
    """A batch as a model writes it: take in what came, then decide. Return the number of the decision."""
    now = store.now()
    with store.batch():
        for arrival in store.inbox():
            store.append(FEEDBACK, arrival.id, b"%r" % arrival.value, now)
        store.open_id(name, label=0)
        seq = store.append(DECISION, name, body, now)
        if seq % 20 == 0:
            store.put_snapshot(seq, b"s" * 300)
    return seq


def decide_many(store, acks, prefix, random, numbers, decided):
    for number in numbers:
        name = f"{prefix} {number}"
        seq = decide_once(store, name, random.randbytes(random.randint(0, 2000)))
        os.write(acks, f"decided\t{name}\t{seq}\n".encode())
        decided.append(name)


def start_threads(store, acks, seed, numbers):
    """Start four threads that decide; return them, and the list of what they decided."""
    decided = []
    prefixes = [f"{os.getpid()} {seed} {thread}" for thread in range(4)]
    threads = [
        Thread(target=decide_many, args=(store, acks, prefix, Random(prefix), numbers(), decided))
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
        with open_store(folder / NAME) as store, Journal(folder / NAME) as journal:
            store._database._connection.execute("PRAGMA wal_autocheckpoint = 30")
            threads, decided = start_threads(store, acks, f"{seed} {part}", lambda: range(number))
            done = 0
            while done < 2 * number:
                if done < len(decided):
                    answer(journal, acks, decided[done])
                    done += 1
            for thread in threads:
                thread.join()


def own(folder, seed):
    with open_store(folder / NAME) as store:
        print("ready", flush=True)  # noqa: T201
        threads, _ = start_threads(store, open_acks(folder / f"acks {os.getpid()}"), seed, count)
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
    """Open a journal after a crash; assert that all that was acknowledged is there, and nothing by halves."""
    with open_store(folder / NAME) as store:
        facts = list(store.facts())
        with store.batch():
            waiting = [arrival.id for arrival in store.inbox()]
        check_acknowledged(store, facts, lines(acknowledged))
        check_whole(store, facts, waiting)
        with store.batch():
            for name in waiting:
                store.append(FEEDBACK, name, b"", store.now())
            assert store.append(3, None, b"", Moment(0, 0)) == len(facts) + len(waiting) + 1
    file = sqlite3.connect(folder / NAME)
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert {row[0] for row in file.execute("SELECT id FROM ids")} == {f.id for f in facts if f.kind == DECISION}
    file.close()
    return len(facts)


def check_acknowledged(store, facts, acknowledged):
    decisions = {fact.id: fact.seq for fact in facts if fact.kind == DECISION}
    for what, name, value in acknowledged:
        if what == "decided":
            assert decisions.get(name) == int(value), f"the decision {name} was lost"
        else:
            known = store.status(name)
            assert known is not None
            assert known[:2] == (ANSWERED, float(value)), f"the answer to {name} was lost"


def check_whole(store, facts, waiting):
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    decided = [fact.id for fact in facts if fact.kind == DECISION]
    assert len(set(decided)) == len(decided), "an id was issued twice"
    taken = [fact.id for fact in facts if fact.kind == FEEDBACK] + waiting
    assert len(set(taken)) == len(taken), "an answer was taken twice"
    answered = {name for name in decided if store.status(name).status == ANSWERED}
    assert answered == set(taken)
    assert all(store.status(name).status == OPEN for name in set(decided) - answered)


if __name__ == "__main__":
    what, place, *rest = sys.argv[1:]
    try:
        if what == "decide":
            decide(Path(place), rest[0], int(rest[1]))
        else:
            {"own": own, "answer": answer_all}[what](Path(place), rest[0])
    except JournalError as problem:
        sys.exit(str(problem))
