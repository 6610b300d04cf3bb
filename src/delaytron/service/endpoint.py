"""An endpoint, the ASGI application of one route: it checks keys and limits, and returns errors as problems.

The routes of the service and those of the live page are endpoints.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from ipaddress import ip_address
from logging import getLogger
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from delaytron.errors import DelaytronError
from delaytron.service.metrics import Metrics
from delaytron.service.problems import MEDIA_TYPE, Forbidden, TooLarge, TooSlow, headers_of, problem_of
from delaytron.service.security import ApiKeys, Limits, RateLimit, Scope

JSON = "application/json"
log = getLogger("delaytron.service")
encode = msgspec.json.Encoder().encode


class Call(NamedTuple):
    """A request: the parameters of its path, its headers and its body."""

    path: dict[str, str]
    headers: dict[bytes, bytes]
    body: bytes


class Reply(NamedTuple):
    """A reply; `body` is a message, or bytes of another media type."""

    body: Any
    status: int = 200
    media_type: str = JSON
    headers: dict[str, str] = {}


Handler = Callable[[Call], Awaitable[Reply]]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Gate(NamedTuple):
    """What every request passes through: API keys, limits, the rate limit, and the counts of requests."""

    keys: ApiKeys
    limits: Limits
    rate: RateLimit | None
    metrics: Metrics


class Endpoint:
    """An ASGI application for one route; `scope` is that of the API keys that may call it, None needs no key."""

    def __init__(self, gate: Gate, route: str, handler: Handler, scope: Scope | None) -> None:
        self._gate = gate
        self._route = route
        self._handler = handler
        self._scope = scope

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        began = perf_counter()
        try:
            headers = dict(scope["headers"])
            admit(self._gate, scope, headers, self._scope)
            body = await read_body(receive, headers, self._gate.limits)
            reply = await self._handler(Call(scope["path_params"], headers, body))
        except Exception as error:
            reply = refusal(error, self._route)
        await send_reply(send, reply)
        self._gate.metrics.count(self._route, reply.status, perf_counter() - began)


def admit(gate: Gate, scope: dict[str, Any], headers: dict[bytes, bytes], needed: Scope | None) -> None:
    """Raise Forbidden for a request of another site, TooMany above the rate limit, Unauthorized without a valid key."""
    if not len(gate.keys):
        # A service without keys is for this machine only. A page of another site could call it through the browser of
        # its user: by its own origin, or by a host name that resolves to this machine (DNS rebinding).
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not _is_this_machine(host):
            raise Forbidden(
                f"without an API key only this machine is served, not {host[:100]!r}",
                "use 127.0.0.1, or start the service with API keys",
            )
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower().partition("://")[2] != host:
            raise Forbidden("a page of another site cannot call a service without API keys", "start it with API keys")
    if needed is None:
        return
    key = headers.get(b"authorization", b"").decode("latin-1") or None
    if gate.rate is not None:
        # By the key and not by the header, which can spell one key in many ways. By address where the key is unknown:
        # else every guessed key would have a limit of its own.
        gate.rate.take(gate.keys.find(key) or (scope.get("client") or ("",))[0])
    gate.keys.require(key, needed)


@lru_cache(maxsize=100)
def _is_this_machine(host: str) -> bool:
    """Return whether a `Host` header names this machine, with or without a port."""
    name = re.sub(r":\d*$", "", host).strip("[]")
    try:
        return name in ("", "localhost") or ip_address(name).is_loopback
    except ValueError:
        return False


async def read_body(receive: Receive, headers: dict[bytes, bytes], limits: Limits) -> bytes:
    """Return the whole body; raise TooLarge or TooSlow."""
    length = headers.get(b"content-length", b"0")
    # Twenty digits are beyond any limit, and int() refuses thousands of them.
    announced = int(length[:20]) if length.isdigit() else 0
    parts: list[bytes] = []
    size = 0
    more = announced <= limits.body_bytes
    try:
        async with asyncio.timeout(limits.body_seconds):
            while more:
                message = await receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                more = size <= limits.body_bytes and message.get("more_body") and message["type"] == "http.request"
    except TimeoutError:
        raise TooSlow(f"the body did not come within {limits.body_seconds:g} seconds", "send it at once") from None
    if max(size, announced) > limits.body_bytes:
        raise TooLarge(
            f"a body must have {limits.body_bytes:,} bytes at most, got more",
            "send less at once, or start the service with a larger --max-body",
        )
    return b"".join(parts)


def refusal(error: Exception, route: str) -> Reply:
    """Return the reply to an error; one that is not of this package is logged, and clients do not see it."""
    if not isinstance(error, DelaytronError):
        log.error("%s failed", route, exc_info=error)
    problem = problem_of(error)
    return Reply(problem, problem.status, MEDIA_TYPE, headers_of(error))


async def send_reply(send: Send, reply: Reply) -> None:
    """Send a reply."""
    body = reply.body if isinstance(reply.body, bytes) else encode(reply.body)
    headers = [
        (b"content-type", reply.media_type.encode()),
        (b"content-length", b"%d" % len(body)),
        *((name.lower().encode(), value.encode()) for name, value in reply.headers.items()),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
