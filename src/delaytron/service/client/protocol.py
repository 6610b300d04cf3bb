"""The protocol of the client: requests as data, features and answers as JSON, replies and errors as results."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from math import isfinite
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np
from msgspec import UNSET

from delaytron.checks import check_bool, check_number, is_sparse
from delaytron.errors import (
    ConflictingDecision,
    ConflictingFeedback,
    DelaytronError,
    InvalidInput,
    UnknownDecision,
    shown,
)
from delaytron.journal.ids import check_id, new_id
from delaytron.model.classes import Name, check_names
from delaytron.model.classes import check_name as check_class
from delaytron.model.words import DEEPEST, as_mapping, as_number, check_numbers, check_unicode, is_missing
from delaytron.model.words import check_name as check_feature_name
from delaytron.service import messages, problems
from delaytron.service.problems import Conflict, ProblemReply


class NoConnection(problems.Unavailable):
    """No reply came from the service."""

    word = "no_connection"


class UnexpectedReply(DelaytronError):  # noqa: N818 - named as those of `service.problems`
    """The reply is not one of a service of this version."""


BY_RESULT: dict[str, type[DelaytronError]] = {
    kind.word: kind
    for kind in (
        problems.UnknownModel,
        problems.Gone,
        problems.Unauthorized,
        problems.Forbidden,
        problems.TooLarge,
        problems.TooSlow,
        problems.TooMany,
        problems.Unavailable,
    )
} | {"unknown_decision": UnknownDecision, "invalid": InvalidInput, "malformed": InvalidInput}
BY_STATUS: dict[int, tuple[type[DelaytronError], str]] = {  # error and hint for replies of a proxy
    401: (problems.Unauthorized, "give a key that is known there"),
    403: (problems.Forbidden, "give a key that may do this"),
    408: (problems.TooSlow, "try again"),
    413: (problems.TooLarge, "send less at once"),
    429: (problems.TooMany, "try again later"),
    502: (problems.Unavailable, "try again later"),
    503: (problems.Unavailable, "try again later"),
    504: (problems.Unavailable, "try again later"),
}


def error_of(problem: ProblemReply, conflict: type[DelaytronError]) -> DelaytronError:
    """Return the error that the service raised; `conflict` is the type of error for a conflict of this request.

    Examples
    --------
    >>> gone = ProblemReply("urn:delaytron:purged", "Gone", 410, "decision 'a' was purged", "purged", "ask for another")
    >>> print(repr(error_of(gone, InvalidInput)))
    Gone("decision 'a' was purged", 'ask for another')
    """
    kind = conflict if problem.result == "conflict" else BY_RESULT.get(problem.result)
    hint = problem.hint or ("" if problem.allowed else "see the log of the service")
    if kind is None:
        kind, hint = UnexpectedReply, "check the url"
    return kind(
        problem.detail,
        hint,
        parameter=problem.parameter or None,
        value=None if problem.value is UNSET else problem.value,
        allowed=problem.allowed or None,
    )


EXAMPLE = '{"id": "req-17", "correct": True}'


class GivenAnswer(TypedDict, total=False):
    """One answer of several: `id`, and `correct`, `label` or `reward`."""

    id: str | None
    correct: bool | None
    label: Name | None
    reward: float | None


def checked_answer(given: Any) -> dict[str, Any]:
    """Return an answer with its values checked; raise InvalidInput. Which fields go together is checked by the service.

    Examples
    --------
    >>> checked_answer({"id": "req-17", "correct": 1})
    {'id': 'req-17', 'correct': True}
    """
    if not isinstance(given, Mapping):
        raise InvalidInput.of("answers", f"dicts such as {EXAMPLE}", given)
    checked = dict(given)
    for field, check in CHECKS.items():
        if checked.get(field) is not None:
            checked[field] = check(checked[field])
    return checked


def _check_reward(reward: Any) -> float:
    if not 0 <= check_number("reward", reward) <= 1:
        raise InvalidInput.of("reward", "from 0 (wrong) to 1 (right)", reward)
    return float(reward)


CHECKS: dict[str, Callable[[Any], Any]] = {
    "id": check_id,
    "correct": partial(check_bool, "correct"),
    "label": check_class,
    "reward": _check_reward,
}


def as_sent(x: Any) -> Any:
    """Return features for JSON: a dict, a list of numbers, or pairs of an index and a number for a sparse row.

    Raises InvalidInput for features that no model accepts.

    Examples
    --------
    >>> as_sent({"tokens": np.int64(512), "hour": float("nan"), "tags": ("a", "b")})
    {'tokens': 512.0, 'hour': None, 'tags': ['a', 'b']}
    >>> as_sent(np.array([0.5, 2.0]))
    [0.5, 2.0]
    """
    if is_sparse(x):
        row = x.tocoo()
        if row.ndim == 2 and row.shape[0] != 1:
            raise InvalidInput.of("x", "one row", got=f"{row.shape[0]}", hint="decide_many takes several")
        row.sum_duplicates()
        numbers = [_entry(place, value) for place, value in enumerate(row.data.tolist())]
        # An empty list would be an empty vector.
        return [[int(index), number] for index, number in zip(row.coords[-1], numbers, strict=True)] or [[0, 0.0]]
    if isinstance(x, np.ndarray):
        if x.ndim != 1:
            raise InvalidInput.of("x", "1-D", got=f"shape {x.shape}", hint="decide_many takes several rows")
        x = x.tolist()
    if isinstance(x, list | tuple):
        return [_entry(place, value) for place, value in enumerate(x)]
    return _value("x", as_mapping(x), 0)


def _entry(position: int, value: Any, *, in_pair: bool = False) -> Any:
    """Return a number of a list, or a pair of a sparse row, for JSON; raise InvalidInput if it is not finite."""
    if isinstance(value, list | tuple) and not in_pair:  # a pair of a sparse row
        return [_entry(place, item, in_pair=True) for place, item in enumerate(value)]
    if isinstance(value, float) and not isfinite(value):
        raise InvalidInput.of("x", "finite", got=f"{value} at position {position}")
    return _value(str(position), value, 1)


def _value(name: str, value: Any, depth: int) -> Any:
    """Return the value of a feature for JSON; `depth` counts the dicts and lists around it. Raises InvalidInput."""
    if isinstance(value, str):
        return check_unicode(str.__str__(value))  # a subclass may print as something else
    if type(value) in (int, bool, type(None)):
        return value
    if isinstance(value, np.ndarray):
        value = value.item() if value.ndim == 0 else value.tolist()
        return _value(name, value, depth)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if depth + isinstance(value, Mapping) > DEEPEST:
            raise InvalidInput.of(
                "x", f"at most {DEEPEST} dicts or lists within one another", got="more", hint="flatten it", verb="have"
            )
        if isinstance(value, Mapping):
            return {check_feature_name(key): _value(key, inner, depth + 1) for key, inner in value.items()}
        return [_value(name, item, depth + 1) for item in value]
    if is_missing(value):
        return None
    number = as_number(name, value)
    check_numbers([(name, number)])
    return number


T = TypeVar("T")
# From the content of a reply to the result of a call. The second argument: an earlier try may have been accepted.
Read = Callable[[bytes, bool], T]
FeedbackResult = Literal["accepted", "duplicate", "corrected", "late", "cancelled", "known"]


class RemoteDecision(NamedTuple):
    """A decision; its `id` is passed to `feedback`."""

    id: str
    label: Name
    prob: float
    round: int


def read_as(kind: type[T]) -> Read[T]:
    """Return a reader of replies that are returned as they are."""
    return lambda content, _: msgspec.json.decode(content, type=kind)


def read_decision(content: bytes, _: bool) -> RemoteDecision:
    """Return a decision.

    Examples
    --------
    >>> read_decision(b'{"id": "req-17", "label": "small", "prob": 0.97, "round": 18}', False)
    RemoteDecision(id='req-17', label='small', prob=0.97, round=18)
    """
    return RemoteDecision(*msgspec.structs.astuple(msgspec.json.decode(content, type=messages.DecisionReply)))


def read_decisions(content: bytes, _: bool) -> list[RemoteDecision]:
    """Return the decisions of a batch."""
    reply = msgspec.json.decode(content, type=messages.DecisionReplies)
    return [RemoteDecision(*msgspec.structs.astuple(one)) for one in reply.decisions]


def read_result(content: bytes, unsure: bool) -> FeedbackResult:
    """Return the result of an answer; after a lost reply, a "duplicate" may be that of an earlier try: "known".

    Examples
    --------
    >>> read_result(b'{"result": "duplicate"}', unsure=False), read_result(b'{"result": "duplicate"}', unsure=True)
    ('duplicate', 'known')
    """
    result = msgspec.json.decode(content, type=messages.FeedbackReply).result
    return "known" if unsure and result == "duplicate" else result


def read_results(content: bytes, unsure: bool) -> list[FeedbackResult | DelaytronError]:
    """Return the results of several answers, or their errors."""
    results: list[FeedbackResult | DelaytronError] = []
    for one in msgspec.json.decode(content, type=messages.FeedbackReplies).results:
        if isinstance(one.problem, ProblemReply):
            results.append(error_of(one.problem, ConflictingFeedback))
        elif isinstance(one.result, str):
            results.append("known" if unsure and one.result == "duplicate" else one.result)
    return results


def read_explanation(content: bytes, _: bool) -> messages.ExplanationReply:
    """Return an explanation.

    Classes are keys of JSON objects, which are strings: if the label is an integer, those that look like integers
    become integers again.
    """
    reply = msgspec.json.decode(content, type=messages.ExplanationReply)

    def by_number(parts: dict[Name, float]) -> dict[Name, float]:
        return {int(label) if re.fullmatch(r"-?\d+", str(label)) else label: part for label, part in parts.items()}

    if isinstance(reply.label, int):
        reply.scores = by_number(reply.scores)
        reply.constant = by_number(reply.constant)
        reply.features = {feature: by_number(parts) for feature, parts in reply.features.items()}
    return reply


# Hints after requests whose replies were lost.
DECIDING = "it may have been decided: look for the id, if you gave one"
AGAIN = "it may have been done; repeat the call, which does no harm"
CHANGING = "it may have been done: look at describe() of the model"


class ClientRequest(NamedTuple, Generic[T]):
    """A request to the service. `unsure` is the hint if it is unknown whether the service accepted it."""

    method: str
    path: str
    read: Read[T]
    body: bytes | None = None
    idempotency_key: str | None = None
    unsure: str = "try again, or check the url"
    idempotent: bool = True  # it may be retried even if the service accepted it already
    slow: bool = False  # the service may compile a learner
    conflict: type[DelaytronError] = Conflict


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as a Python one, for the encoder; raise InvalidInput for other types."""
    if isinstance(value, np.generic):
        return value.item()
    raise InvalidInput(f"a request cannot hold a {type(value).__name__}, {shown(value)}", "send a plain value")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as JSON; raise InvalidInput if JSON cannot hold it."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        raise InvalidInput("names and strings must be valid Unicode", "replace lone surrogates") from None
    except RecursionError:
        raise InvalidInput("parameters must not be nested so deeply", "send plain values") from None


