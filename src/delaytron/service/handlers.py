"""What each route does: read the body, ask the backend, return its reply."""

from hashlib import sha256
from typing import Any

from msgspec import UNSET

from delaytron.checks import shown
from delaytron.errors import InvalidInput
from delaytron.service import messages
from delaytron.service.backend import Backend, Repeatable
from delaytron.service.bodies import ANSWER, CLASS, DECISION, NEW_MODEL, BodyReader
from delaytron.service.endpoint import Call, Reply
from delaytron.service.metrics import MEDIA_TYPE, Metrics
from delaytron.service.problems import Unavailable, problem_of

LONGEST_KEY = 200

_read_model = BodyReader(messages.NewModel, NEW_MODEL, '{"name": "router", "classes": ["small", "large"]}').read
_read_decisions = BodyReader(messages.DecisionBody, DECISION, '{"features": {"tokens": 512}}').read
_read_feedback = BodyReader(messages.FeedbackBody, ANSWER, '{"id": "req-17", "correct": true}').read
_read_class = BodyReader(messages.NewClass, {"name": CLASS}, '{"name": "huge"}').read


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
                raise InvalidInput("features are missing; give features, or a list of decisions for a batch")
            one = messages.DecisionRequest(body.features, body.id, body.allowed, body.stateless)
            return Reply((await self._backend.decide(call.path["name"], [one], repeatable))[0])
        if (body.features, body.id, body.allowed, body.stateless) != (UNSET, None, None, None):
            raise InvalidInput("a body must have features or decisions, got both; each decision of a batch has its own")
        return Reply(
            messages.DecisionReplies(await self._backend.decide(call.path["name"], body.decisions, repeatable))
        )

    async def feedback(self, call: Call) -> Reply:
        """POST /v1/models/{name}/feedback."""
        body = _read_feedback(call.body)
        if body.feedback is UNSET:
            (outcome,) = await self._backend.feedback(call.path["name"], [_alone(body)])
            if isinstance(outcome, Exception):
                raise outcome
            return Reply(messages.FeedbackReply(outcome))
        if _alone(body) != messages.FeedbackRequest():
            raise InvalidInput("a body must have one answer or a list of feedback, got both; put all into the list")
        outcomes = await self._backend.feedback(call.path["name"], body.feedback)
        results = [_outcome(given, outcome) for given, outcome in zip(body.feedback, outcomes, strict=True)]
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
        reason = self._backend.unready()
        if reason is not None:
            raise Unavailable(reason)
        return Reply(messages.Health("ok"))

    async def metrics(self, call: Call) -> Reply:  # noqa: ARG002
        """GET /metrics."""
        names = [] if self._backend.unready() else [model.name for model in await self._backend.models()]
        stats = {name: await self._backend.stats(name) for name in names}
        return Reply(self._metrics.text(stats).encode(), media_type=MEDIA_TYPE)


def _repeatable(call: Call) -> Repeatable | None:
    """Return the `Idempotency-Key` of a call, and what tells its body from others."""
    given = call.headers.get(b"idempotency-key")
    if given is None:
        return None
    try:
        key = given.decode("ascii").strip()
    except UnicodeDecodeError:
        key = ""
    if not (1 <= len(key) <= LONGEST_KEY and key.isprintable()):
        raise InvalidInput(f"Idempotency-Key must be 1 to {LONGEST_KEY} printable ASCII characters, got {shown(given)}")
    return Repeatable(key, sha256(call.body).digest())


def _alone(body: messages.FeedbackBody) -> messages.FeedbackRequest:
    return messages.FeedbackRequest(body.id, body.token, body.correct, body.reward, body.label)


def _outcome(given: messages.FeedbackRequest, outcome: Any) -> messages.FeedbackOutcome:
    if not isinstance(outcome, Exception):
        return messages.FeedbackOutcome(given.id, 200, result=outcome)
    told = problem_of(outcome)
    return messages.FeedbackOutcome(given.id, told.status, problem=told)
