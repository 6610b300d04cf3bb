"""The replies of the service: results of feedback, and errors with their messages."""

import json
import re
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import delaytron as dt
from changing import CALM, CLASSES, OPTIONS, served
from delaytron.model.verify import verify_journal
from delaytron.rng import stream
from delaytron.service.models import _unserved
from delaytron.service.server import check_free
from services import serving

K, D, T = 3, 4, 300  # of the simulated stream


@pytest.fixture
def service(shop):
    return shop


def said(reply):
    """Return the status and the word of a reply; a refusal must be a problem."""
    body = reply.json()
    if reply.status_code >= 400:
        assert reply.headers["content-type"] == "application/problem+json"
        assert body["status"] == reply.status_code
        assert body["type"] == f"urn:delaytron:{body['result']}"
        assert body["title"]
        assert "\n" not in body["detail"]
        assert "Traceback" not in reply.text
    return reply.status_code, body.get("result")


def message(reply):
    """Return the problem and the hint of a refusal, as an error prints them."""
    body = reply.json()
    return "; ".join(filter(None, (body["detail"], body.get("hint"))))


def decide(service, **more):
    reply = service.decide([1.0, 2.0], **more)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_decision_has_its_id_label_probability_and_round(service):
    decision = decide(service, id="own", allowed=["a", "c"])
    assert decision["id"] == "own"
    assert decision["label"] in ("a", "c")
    assert 0 < decision["prob"] <= 1
    assert set(decision) == {"id", "label", "prob", "round"}
    following = decide(service)
    assert following["round"] == decision["round"] + 1
    assert len(following["id"]) == 32


def test_the_first_answer_is_accepted_the_same_is_a_duplicate_the_other_conflicts(service):
    one = decide(service)["id"]
    assert said(service.feedback(one, correct=True)) == (200, "accepted")
    assert said(service.feedback(one, correct=True)) == (200, "duplicate")
    assert said(service.feedback(one, reward=1.0)) == (200, "duplicate")
    assert said(service.feedback(one, correct=False)) == (409, "conflict")
    assert said(service.feedback(one, reward=0.5)) == (409, "conflict")


def test_an_unknown_id_is_not_found(service):
    assert said(service.feedback("never", correct=True)) == (404, "unknown_decision")
    assert said(service.feedback("never", name="none", correct=True)) == (404, "unknown_model")
    assert said(service.client.get("/v1/models/m/decisions/never")) == (404, "unknown_decision")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"correct": 1},
        {"correct": "yes"},
        {"reward": 1.5},
        {"reward": -0.1},
        {"correct": True, "reward": 1.0},
        {"label": "huge"},
        {"label": None},
        {"corect": True},
    ],
)
def test_a_bad_value_is_refused_and_changes_nothing(service, answer):
    one = decide(service)["id"]
    assert said(service.feedback(one, **answer)) == (422, "invalid")
    assert said(service.feedback(one, correct=True)) == (200, "accepted")


@pytest.mark.parametrize("body", ["", "{", "[1", '{"id": NaN}', "\udcff", "null", "[]", "7", '"text"', "[" * 100_000])
def test_a_body_that_is_not_a_json_object_is_refused(service, body):
    content = body.encode(errors="surrogateescape")
    for path in ("/v1/models", "/v1/models/m/decisions", "/v1/models/m/feedback", "/v1/models/m/classes"):
        status, _ = said(service.client.post(path, content=content))
        assert status in (400, 422)


