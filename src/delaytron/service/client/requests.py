"""What a client asks for, as data: method, path, body, and how the reply is read. Nothing is sent here."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from math import isfinite
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np

from delaytron.errors import ConflictingFeedback, DelaytronError, InvalidInput
from delaytron.journal.ids import check_id, new_id
from delaytron.model.classes import Name
from delaytron.model.values import shown
from delaytron.service import messages
from delaytron.service.client import replies
from delaytron.service.client.features import as_sent
from delaytron.service.client.replies import Read, RemoteDecision, Word
from delaytron.service.problems import Conflict

T = TypeVar("T")

DECIDING = "it may have been decided: look for the id, if you gave one"
AGAIN = "it may have been done; do it again, which does no harm"
CHANGING = "it may have been done: look at the model"


class ClientRequest(NamedTuple, Generic[T]):
    """A request. `unsure` is what its sender should know when nobody knows whether it was taken."""

    method: str
    path: str
    read: Read[T]
    body: bytes | None = None
    key: str | None = None  # the Idempotency-Key
    unsure: str = "try again"
    again: bool = True  # it can be sent again, even if it has been taken already
    slow: bool = False  # a learner may be compiled for it
    conflict: type[DelaytronError] = Conflict


class GivenAnswer(TypedDict, total=False):
    """One answer of several: `id` or `token`, and `correct`, `label` or `reward`."""

    id: str | None
    token: str | None
    correct: bool | None
    label: Name | None
    reward: float | None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise InvalidInput(f"a request cannot hold a {type(value).__name__}, {shown(value)}; send a plain value")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a body, or raise."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        raise InvalidInput("names and strings must be valid Unicode; replace lone surrogates") from None


def create_model(name: str, classes: Iterable[Name], options: Mapping[str, Any]) -> ClientRequest[messages.ModelReply]:
    """Make a model; options that the service does not have are parameters of the learner."""
    known = {word: value for word, value in options.items() if word in messages.NewModel.__struct_fields__}
    wait = known.get("expire_after")
    if isinstance(wait, timedelta):
        known["expire_after"] = f"{wait.total_seconds():f}s"
    others = {word: value for word, value in options.items() if word not in known}
    known["parameters"] = {**known.get("parameters", {}), **others}
    body = encode({**known, "name": check_model_name(name), "classes": list(classes)})
    return ClientRequest("POST", "/v1/models", replies.read_model, body, unsure=AGAIN, slow=True)


def list_models() -> ClientRequest[list[messages.ModelReply]]:
    """All models."""
    return ClientRequest("GET", "/v1/models", replies.read_models)


def show_model(name: str) -> ClientRequest[messages.ModelReply]:
    """A model."""
    return ClientRequest("GET", _path(name), replies.read_model)


def decide(name: str, x: Any, id: str | None, allowed: Any, stateless: bool | None) -> ClientRequest[RemoteDecision]:
    """Decide once."""
    return _deciding(name, _wanted(x, id, allowed, stateless), replies.read_decision)


def decide_many(
    name: str, xs: Iterable[Any], ids: Iterable[str] | None, allowed: Any, stateless: bool | None
) -> ClientRequest[list[RemoteDecision]]:
    """Decide for all of several, or for none."""
    rows = list(xs)
    names = [None] * len(rows) if ids is None else list(ids)
    if len(names) != len(rows):
        raise InvalidInput(f"ids must be one for each of the {len(rows)} xs, got {len(names)}")
    among = _listed(allowed)
    wanted = [_wanted(x, given, among, stateless) for x, given in zip(rows, names, strict=True)]
    return _deciding(name, {"decisions": wanted}, replies.read_decisions)


def _wanted(x: Any, id: str | None, allowed: Any, stateless: bool | None) -> dict[str, Any]:
    return {
        "features": as_sent(x),
        "id": None if id is None else check_id(id),
        "allowed": _listed(allowed),
        "stateless": stateless,
    }


def _listed(allowed: Any) -> list[Any] | None:
    if allowed is not None and (isinstance(allowed, str | bytes) or not isinstance(allowed, Iterable)):
        raise InvalidInput(f"allowed must be a list of classes, got {shown(allowed)}")
    return None if allowed is None else list(allowed)


def _deciding(name: str, wanted: Mapping[str, Any], read: Read[T]) -> ClientRequest[T]:
    return ClientRequest("POST", _path(name, "decisions"), read, encode(wanted), key=new_id(), unsure=DECIDING)


def feedback(name: str, given: GivenAnswer) -> ClientRequest[Word]:
    """GivenAnswer once."""
    return _settling("POST", _path(name, "feedback"), encode(_checked(given)))


def feedback_many(name: str, given: Iterable[GivenAnswer]) -> ClientRequest[list[Word | DelaytronError]]:
    """GivenAnswer several times."""
    body = encode({"feedback": [_checked(one) for one in given]})
    return ClientRequest("POST", _path(name, "feedback"), replies.read_words, body, unsure=AGAIN)


def _checked(given: GivenAnswer) -> Mapping[str, Any]:
    reward = given.get("reward")
    if isinstance(reward, float) and not isfinite(reward):
        raise InvalidInput(f"reward must be a number from 0 to 1, got {reward}")
    return given


def cancel(name: str, id: str) -> ClientRequest[Word]:
    """Want no answer any more."""
    return _settling("DELETE", _path(name, "decisions", check_id(id)))


def _settling(method: str, path: str, body: bytes | None = None) -> ClientRequest[Word]:
    return ClientRequest(method, path, replies.read_word, body, unsure=AGAIN, conflict=ConflictingFeedback)


def decision(name: str, id: str) -> ClientRequest[messages.DecisionState]:
    """A decision, and what became of it."""
    return ClientRequest("GET", _path(name, "decisions", check_id(id)), replies.read_state)


def recent(name: str) -> ClientRequest[list[messages.DecisionState]]:
    """The last decisions."""
    return ClientRequest("GET", _path(name, "decisions"), replies.read_recent)


def explain(name: str, id: str) -> ClientRequest[messages.ExplanationReply]:
    """Why a class looks best."""
    return ClientRequest("GET", _path(name, "explanations", check_id(id)), replies.read_explanation)


def add_class(name: str, label: Name) -> ClientRequest[messages.ModelReply]:
    """Add a class."""
    body = encode({"name": label})
    path = _path(name, "classes")
    return ClientRequest("POST", path, replies.read_model, body, unsure=CHANGING, again=False, slow=True)


def retire_class(name: str, label: Name) -> ClientRequest[messages.ModelReply]:
    """Let a class not be chosen any more."""
    path = _path(name, "classes", str(label))
    return ClientRequest("DELETE", path, replies.read_model, unsure=CHANGING, again=False)


def stats(name: str) -> ClientRequest[messages.StatsReply]:
    """Counts and rates."""
    return ClientRequest("GET", _path(name, "stats"), replies.read_stats)


def digest(name: str) -> ClientRequest[str]:
    """The hash of the state."""
    return ClientRequest("GET", _path(name, "digest"), replies.read_digest)


def weights(name: str) -> ClientRequest[messages.WeightsReply]:
    """The weights."""
    return ClientRequest("GET", _path(name, "weights"), replies.read_weights)


def check_model_name(name: str) -> str:
    """Return the name of a model, or raise."""
    if not (isinstance(name, str) and re.fullmatch(messages.MODEL_NAME, name)):
        raise InvalidInput(f"a model is named by 1 to 64 letters, digits, _ or -; got {shown(name)}")
    return name


def _path(name: str, *parts: str) -> str:
    """Return the path of a model, or of something of it."""
    return "/".join(["/v1/models", name, *map(_segment, parts)])


def _segment(text: str) -> str:
    """Return text as one segment of a path; `.` and `..` would lead elsewhere.

    Examples
    --------
    >>> _segment("req/17 a"), _segment("..")
    ('req%2F17%20a', '%2E%2E')
    """
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted
