"""Server-sent events of a real service: sent soon, and no burden when it stops or when they are not read."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager, closing, suppress
from time import monotonic

import pytest
import uvicorn
from watching import SOON, until

from delaytron.service import server
from delaytron.service.live.pages import MOST_WATCHERS
from services import serving


def listen(service, name="m", wait=30.0):
    """Return a connection on which events come."""
    host, port = service.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=wait)
    connection.sendall(f"GET /v1/models/{name}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return connection


def received(connection, wanted):
    """Return what comes, until it holds what is wanted and the end of that event."""
    text = b""
    while wanted not in text or b"\n\n" not in text.partition(wanted)[2]:
        came = connection.recv(65536)
        assert came, f"the connection ended: {text}"
        text += came
    return text


@pytest.fixture
def service(shop):
    return shop


def test_a_new_decision_is_sent_within_seconds(service):
    with closing(listen(service)) as connection:
        assert b"content-type: text/event-stream" in received(connection, b"event: decisions")
        decided = service.decide([1.0, 2.0]).json()["id"]
        began = monotonic()
        text = received(connection, decided.encode())
        assert monotonic() - began < 10  # it is looked at once a second
        sent = json.loads(text[text.rindex(b'data: {"decisions":[{') + 6 :].split(b"\n")[0])
        assert sent == service.client.get("/v1/models/m/decisions").json()


def test_recent_decisions_are_found_behind_many_answers(service):
    batch = {"decisions": [{"features": [1.0, float(number)]} for number in range(500)]}
    decided = [one["id"] for one in service.post("/v1/models/m/decisions", batch).json()["decisions"]]
    service.post("/v1/models/m/feedback", {"feedback": [{"id": one, "correct": True} for one in decided]})
    recent = service.client.get("/v1/models/m/decisions").json()["decisions"]
    assert [one["id"] for one in recent] == decided[:-21:-1]
    assert {one["value"] for one in recent} == {1.0}


def test_an_unknown_model_has_no_events(service):
    reply = service.client.get("/v1/models/other/events")
    assert (reply.status_code, reply.json()["result"]) == (404, "unknown_model")


def test_requests_for_events_are_counted_when_they_begin(service):
    with closing(listen(service)) as connection:
        received(connection, b"event: stats")
        text = service.client.get("/metrics").text
    assert 'delaytron_http_requests_total{route="/v1/models/{name}/events",status="200"}' in text


def test_sigterm_does_not_wait_for_watchers(tmp_path):
    with serving(tmp_path) as running:
        running.make(features=1)
        connections = [listen(running) for _ in range(MOST_WATCHERS)]
        for connection in connections:
            received(connection, b"event: decisions")
        began = monotonic()
        running.stop()
        took = monotonic() - began
        ends = [b"".join(iter(lambda one=one: one.recv(65536), b"")) for one in connections]
        for connection in connections:
            connection.close()
    assert took < 10, "open pages must not hold up the service, which waits for 30 seconds"
    assert all(end.endswith(b"0\r\n\r\n") for end in ends)


# What is sent and not read


@asynccontextmanager
async def large_reply(size):
    """Run the service's protocol before an application that answers with many bytes."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})

    config = uvicorn.Config(app, port=0, http=server.TimeoutProtocol, lifespan="off", log_level="critical")
    running = uvicorn.Server(config)
    serving = asyncio.create_task(running.serve())
    await until(lambda: running.started)
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        yield running, reader
        writer.close()
    finally:
        running.should_exit = True
        await asyncio.wait_for(serving, SOON)


def test_a_client_that_reads_nothing_is_disconnected(monkeypatch):
    monkeypatch.setattr(server, "READ_SECONDS", 0.2)

    async def run():
        async with large_reply(50_000_000) as (running, reader):
            await asyncio.wait_for(reader.readexactly(100), SOON)
            await until(lambda: not running.server_state.connections)
            size = 0
            with suppress(ConnectionResetError):
                while came := await reader.read(1_000_000):
                    size += len(came)
            assert size < 50_000_000

    asyncio.run(run())


def test_a_client_that_reads_slowly_gets_everything(monkeypatch):
    monkeypatch.setattr(server, "READ_SECONDS", 0.7)  # a machine that is busy may pause a reader, too

    async def run():
        async with large_reply(20_000_000) as (_, reader):
            size, began = 0, monotonic()
            while size < 20_000_000:
                size += len(await reader.readexactly(500_000))
                await asyncio.sleep(0.05)
            assert monotonic() - began > 1.5

    asyncio.run(run())