REFUSALS = {  # path, body -> what is said
    ("m/decisions", ""): 'the body is empty; send an object such as {"features": {"tokens": 512}}',
    ("m/decisions", '{"features": NaN}'): "the body must be JSON, which has no NaN; send an object such as",
    ("m/decisions", '{"features": "\\ud800"}'): "in Unicode, got half of a \\u escape; send an object such as",
    ("m/decisions", '{"features": [1'): "JSON: Expecting ',' delimiter (character 15); send an object such as",
    ("m/decisions", '{"features": {"a": "\udcff"}}'): "the body must be JSON in UTF-8, got other bytes; send an object",
    (
        "m/feedback",
        "[7]",
    ): 'the body must be an object, got [7]; send an object such as {"id": "req-17", "correct": true}',
    ("m/decisions", '{"featurs": [1, 2]}'): 'there is no field "featurs"; did you mean features?',
    (
        "m/feedback",
        '{"feedback": [{"huge": 1}]}',
    ): 'feedback[0]: there is no field "huge"; known are id, correct',
    ("m/decisions", '{"a\\nb - at `$.features": 1}'): 'there is no field "a\\nb',
    ("m/decisions", "{}"): "features are missing; give features, or a list of decisions for a batch",
    (
        "m/decisions",
        '{"decisions": [{"id": "x"}]}',
    ): "decisions[0]: the field features is missing; it must be an object",
    ("m/decisions", '{"features": 7}'): "features must be an object, or a list of numbers or of pairs",
    ("m/decisions", '{"features": 7, oops'): "the body must be JSON: Expecting property name",
    ("m/decisions", '{"features": 7, "features": [1, 2]}'): "the body must have every field once",
    ("m/decisions", '{"features": [1, {"a": [1, -1e999]}]}'): "a number in features[1].a[1] must fit",
    ("m/decisions", f'{{"features": [1, {"7" * 5000}]}}'): "a number in features[1] must fit into a 64-bit float",
    ("m/decisions", '{"decisions": [{"features": [1, 2]}, 7]}'): "at least one object, got 7 at decisions[1]",
    ("m/decisions", '{"decisions": []}'): "decisions must be a list of at least one object, got []",
    ("m/feedback", '{"feedback": [{"id": "x"}, {"reward": 1e999}]}'): "a number in feedback[1].reward must fit",
    ("m/feedback", '{"feedback": [{"id": "x"}, {"reward": "1"}]}'): "feedback[1].reward must be a number from 0 to 1",
    (
        "m/decisions",
        '{"features": [1, 1e999]}',
    ): "a number in features[1] must fit into a 64-bit float, got a larger one",
    ("m/decisions", '{"features": [1, 2], "allowed": ["a", 1.5]}'): "strings or integers, got 1.5 at allowed[1]",
    ("m/decisions", '{"decisions": [{"features": [1, 2]}, {"features": [1]}]}'): "decisions[1]: x must be",
    (
        "m/decisions",
        '{"decisions": [{"features": [1, 2], "id": 5}]}',
    ): "decisions[0].id must be a string of 1 to 200 bytes",
    ("m/feedback", '{"id": "x", "reward": 7}'): "reward must be a number from 0 to 1, got 7",
    ("m/feedback", '{"correct": true}'): "id must be a string of 1 to 200 bytes, got NoneType",
    ("m/classes", '{"name": null}'): "name must be a string or an integer, got null",
    (
        "",
        '{"name": "a b", "classes": [1, 2]}',
    ): "name must be 1 to 64 letters, digits, _ or -, the first a letter or a dig",
    ("", '{"name": "new", "classes": ["a"]}'): 'classes must be a list of strings or integers, two at least, got ["a"]',
    (
        "",
        '{"name": "new", "classes": [1, 2], "on_expiry": "wring"}',
    ): 'on_expiry must be "drop" or "wrong", got "wring"',
    ("", '{"name": "new", "classes": [1, 2], "parameters": {"lrr": 1}}'): "got 'lrr'; did you mean lr?",
}


@pytest.mark.parametrize(("path", "body"), REFUSALS)
def test_an_error_says_what_is_wrong_what_is_allowed_and_what_to_do(service, path, body):
    reply = service.client.post(f"/v1/models/{path}".rstrip("/"), content=body.encode(errors="surrogateescape"))
    assert said(reply) in ((400, "malformed"), (422, "invalid"))
    assert REFUSALS[path, body] in message(reply)
    assert len(message(reply)) < 260


@pytest.mark.parametrize(
    ("path", "body", "data"),
    [
        (
            "m/decisions",
            {"decisions": [{"features": [1, 2]}, {"features": [1, 2], "id": 5}]},
            {"parameter": "decisions[1].id", "allowed": "a string of 1 to 200 bytes", "value": 5},
        ),
        (
            "m/decisions",
            {"features": [1, 2], "allowed": ["a", 1.5]},
            {"parameter": "allowed", "allowed": "a list of strings or integers", "value": 1.5},
        ),
        (
            "m/feedback",
            {"id": "x", "reward": 7},
            {"parameter": "reward", "allowed": "a number from 0 to 1", "value": 7},
        ),
        ("m/feedback", {"id": "x", "corect": True}, {"parameter": "corect", "hint": "did you mean correct?"}),
        ("m/classes", {}, {"parameter": "name", "allowed": "a string or an integer"}),
        (
            "",
            {"name": "new", "classes": [1, 2], "seed": -1},
            {"parameter": "seed", "value": -1},
        ),
        ("m/decisions", {"features": "x" * 300}, {"parameter": "features"}),  # too long to be repeated
    ],
)
def test_a_refusal_has_the_data_of_its_error(service, path, body, data):
    reply = service.post(f"/v1/models/{path}".rstrip("/"), body)
    assert said(reply) == (422, "invalid")
    found = reply.json()
    assert {name: found.get(name) for name in data} == data
    assert ("value" in found) == ("value" in data)


