"""Load on the decision service beside a bare Starlette hello-world: python benchmarks/service.py [--quick].

Both are processes of their own, called by this one over 32 connections, one after another in turns. The service has
every decision on disk before it answers.
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

import numpy as np

from report import Sheet, machine, markdown

CONNECTIONS = 32
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
    """A process that says where it listens."""

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


def check(status, expected, body):
    if status != expected:
        raise RuntimeError(f"the service answered {status}: {body}")


async def keep_calling(server, data, until, seconds):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    while perf_counter() < until:
        begin = perf_counter()
        status, body = await call(reader, writer, data)
        seconds.append(perf_counter() - begin)
        check(status, 200, body)
    writer.close()


async def load(server, data, duration):
    """Return how long each call took, over all connections."""
    seconds = []
    until = perf_counter() + duration
    await asyncio.gather(*(keep_calling(server, data, until, seconds) for _ in range(CONNECTIONS)))
    return np.array(seconds)


async def make_model(server, name, features):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    width = 8 if isinstance(features, list) else "hashed"
    asked = {"name": name, "classes": ["small", "medium", "large"], "features": width}
    status, body = await call(reader, writer, request("/v1/models", asked))
    check(status, 201, body)
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


def measure(folder, duration, turns):
    """Return the calls of each kind, in turns."""
    times = {"a plain write and fsync": [], "hello-world of Starlette": [], **{name: [] for name in FEATURES}}
    with Server("-c", HELLO) as hello, Server("-m", "delaytron", "serve", folder, "--port", "0") as service:
        for i, features in enumerate(FEATURES.values()):
            asyncio.run(make_model(service, f"model{i}", features))
        for _ in range(turns):
            times["a plain write and fsync"].append(fsyncs(folder, duration / 2))
            body = request("/", FEATURES["8 numbers"])
            times["hello-world of Starlette"].append(asyncio.run(load(hello, body, duration)))
            for i, (name, features) in enumerate(FEATURES.items()):
                data = request(f"/v1/models/model{i}/decisions", {"features": features})
                times[name].append(asyncio.run(load(service, data, duration)))
    return times


def row(name, runs, duration):
    together = np.concatenate(runs)
    rates = [f"{run.size / duration:,.0f}" for run in runs]
    shown = f"durable decisions, {name}" if name in FEATURES else name
    p50, p99 = np.percentile(together, [50, 99]) * 1e3
    return [shown, " ".join(rates), f"{p50:.2f} ms", f"{p99:.2f} ms"]


def service_load(quick):
    """Return the table."""
    duration, turns = (2.0, 1) if quick else (8.0, 3)
    with tempfile.TemporaryDirectory(prefix="delaytron-service-", dir=".") as folder:
        times = measure(folder, duration, turns)
    rows = [row(name, runs, duration / 2 if "fsync" in name else duration) for name, runs in times.items()]
    sync, hello = (np.percentile(np.concatenate(times[name]), 99) for name in list(times)[:2])
    notes = [
        f"{CONNECTIONS} connections, one request at a time on each; {turns} turns of {duration:g} s, rates by turn.",
        f"The hello-world's 99 % and twice that of a sync are {1e3 * (hello + 2 * sync):.2f} ms together.",
    ]
    return Sheet("The service under load", ["", "per second", "median", "99 %"], rows, notes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short turn")
    print(machine(), "\n")
    print(markdown(service_load(parser.parse_args().quick)))


if __name__ == "__main__":
    main()
