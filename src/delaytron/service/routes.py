"""The table of routes, and the OpenAPI 3.1 document generated from it."""

from functools import cache
from typing import Any, NamedTuple

import msgspec

from delaytron._version import __version__
from delaytron.service import messages
from delaytron.service.problems import MEDIA_TYPE, TITLES, ProblemReply
from delaytron.service.security import Scope

ADMIN: Scope = "admin"
CLIENT: Scope = "client"


class RouteInfo(NamedTuple):
    """A route: its handler, the scope of keys that may call it, its body, and its replies by status."""

    method: str
    path: str
    handler: str
    summary: str
    scope: Scope | None = CLIENT
    body: Any = None
    replies: dict[int, Any] = {}
    refusals: tuple[int, ...] = ()
    repeatable: bool = False


MODEL = "/v1/models/{name}"
ROUTES = (
    RouteInfo(
        "POST",
        "/v1/models",
        "create_model",
        "Make a model, or find the same one",
        ADMIN,
        messages.NewModel,
        {201: messages.ModelReply, 200: messages.ModelReply},
        (409,),
    ),
    RouteInfo("GET", "/v1/models", "list_models", "All models", replies={200: messages.ModelList}),
    RouteInfo("GET", MODEL, "show_model", "A model", replies={200: messages.ModelReply}),
    RouteInfo(
        "POST",
        f"{MODEL}/decisions",
        "decide",
        "Decide now, once or for a batch; the same id with the same input returns the stored decision",
        CLIENT,
        messages.DecisionBody,
        {200: (messages.DecisionReply, messages.DecisionReplies)},
        (409,),
        repeatable=True,
    ),
    RouteInfo(
        "GET",
        f"{MODEL}/decisions",
        "recent",
        "The last decisions",
        replies={200: messages.RecentDecisions},
    ),
    RouteInfo(
        "GET",
        f"{MODEL}/decisions/{{id:text}}",
        "show_decision",
        "A decision and its status",
        replies={200: messages.DecisionState},
    ),
    RouteInfo(
        "DELETE",
        f"{MODEL}/decisions/{{id:text}}",
        "cancel",
        "Cancel an open decision; later feedback for it is ignored",
        replies={200: messages.FeedbackReply},
        refusals=(409,),
    ),
    RouteInfo(
        "POST",
        f"{MODEL}/feedback",
        "feedback",
        "Give the answer to a decision, or to several",
        CLIENT,
        messages.FeedbackBody,
        {200: (messages.FeedbackReply, messages.FeedbackReplies)},
        (409, 410),
    ),
    RouteInfo(
        "GET",
        f"{MODEL}/explanations/{{id:text}}",
        "explain",
        "Why a class looks best for the features of a decision",
        replies={200: messages.ExplanationReply},
        refusals=(410,),
    ),
    RouteInfo(
        "POST",
        f"{MODEL}/classes",
        "add_class",
        "Add a class, or one that was retired",
        ADMIN,
        messages.NewClass,
        {200: messages.ModelReply},
    ),
    RouteInfo(
        "DELETE",
        f"{MODEL}/classes/{{label:text}}",
        "retire_class",
        "Retire a class: it is not chosen any more",
        ADMIN,
        replies={200: messages.ModelReply},
    ),
    RouteInfo("GET", f"{MODEL}/stats", "stats", "Counts and rates", replies={200: messages.StatsReply}),
    RouteInfo("GET", f"{MODEL}/weights", "weights", "The weights", replies={200: messages.WeightsReply}),
    RouteInfo(
        "GET",
        f"{MODEL}/digest",
        "digest",
        "A hash of the state of the model",
        replies={200: messages.DigestReply},
    ),
    RouteInfo("GET", "/healthz", "healthz", "Whether the service runs", None, replies={200: messages.Health}),
    RouteInfo("GET", "/readyz", "readyz", "Whether the service can decide", None, replies={200: messages.Health}),
    RouteInfo("GET", "/metrics", "metrics", "Counts for Prometheus", CLIENT, replies={200: str}),
)


REFUSALS = (400, 401, 403, 408, 413, 422, 429, 503)  # listed for every route, also where one of them cannot occur
REF = "#/components/schemas/{name}"
FEATURES = {  # in more detail than the type of the message
    "description": "named features; or a number for each feature; or pairs of an index and a number",
    "anyOf": [
        {"type": "object"},
        {"type": "array", "items": {"type": "number"}},
        {"type": "array", "items": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "number"}]}},
    ],
}
ALONE_OR_MANY = {
    messages.DecisionBody: (messages.DecisionRequest, messages.DecisionBatch),
    messages.FeedbackBody: (messages.FeedbackRequest, messages.FeedbackBatch),
}


PARAMETERS = {  # of paths
    "name": {"type": "string", "pattern": messages.MODEL_NAME},
    "id": {"type": "string", "minLength": 1},
    "label": {"type": "string", "minLength": 1},
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": messages.LONGEST_KEY,
        "pattern": messages.IDEMPOTENCY_KEY,
    },
}


@cache
def document() -> bytes:
    """Return the OpenAPI document as JSON.

    Examples
    --------
    >>> msgspec.json.decode(document())["openapi"]
    '3.1.0'
    """
    types: list[Any] = [ProblemReply]
    paths: dict[str, Any] = {}

    def schema(listed: Any) -> dict[str, Any]:
        """Return references to a message type, or to one of several; their schemas become components."""
        kinds = listed if isinstance(listed, tuple) else (listed,)
        types.extend(kinds)
        refs = [{"$ref": REF.format(name=kind.__name__)} for kind in kinds]
        return refs[0] if len(refs) == 1 else {"oneOf": refs}

    for route in ROUTES:
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": kind}
            for name, kind in PARAMETERS.items()
            if f"{{{name}" in route.path
        ]
        responses: dict[str, Any] = {}
        for status, reply in route.replies.items():
            kind, found = ("text/plain", {"type": "string"}) if reply is str else ("application/json", schema(reply))
            responses[str(status)] = {"description": "done", "content": {kind: {"schema": found}}}
        more = (*REFUSALS, *((404,) if "{" in route.path else ()))
        for status in sorted({*route.refusals, *more}):
            content = {MEDIA_TYPE: {"schema": schema(ProblemReply)}}
            responses[str(status)] = {"description": TITLES[status], "content": content}
        operation: dict[str, Any] = {
            "operationId": route.handler,
            "summary": route.summary,
            "parameters": [*parameters, *([IDEMPOTENCY_KEY] if route.repeatable else [])],
            "responses": responses,
        }
        if route.scope is None:
            operation["security"] = []
        if route.body is not None:
            content = {"application/json": {"schema": schema(ALONE_OR_MANY.get(route.body, route.body))}}
            operation["requestBody"] = {"required": True, "content": content}
        paths.setdefault(route.path.replace(":text}", "}"), {})[route.method.lower()] = operation
    _, components = msgspec.json.schema_components(types, ref_template=REF)
    components["DecisionRequest"]["properties"]["features"] = FEATURES
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Delaytron",
                "version": __version__,
                "summary": "Decide now, learn when the answer comes",
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{"key": []}, {}],
        }
    )