@pytest.mark.parametrize(
    "features",
    [[1.0], [1.0, 2.0, 3.0], {"a": 1}, ["a", "b"], [[0, 1.0], [0, 2.0]], [[5, 1.0]], [[0, 1.0, 2.0]], [[0, "x"]],
     [1.0, None], [True, {}], [10**400, 1], "text", None, [[0, 10**400]]],
)  # fmt: skip
def test_bad_features_are_refused(service, features):
    assert said(service.decide(features)) == (422, "invalid")


def test_numbers_that_are_not_finite_are_refused(service):
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        body = f'{{"features": [1.0, {number}]}}'
        status, _ = said(service.client.post("/v1/models/m/decisions", content=body))
        assert status in (400, 422)


def test_sparse_pairs_are_the_vector(service):
    assert service.decide([[1, 2.5]], id="pairs").status_code == 200
    explained = service.client.get("/v1/models/m/explanations/pairs").json()
    assert set(explained["features"]) == {"0", "1"}


def test_all_decisions_of_a_batch_are_made_or_none(service):
    before = service.client.get("/v1/models/m").json()["decisions"]
    wrong = {"decisions": [{"features": [1, 2]}, {"features": [1]}]}
    assert said(service.post("/v1/models/m/decisions", wrong)) == (422, "invalid")
    twice = {"decisions": [{"features": [1, 2], "id": "x"}, {"features": [1, 2], "id": "x"}]}
    assert said(service.post("/v1/models/m/decisions", twice)) == (422, "invalid")
    assert service.client.get("/v1/models/m").json()["decisions"] == before
    right = {"decisions": [{"features": [1, i], "id": f"b{i}"} for i in range(5)]}
    made = service.post("/v1/models/m/decisions", right).json()["decisions"]
    assert [one["id"] for one in made] == [f"b{i}" for i in range(5)]
    assert [one["round"] for one in made] == list(range(before + 1, before + 6))


def test_a_batch_of_answers_has_a_result_for_each(service):
    ids = [decide(service)["id"] for _ in range(3)]
    answers = [
        {"id": ids[0], "correct": True},
        {"id": ids[0], "correct": True},
        {"id": ids[0], "correct": False},
        {"id": "never", "correct": True},
        {"id": ids[1], "reward": 2.0 / 3},
    ]
    results = service.post("/v1/models/m/feedback", {"feedback": answers}).json()["results"]
    assert [one["status"] for one in results] == [200, 200, 409, 404, 200]
    assert [one.get("result") for one in results] == ["accepted", "duplicate", None, None, "accepted"]
    assert results[2]["problem"]["result"] == "conflict"


def test_the_same_id_with_the_same_input_returns_the_stored_decision(service):
    first = decide(service, id="mine", allowed=["a", "b"])
    decide(service)
    assert decide(service, id="mine", allowed=["a", "b"]) == first
    assert said(service.feedback("mine", correct=True)) == (200, "accepted")
    made = service.client.get("/v1/models/m").json()["decisions"]
    assert decide(service, id="mine", allowed=["a", "b"]) == first  # after its answer as well
    assert service.client.get("/v1/models/m").json()["decisions"] == made


@pytest.mark.parametrize(
    "other", [{"features": [1.0, 3.0]}, {"allowed": ["a", "c"]}, {"allowed": None}], ids=["features", "classes", "all"]
)
def test_the_same_id_with_another_input_conflicts(service, other):
    asked = {"features": [1.0, 2.0], "id": "taken", "allowed": ["a", "b"]}
    assert service.post("/v1/models/m/decisions", asked).status_code == 200
    before = service.client.get("/v1/models/m").json()
    reply = service.post("/v1/models/m/decisions", asked | other)
    assert said(reply) == (409, "conflict")
    assert "id 'taken' was issued before, for other features or classes; give another id" in message(reply)
    batch = {"decisions": [{"features": [1.0, 2.0]}, asked | other]}
    assert said(service.post("/v1/models/m/decisions", batch)) == (409, "conflict")
    assert service.client.get("/v1/models/m").json() == before  # nothing of the batch was made


def test_a_batch_may_have_retries_in_it(service):
    first = decide(service, id="retried")
    batch = {"decisions": [{"features": [1.0, 2.0], "id": one} for one in ("new one", "retried")]}
    new, again = service.post("/v1/models/m/decisions", batch).json()["decisions"]
    assert again == first
    assert new["round"] > first["round"]


def test_invalid_ids_are_refused(service):
    assert said(service.decide([1.0, 2.0], id="x" * 201)) == (422, "invalid")
    assert said(service.decide([1.0, 2.0], id="")) == (422, "invalid")
    assert said(service.decide([1.0, 2.0], id="a\0b")) == (422, "invalid")


def test_ids_may_be_any_text(service):
    for name in ("a/b", "ä €", "..", "%2e%2e/x", "a b?c#d", "\U0001f600", "a\nb", "a\n", "a"):
        decide(service, id=name)
        path = "/v1/models/m/decisions/" + "".join(f"%{byte:02x}" for byte in name.encode())
        found = service.client.get(path)
        assert (found.status_code, found.json()["id"]) == (200, name)
    assert service.client.delete("/v1/models/m/decisions/a%0A").status_code == 200
    assert service.client.get("/v1/models/m/decisions/a%0A").json()["status"] == "cancelled"
    assert service.client.get("/v1/models/m/decisions/a").json()["status"] == "open"


def test_the_same_request_again_gets_the_same_reply(service):
    key = {"Idempotency-Key": "k-1"}
    first = service.post("/v1/models/m/decisions", {"features": [1, 2]}, headers=key)
    again = service.post("/v1/models/m/decisions", {"features": [1, 2]}, headers=key)
    assert first.json() == again.json()
    other = service.post("/v1/models/m/decisions", {"features": [1, 3]}, headers=key)
    assert said(other) == (409, "conflict")


def test_idempotency_keys_are_as_the_document_says(service):
    described = service.client.get("/openapi.json").json()["paths"]["/v1/models/{name}/decisions"]["post"]["parameters"]
    schema = next(one["schema"] for one in described if one["name"] == "Idempotency-Key")
    keys = {"x": 200, "x" * 200: 200, "a b": 200, "": 422, "x" * 201: 422, "a\tb": 422, "a\xff": 422}
    for key, status in keys.items():
        headers = {"Idempotency-Key": key.encode("latin-1")}
        reply = service.post("/v1/models/m/decisions", {"features": [1, 2]}, headers=headers)
        assert reply.status_code == status, key
        matches = re.search(schema["pattern"], key) is not None and len(key) <= schema["maxLength"]
        assert matches == (status == 200), key


def test_answers_to_cancelled_decisions_are_ignored(service):
    one = decide(service)["id"]
    assert said(service.client.delete(f"/v1/models/m/decisions/{one}")) == (200, "cancelled")
    assert said(service.client.delete(f"/v1/models/m/decisions/{one}")) == (200, "duplicate")
    assert said(service.feedback(one, correct=True)) == (200, "cancelled")
    answered = decide(service)["id"]
    service.feedback(answered, correct=True)
    assert said(service.client.delete(f"/v1/models/m/decisions/{answered}")) == (409, "conflict")


@pytest.mark.parametrize(("policy", "result"), [("wrong", "corrected"), ("drop", "late")])
def test_after_the_expiry_the_policy_decides(service, policy, result):
    name = f"expiring-{policy}"
    service.make(name, features=1, expire_after=1, on_expiry=policy)
    one = service.decide([1.0], name).json()["id"]
    service.decide([1.0], name)
    assert said(service.feedback(one, name, correct=True)) == (200, result)
    assert said(service.feedback(one, name, correct=True)) == (200, "duplicate")
    assert said(service.feedback(one, name, correct=False)) == (409, "conflict")


