"""Models, decisions, feedback, expiry and restarts over HTTP, compared with a plain model of the expected replies."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from delaytron.model.verify import verify_journal
from delaytron.service.app import make_app
from delaytron.service.models import Models
from delaytron.service.security import ApiKeys

LIMIT = 4  # rounds until a decision expires
WITHIN = 3  # rounds after that until its answer comes too late to correct anything
NUMBERS = st.integers(-30, 30).map(lambda n: n / 10)
VALUES = st.sampled_from([{"correct": True}, {"correct": False}, {"reward": 0.25}, {"reward": 1.0}])


@dataclass
class Known:
    round: int
    label: str
    status: str = "open"
    value: float | None = None
    is_correctable: bool = False


def as_value(answer):
    return float(next(iter(answer.values())))


class ServiceMachine(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(["drop", "wrong", None]))
    def begin(self, policy):
        self.folder = TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.policy = policy
        self.rounds = 0
        self.known = {}
        self.classes = {"a": True, "b": True, "c": True}  # name -> whether it may be chosen
        self.repeatable = []
        self.requested = []
        self.start()
        asked = {"name": "m", "classes": ["a", "b", "c"], "features": 2, "seed": 1}
        if policy is not None:
            asked |= {"expire_after": LIMIT, "on_expiry": policy}
        if policy == "wrong":
            asked |= {"correct_within": WITHIN}
        self.asked = asked
        assert self.call("POST", "/v1/models", asked)[0] == 201

    def start(self):
        self.backend = Models(self.path)
        self.loop.run_until_complete(self.backend.start())
        transport = httpx.ASGITransport(make_app(self.backend, ApiKeys()))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    @property
    def path(self):
        return Path(self.folder.name)

    def call(self, method, path, body=None, **headers):
        content = None if body is None else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = self.loop.run_until_complete(self.client.request(method, path, content=content, headers=named))
        return reply.status_code, reply.json()

    def allowed(self):
        return [name for name, active in self.classes.items() if active]

    def note_round(self, decision):
        self.rounds += 1
        assert decision["round"] == self.rounds
        for known in self.known.values():
            age = self.rounds - known.round
            if known.status == "open" and self.policy is not None and age >= LIMIT:
                known.status = "expired"
                known.is_correctable = self.policy == "wrong"
            if age >= LIMIT + WITHIN:
                known.is_correctable = False
        self.known[decision["id"]] = Known(self.rounds, decision["label"])

    @rule(x=st.tuples(NUMBERS, NUMBERS), some=st.booleans(), own=st.booleans())
    def decide(self, x, some, own):
        body = {"features": list(x)}
        if some:
            body["allowed"] = self.allowed()[:2]
        if own:
            body["id"] = f"own-{self.rounds}"
        status, decision = self.call("POST", "/v1/models/m/decisions", body)
        assert status == 200
        assert decision["label"] in body.get("allowed", self.allowed())
        assert 0 < decision["prob"] <= 1
        self.note_round(decision)
        if own:
            self.requested.append((body, decision))

    @precondition(lambda self: self.requested)
    @rule(data=st.data(), beside=st.booleans())
    def decide_again(self, data, beside):
        """The same id with the same input returns what is stored; with another input all of a batch is refused."""
        body, decision = data.draw(st.sampled_from(self.requested))
        if beside:
            other = {"features": [0.5, 0.5]}
            status, made = self.call("POST", "/v1/models/m/decisions", {"decisions": [other, body]})
            first, again = made["decisions"]
            self.note_round(first)
        else:
            status, again = self.call("POST", "/v1/models/m/decisions", body)
        assert (status, again) == (200, decision)
        changed = {"decisions": [{"features": [0.5, 0.5]}, {**body, "features": [9.0, 9.0]}]}
        status, refused = self.call("POST", "/v1/models/m/decisions", changed)
        assert (status, refused["result"]) == (409, "conflict")

    @rule(count=st.integers(1, 3))
    def decide_with_a_key_and_again(self, count):
        body = {"decisions": [{"features": [1.0, float(i)]} for i in range(count)]}
        key = f"key-{self.rounds}"
        status, made = self.call("POST", "/v1/models/m/decisions", body, Idempotency_Key=key)
        assert status == 200
        for decision in made["decisions"]:
            self.note_round(decision)
        self.repeatable.append((key, body, made))

    @precondition(lambda self: self.repeatable)
    @rule(data=st.data())
    def repeat(self, data):
        key, body, made = data.draw(st.sampled_from(self.repeatable))
        assert self.call("POST", "/v1/models/m/decisions", body, Idempotency_Key=key) == (200, made)
        other = {"features": [9.0, 9.0]}
        assert self.call("POST", "/v1/models/m/decisions", other, Idempotency_Key=key)[0] == 409

    @rule(features=st.sampled_from([[1.0], {"a": 1}, [1.0, None], "x"]), allowed=st.sampled_from([None, [], ["none"]]))
    def decide_wrongly(self, features, allowed):
        assert self.call("POST", "/v1/models/m/decisions", {"features": features, "allowed": allowed})[0] == 422

    @precondition(lambda self: self.known)
    @rule(data=st.data(), answer=VALUES)
    def answer(self, data, answer):
        name = data.draw(st.sampled_from(sorted(self.known)))
        known = self.known[name]
        status, reply = self.call("POST", "/v1/models/m/feedback", {"id": name, **answer})
        assert (status, reply["result"]) == self.expected(known, as_value(answer))

    def expected(self, known, value):
        if known.status == "cancelled":
            return 200, "cancelled"
        if known.value is not None:
            return (200, "duplicate") if known.value == value else (409, "conflict")
        known.value = value
        if known.status == "open":
            known.status = "answered"
            return 200, "accepted"
        if known.is_correctable:
            known.status = "answered"
            return 200, "corrected"
        return 200, "late"

    @rule(answer=VALUES)
    def answer_unknown(self, answer):
        status, reply = self.call("POST", "/v1/models/m/feedback", {"id": "never", **answer})
        assert (status, reply["result"]) == (404, "unknown_decision")

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def cancel(self, data):
        name = data.draw(st.sampled_from(sorted(self.known)))
        known = self.known[name]
        status, reply = self.call("DELETE", f"/v1/models/m/decisions/{name}")
        if known.status == "open":
            assert (status, reply["result"]) == (200, "cancelled")
            known.status = "cancelled"
        elif known.status == "cancelled":
            assert (status, reply["result"]) == (200, "duplicate")
        else:
            assert (status, reply["result"]) == (409, "conflict")

    @rule(name=st.sampled_from("abcde"), add=st.booleans())
    def change_classes(self, name, add):
        active = self.classes.get(name, False)
        if add:
            status, _ = self.call("POST", "/v1/models/m/classes", {"name": name})
            assert status == (422 if active else 200)
            self.classes[name] = True
        else:
            status, _ = self.call("DELETE", f"/v1/models/m/classes/{name}")
            may = active and len(self.allowed()) > 1
            assert status == (200 if may else 422)
            if may:
                self.classes[name] = False

    @rule()
    def make_again(self):
        assert self.call("POST", "/v1/models", self.asked)[0] == 200
        assert self.call("POST", "/v1/models", {**self.asked, "classes": ["x", "y"]})[0] == 409

    @rule(in_good_order=st.booleans())
    def restart(self, in_good_order):
        before = self.call("GET", "/v1/models/m/digest")[1]["digest"]
        if in_good_order:
            self.loop.run_until_complete(self.backend.stop())
        else:
            self.abandon()
        self.start()
        assert self.call("GET", "/v1/models/m/digest")[1]["digest"] == before

    def abandon(self):
        """Leave the files as a killed process does."""
        for served in self.backend._served.values():
            served.engine.writer._finalizer.detach()
            for database in (served.engine.store._database, served.engine.store._reader):
                if database is not None:
                    database.close()
            served.engine.store._lock.forget()

    @invariant()
    def replies_agree_with_the_plain_model(self):
        if not hasattr(self, "known"):
            return
        status, stats = self.call("GET", "/v1/models/m/stats")
        assert status == 200
        assert stats["decisions"] == self.rounds
        assert stats["open"] == sum(known.status == "open" for known in self.known.values())
        assert stats["cancelled"] == sum(known.status == "cancelled" for known in self.known.values())
        assert stats["answered"] == sum(known.status == "answered" for known in self.known.values())
        assert sum(one["played"] for one in stats["classes"]) == self.rounds
        for name, known in list(self.known.items())[-3:]:
            state = self.call("GET", f"/v1/models/m/decisions/{name}")[1]
            assert (state["status"], state["label"], state["value"]) == (known.status, known.label, known.value)

    def teardown(self):
        if not hasattr(self, "loop"):
            return
        digest = self.call("GET", "/v1/models/m/digest")[1]["digest"]
        found = verify_journal(self.path / "m.db")
        self.loop.run_until_complete(self.client.aclose())
        self.loop.run_until_complete(self.backend.stop())
        self.loop.close()
        self.folder.cleanup()
        assert (found.mismatch, found.hash) == (None, digest)


ServiceMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestServiceMachine = pytest.mark.xdist_group("service machine")(ServiceMachine.TestCase)


class LongMachine(ServiceMachine):
    """The same, for longer."""


LongMachine.TestCase.settings = settings(
    max_examples=400, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLongMachine = pytest.mark.torture(LongMachine.TestCase)
