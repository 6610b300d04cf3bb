"""The OpenAPI 3.1 document, made of the table of routes and of the messages."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from delaytron._version import __version__
from delaytron.service import messages
from delaytron.service.problems import MEDIA_TYPE, TITLES
from delaytron.service.routes import ROUTES, RouteInfo

EVERYWHERE = (401, 403, 429, 503)  # refusals that any route with a key may give
WITH_BODY = (400, 408, 413, 422)
REF = "#/components/schemas/{name}"
FEATURES = {  # finer than what the messages say
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


@cache
def document() -> bytes:
    """Return the document as JSON.

    Examples
    --------
    >>> msgspec.json.decode(document())["openapi"]
    '3.1.0'
    """
    types = list(_types())
    _, components = msgspec.json.schema_components(types, ref_template=REF)
    components["DecisionRequest"]["properties"]["features"] = FEATURES
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(_plain(route.path), {})[route.method.lower()] = _operation(route)
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


def _types() -> Iterator[Any]:
    yield messages.ProblemReply
    for route in ROUTES:
        yield from _alternatives(ALONE_OR_MANY.get(route.body, route.body))
        for reply in route.replies.values():
            yield from _alternatives(reply)


def _alternatives(types: Any) -> tuple[Any, ...]:
    listed = types if isinstance(types, tuple) else (types,)
    return tuple(one for one in listed if one not in (None, str))


def _schema(types: Any) -> dict[str, Any]:
    refs = [{"$ref": REF.format(name=one.__name__)} for one in _alternatives(types)]
    return refs[0] if len(refs) == 1 else {"oneOf": refs}


def _plain(path: str) -> str:
    return path.replace(":path}", "}")


def _operation(route: RouteInfo) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler,
        "summary": route.summary,
        "parameters": list(_parameters(route)),
        "responses": dict(_responses(route)),
    }
    if route.scope is None:
        operation["security"] = []
    if route.body is not None:
        schema = _schema(ALONE_OR_MANY.get(route.body, route.body))
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _parameters(route: RouteInfo) -> Iterator[dict[str, Any]]:
    texts = {
        "name": {"type": "string", "pattern": messages.MODEL_NAME},
        "id": {"type": "string", "minLength": 1},
        "label": {"type": "string", "minLength": 1},
    }
    for name, schema in texts.items():
        if f"{{{name}" in route.path:
            yield {"name": name, "in": "path", "required": True, "schema": schema}
    if route.repeatable:
        schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
        yield {"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema}


def _responses(route: RouteInfo) -> Iterator[tuple[str, Any]]:
    for status, reply in route.replies.items():
        kind, schema = ("text/plain", {"type": "string"}) if reply is str else ("application/json", _schema(reply))
        yield str(status), {"description": "done", "content": {kind: {"schema": schema}}}
    more = (*EVERYWHERE, *WITH_BODY, *(() if "{" not in route.path else (404,)))
    for status in sorted({*route.refusals, *more}):
        content = {MEDIA_TYPE: {"schema": _schema(messages.ProblemReply)}}
        yield str(status), {"description": TITLES[status], "content": content}