def test_answers_after_the_release_are_late(service):
    """What expired as wrong is corrected by its answer for `correct_within`; then it is released."""
    reply = service.make("released", features=1, expire_after=1, on_expiry="wrong", correct_within=2)
    assert reply.json()["correct_within"] == 2
    ids = [service.decide([1.0], "released").json()["id"] for _ in range(4)]
    results = [said(service.feedback(one, "released", correct=True)) for one in ids]
    assert results == [(200, "late"), (200, "corrected"), (200, "corrected"), (200, "accepted")]
    assert [said(service.feedback(one, "released", correct=True)) for one in ids] == [(200, "duplicate")] * 4
    assert said(service.feedback(ids[0], "released", correct=False)) == (409, "conflict")
    state = service.client.get(f"/v1/models/released/decisions/{ids[0]}").json()
    assert (state["status"], state["value"]) == ("expired", 1.0)
    stats = service.client.get("/v1/models/released/stats").json()
    assert (stats["answered"], stats["expired"], stats["open"]) == (3, 3, 0)
    assert (stats["corrected"], stats["late"]) == (2, 1)


def test_a_model_is_created_once(service):
    asked = {"name": "two", "classes": ["x", "y"], "features": ["age", "size"], "learner": "delaytron"}
    asked |= {"parameters": {"gamma": 0.2}}
    assert service.post("/v1/models", asked).status_code == 201
    assert service.post("/v1/models", asked).status_code == 200
    for other in ({"classes": ["x", "z"]}, {"parameters": {"gamma": 0.3}}, {"features": 2}):
        assert said(service.post("/v1/models", asked | other)) == (409, "conflict")
    listed = service.client.get("/v1/models").json()["models"]
    assert "two" in [model["name"] for model in listed]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../up"},
        {"name": "a/b"},
        {"name": ""},
        {"name": ".hidden"},
        {"name": "x" * 65},
        {"name": "nul\0"},
        {"name": "new\n"},
        {"classes": ["a"]},
        {"classes": ["a", "a"]},
        {"classes": "ab"},
        {"classes": [str(i) for i in range(1001)]},
        {"learner": "unknown"},
        {"learner": "dilute"},
        {"parameters": {"gamma": 0.1}},
        {"parameters": {"lr": -1}},
        {"features": "rows"},
        {"features": 0},
        {"features": 10**9},
        {"bits": 24, "classes": [str(i) for i in range(10)]},
        {"expire_after": "soon"},
        {"on_expiry": "wrong"},
        {"correct_within": 5},
        {"expire_after": 1, "correct_within": 5},
        {"expire_after": 1, "on_expiry": "wrong", "correct_within": "soon"},
        {"expire_after": 1, "on_expiry": "wrong", "correct_within": -1},
        {"seed": -1},
        {"color": "red"},
    ],
)
def test_invalid_models_are_refused(service, wrong):
    asked = {"name": "new", "classes": ["a", "b"], **wrong}
    status, _ = said(service.post("/v1/models", asked))
    assert status == 422
    assert service.client.get("/v1/models/new").status_code == 404


def test_classes_are_added_and_retired(service):
    service.make("changing", features=1)
    assert said(service.client.delete(f"/v1/models/changing/classes/{'9' * 5000}")) == (422, "invalid")
    assert service.post("/v1/models/changing/classes", {"name": "d"}).json()["classes"] == ["a", "b", "c", "d"]
    assert said(service.post("/v1/models/changing/classes", {"name": "d"})) == (422, "invalid")
    assert service.client.delete("/v1/models/changing/classes/a").json()["classes"] == ["b", "c", "d"]
    assert said(service.client.delete("/v1/models/changing/classes/a")) == (422, "invalid")
    assert said(service.decide([1.0], "changing", allowed=["a"])) == (422, "invalid")


def test_unknown_paths_methods_and_models_are_refused(service):
    assert said(service.client.get("/v2/models")) == (404, "unknown_path")
    assert said(service.client.put("/v1/models")) == (405, "wrong_method")
    assert service.client.put("/v1/models").headers["allow"]
    wrong = "PUT is not allowed at /v1/models; use GET or POST, see /openapi.json"
    assert message(service.client.put("/v1/models")) == wrong
    assert message(service.client.get("/v1/models/mm")) == "there is no model 'mm'; did you mean 'm'?"
    for strange in ("no-such-model", "a%00b", "x" * 3000):
        reply = service.client.get(f"/v1/models/{strange}")
        assert said(reply) == (404, "unknown_model")
        assert "make it with POST /v1/models, in Python with create_model" in message(reply)
    assert service.client.get("/healthz").json() == {"status": "ok"}
    assert service.client.head("/healthz").status_code == 200


