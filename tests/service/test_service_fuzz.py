"""Requests that were mutated, byte by byte and value by value: a clear refusal or a right answer, and no growth."""

import json
import re
import socket
from pathlib import Path
from random import Random

import httpx
import pytest

from services import serving

CLIENT = "a-client-key-of-some-length"
KEYS = {"DELAYTRON_ADMIN_KEY": "an-admin-key-of-some-length", "DELAYTRON_CLIENT_KEY": CLIENT}
FEATURES = [[1.0, 2.0], [[0, 1.5]], {"a": 1, "b": "x y", "c": ["d", "e"], "f": {"g": None}}]
TEMPLATES = [
    ("POST", "/v1/models/m/decisions", {"features": [1.0, 2.0], "id": "own", "allowed": ["a", "b"]}),
    ("POST", "/v1/models/h/decisions", {"decisions": [{"features": one} for one in FEATURES]}),
    ("POST", "/v1/models/m/decisions", {"features": [[0, 1.5]]}),
    ("POST", "/v1/models/m/feedback", {"id": "own", "correct": True}),
    ("POST", "/v1/models/m/feedback", {"feedback": [{"id": "own", "reward": 0.5}, {"id": "AQ", "label": "a"}]}),
    ("POST", "/v1/models", {"name": "new", "classes": ["a", "b"], "parameters": {"lr": 1}}),
    ("POST", "/v1/models/m/classes", {"name": "d"}),
    ("GET", "/v1/models/m/decisions/own", None),
    ("GET", "/v1/models/m/explanations/own", None),
    ("GET", "/v1/models/h/stats", None),
    ("GET", "/v1/models/h/weights", None),
    ("DELETE", "/v1/models/m/decisions/own", None),
]
STRANGE = [None, True, -1, 0, 1e308, -1e-320, 10**30, "", "\0", "a" * 300, "\ud800", "../..", [], {}, [[]], "NaN"]
BYTES = [b"\x00", b"\xff", b'"', b"{", b"}", b"[", b"]", b",", b":", b"1e999", b"NaN", b"\\ud800", b"null", b"-"]


def mutate_value(random, value):
    """Return a JSON value with one part replaced, missing, repeated, or under another key."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(list(value))
        changed = {random.choice([key, "id", "x"]) if random.random() < 0.1 else key: mutate_value(random, value[key])}
        rest = {name: part for name, part in value.items() if name != key}
        return rest if random.random() < 0.1 else rest | changed
    if isinstance(value, list) and value and random.random() < 0.8:
        place = random.randrange(len(value))
        times = random.choice([0, 1, 1, 1, 2, 50])
        return value[:place] + [mutate_value(random, value[place])] * times + value[place + 1 :]
    return random.choice(STRANGE)


def mutate_bytes(random, content):
    for _ in range(random.randint(1, 3)):
        place = random.randint(0, len(content))
        content = content[:place] + random.choice(BYTES) * random.choice([0, 1, 1, 40]) + content[place + 1 :]
    return content


def mutated(random):
    method, path, body = random.choice(TEMPLATES)
    if random.random() < 0.15:
        path = "/" + mutate_bytes(random, path.encode()[1:]).decode("latin-1")
        path = re.sub(r"[^!-~]", lambda found: f"%{ord(found[0]):02x}", path)
    if body is None:
        return method, path, b""
    content = json.dumps(mutate_value(random, body) if random.random() < 0.7 else body).encode()
    return method, path, mutate_bytes(random, content) if random.random() < 0.4 else content


def memory(service):
    """Return the resident memory, in MB."""
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def send_mutated(service, random, count):
    """Send requests; return the number of replies by status."""
    statuses = {}
    headers = {"Authorization": f"Bearer {CLIENT}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=30) as client:
        for _ in range(count):
            method, path, content = mutated(random)
            try:
                reply = client.request(method, path, content=content)
            except httpx.InvalidURL:
                continue
            statuses[reply.status_code] = statuses.get(reply.status_code, 0) + 1
            assert reply.status_code < 500, (method, path, content, reply.text)
            assert "Traceback" not in reply.text
            if reply.status_code >= 400:
                assert reply.json()["status"] == reply.status_code
    return statuses


def send_raw(service, random, count):
    """Send requests with mutated bytes, most of which are not HTTP."""
    host, port = service.url.removeprefix("http://").split(":")
    for _ in range(count):
        method, path, content = mutated(random)
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {CLIENT}\r\n"
        whole = head.encode() + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(content) + content
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(mutate_bytes(random, whole))
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda c=connection: c.recv(65536), b""))
        assert not re.match(rb"HTTP/1.1 5(?!03)", answer), answer
        assert b"Traceback" not in answer


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.torture)])
def test_mutated_requests_get_no_server_error(tmp_path, count):
    random = Random(count)
    with serving(tmp_path, environment=KEYS) as service:
        for name, features in (("m", 2), ("h", "hashed")):
            asked = {"name": name, "classes": ["a", "b", "c"], "features": features, "bits": 10}
            headers = {"Authorization": f"Bearer {KEYS['DELAYTRON_ADMIN_KEY']}"}
            assert service.post("/v1/models", asked, headers=headers).status_code == 201
        statuses = send_mutated(service, random, count // 4)
        before = memory(service)
        for status, number in send_mutated(service, random, count - count // 4).items():
            statuses[status] = statuses.get(status, 0) + number
        send_raw(service, random, count // 20)
        assert service.client.get("/readyz").status_code == 200
        assert memory(service) - before < 60
    assert statuses.keys() >= {200, 400, 403, 404, 422}
