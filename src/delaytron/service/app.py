"""The service as an ASGI application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from logging import getLogger
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route

from delaytron.errors import DelaytronError
from delaytron.service.backend import Backend
from delaytron.service.endpoint import Call, Endpoint, Gate, Reply, send_reply
from delaytron.service.handlers import Handlers
from delaytron.service.keys import ApiKeys
from delaytron.service.limits import Limits, RateLimit
from delaytron.service.live.pages import live_routes
from delaytron.service.metrics import Metrics
from delaytron.service.openapi import document
from delaytron.service.problems import MEDIA_TYPE, problem
from delaytron.service.routes import ROUTES

LONGEST_PATH = 100  # characters of a path in a message
log = getLogger("delaytron.service")


def make_app(backend: Backend, keys: ApiKeys, limits: Limits = Limits()) -> Starlette:  # noqa: B008 - never changed
    """Return the application for a backend; it starts and stops it. A server that stops lets `state.watchers` go."""
    metrics = Metrics()
    rate = None if limits.rate is None else RateLimit(limits.rate)
    gate = Gate(keys, limits, rate, metrics)
    live, watchers = live_routes(gate, backend)
    app = Starlette(
        routes=[*_routes(gate, Handlers(backend, metrics)), *live],
        exception_handlers={404: _not_found, 405: _wrong_method},
        lifespan=lambda _: _lifespan(backend),
    )
    app.state.watchers = watchers
    return app


def _routes(gate: Gate, handlers: Handlers) -> list[BaseRoute]:
    """Return the routes; those of one path together, so that the wrong method is told as such."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for info in ROUTES:
        endpoint = Endpoint(gate, info.path, getattr(handlers, info.handler), info.scope)
        paths.setdefault(info.path, {})[info.method] = endpoint
    paths["/openapi.json"] = {"GET": Endpoint(gate, "/openapi.json", _describe, None)}
    return [Route(path, ByMethod(endpoints), methods=[*endpoints]) for path, endpoints in paths.items()]


class ByMethod:
    """Calls the endpoint of a request's method."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; a HEAD is answered as a GET, without its body by the server."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._endpoints[method](scope, receive, send)


@asynccontextmanager
async def _lifespan(backend: Backend) -> AsyncIterator[None]:
    """Start in the background, so that a service that opens large journals can say so."""
    starting = asyncio.create_task(_start(backend))
    try:
        yield
    finally:
        await asyncio.gather(starting, return_exceptions=True)
        await backend.stop()


async def _start(backend: Backend) -> None:
    """Start, or say why not: the service goes on and refuses everything, with the same words."""
    try:
        await backend.start()
    except DelaytronError as problem:
        log.warning("the service is not ready: %s, and start it again", problem)
    except Exception:
        log.exception("the service is not ready; mend this, and start it again")


async def _describe(call: Call) -> Reply:  # noqa: ARG001
    """GET /openapi.json."""
    return Reply(document())


async def _not_found(request: Any, error: Any) -> Any:  # noqa: ARG001
    return _Refusal(404, "unknown_path", f"there is nothing at {_path(request)}; see /openapi.json for all paths")


async def _wrong_method(request: Any, error: Any) -> Any:
    allowed = (error.headers or {}).get("Allow", "")
    methods = " or ".join(sorted({*allowed.split(", ")} - {"HEAD"}))
    detail = f"{request.method} is not allowed at {_path(request)}; use {methods}, see /openapi.json"
    return _Refusal(405, "wrong_method", detail, {"Allow": allowed})


def _path(request: Any) -> str:
    return str(request.url.path)[:LONGEST_PATH]


class _Refusal:
    """A problem that no endpoint tells."""

    def __init__(self, status: int, word: str, detail: str, headers: dict[str, str] | None = None) -> None:
        self._reply = Reply(problem(status, word, detail), status, MEDIA_TYPE, headers or {})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002
        await send_reply(send, self._reply)
