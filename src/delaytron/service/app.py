"""The handlers of all routes, and the service as an ASGI application."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from logging import getLogger
from typing import Any

from msgspec import UNSET
from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import BaseRoute, Route

from delaytron.errors import DelaytronError, InvalidInput
from delaytron.service import messages
from delaytron.service.backend import Backend, Repeatable
from delaytron.service.endpoint import Call, Endpoint, Gate, Reply, refusal, send_reply
from delaytron.service.live.pages import live_routes
from delaytron.service.messages import BodyReader
from delaytron.service.metrics import METRICS_TYPE, Metrics
from delaytron.service.problems import ServiceError, UnknownPath, WrongMethod, problem_of
from delaytron.service.routes import ROUTES, document
from delaytron.service.security import ApiKeys, Limits, RateLimit

LONGEST_PATH = 100  # characters of a path in a message

log = getLogger("delaytron.service")
_read_model = BodyReader(messages.NewModel, '{"name": "router", "classes": ["small", "large"]}').read
_read_decisions = BodyReader(messages.DecisionBody, '{"features": {"tokens": 512}}').read
_read_feedback = BodyReader(messages.FeedbackBody, '{"id": "req-17", "correct": true}').read
_read_class = BodyReader(messages.NewClass, '{"name": "huge"}').read


class TextConvertor(PathConvertor):
    """Any text. Starlette's `path` drops a newline at the end: the request would be about another id."""

    regex = r"[\s\S]*"


register_url_convertor("text", TextConvertor())


class Handlers:
    """The routes of a backend."""

    def __init__(self, backend: Backend, metrics: Metrics) -> None:
        self._backend = backend
        self._metrics = metrics

    async def create_model(self, call: Call) -> Reply:
        """POST /v1/models."""
        model, is_new = await self._backend.create(_read_model(call.body))
        return Reply(model, 201 if is_new else 200)

    async def list_models(self, call: Call) -> Reply:  # noqa: ARG002
        """GET /v1/models."""
        return Reply(messages.ModelList(await self._backend.models()))

    async def show_model(self, call: Call) -> Reply:
        """GET /v1/models/{name}."""
        return Reply(await self._backend.model(call.path["name"]))

    async def decide(self, call: Call) -> Reply:
        """POST /v1/models/{name}/decisions."""
        body = _read_decisions(call.body)
        repeatable = _repeatable(call)
        if body.decisions is UNSET:
            if body.features is UNSET:
                raise InvalidInput(
                    "features are missing", "give features, or a list of decisions for a batch", parameter="features"
                )
            one = messages.DecisionRequest(body.features, body.id, body.allowed)
            return Reply((await self._backend.decide(call.path["name"], [one], repeatable))[0])
        if (body.features, body.id, body.allowed) != (UNSET, None, None):
            raise InvalidInput(
                "a body must have features or decisions, got both", "give each decision of a batch its own features"
            )
        return Reply(
            messages.DecisionReplies(await self._backend.decide(call.path["name"], body.decisions, repeatable))
        )

    async def feedback(self, call: Call) -> Reply:
        """POST /v1/models/{name}/feedback."""
        body = _read_feedback(call.body)
        alone = messages.FeedbackRequest(body.id, body.correct, body.reward, body.label)
        if body.feedback is UNSET:
            (outcome,) = await self._backend.feedback(call.path["name"], [alone])
            if isinstance(outcome, Exception):
                raise outcome
            return Reply(messages.FeedbackReply(outcome))
        if alone != messages.FeedbackRequest():
            raise InvalidInput("a body must have one answer or a list of feedback, got both", "put all into the list")
        results = []
        outcomes = await self._backend.feedback(call.path["name"], body.feedback)
        for given, outcome in zip(body.feedback, outcomes, strict=True):
            if isinstance(outcome, Exception):
                problem = problem_of(outcome)
                results.append(messages.FeedbackOutcome(given.id, problem.status, problem=problem))
            else:
                results.append(messages.FeedbackOutcome(given.id, 200, result=outcome))
        return Reply(messages.FeedbackReplies(results))

    async def show_decision(self, call: Call) -> Reply:
        """GET /v1/models/{name}/decisions/{id}."""
        return Reply(await self._backend.decision(call.path["name"], call.path["id"]))

    async def recent(self, call: Call) -> Reply:
        """GET /v1/models/{name}/decisions."""
        return Reply(messages.RecentDecisions(await self._backend.recent(call.path["name"], messages.RECENT)))

    async def cancel(self, call: Call) -> Reply:
        """DELETE /v1/models/{name}/decisions/{id}."""
        return Reply(messages.FeedbackReply(await self._backend.cancel(call.path["name"], call.path["id"])))

    async def explain(self, call: Call) -> Reply:
        """GET /v1/models/{name}/explanations/{id}."""
        return Reply(await self._backend.explain(call.path["name"], call.path["id"]))

    async def add_class(self, call: Call) -> Reply:
        """POST /v1/models/{name}/classes."""
        return Reply(await self._backend.add_class(call.path["name"], _read_class(call.body)))

    async def retire_class(self, call: Call) -> Reply:
        """DELETE /v1/models/{name}/classes/{label}."""
        return Reply(await self._backend.retire_class(call.path["name"], call.path["label"]))

    async def stats(self, call: Call) -> Reply:
        """GET /v1/models/{name}/stats."""
        return Reply(await self._backend.stats(call.path["name"]))

    async def weights(self, call: Call) -> Reply:
        """GET /v1/models/{name}/weights."""
        return Reply(await self._backend.weights(call.path["name"]))

    async def digest(self, call: Call) -> Reply:
        """GET /v1/models/{name}/digest."""
        return Reply(await self._backend.digest(call.path["name"]))

    async def healthz(self, call: Call) -> Reply:  # noqa: ARG002
        """GET /healthz."""
        return Reply(messages.Health("ok"))

    async def readyz(self, call: Call) -> Reply:  # noqa: ARG002
        """GET /readyz."""
        error = self._backend.unready()
        if error is not None:
            raise error
        return Reply(messages.Health("ok"))

    async def metrics(self, call: Call) -> Reply:  # noqa: ARG002
        """GET /metrics."""
        stats = {}
        # A store that fails must not hide the counts of requests, which show that it does.
        with suppress(ServiceError):
            for model in [] if self._backend.unready() else await self._backend.models():
                stats[model.name] = await self._backend.stats(model.name)
        return Reply(self._metrics.text(stats).encode(), media_type=METRICS_TYPE)


