"""A real service: a process that listens on a free port."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from queue import Queue
from threading import Thread
from time import monotonic, sleep

import httpx

READY = 60  # seconds, with a compiler at work


class Service:
    """Starts `delaytron serve`, on a folder unless there is none; `client` talks to it."""

    def __init__(self, folder, *options, environment=None):
        self.folder = folder
        given = [*([] if folder is None else [folder]), "--port", "0", *options]
        command = [sys.executable, "-m", "delaytron", "serve", *map(str, given)]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )
        self.lines = Queue()
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.url = self._address()
        self.client = httpx.Client(base_url=self.url, timeout=30)
        self.wait_until_ready()

    def _listen(self):
        with self.process.stderr as lines:
            for line in lines:
                self.lines.put(line)
        self.lines.put("")

    def _address(self):
        said = ""
        until = monotonic() + READY
        while monotonic() < until:
            line = self.lines.get(timeout=READY)
            said += line
            found = re.search(r"serving on (http://\S+)", said)
            if found:
                return found[1]
            if not line:
                break
        self.process.kill()
        self.process.wait()
        raise AssertionError(f"the service did not start: {said}")

    def wait_until_ready(self):
        until = monotonic() + READY
        while self.client.get("/readyz").status_code != 200:
            assert monotonic() < until, "the service did not become ready"
            sleep(0.01)

    def post(self, path, body, **more):
        return self.client.post(path, content=json.dumps(body), **more)

    def make(self, name="m", **options):
        reply = self.post("/v1/models", {"name": name, "classes": ["a", "b", "c"], "seed": 3, **options})
        assert reply.status_code in (200, 201), reply.text
        return reply

    def decide(self, features, name="m", **more):
        return self.post(f"/v1/models/{name}/decisions", {"features": features, **more})

    def feedback(self, id, name="m", **answer):
        return self.post(f"/v1/models/{name}/feedback", {"id": id, **answer})

    def stop(self):
        """Stop it by SIGTERM; return the exit code."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self):
        self.client.close()
        self.process.kill()
        self.process.wait()
        self._listener.join()


@contextmanager
def serving(folder, *options, **more):
    """Run a service until the block ends."""
    service = Service(folder, *options, **more)
    try:
        yield service
    finally:
        service.kill()