# Requests. Each function raises InvalidInput for arguments that the service would refuse.


def create_model(name: str, classes: Iterable[Name], options: Mapping[str, Any]) -> ClientRequest[messages.ModelReply]:
    """Return the request for a new model; options that are no fields of `NewModel` are parameters of the learner."""
    known = {option: value for option, value in options.items() if option in messages.NewModel.__struct_fields__}
    for option in ("expire_after", "correct_within"):
        wait = known.get(option)
        if isinstance(wait, timedelta):
            known[option] = f"{wait.total_seconds():f}s"
    parameters = known.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise InvalidInput.of("parameters", "a dict, as in {'gamma': 0.1}", parameters)
    known["parameters"] = {**parameters, **{option: value for option, value in options.items() if option not in known}}
    for option, value in {**known, **known["parameters"]}.items():
        if isinstance(value, float | np.floating):
            check_number(option, value)  # JSON has no NaN
    body = encode({**known, "name": check_model_name(name), "classes": check_names(classes)})
    return ClientRequest("POST", "/v1/models", read_as(messages.ModelReply), body, unsure=AGAIN, slow=True)


def list_models() -> ClientRequest[list[messages.ModelReply]]:
    """Return the request for all models."""
    return ClientRequest(
        "GET", "/v1/models", lambda content, _: msgspec.json.decode(content, type=messages.ModelList).models
    )