def test_metrics_are_those_of_the_models(service):
    decide(service)
    stats = service.client.get("/v1/models/m/stats").json()
    lines = service.client.get("/metrics").text.splitlines()
    assert f'delaytron_decisions_total{{model="m"}} {stats["decisions"]}' in lines
    assert f'delaytron_open_decisions{{model="m"}} {stats["open"]}' in lines
    names = {line.split("{")[0] for line in lines if not line.startswith("#")}
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert all(any(name == kind or name.startswith(f"{kind}_") for kind in typed) for name in names)


def test_stats_and_metrics_show_challengers_and_bounds(service):
    service.make("steady", learner="bandit_logit", features=2)
    service.make("drifting", classes=CLASSES, **OPTIONS)
    served(service, "drifting", "broken", 0, CALM + 160)
    stats = service.client.get("/v1/models/drifting/stats").json()
    drift, accuracy = stats["drift"], stats["accuracy"]
    assert drift["born"] > 0
    assert datetime.fromisoformat(drift["changed_at"]).tzinfo is not None
    service.decide([1.0, 0.0, 0.0], "drifting")
    lines = service.client.get("/metrics").text.splitlines()
    assert f'delaytron_challenger{{model="drifting"}} {int(drift["challenger"])}' in lines
    for what in ("born", "won", "dropped"):
        assert f'delaytron_challengers_{what}_total{{model="drifting"}} {drift[what]}' in lines
    assert not any(line.startswith('delaytron_challenger{model="steady"}') for line in lines)
    n, reward = stats["answered"], stats["mean_reward"] * stats["answered"]
    assert (stats["open"], accuracy["low"], accuracy["high"]) == (0, accuracy["mean"], accuracy["mean"])
    known = {"delaytron_accuracy": reward / n, "delaytron_mean_reward": reward / n}
    known |= {"delaytron_accuracy_low": reward / (n + 1), "delaytron_accuracy_high": (reward + 1) / (n + 1)}
    for name, value in known.items():
        (line,) = [line for line in lines if line.startswith(f'{name}{{model="drifting"}}')]
        assert float(line.split()[1]) == pytest.approx(value)
    assert service.client.get("/v1/models/steady/stats").json()["drift"] is None


def test_the_names_of_models_are_escaped_in_metrics(tmp_path):
    dt.Model(["a", "b"], features=1, journal=tmp_path / 'say "a\\b".db').close()
    with serving(tmp_path) as service:
        assert 'delaytron_decisions_total{model="say \\"a\\\\b\\""} 0' in service.client.get("/metrics").text


def test_other_processes_answer_by_the_journal(service):
    service.make("by-journal", features=1)
    one = service.decide([1.0], "by-journal").json()["id"]
    with dt.Journal(service.folder / "by-journal.db") as journal:
        assert journal.feedback(one, correct=True) == "accepted"
    assert said(service.feedback(one, "by-journal", correct=True)) == (200, "duplicate")
    assert service.client.get("/v1/models/by-journal/stats").json()["answered"] == 1


def test_a_damaged_journal_does_not_keep_the_others_from_being_served(tmp_path):
    with serving(tmp_path) as service:
        service.make("good", features=1)
        service.make("bad", features=1)
        service.stop()
    Path(tmp_path, "bad.db").write_bytes(b"no journal" * 1000)
    with serving(tmp_path) as service:
        assert service.decide([1.0], "good").status_code == 200
        Path(tmp_path, "late.db").mkdir()
        for name in ("bad", "late"):
            reply = service.post("/v1/models", {"name": name, "classes": ["a", "b"]})
            assert said(reply) == (503, "unavailable")
            assert f"model '{name}' cannot be served: " in reply.json()["detail"]
            assert f"repair {name}.db in the folder of the service, and start it" in reply.json()["hint"]
            assert str(tmp_path) not in reply.text


def test_a_crash_while_a_model_is_created_does_not_keep_its_name(tmp_path):
    """It may leave an empty file; the client retries the request."""
    Path(tmp_path, "m.db").touch()
    with serving(tmp_path) as service:
        service.make("m", features=1)
        assert service.decide([1.0], "m").status_code == 200


