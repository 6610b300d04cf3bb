"""Load on the decision service beside a bare Starlette hello-world: python benchmarks/service.py [--quick].

Both are processes of their own, called by this one over 32 connections, one after another in turns. The service has
every decision on disk before it answers. First a new request as soon as a reply comes, which shows the throughput; then
requests at random times, 2,000 a second on average, which shows the latency without a queue.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from report import Sheet, machine, markdown

CONNECTIONS = 32
RATE = 2_000  # requests per second, at random times
HELLO = """
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

async def hello(request):
    return PlainTextResponse("hello")

app = Starlette(routes=[Route("/", hello, methods=["GET", "POST"])])
uvicorn.run(app, port=0, access_log=False)
"""
FEATURES = {
    "hashed, 8 named features": {
        "tenant": "a", "plan": "pro", "country": "de", "tokens": 512, "hour": 13, "a": 0.2, "b": 1.5, "c": -2.0,
    },
    "8 numbers": [0.1 * i for i in range(1, 9)],
}  # fmt: skip


class Server:
    """A server in a process of its own; its address is read from its log."""

    def __init__(self, *command):
        self.process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"http://([\d.]+):(\d+)", line):
                self.host, self.port = found[1], int(found[2])
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


def request(path, body):
    content = json.dumps(body).encode()
    return b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(),
        len(content),
        content,
    )


async def call(reader, writer, data):
    """Send a request; return the status and the body."""
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(re.search(rb"content-length: (\d+)", head)[1])
    return int(head[9:12]), await reader.readexactly(size)


def check(status, body, expected=200):
    if status != expected:
        raise RuntimeError(f"the service answered {status}: {body}")


async def keep_calling(server, data, due, seconds, replies):
    """Call whenever a request is due; one that was due while all connections were busy is timed from then."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    for moment in due:
        begin = moment
        if moment > perf_counter():
            await asyncio.sleep(moment - perf_counter())
            begin = perf_counter()
        status, body = await call(reader, writer, data)
        seconds.append(perf_counter() - begin)
        check(status, body)
        replies.append(body)
    writer.close()


async def answer_all(target, replies):
    """Answer the decisions, so that open ones do not accumulate; the next decision learns from all of them."""
    reader, writer = await asyncio.open_connection(target.server.host, target.server.port)
    ids = [json.loads(reply)["id"] for reply in replies]
    for begin in range(0, len(ids), 1000):
        answers = [{"id": issued, "correct": True} for issued in ids[begin : begin + 1000]]
        check(*(await call(reader, writer, request(target.answers, {"feedback": answers}))))
    check(*(await call(reader, writer, target.data)))
    writer.close()


def at_once(duration):
    """Yield the present time, until the time is over."""
    until = perf_counter() + duration
    while (now := perf_counter()) < until:
        yield now


def at_random(duration):
    """Return times at which calls are due, `RATE` a second."""
    gaps = np.random.default_rng(0).exponential(1 / RATE, int(duration * RATE))
    return iter(perf_counter() + np.cumsum(gaps))


async def load(target, due):
    """Return how long each call took, over all connections."""
    seconds, replies = [], []
    callers = (keep_calling(target.server, target.data, due, seconds, replies) for _ in range(CONNECTIONS))
    await asyncio.gather(*callers)
    if target.answers is not None:
        await answer_all(target, replies)
    return np.array(seconds)


async def make_model(server, name, features):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    width = 8 if isinstance(features, list) else "hashed"
    asked = {"name": name, "classes": ["small", "medium", "large"], "features": width}
    status, body = await call(reader, writer, request("/v1/models", asked))
    check(status, body, 201)
    writer.close()


def fsyncs(folder, duration):
    """Return how long a plain write and sync takes, one after another."""
    seconds = []
    with open(Path(folder, "plain"), "wb", buffering=0) as file:
        until = perf_counter() + duration
        while perf_counter() < until:
            begin = perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            seconds.append(perf_counter() - begin)
    return np.array(seconds)


class Target(NamedTuple):
    """A server, the request that is sent to it, and where its replies can be answered."""

    server: Server
    data: bytes
    answers: str | None = None


def targets(hello, service):
    """Return what is called, by name."""
    calls = {"hello-world of Starlette": Target(hello, request("/", FEATURES["8 numbers"]))}
    for i, (name, features) in enumerate(FEATURES.items()):
        asyncio.run(make_model(service, f"model{i}", features))
        data = request(f"/v1/models/model{i}/decisions", {"features": features})
        calls[f"durable decisions, {name}"] = Target(service, data, f"/v1/models/model{i}/feedback")
    return calls


def measure(folder, duration, turns):
    """Return how long calls of each kind took, by turn: all at once, and at random times."""
    syncs, fast, paced = [], {}, {}
    with Server("-c", HELLO) as hello, Server("-m", "delaytron", "serve", folder, "--port", "0") as service:
        calls = targets(hello, service)
        for _ in range(turns):
            syncs.append(fsyncs(folder, duration / 2))
            for name, target in calls.items():
                fast.setdefault(name, []).append(asyncio.run(load(target, at_once(duration))))
                paced.setdefault(name, []).append(asyncio.run(load(target, at_random(duration))))
    return syncs, fast, paced


def milliseconds(runs):
    return [f"{1e3 * value:.2f} ms" for value in np.percentile(np.concatenate(runs), [50, 99])]


def service_load(quick):
    """Return the table."""
    duration, turns = (2.0, 1) if quick else (8.0, 3)
    with tempfile.TemporaryDirectory(prefix="delaytron-service-", dir=".") as folder:
        syncs, fast, paced = measure(folder, duration, turns)
    rows = [["a plain write and fsync, one thread", rates(syncs, duration / 2), *milliseconds(syncs), "", ""]]
    for name, runs in fast.items():
        rows.append([name, rates(runs, duration), *milliseconds(runs), *milliseconds(paced[name])])
    sync, hello = (np.percentile(np.concatenate(runs), 99) for runs in (syncs, next(iter(paced.values()))))
    notes = [
        f"{CONNECTIONS} connections, one request at a time on each; {turns} turns of {duration:g} s, rates by turn.",
        f"The hello-world's 99 % at {RATE:,} a second and twice that of a sync: {1e3 * (hello + 2 * sync):.2f} ms.",
    ]
    header = ["", "per second", "median", "99 %", f"median at {RATE:,} a second", "99 %"]
    return Sheet("The service under load", header, rows, notes)


def rates(runs, duration):
    return " ".join(f"{run.size / duration:,.0f}" for run in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short turn")
    print(machine(), "\n")
    print(markdown(service_load(parser.parse_args().quick)))


if __name__ == "__main__":
    main()
