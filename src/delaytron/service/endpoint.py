"""One route of the service: who may call it, the body within its limits, and every error as a problem."""

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
from delaytron.service.keys import ApiKeys, Scope
from delaytron.service.limits import Limits, RateLimit
from delaytron.service.metrics import Metrics
from delaytron.service.problems import MEDIA_TYPE, Forbidden, ServiceError, TooLarge, TooSlow, headers_of, problem_of

JSON = "application/json"
FORESEEN = (DelaytronError, msgspec.MsgspecError, UnicodeDecodeError)
log = getLogger("delaytron.service")
encode = msgspec.json.Encoder().encode


class Call(NamedTuple):
    """A request: what its path names, its headers, its query and its body."""

    path: dict[str, str]
    headers: dict[bytes, bytes]
    body: bytes


class Reply(NamedTuple):
    """What is answered: `body` is a message, or bytes of another type."""

    body: Any
    status: int = 200
    media_type: str = JSON
    headers: dict[str, str] = {}


Handler = Callable[[Call], Awaitable[Reply]]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Gate(NamedTuple):
    """What every call passes: keys, limits and counts."""

    keys: ApiKeys
    limits: Limits
    rate: RateLimit | None
    metrics: Metrics


class Endpoint:
    """An ASGI application for one route; `scope` names the keys that may call it, None lets everybody."""

    def __init__(self, gate: Gate, route: str, handler: Handler, scope: Scope | None) -> None:
        self._gate = gate
        self._route = route
        self._handler = handler
        self._scope = scope

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        began = perf_counter()
        try:
            reply = await self._answer(scope, receive)
        except Exception as problem:
            reply = refusal(problem, self._route)
        await send_reply(send, reply)
        self._gate.metrics.count(self._route, reply.status, perf_counter() - began)

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> Reply:
        headers = dict(scope["headers"])
        admit(self._gate, scope, headers, self._scope)
        body = await read_body(receive, headers, self._gate.limits)
        return await self._handler(Call(scope["path_params"], headers, body))


def admit(gate: Gate, scope: dict[str, Any], headers: dict[bytes, bytes], needed: Scope | None) -> None:
    """Raise if a request comes from another site, has no key for what it asks, or is one too many."""
    if not len(gate.keys):
        check_origin(headers)
    if needed is None:
        return
    key = headers.get(b"authorization", b"").decode("latin-1") or None
    if gate.rate is not None:
        is_known = key is not None and gate.keys.scope_of(key) is not None
        gate.rate.take(str(key) if is_known else (scope.get("client") or ("",))[0])
    gate.keys.require(key, needed)


def check_origin(headers: dict[bytes, bytes]) -> None:
    """Raise if a page of another site sends a request to a service without keys, through the browser of its user.

    Such a service is for this machine only. A name of somebody else that leads here is refused as well.
    """
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if not _is_this_machine(host):
        raise Forbidden(f"without an API key only this machine is served, not {host[:100]!r}; use 127.0.0.1")
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower().partition("://")[2] != host:
        raise Forbidden("a page of another site cannot call a service without API keys; start it with some")


@lru_cache(maxsize=100)
def _is_this_machine(host: str) -> bool:
    """Whether a `Host` header names this machine, with or without a port."""
    name = re.sub(r":\d*$", "", host).strip("[]")
    try:
        return name in ("", "localhost") or ip_address(name).is_loopback
    except ValueError:
        return False


async def read_body(receive: Receive, headers: dict[bytes, bytes], limits: Limits) -> bytes:
    """Return the whole body, or raise if it is too large or comes too slowly."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:20]) > limits.body_bytes:
        raise _too_large(limits)
    message = await _in_time(receive, limits)
    if not message.get("more_body"):
        body: bytes = message.get("body", b"")
        if len(body) > limits.body_bytes:
            raise _too_large(limits)
        return body
    whole: bytes = await _in_time(lambda: _read_rest(receive, message, limits), limits)
    return whole


async def _read_rest(receive: Receive, message: Any, limits: Limits) -> bytes:
    parts = [message.get("body", b"")]
    size = len(parts[0])
    while message.get("more_body") and message["type"] == "http.request":
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limits.body_bytes:
            raise _too_large(limits)
    return b"".join(parts)


async def _in_time(action: Callable[[], Awaitable[Any]], limits: Limits) -> Any:
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await action()
    except TimeoutError:
        raise TooSlow(f"the body did not come within {limits.body_seconds:g} seconds; send it at once") from None


def _too_large(limits: Limits) -> ServiceError:
    return TooLarge(
        f"a body must have {limits.body_bytes:,} bytes at most, got more; send less at once, "
        "or start the service with a larger --max-body"
    )


def refusal(problem: Exception, route: str) -> Reply:
    """Return an error as a reply; one that nobody foresaw is logged."""
    if not isinstance(problem, FORESEEN):
        log.error("%s failed", route, exc_info=problem)
    told = problem_of(problem)
    return Reply(told, told.status, MEDIA_TYPE, headers_of(problem))


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