def _repeatable(call: Call) -> Repeatable | None:
    """Return the `Idempotency-Key` of a call and a hash of its body."""
    given = call.headers.get(b"idempotency-key")
    if given is None:
        return None
    key = given.decode("latin-1").strip(" \t")
    if len(key) > messages.LONGEST_KEY or not re.fullmatch(messages.IDEMPOTENCY_KEY, key):
        raise InvalidInput.of("Idempotency-Key", f"1 to {messages.LONGEST_KEY} printable ASCII characters", key)
    return Repeatable(key, sha256(call.body).digest())


class ByMethod:
    """Calls the endpoint of a request's method."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; a HEAD as a GET, whose body the server leaves out."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._endpoints[method](scope, receive, send)


@asynccontextmanager
async def _lifespan(backend: Backend) -> AsyncIterator[None]:
    """Start the backend in the background: /readyz must be answered while large journals are opened."""

    async def start() -> None:
        # After an error the service goes on and refuses every request, so that clients get the reason.
        try:
            await backend.start()
        except DelaytronError as problem:
            log.warning("the service is not ready: %s, and start it again", problem)
        except Exception:
            log.exception("the service is not ready; solve this, and start it again")

    starting = asyncio.create_task(start())
    try:
        yield
    finally:
        await asyncio.gather(starting, return_exceptions=True)
        await backend.stop()


def make_app(backend: Backend, keys: ApiKeys, limits: Limits = Limits()) -> Starlette:  # noqa: B008 - never changed
    """Return the application, which starts and stops its backend; a server calls `state.watchers.stop` at its end."""
    metrics = Metrics()
    gate = Gate(keys, limits, None if limits.rate is None else RateLimit(limits.rate), metrics)
    handlers = Handlers(backend, metrics)
    # One route for all methods of a path: with one for each method, a wrong method would be a 404.
    paths: dict[str, dict[str, Endpoint]] = {}
    for info in ROUTES:
        endpoint = Endpoint(gate, info.path, getattr(handlers, info.handler), info.scope)
        paths.setdefault(info.path, {})[info.method] = endpoint

    async def describe(call: Call) -> Reply:  # noqa: ARG001
        return Reply(document())

    paths["/openapi.json"] = {"GET": Endpoint(gate, "/openapi.json", describe, None)}
    routes: list[BaseRoute] = [Route(path, ByMethod(by), methods=[*by]) for path, by in paths.items()]
    live, watchers = live_routes(gate, backend)
    app = Starlette(
        routes=[*routes, *live],
        exception_handlers={404: _refuse, 405: _refuse},
        lifespan=lambda _: _lifespan(backend),
    )
    app.state.watchers = watchers
    return app


async def _refuse(request: Any, error: Any) -> Any:
    """Return the reply, as an ASGI application, to a request with an unknown path or the wrong method."""
    path = str(request.url.path)[:LONGEST_PATH]
    problem: ServiceError = UnknownPath(f"there is nothing at {path}", "see /openapi.json for all paths")
    if error.status_code == WrongMethod.status:
        allowed = (error.headers or {}).get("Allow", "")
        methods = " or ".join(sorted({*allowed.split(", ")} - {"HEAD"}))
        problem = WrongMethod(f"{request.method} is not allowed at {path}", f"use {methods}, see /openapi.json")
        problem.headers = {"Allow": allowed}

    async def respond(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
        await send_reply(send, refusal(problem, ""))

    return respond
