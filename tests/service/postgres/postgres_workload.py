"""What the children of the crash tests on PostgreSQL do, and the check of what they leave.

`python postgres_workload.py DSN FOLDER`: a process that is ready to fork front ends and learners; see `stand_by`.
"""

import asyncio
import os
import sys
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import psycopg

import delaytron as dt
from delaytron.answers import Status
from delaytron.model import facts
from delaytron.model.snapshots import decompress, unpack_state
from delaytron.service import messages
from delaytron.service.backend import Repeatable
from delaytron.service.postgres import learner
from delaytron.service.postgres.backend import PostgresBackend
from delaytron.service.problems import Unavailable

NAME = "router"
CLASSES = ["a", "b", "c"]
CLIENTS = 4  # of each front end
PAUSE = 0.02  # seconds of a client between two requests
MODEL = messages.NewModel(NAME, CLASSES, features=2, seed=3)


def open_acks(folder):
    return os.open(folder / f"acks {os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def acknowledge(acks, *words):
    os.write(acks, ("\t".join(map(str, words)) + "\n").encode())


def acknowledged_in(folder):
    """Return all replies that children got; a line that a kill truncated is left out."""
    texts = [path.read_text() for path in folder.glob("acks *")]
    return [line.split("\t") for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]


async def answer_clients(dsn, folder, seed):
    """Run a front end with clients that decide, retry, and give conflicting answers."""
    acks = open_acks(folder)
    backend = PostgresBackend(dsn, learns=False)
    await backend.start()
    await asyncio.gather(*(Client(backend, acks, f"{seed} {number}").run() for number in range(CLIENTS)))


class Client:
    def __init__(self, backend, acks, name):
        self.backend = backend
        self.acks = acks
        self.name = name
        self.random = Random(name)
        self.decided = deque(maxlen=40)
        self.number = 0

    async def run(self):
        while True:
            work = self.decide if self.random.random() < 0.5 else self.answer
            with suppress(Unavailable):
                await work()
            await asyncio.sleep(self.random.uniform(0, 2 * PAUSE))

    async def decide(self):
        """Retry a request until it succeeds, and sometimes after that: the reply must be the same."""
        self.number += 1
        x = [self.random.random(), float(self.number % 3)]
        wanted = messages.DecisionRequest(x, self.random.choice([None, f"{self.name} {self.number}"]))
        repeatable = Repeatable(f"{self.name} {self.number}", repr(wanted).encode())
        reply = await self.patiently(wanted, repeatable)
        if self.random.random() < 0.3:
            again = await asyncio.gather(*(self.patiently(wanted, repeatable) for _ in range(2)))
            if again != [reply, reply]:
                acknowledge(self.acks, "broken", reply.id, f"{reply} became {again}")
        acknowledge(self.acks, "decided", reply.id, f"{reply.label} {reply.prob!r}")
        self.decided.append(reply.id)

    async def patiently(self, wanted, repeatable):
        while True:
            with suppress(Unavailable):
                return (await self.backend.decide(NAME, [wanted], repeatable))[0]
            await asyncio.sleep(0.05)

    async def answer(self):
        """Answer a decision of any client; sometimes twice at the same time, sometimes with a conflicting value."""
        ids = (
            [state.id for state in await self.backend.recent(NAME, 30)] if self.random.random() < 0.3 else self.decided
        )
        if not ids:
            return
        name = self.random.choice(list(ids))
        value = sum(name.encode()) % 2 == 0
        if self.random.random() < 0.1:
            value = not value
        if self.random.random() < 0.05:
            await self.cancel(name)
        request = messages.FeedbackRequest(name, correct=value)
        for outcome in await self.backend.feedback(NAME, [request] * self.random.choice([1, 1, 2])):
            self.note(name, float(value), outcome)

    def note(self, name, value, outcome):
        if isinstance(outcome, dt.ConflictingFeedback):
            acknowledge(self.acks, "conflict", name, value)
        elif isinstance(outcome, str):
            acknowledge(self.acks, outcome, name, value)
        elif not isinstance(outcome, Unavailable):
            acknowledge(self.acks, "broken", name, repr(outcome))

    async def cancel(self, name):
        with suppress(dt.ConflictingFeedback):
            if await self.backend.cancel(NAME, name) == "cancelled":
                acknowledge(self.acks, "given up", name, "")


async def learn(dsn, folder):
    """Run a process that learns or waits to; acknowledge each change between the two."""
    acks = open_acks(folder)
    learner.FACTS_A_SNAPSHOT = 300
    backend = PostgresBackend(dsn)
    await backend.start()
    was_learning = False
    while True:
        if backend.is_learning != was_learning:
            was_learning = backend.is_learning
            acknowledge(acks, "learning" if was_learning else "lost", "", "")
        await asyncio.sleep(0.01)


def stand_by(dsn, folder):
    """Fork a child for each line `front SEED` or `learn`, and print its number; wait for one for `wait NUMBER`."""
    with dt.Model(CLASSES, features=2) as model:  # compiled once for all
        model.feedback(model.decide(np.ones(2)).id, correct=True)
        model.decide(np.ones(2))
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        what, *rest = line.split()
        if what == "wait":
            number = os.waitstatus_to_exitcode(os.waitpid(int(rest[0]), 0)[1])
        else:
            number = os.fork()
            if number == 0:
                asyncio.run(answer_clients(dsn, folder, rest[0]) if what == "front" else learn(dsn, folder))
        print(number, flush=True)  # noqa: T201


def check_account(dsn, acknowledged):
    """Raise if the tables lack an acknowledged reply, or have an answer twice; all must have been learned."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute("SELECT id, status, value, label FROM delaytron.ids").fetchall()
        known = {name: (status, value, label) for name, status, value, label in rows}
        rows = connection.execute("SELECT id, kind, body FROM delaytron.facts WHERE id IS NOT NULL").fetchall()
        newest = connection.execute("SELECT body FROM delaytron.snapshots ORDER BY seq DESC LIMIT 1").fetchone()
    check_acknowledged(
        known, {name: facts.decode_decided(body) for name, kind, body in rows if kind == facts.RECORDED}, acknowledged
    )
    counts = Counter((name, kind) for name, kind, _ in rows)
    assert set(counts.values()) == {1}, "something became two facts"
    answered = {name: facts.decode(body) for name, kind, body in rows if kind == facts.ANSWERED}
    assert answered == {name: value for name, (status, value, _) in known.items() if status == Status.ANSWERED}
    assert {name for name, kind in counts if kind == facts.RECORDED} == known.keys()
    state, *_ = unpack_state(decompress(newest[0], "it"), "it")
    assert state.ids.keys() == {name for name, (status, *_) in known.items() if status == Status.OPEN}
    assert sum(state.tally.answered) == len(answered)
    assert state.rounds == len(known)


def check_acknowledged(known, decided, acknowledged):
    assert not [line for line in acknowledged if line[0] == "broken"]
    accepted = Counter(name for what, name, _ in acknowledged if what == "accepted")
    assert set(accepted.values()) <= {1}, "an answer was accepted twice"
    for what, name, rest in acknowledged:
        if what == "decided":
            label, prob = rest.split()
            assert (CLASSES[decided[name].label], decided[name].prob) == (label, float(prob))
        elif what in ("accepted", "duplicate"):
            assert known[name][:2] == (Status.ANSWERED, float(rest))
        elif what == "conflict":
            assert known[name][0] == Status.ANSWERED
            assert known[name][1] != float(rest)


if __name__ == "__main__":
    stand_by(sys.argv[1], Path(sys.argv[2]))