@pytest.mark.parametrize("place", ["{path}", "{whole}"])
def test_errors_do_not_show_the_path_of_a_journal(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    path = Path("shop", "m.db")
    error = dt.InvalidInput(f"cannot open {place.format(path=path, whole=path.absolute())}: no", "go away")
    hint = "repair m.db in the folder of the service, and start it again"
    assert _unserved(path, error) == ("model 'm' cannot be served: cannot open m.db: no", hint)


def test_everything_is_on_disk_after_sigterm(tmp_path):
    with serving(tmp_path) as service:
        service.make(features=1)
        ids = [service.decide([float(i)]).json()["id"] for i in range(20)]
        assert service.stop() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.db"]
    found = verify_journal(tmp_path / "m.db")
    assert (found.mismatch, found.decided) == (None, len(ids))


def test_a_second_service_on_the_same_folder_serves_nothing_twice(service):
    with serving(service.folder) as second:
        assert said(second.decide([1.0, 2.0])) == (503, "unavailable")
        assert service.decide([1.0, 2.0]).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "models are kept in a folder or in PostgreSQL, got neither; give FOLDER or --postgres DSN"),
        (("shop", "--postgres", "dbname=x"), "got both; give FOLDER or --postgres DSN"),
        (("file",), "cannot make the folder 'file': there is a file of this name; choose another"),
        (("file/shop",), "cannot write 'file/shop': Not a directory; check the path: what should be a folder"),
        (("shop", "--port", "{port}"), "port {port}: Address already in use; stop what listens there, or give another"),
    ],
)
def test_a_service_that_cannot_start_says_why_in_one_line(tmp_path, arguments, expected):
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = [argument.format(port=port) for argument in arguments]
        command = [sys.executable, "-m", "delaytron", "serve", *given]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert expected.format(port=port) in ended.stderr
    assert ended.stderr.startswith("delaytron: ")
    assert ended.stderr.count("\n") == 1


def test_an_address_of_another_machine_cannot_be_listened_on():
    with pytest.raises(dt.InvalidInput, match=r"192\.0\.2\.1, port 0: Cannot assign .*; give --host 127\.0\.0\.1, or"):
        check_free("192.0.2.1", 0)
    check_free("127.0.0.1", 0)
    check_free("", 0)


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 70 + ".test", "nul\0.test"])
def test_an_unknown_host_cannot_be_listened_on(host):
    with pytest.raises(dt.InvalidInput, match="is not known on this machine; use 127"):
        check_free(host, 0)


def test_a_machine_without_one_of_the_addresses_listens_on_the_others(monkeypatch):
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("192.0.2.1", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    check_free("localhost", 0)


def test_the_document_describes_every_route(service):
    document = service.client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]["/v1/models/{name}/feedback"]["post"]["responses"]) >= {"200", "404", "409", "410"}
    assert json.dumps(document).count("$ref") > 20


# A simulated stream: the weights must be exactly those of `replay` on the same arrays


def arrays(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, T)
    X = rng.normal(size=(T, D)) + np.eye(K, D)[y] * 3
    return X, y, rng.integers(1, 60, T)


@pytest.mark.parametrize(
    ("name", "options"),
    [("bandit_logit", {}), ("delaytron", {"gamma": 0.2}), ("adaptive_delaytron", {}), ("soba", {"gamma": 0.1})],
)
def test_the_service_learns_what_replay_learns(service, name, options):
    X, y, delays = arrays(5)
    model = name.replace("_", "-")
    service.make(model, learner=name, parameters=options, features=D, seed=11)
    made = []
    for t in range(T):
        for s in np.flatnonzero(np.arange(t) + delays[:t] == t):
            service.feedback(made[s]["id"], model, correct="abc"[y[s]] == made[s]["label"])
        made.append(service.decide(X[t].tolist(), model).json())
    learner = dt.LEARNERS[name](K, D, seed=11, **options)
    run = dt.replay(learner, X, y, delays, stream(11, "exploration").random(T))
    assert [one["label"] for one in made] == ["abc"[label] for label in run.labels]
    assert [one["prob"] for one in made] == run.probs.tolist()
    weights = service.client.get(f"/v1/models/{model}/weights").json()["weights"]
    assert np.array(weights).tobytes() == run.weights.tobytes()
