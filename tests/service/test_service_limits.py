"""Limits: sizes, rates, slow clients, keys, and requests of other sites."""

import asyncio
import json
import socket
from threading import Thread
from time import sleep
from types import SimpleNamespace

import httpx
import pytest
import uvicorn
from test_service_answers import said

from delaytron.service import server
from delaytron.service.app import make_app
from delaytron.service.endpoint import Endpoint, Gate, Reply
from delaytron.service.metrics import Metrics
from delaytron.service.models import Models
from delaytron.service.problems import TooMany, headers_of
from delaytron.service.security import ApiKeys, Limits, RateLimit
from service_fixtures import ADMIN_KEY, CLIENT_KEY
from services import Service, serving

KEYS = {"DELAYTRON_ADMIN_KEY": ADMIN_KEY, "DELAYTRON_CLIENT_KEY": CLIENT_KEY}


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


def test_a_large_batch_is_refused(shop):
    batch = {"feedback": [{"id": "a", "correct": True}] * 1000}
    assert said(shop.post("/v1/models/m/feedback", batch)) == (200, None)
    batch["feedback"].append({"id": "a", "correct": True})
    assert said(shop.post("/v1/models/m/feedback", batch)) == (413, "too_large")


def test_the_rate_limit_says_when_to_try_again():
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
    first = small.decide([1.0], id="first").json()
    ids = [small.decide([1.0]).json()["id"] for _ in range(4)]
    refused = small.decide([1.0])
    assert said(refused) == (429, "too_many")
    assert small.decide([1.0], id="first").json() == first  # a retry opens no other one
    assert int(refused.headers["retry-after"]) >= 1
    assert said(small.feedback(ids[0], correct=True)) == (200, "accepted")
    assert small.decide([1.0]).status_code == 200


@pytest.fixture
def impatient(monkeypatch, tmp_path):
    """The server in a thread of this process, which waits for a fifth of a second only."""
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    app = make_app(Models(tmp_path), ApiKeys(), Limits(body_seconds=0.2))
    config = uvicorn.Config(app, port=0, http=server.TimeoutProtocol, log_level="critical")
    running = uvicorn.Server(config)
    thread = Thread(target=running.run)
    thread.start()
    while not running.started:
        assert thread.is_alive()
        sleep(0.01)
    yield SimpleNamespace(url=f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}")
    running.should_exit = True
    thread.join()


def test_a_slow_body_is_cut_off(impatient):
    head = b"POST /v1/models/m/feedback HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    answer = raw(impatient, head)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too_slow" in answer
    assert b"connection: close" in answer


def test_a_connection_on_which_no_request_begins_is_closed(impatient):
    assert raw(impatient, b"POST /v1/mod") == b""


def test_timeouts_are_seconds():
    assert 1 <= server.HEADER_SECONDS <= 20
    assert 1 <= Limits().body_seconds <= 20


@pytest.mark.parametrize("data", [b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n"])
def test_bytes_that_are_not_http_get_no_traceback(small, data):
    answer = raw(small, data, wait=30.0)
    assert b"Traceback" not in answer
    assert small.client.get("/healthz").status_code == 200


def test_rates_are_limited_by_key_and_for_unknown_keys_by_address(tmp_path):
    with serving(tmp_path, "--rate", 5, environment=KEYS) as service:

        def call(key):
            return service.client.get("/v1/models", headers={"Authorization": f"Bearer {key}"})

        known = [call(CLIENT_KEY) for _ in range(40)]
        assert known[0].status_code == 200
        refused = next(reply for reply in known if reply.status_code != 200)
        assert said(refused) == (429, "too_many")
        guesses = {call(f"guess-number-{number:010}").status_code for number in range(40)}
        assert guesses == {401, 429}  # so keys cannot be guessed quickly
        assert service.client.get("/healthz").status_code == 200


def status_of(gate, authorization=None, address="127.0.0.1"):
    """Return the status of a GET request with these credentials from this address, without a server."""
    sent = []

    async def handler(call):
        return Reply(b"")

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1")]
    if authorization is not None:
        headers.append((b"authorization", authorization.encode()))
    scope = {"headers": headers, "path_params": {}, "client": (address, 1)}
    asyncio.run(Endpoint(gate, "/", handler, "client")(scope, receive, send))
    return sent[0]["status"]


def test_a_key_has_one_rate_however_its_header_is_spelled():
    gate = Gate(ApiKeys([("client", CLIENT_KEY)]), Limits(), RateLimit(1.0, clock=lambda: 0.0), Metrics())
    spellings = [f"Bearer {CLIENT_KEY}", f"bearer {CLIENT_KEY}", f"BEARER   {CLIENT_KEY} "]
    assert [status_of(gate, spelling) for spelling in spellings] == [200, 200, 429]


def test_keys_have_scopes(guarded):
    new = {"name": "m", "classes": ["a", "b"], "features": 1}

    def call(method, path, key=None, body=None):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return guarded.client.request(method, path, headers=headers, content=json.dumps(body))

    assert said(call("POST", "/v1/models", None, new)) == (401, "unauthorized")
    assert said(call("POST", "/v1/models", "wrong-key-wrong-key", new)) == (401, "unauthorized")
    assert said(call("POST", "/v1/models", CLIENT_KEY, new)) == (403, "forbidden")
    assert call("POST", "/v1/models", ADMIN_KEY, new).status_code == 201
    assert call("GET", "/v1/models", CLIENT_KEY).status_code == 200
    assert said(call("GET", "/v1/models")) == (401, "unauthorized")
    assert call("POST", "/v1/models/m/decisions", CLIENT_KEY, {"features": [1]}).status_code == 200
    assert said(call("POST", "/v1/models/m/classes", CLIENT_KEY, {"name": "c"})) == (403, "forbidden")
    assert said(call("GET", "/metrics")) == (401, "unauthorized")
    assert call("GET", "/healthz").status_code == 200
    assert "www-authenticate" in call("GET", "/v1/models").headers


def test_without_a_key_only_this_machine_is_served(tmp_path, guarded):
    with pytest.raises(AssertionError, match="no API key is set"):
        Service(tmp_path, "--host", "0.0.0.0")
    assert httpx.get(guarded.url + "/healthz").status_code == 200  # on the same address, with keys


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


def test_the_service_runs_with_these_timeouts(monkeypatch, tmp_path):
    configs = []
    monkeypatch.setattr(server, "_Server", lambda config: SimpleNamespace(run=lambda: configs.append(config)))
    monkeypatch.setattr(server.signal, "signal", lambda *_: None)  # the handlers of pytest stay
    monkeypatch.setattr(server.sys, "setswitchinterval", lambda _: None)
    server.run_server(Models(tmp_path), ApiKeys(), Limits(), "127.0.0.1", 0)
    (config,) = configs
    assert config.http is server.TimeoutProtocol  # else a client that sends nothing holds its connection forever
    assert config.limit_concurrency == server.MOST_CONNECTIONS
    assert not config.proxy_headers  # else a caller could choose the address by which its rate is limited


def test_without_keys_rates_are_limited_by_address():
    gate = Gate(ApiKeys(), Limits(), RateLimit(1.0, clock=lambda: 0.0), Metrics())
    assert [status_of(gate, authorization) for authorization in (None, "Bearer a", "Bearer b")] == [200, 200, 429]
    assert status_of(gate, address="127.0.0.2") == 200