def show_model(name: str) -> ClientRequest[messages.ModelReply]:
    """Return the request for a model."""
    return ClientRequest("GET", _path(name), read_as(messages.ModelReply))


def decide(name: str, x: Any, id: str | None, allowed: Any) -> ClientRequest[RemoteDecision]:
    """Return the request for a decision."""
    return _decision_request(name, _decision_body(x, id, allowed), read_decision)


def decide_many(
    name: str, xs: Iterable[Any], ids: Iterable[str] | None, allowed: Any
) -> ClientRequest[list[RemoteDecision]]:
    """Return the request for several decisions, of which all are made or none."""
    rows = _check_list("xs", xs)
    row_ids = [None] * len(rows) if ids is None else _check_list("ids", ids)
    if len(row_ids) != len(rows):
        raise InvalidInput.of("ids", f"one for each of the {len(rows)} xs", got=f"{len(row_ids)}")
    classes = _check_allowed(allowed)
    decisions = []
    for i, (x, row_id) in enumerate(zip(rows, row_ids, strict=True)):
        try:
            decisions.append(_decision_body(x, row_id, classes))
        except InvalidInput as problem:
            raise problem.at(f"xs[{i}]") from None
    return _decision_request(name, {"decisions": decisions}, read_decisions)


def _check_list(name: str, given: Any) -> list[Any]:
    """Return an iterable as a list; raise InvalidInput if it is a text, a dict, or not iterable."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput.of(name, "a list, one for each decision", given)
    return list(given)


def _decision_body(x: Any, id: str | None, allowed: Any) -> dict[str, Any]:
    return {
        "features": as_sent(x),
        "id": None if id is None else check_id(id),
        "allowed": _check_allowed(allowed),
    }


def _check_allowed(allowed: Any) -> list[Name] | None:
    """Return the allowed classes as a list, None for all; raise InvalidInput if they cannot be names of classes."""
    if allowed is not None and (isinstance(allowed, str | bytes) or not isinstance(allowed, Iterable)):
        raise InvalidInput.of("allowed", "a list of classes", allowed)
    return None if allowed is None else [check_class(name) for name in allowed]


def _decision_request(name: str, message: Mapping[str, Any], read: Read[T]) -> ClientRequest[T]:
    return ClientRequest(
        "POST",
        _path(name, "decisions"),
        read,
        encode(message),
        idempotency_key=new_id(),
        unsure=DECIDING,
        conflict=ConflictingDecision,  # the key is new, so a conflict is about the id
    )


def feedback(name: str, given: GivenAnswer) -> ClientRequest[FeedbackResult]:
    """Return the request that answers a decision."""
    path, body = _path(name, "feedback"), encode(checked_answer(given))
    return ClientRequest("POST", path, read_result, body, unsure=AGAIN, conflict=ConflictingFeedback)


def feedback_many(name: str, given: Iterable[GivenAnswer]) -> ClientRequest[list[FeedbackResult | DelaytronError]]:
    """Return the request that answers several decisions."""
    body = encode({"feedback": [checked_answer(one) for one in _check_list("answers", given)]})
    return ClientRequest("POST", _path(name, "feedback"), read_results, body, unsure=AGAIN)


def cancel(name: str, id: str) -> ClientRequest[FeedbackResult]:
    """Return the request that cancels an open decision."""
    path = _path(name, "decisions", check_id(id))
    return ClientRequest("DELETE", path, read_result, unsure=AGAIN, conflict=ConflictingFeedback)


def decision(name: str, id: str) -> ClientRequest[messages.DecisionState]:
    """Return the request for a decision and its status."""
    return ClientRequest("GET", _path(name, "decisions", check_id(id)), read_as(messages.DecisionState))


def recent(name: str) -> ClientRequest[list[messages.DecisionState]]:
    """Return the request for the last decisions."""
    return ClientRequest(
        "GET",
        _path(name, "decisions"),
        lambda content, _: msgspec.json.decode(content, type=messages.RecentDecisions).decisions,
    )


def explain(name: str, id: str) -> ClientRequest[messages.ExplanationReply]:
    """Return the request for an explanation of a decision."""
    return ClientRequest("GET", _path(name, "explanations", check_id(id)), read_explanation)


def add_class(name: str, label: Name) -> ClientRequest[messages.ModelReply]:
    """Return the request that adds a class."""
    body = encode({"name": check_class(label)})
    read = read_as(messages.ModelReply)
    return ClientRequest("POST", _path(name, "classes"), read, body, unsure=CHANGING, idempotent=False, slow=True)


def retire_class(name: str, label: Name) -> ClientRequest[messages.ModelReply]:
    """Return the request that retires a class."""
    path = _path(name, "classes", str(check_class(label)))
    return ClientRequest("DELETE", path, read_as(messages.ModelReply), unsure=CHANGING, idempotent=False)


def stats(name: str) -> ClientRequest[messages.StatsReply]:
    """Return the request for counts and rates."""
    return ClientRequest("GET", _path(name, "stats"), read_as(messages.StatsReply))


def digest(name: str) -> ClientRequest[str]:
    """Return the request for the digest of the state."""
    return ClientRequest(
        "GET", _path(name, "digest"), lambda content, _: msgspec.json.decode(content, type=messages.DigestReply).digest
    )


def weights(name: str) -> ClientRequest[messages.WeightsReply]:
    """Return the request for the weights."""
    return ClientRequest("GET", _path(name, "weights"), read_as(messages.WeightsReply))


def check_model_name(name: str) -> str:
    """Return the name of a model; raise InvalidInput."""
    if not (isinstance(name, str) and re.fullmatch(messages.MODEL_NAME, name)):
        allowed = "1 to 64 letters, digits, _ or -"
        raise InvalidInput(
            f"a model is named by {allowed}; got {shown(name)}",
            "the first one must be a letter or a digit",
            parameter="name",
            value=name,
            allowed=allowed,
        )
    return name


def _path(name: str, *parts: str) -> str:
    """Return the path of a model, or of something of it.

    Examples
    --------
    >>> _path("router", "decisions", "req/17 a"), _path("router", "decisions", "..")
    ('/v1/models/router/decisions/req%2F17%20a', '/v1/models/router/decisions/%2E%2E')
    """
    path = f"/v1/models/{name}"
    for part in parts:
        quoted = quote(part, safe="")
        # HTTP clients resolve "." and ".." as in file paths, and `quote` leaves dots alone.
        path += "/" + (quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted)
    return path
