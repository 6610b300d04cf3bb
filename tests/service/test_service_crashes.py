"""kill -9 at random moments under load: nothing acknowledged is lost, and the state is that of the journal's replay."""

import json
from random import Random
from threading import Event, Thread
from time import sleep

import httpx
import pytest

from delaytron.journal.view import JournalView
from delaytron.model.facts import decode_decided
from delaytron.model.verify import verify_journal
from services import Service

MODELS = {"rows": 3, "words": "hashed"}


class Caller(Thread):
    """Decides and answers over its own connection, and remembers what was acknowledged."""

    def __init__(self, url, stop, seed):
        super().__init__(daemon=True)
        self.url = url
        self.stop = stop
        self.random = Random(seed)
        self.decided = {name: {} for name in MODELS}
        self.answered = {name: {} for name in MODELS}

    def run(self):
        with httpx.Client(base_url=self.url, timeout=30) as client:
            while not self.stop.is_set():
                try:
                    self.call(client, self.random.choice(list(MODELS)))
                except httpx.HTTPError:
                    return

    def call(self, client, name):
        if self.decided[name] and self.random.random() < 0.5:
            self.answer(client, name)
        else:
            self.decide(client, name)

    def decide(self, client, name):
        numbers = [self.random.gauss(0, 1) for _ in range(3)]
        features = numbers if name == "rows" else {"a": numbers[0], "text": f"word {self.random.randrange(9)}"}
        body = {"decisions": [{"features": features}] * self.random.randint(1, 3)}
        reply = client.post(f"/v1/models/{name}/decisions", content=json.dumps(body))
        assert reply.status_code == 200, reply.text
        for decision in reply.json()["decisions"]:
            self.decided[name][decision["id"]] = decision

    def answer(self, client, name):
        chosen = self.random.choice(list(self.decided[name]))
        value = self.answered[name].get(chosen, self.random.random() < 0.5)
        reply = client.post(f"/v1/models/{name}/feedback", content=json.dumps({"id": chosen, "correct": value}))
        if reply.status_code == 200:
            self.answered[name][chosen] = value
        assert reply.status_code in (200, 409), reply.text


def run_until_killed(folder, seed):
    """Let four callers work, and kill the service in the middle; return the callers."""
    service = Service(folder)
    for name, features in MODELS.items():
        service.make(name, features=features, bits=10)
        replayed = verify_journal(folder / f"{name}.db")
        assert replayed.mismatch is None
        assert service.client.get(f"/v1/models/{name}/digest").json()["digest"] == replayed.hash
    stop = Event()
    callers = [Caller(service.url, stop, seed * 10 + i) for i in range(4)]
    for caller in callers:
        caller.start()
    sleep(Random(seed).uniform(0.02, 0.6))
    service.kill()
    stop.set()
    for caller in callers:
        caller.join(timeout=60)
    return callers


def check_nothing_lost(folder, callers):
    acknowledged = 0
    for name in MODELS:
        with JournalView(folder / f"{name}.db") as view:
            for caller in callers:
                for decision in caller.decided[name].values():
                    check_decision(view, decision)
                for answered, value in caller.answered[name].items():
                    assert view.known(answered).value == float(value)
                acknowledged += len(caller.decided[name]) + len(caller.answered[name])
    return acknowledged


def check_decision(view, decision):
    known = view.known(decision["id"])
    ((body,),) = view.rows("SELECT body FROM facts WHERE seq = ?", (known.seq,))
    stored = decode_decided(body)
    assert (stored.round, stored.prob) == (decision["round"], decision["prob"])
    assert "abc"[stored.label] == decision["label"]


@pytest.mark.parametrize("kills", [8, pytest.param(300, marks=pytest.mark.torture)])
def test_kills_lose_nothing_that_was_acknowledged(tmp_path, kills):
    acknowledged = 0
    for seed in range(kills):
        acknowledged += check_nothing_lost(tmp_path, run_until_killed(tmp_path, seed))
    assert acknowledged > 20 * kills
    for name in MODELS:
        found = verify_journal(tmp_path / f"{name}.db")
        assert found.mismatch is None
        with JournalView(tmp_path / f"{name}.db") as view:
            ((rounds, distinct),) = view.rows("SELECT count(*), count(DISTINCT id) FROM facts WHERE kind = 1")
            assert rounds == distinct == found.decided
