"""The live page: its files, and the counts and last decisions of a model as server-sent events."""

import asyncio
from logging import getLogger
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from starlette.routing import BaseRoute, Route

from delaytron.errors import DelaytronError
from delaytron.service.backend import Backend
from delaytron.service.endpoint import Call, Endpoint, Gate, Receive, Reply, Send, admit, encode, refusal, send_reply
from delaytron.service.messages import RECENT, RecentDecisions, StatsReply
from delaytron.service.problems import TooMany, Unavailable
from delaytron.service.routes import CLIENT, MODEL

SECONDS = 1.0  # between two reads of a model
MOST_WATCHERS = 100

log = getLogger("delaytron.service")


class Feed:
    """The events of one model: read as long as there are watchers, once for all of them."""

    def __init__(self, backend: Backend, name: str) -> None:
        self._backend = backend
        self._name = name
        self._known: StatsReply | None = None
        self.watchers = 0
        self.version = 0  # of `newest`
        self.newest = b""
        self.ended = False
        self.changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def read(self) -> bytes:
        """Return the present counts and decisions, as events."""
        return await self._events(await self._backend.stats(self._name))

    async def follow(self) -> None:
        """Read repeatedly, until there are no watchers or the model cannot be read."""
        try:
            while self.watchers and not self.ended:
                stats = await self._backend.stats(self._name)
                lasting = msgspec.structs.replace(stats, oldest_seconds=None)  # which changes all the time
                if lasting != self._known:
                    self.newest = await self._events(stats)
                    self._known = lasting
                    self.version += 1
                    self._notify()
                await asyncio.sleep(SECONDS)
        except DelaytronError:
            pass  # a watcher reconnects, and gets the error then
        except Exception:
            log.exception("model %r cannot be read for the live page", self._name)
        finally:
            self.end()

    async def _events(self, stats: StatsReply) -> bytes:
        decisions = await self._backend.recent(self._name, RECENT)
        return as_event("stats", stats) + as_event("decisions", RecentDecisions(decisions))

    def end(self) -> None:
        """Disconnect all watchers."""
        self.ended = True
        self._notify()

    def _notify(self) -> None:
        changed, self.changed = self.changed, asyncio.get_running_loop().create_future()
        changed.set_result(None)


class Watchers:
    """The watchers of all models, and a feed for each model that has some."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._feeds: dict[str, Feed] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._count = 0
        self._stopping = False

    def stop(self) -> None:
        """End all feeds and refuse new watchers: the service stops."""
        self._stopping = True
        for feed in self._feeds.values():
            feed.end()

    async def join(self, name: str) -> tuple[Feed, bytes, int]:
        """Watch a model until `leave`; return its feed, the present events, and the version of the feed before them.

        Raises TooMany if there are 100 watchers, Unavailable if the service stops, and what the backend raises.
        """
        if self._count >= MOST_WATCHERS:
            raise TooMany(f"{MOST_WATCHERS} live pages are open already, which is the limit", "close one")
        self._count += 1  # before the first await: others may join meanwhile
        known = self._feeds.get(name)
        seen = 0 if known is None else known.version  # a version that comes during the read may not be in its events
        try:
            events = await Feed(self._backend, name).read()  # raises if there is no such model
        except BaseException:
            self._count -= 1
            raise
        if self._stopping:
            self._count -= 1
            raise Unavailable("the service is stopping", "try again")
        feed = self._feeds.get(name)
        if feed is None or feed.ended:
            feed = self._feeds[name] = Feed(self._backend, name)
            following = asyncio.create_task(feed.follow())
            self._following.add(following)  # the loop itself refers to its tasks weakly
            following.add_done_callback(self._following.discard)
        feed.watchers += 1
        return feed, events, seen if feed is known else 0

    def leave(self, feed: Feed) -> None:
        """End the watch of `join`."""
        feed.watchers -= 1
        self._count -= 1


def as_event(kind: str, message: msgspec.Struct) -> bytes:
    r"""Return a message as a server-sent event.

    Examples
    --------
    >>> as_event("decisions", RecentDecisions([]))
    b'event: decisions\ndata: {"decisions":[]}\n\n'
    """
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode(message))


PATH = f"{MODEL}/events"
HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": still here\n\n"
EVENT_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy must pass on each event at once
    (b"x-content-type-options", b"nosniff"),
]


class EventStream:
    """An ASGI application that sends events until the client disconnects or the service stops; it needs a key."""

    def __init__(self, gate: Gate, watchers: Watchers) -> None:
        self._gate = gate
        self._watchers = watchers

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request; its time is counted until the events begin."""
        began = perf_counter()
        try:
            admit(self._gate, scope, dict(scope["headers"]), CLIENT)
            feed, events, seen = await self._watchers.join(scope["path_params"]["name"])
        except Exception as error:
            reply = refusal(error, PATH)
            await send_reply(send, reply)
            self._gate.metrics.count(PATH, reply.status, perf_counter() - began)
            return
        self._gate.metrics.count(PATH, 200, perf_counter() - began)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
            if scope["method"] != "HEAD":
                await _send_events(feed, events, seen, receive, send)
            await send({"type": "http.response.body"})
        finally:
            self._watchers.leave(feed)


async def _send_events(feed: Feed, events: bytes, seen: int, receive: Receive, send: Send) -> None:
    """Send events, and then the newest ones whenever they change; a slow client misses those in between.

    `seen` is the version of the feed that the events are at least as new as.
    """

    async def disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    disconnected = asyncio.create_task(disconnect())
    try:
        while not disconnected.done() and not feed.ended:
            await send({"type": "http.response.body", "body": events, "more_body": True})
            if seen == feed.version:
                waited_for = {disconnected, feed.changed}
                await asyncio.wait(waited_for, timeout=HEARTBEAT_SECONDS, return_when="FIRST_COMPLETED")
            events = HEARTBEAT if seen == feed.version else feed.newest
            seen = feed.version
    finally:
        disconnected.cancel()


FOLDER = Path(__file__).parent / "page"
PAGE = "page.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def live_routes(gate: Gate, backend: Backend) -> tuple[list[BaseRoute], Watchers]:
    """Return the routes of the page and of its events, and the watchers, which must be stopped with the service."""
    watchers = Watchers(backend)
    routes: list[BaseRoute] = [Route(PATH, EventStream(gate, watchers), methods=["GET"])]
    for path in sorted(FOLDER.iterdir()):
        address = "/" if path.name == PAGE else f"/live/{path.name}"
        reply = Reply(path.read_bytes(), media_type=MEDIA_TYPES[path.suffix], headers=PAGE_HEADERS)

        async def handler(call: Call, reply: Reply = reply) -> Reply:  # noqa: ARG001
            return reply

        routes.append(Route(address, Endpoint(gate, address, handler, None), methods=["GET"]))
    return routes, watchers
