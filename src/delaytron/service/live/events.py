"""GET /v1/models/{name}/events: the figures of a model whenever they change, as server-sent events."""

import asyncio
from time import perf_counter
from typing import Any

from delaytron.service.endpoint import Gate, Receive, Send, admit, refusal, send_reply
from delaytron.service.live.feed import Feed, Watchers
from delaytron.service.routes import CLIENT, MODEL

PATH = f"{MODEL}/events"
HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": still here\n\n"
HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy must hand on each event at once
    (b"x-content-type-options", b"nosniff"),
]


class EventStream:
    """An ASGI application: events until the client goes or the service stops. It needs a key as `stats` does."""

    def __init__(self, gate: Gate, watchers: Watchers) -> None:
        self._gate = gate
        self._watchers = watchers

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request; its time is counted until the events begin."""
        began = perf_counter()
        try:
            admit(self._gate, scope, dict(scope["headers"]), CLIENT)
            feed, figures = await self._watchers.join(scope["path_params"]["name"])
        except Exception as problem:
            reply = refusal(problem, PATH)
            await send_reply(send, reply)
            self._gate.metrics.count(PATH, reply.status, perf_counter() - began)
            return
        self._gate.metrics.count(PATH, 200, perf_counter() - began)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            if scope["method"] != "HEAD":
                await _send_events(feed, figures, receive, send)
            await send({"type": "http.response.body"})
        finally:
            self._watchers.leave(feed)


async def _send_events(feed: Feed, figures: bytes, receive: Receive, send: Send) -> None:
    """Send the figures of now, and then the newest ones whenever there are newer ones."""
    gone = asyncio.create_task(_gone(receive))
    seen = feed.version
    events = figures
    try:
        while not gone.done() and not feed.ended:
            await send({"type": "http.response.body", "body": events, "more_body": True})
            if seen == feed.version:
                await asyncio.wait({gone, feed.changed}, timeout=HEARTBEAT_SECONDS, return_when="FIRST_COMPLETED")
            events = HEARTBEAT if seen == feed.version else feed.newest
            seen = feed.version
    finally:
        gone.cancel()


async def _gone(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
