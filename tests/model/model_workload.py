"""The children of the crash tests of models, and the check of the files that they leave.

`python model_workload.py decide FOLDER SEED COUNT`: four threads decide, the main thread answers by a Journal.
`python model_workload.py kill FOLDER`: a process that plays the owner again and again; see `serve_forks`.
"""

import os
import sqlite3
import sys
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread
from time import sleep

import delaytron as dt
from delaytron.answers import Status
from delaytron.cli.import_log import import_dsjson
from delaytron.journal import Journal
from delaytron.logs.events import EventTerms
from delaytron.model import engine, facts
from delaytron.model.verify import verify_journal

NAME = "a.db"
IMPORTED = {
    "learner": "bandit_logit",
    "parameters": {},
    "bits": 8,
    "ngrams": 1,
    "expire_after": None,
    "on_expiry": "drop",
    "correct_within": None,
    "seed": 7,
}


def open_model(folder):
    return dt.Model(classes=["small", "medium", "large"], bits=8, journal=folder / NAME, seed=3)


def open_acks(folder, name=None):
    return os.open(folder / (name or f"acks {os.getpid()}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def decide_until_killed(model, acks, prefix, numbers, decided):
    """Decide, and now and then answer, cancel or add a class; what has returned is acknowledged."""
    random = Random(prefix)
    for number in numbers:
        x = {"tokens": random.random(), "tenant": random.choice("abc"), "prompt": f"word{number % 9} and more"}
        allowed = random.choice([None, None, ["small", "large"]])
        decision = model.decide(x, id=random.choice([None, f"{prefix} {number}"]), allowed=allowed)
        acknowledge(acks, "decided", decision.id, f"{decision.label} {decision.prob!r}")
        decided.append(decision.id)
        with suppress(dt.ConflictingFeedback):  # another process was quicker
            settle(model, acks, decision.id, number, random.choice([0.0, 0.25, 1.0]))


def settle(model, acks, name, number, reward):
    if number % 3 == 0 and model.feedback(name, reward=reward) == "accepted":
        acknowledge(acks, "answered", name, reward)
    elif number % 17 == 1 and model.cancel(name) == "cancelled":
        acknowledge(acks, "cancelled", name, "")


def acknowledge(acks, *words):
    os.write(acks, ("\t".join(map(str, words)) + "\n").encode())


def start_threads(model, acks, seed, numbers):
    decided = []
    prefixes = [f"{seed} {thread}" for thread in range(4)]
    work = [(model, acks, prefix, numbers(), decided) for prefix in prefixes]
    threads = [Thread(target=decide_until_killed, args=args) for args in work]
    for thread in threads:
        thread.start()
    return threads, decided


def answer(journal, acks, name):
    """Give an answer that depends on the id only, unless there is one already."""
    reward = sum(name.encode()) % 3 / 2
    with suppress(dt.ConflictingFeedback):
        if journal.feedback(name, reward=reward) == "accepted":
            acknowledge(acks, "answered", name, reward)


def decide(folder, seed, number):
    acks = open_acks(folder, "acks")
    for part in range(2):
        with open_model(folder) as model, Journal(folder / NAME) as journal:
            if part:
                model.retire_class("medium")
            threads, decided = start_threads(model, acks, f"{seed} {part}", lambda: range(number))
            done = 0
            while done < 2 * number:
                if done < len(decided):
                    answer(journal, acks, decided[done])
                    done += 1
                else:
                    sleep(0.001)
            for thread in threads:
                thread.join()


def own(folder, seed):
    model = open_model(folder)
    acks = open_acks(folder)
    acknowledge(acks, "ready", "", "")
    start_threads(model, acks, seed, count)[0][0].join()


def answer_all(folder, seed):
    random = Random(seed)
    acks = open_acks(folder)
    with Journal(folder / NAME) as journal:
        while True:
            decided = [name for what, name, _ in acknowledged_in(folder, newest=5) if what == "decided"][-200:]
            for name in random.sample(decided, min(20, len(decided))):
                answer(journal, acks, name)
            sleep(0.01)


def acknowledged_in(folder, newest=10**6):
    """Return what was acknowledged, from the newest files only if there are many: each process writes one."""
    paths = sorted(folder.glob("acks*"), key=lambda path: path.stat().st_mtime)[-newest:]
    return [line for path in paths for line in lines(path.read_bytes())]


def lines(content):
    """Return the lines that were written whole."""
    return [line.decode().split("\t") for line in content.split(b"\n")[:-1]]


def check(folder, acknowledged):
    """Open a journal after a crash; assert that nothing acknowledged was lost, and that its state is its replay's."""
    found = verify_journal(folder / NAME)
    assert found.mismatch is None, found.mismatch
    with open_model(folder) as model:
        store = model._engine.store
        check_acknowledged(store, acknowledged)
        assert model.digest() == verify_journal(folder / NAME).hash
        before = model.stats().decisions
        assert model.decide({"tokens": 0.5}).round == before + 1
    file = sqlite3.connect(folder / NAME)
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    file.close()
    return before


def check_acknowledged(store, acknowledged):
    stored = {fact.id: fact for fact in store.facts() if fact.kind == facts.DECIDED}
    repeated = Counter(fact.id for fact in store.facts() if fact.kind == facts.DECIDED).most_common(1)
    assert not repeated or repeated[0][1] == 1, "an id was issued twice"
    decided = [name for what, name, _ in acknowledged if what == "decided"]
    assert len(set(decided)) == len(decided), "an id was issued twice"
    for what, name, value in acknowledged:
        if what == "decided":
            assert name in stored, f"the decision {name} was lost"
            fact = facts.decode_decided(stored[name].body)
            assert value == f"{['small', 'medium', 'large'][fact.label]} {fact.prob!r}"
        elif what in ("answered", "cancelled"):
            known = store.known(name)
            expected = (Status.ANSWERED, float(value)) if what == "answered" else (Status.CANCELLED, None)
            assert known is not None
            assert known[:2] == expected, f"the answer to {name} was lost"


def serve_forks(folder):
    """Compile once; then fork a child for every line: `own SEED`, `answer SEED`, `check` or `import LOG JOURNAL`.

    Its process id is printed. `wait NUMBER` waits for the end of one, and prints its exit code.
    """
    dt.Model(classes=["a", "b", "c"], bits=8).decide({"x": 1.0}, allowed=["a", "c"])
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        what, *rest = line.split()
        if what == "wait":
            print(os.waitstatus_to_exitcode(os.waitpid(int(rest[0]), 0)[1]), flush=True)  # noqa: T201
            continue
        child = os.fork()
        if child == 0:
            play_child(folder, what, rest)
        print(child, flush=True)  # noqa: T201


def play_child(folder, what, rest):
    """Do what a child does, and never return."""
    try:
        if what == "check":
            check(folder, acknowledged_in(folder))
        elif what == "import":
            import_dsjson([folder / rest[0]], folder / rest[1], EventTerms(), IMPORTED)
        else:
            {"own": own, "answer": answer_all}[what](folder, rest[0])
        os._exit(0)
    except BaseException as problem:
        print(f"{what}: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(1)


if __name__ == "__main__":
    engine.FACTS_A_SNAPSHOT = 60  # so that there are many
    task, place, *rest = sys.argv[1:]
    if task == "decide":
        decide(Path(place), rest[0], int(rest[1]))
    else:
        serve_forks(Path(place))
