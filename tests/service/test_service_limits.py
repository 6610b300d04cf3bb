"""What a service does not take: too much, too often, too slowly, or from those without a key."""

import json
import socket
from time import monotonic

import httpx
import pytest
from services import Service, serving
from test_service_answers import said

from delaytron.service.limits import RateLimit
from delaytron.service.problems import TooMany, headers_of

ADMIN, CLIENT = "an-admin-key-of-some-length", "a-client-key-of-some-length"
KEYS = {"DELAYTRON_ADMIN_KEY": ADMIN, "DELAYTRON_CLIENT_KEY": CLIENT}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("small"), "--max-body", 2000, "--max-open", 5) as running:
        running.make(features=1)
        yield running


def raw(service, data, wait=20.0):
    """Send bytes as they are; return all that comes back until the connection ends."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_large_body_is_refused_before_and_after_it_is_read(small):
    assert said(small.decide([1.0], id="x" * 3000)) == (413, "too_large")
    chunked = small.client.post("/v1/models/m/decisions", content=iter([b"{" * 1000] * 5))
    assert said(chunked) == (413, "too_large")


def test_a_large_batch_is_refused(tmp_path):
    with serving(tmp_path) as running:
        running.make(features=1)
        batch = {"feedback": [{"id": "a", "correct": True}] * 1000}
        assert said(running.post("/v1/models/m/feedback", batch)) == (200, None)
        batch["feedback"].append({"id": "a", "correct": True})
        assert said(running.post("/v1/models/m/feedback", batch)) == (413, "too_large")


def test_who_calls_too_often_hears_when_there_is_room_again():
    now = [0.0]
    limit = RateLimit(0.25, clock=lambda: now[0])
    limit.take("a")
    limit.take("a")
    with pytest.raises(TooMany, match="try again in 4 s") as caught:
        limit.take("a")
    assert headers_of(caught.value) == {"Retry-After": "4"}
    now[0] = 4.0
    limit.take("a")


def test_too_many_open_decisions_are_refused_until_some_are_answered(small):
    ids = [small.decide([1.0]).json()["id"] for _ in range(5)]
    refused = small.decide([1.0])
    assert said(refused) == (429, "too_many")
    assert int(refused.headers["retry-after"]) >= 1
    assert said(small.feedback(ids[0], correct=True)) == (200, "applied")
    assert small.decide([1.0]).status_code == 200


def test_a_slow_body_is_cut_off(small):
    began = monotonic()
    head = b"POST /v1/models/m/feedback HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    answer = raw(small, head, wait=30.0)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too_slow" in answer
    assert monotonic() - began < 20


def test_a_connection_on_which_nothing_comes_is_closed(small):
    began = monotonic()
    assert raw(small, b"POST /v1/mod", wait=30.0) == b""
    assert monotonic() - began < 20


@pytest.mark.parametrize("data", [b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n"])
def test_what_is_not_http_gets_no_traceback(small, data):
    answer = raw(small, data, wait=30.0)
    assert b"Traceback" not in answer
    assert small.client.get("/healthz").status_code == 200


def test_who_calls_too_often_waits(tmp_path):
    with serving(tmp_path, "--rate", 5) as service:
        statuses = [service.client.get("/v1/models").status_code for _ in range(40)]
        assert statuses[0] == 200
        assert 429 in statuses
        refused = next(r for r in iter(lambda: service.client.get("/v1/models"), None) if r.status_code == 429)
        assert said(refused) == (429, "too_many")
        assert service.client.get("/healthz").status_code == 200


def test_keys_cannot_be_guessed_quickly(tmp_path):
    with serving(tmp_path, "--rate", 5, environment=KEYS) as service:
        keys = [{"Authorization": f"Bearer guess-number-{i:010}"} for i in range(40)]
        statuses = {service.client.get("/v1/models", headers=key).status_code for key in keys}
        assert statuses == {401, 429}


def test_keys_have_scopes(tmp_path):
    with serving(tmp_path, environment=KEYS) as service:
        new = {"name": "m", "classes": ["a", "b"], "features": 1}

        def call(method, path, key=None, body=None):
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            return service.client.request(method, path, headers=headers, content=json.dumps(body))

        assert said(call("POST", "/v1/models", None, new)) == (401, "unauthorized")
        assert said(call("POST", "/v1/models", "wrong-key-wrong-key", new)) == (401, "unauthorized")
        assert said(call("POST", "/v1/models", CLIENT, new)) == (403, "forbidden")
        assert call("POST", "/v1/models", ADMIN, new).status_code == 201
        assert call("GET", "/v1/models", CLIENT).status_code == 200
        assert said(call("GET", "/v1/models")) == (401, "unauthorized")
        assert call("POST", "/v1/models/m/decisions", CLIENT, {"features": [1]}).status_code == 200
        assert said(call("POST", "/v1/models/m/classes", CLIENT, {"name": "c"})) == (403, "forbidden")
        assert said(call("GET", "/metrics")) == (401, "unauthorized")
        assert call("GET", "/healthz").status_code == 200
        assert "www-authenticate" in call("GET", "/v1/models").headers


def test_without_a_key_only_this_machine_is_served(tmp_path):
    with pytest.raises(AssertionError, match="no API key is set"):
        Service(tmp_path, "--host", "0.0.0.0")
    with serving(tmp_path, "--host", "0.0.0.0", environment=KEYS) as service:
        assert httpx.get(service.url + "/healthz").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_pages_of_other_sites_cannot_call_a_service_without_keys(small, headers):
    assert said(small.client.get("/v1/models", headers=headers)) == (403, "forbidden")
    assert small.client.get("/v1/models", headers={"Origin": small.url}).status_code == 200
    assert small.client.get("/v1/models", headers={"Host": "localhost:8100"}).status_code == 200
