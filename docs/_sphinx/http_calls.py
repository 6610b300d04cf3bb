"""The reference of the service, generated from its OpenAPI document."""

import json
from collections.abc import Iterator
from typing import Any

from delaytron.service.routes import document


def calls_page() -> str:
    """Return a section for each call and for each message, as Markdown."""
    whole = json.loads(document())
    calls = [_call(path, method, call) for path, methods in whole["paths"].items() for method, call in methods.items()]
    messages = [_message(name, schema) for name, schema in whole["components"]["schemas"].items()]
    return "\n\n".join(["## Calls", *calls, "## Messages", *messages])


def _call(path: str, method: str, call: dict[str, Any]) -> str:
    parts = [f"### `{method.upper()} {path}`", f"{call['summary']}.", *_body(call), _parameters(call), _replies(call)]
    return "\n\n".join(part for part in parts if part)


def _body(call: dict[str, Any]) -> Iterator[str]:
    if "requestBody" in call:
        yield f"Body: {_content(call['requestBody']['content'])}."
    if call.get("security") == []:
        yield "Needs no key."


def _parameters(call: dict[str, Any]) -> str:
    headers = [parameter for parameter in call["parameters"] if parameter["in"] != "path"]
    return "\n".join(f"Takes the {one['in']} `{one['name']}`: {_type(one['schema'])}." for one in headers)


def _replies(call: dict[str, Any]) -> str:
    rows = [
        f"| {status} | {reply['description']} | {_content(reply['content'])} |"
        for status, reply in call["responses"].items()
        if status < "300"
    ]
    refusals = ", ".join(status for status in call["responses"] if status >= "400")
    head = ["| status | | reply |", "|---|---|---|", *rows]
    return "\n".join([*head, f"| {refusals} | refused | {_type(_problem(call))} |"] if refusals else head)


def _problem(call: dict[str, Any]) -> dict[str, Any]:
    last = list(call["responses"].values())[-1]
    return next(iter(last["content"].values()))["schema"]


def _content(content: dict[str, Any]) -> str:
    return " or ".join(
        _type(kind["schema"]) if media.endswith("json") else f"`{media}`" for media, kind in content.items()
    )


def _message(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        f"| `{key}` | {_type(value)} | {_default(key, value, required)} |"
        for key, value in schema["properties"].items()
    ]
    table = "\n".join(["| key | type | default |", "|---|---|---|", *rows])
    return f"### {name}\n\n{schema.get('description', '')}\n\n{table}"


def _default(key: str, schema: dict[str, Any], required: Any) -> str:
    if "default" in schema:
        return f"`{json.dumps(schema['default'])}`"
    return "required" if key in required else ""


def _type(schema: dict[str, Any]) -> str:
    """Return a schema in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return " or ".join(_type(one) for one in schema[key])
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    return _plain(schema)


def _plain(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "anything")
    if kind == "array" and "prefixItems" in schema:
        return f"[{', '.join(_type(one) for one in schema['prefixItems'])}]"
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    limits = [f"{word} {schema[key]}" for key, word in LIMITS.items() if key in schema]
    return " ".join([kind, f"({', '.join(limits)})"]) if limits else str(kind)


LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "length at least",
    "maxLength": "length at most",
}
