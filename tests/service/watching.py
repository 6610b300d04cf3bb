"""Watchers of a model without a network: the events that they get, and how they disconnect."""

import asyncio
import json

from delaytron.service.endpoint import Gate
from delaytron.service.live.pages import EventStream, Watchers
from delaytron.service.messages import Accuracy, DecisionState, StatsReply
from delaytron.service.metrics import Metrics
from delaytron.service.problems import UnknownModel
from delaytron.service.security import ApiKeys, Limits

SOON = 5.0  # seconds within which something must have happened


class Figures:
    """The part of a backend that is read; `decisions` counts, and `error` is raised."""

    def __init__(self, decisions=0):
        self.decisions = decisions
        self.oldest = 0.0
        self.error = None
        self.reads = 0

    async def stats(self, name):
        self.reads += 1
        self.oldest += 1.5
        if self.error is not None:
            raise self.error
        if name != "m":
            raise UnknownModel(f"there is no model {name!r}", "check its name")
        return StatsReply(
            decisions=self.decisions,
            open=self.decisions,
            answered=0,
            expired=0,
            cancelled=0,
            corrected=0,
            late=0,
            oldest_seconds=self.oldest,
            accuracy=Accuracy(None, 0.0, 1.0),
            decisions_per_second=0.0,
            exploration=None,
            waits=[],
            classes=[],
        )

    async def recent(self, name, count):
        numbers = range(self.decisions, max(self.decisions - count, 0), -1)
        return [DecisionState(str(number), "open", "a", None, False) for number in numbers]


class Watch:
    """A watcher: the messages that it got, and a way to disconnect."""

    def __init__(self, stream, name="m", method="GET", headers=()):
        self.sent = asyncio.Queue()
        self.going = asyncio.Event()
        self.blocked = asyncio.Event()
        self.blocked.set()
        scope = {"method": method, "headers": list(headers), "path_params": {"name": name}, "client": ("here", 1)}
        self.task = asyncio.create_task(stream(scope, self.receive, self.send))

    async def receive(self):
        await self.going.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        await self.blocked.wait()
        self.sent.put_nowait(message)

    async def take(self):
        return await asyncio.wait_for(self.sent.get(), SOON)

    async def start(self):
        message = await self.take()
        return message["status"], dict(message["headers"])

    async def body(self):
        return (await self.take())["body"]

    async def figures(self):
        return parsed(await self.body())

    async def leave(self):
        self.going.set()
        await asyncio.wait_for(self.task, SOON)


def parsed(text):
    """Return the events of a text by their names."""
    blocks = text.decode().removesuffix("\n\n").split("\n\n")
    fields = [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]
    return {one["event"]: json.loads(one["data"]) for one in fields}


def streaming(figures, keys=()):
    watchers = Watchers(figures)
    gate = Gate(ApiKeys([("client", key) for key in keys]), Limits(), None, Metrics())
    return EventStream(gate, watchers), watchers


async def until(condition):
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.005)
