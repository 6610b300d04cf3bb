"""What a client asks for, as data: method, path, body, and how the reply is read. Nothing is sent here."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np

from delaytron.checks import check_bool, check_number, shown
from delaytron.errors import ConflictingFeedback, DelaytronError, InvalidInput
from delaytron.journal.ids import check_id, new_id
from delaytron.model.classes import Name, check_names
from delaytron.model.classes import check_name as check_class
from delaytron.service import messages
from delaytron.service.client import replies
from delaytron.service.client.answers import GivenAnswer, checked_answer
from delaytron.service.client.features import as_sent
from delaytron.service.client.replies import Read, RemoteDecision, Word
from delaytron.service.problems import Conflict

T = TypeVar("T")

DECIDING = "it may have been decided: look for the id, if you gave one"
AGAIN = "it may have been done; do it again, which does no harm"
CHANGING = "it may have been done: look at describe() of the model"


class ClientRequest(NamedTuple, Generic[T]):
    """A request. `unsure` is what its sender should know when nobody knows whether it was taken."""

    method: str
    path: str
    read: Read[T]
    body: bytes | None = None
    key: str | None = None  # the Idempotency-Key
    unsure: str = "try again, or check the url"
    again: bool = True  # it can be sent again, even if it has been taken already
    slow: bool = False  # a learner may be compiled for it
    conflict: type[DelaytronError] = Conflict


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
    except RecursionError:
        raise InvalidInput("parameters must not be nested so deeply; send plain values") from None


def create_model(name: str, classes: Iterable[Name], options: Mapping[str, Any]) -> ClientRequest[messages.ModelReply]:
    """Make a model; options that the service does not have are parameters of the learner."""
    known = {word: value for word, value in options.items() if word in messages.NewModel.__struct_fields__}
    wait = known.get("expire_after")
    if isinstance(wait, timedelta):
        known["expire_after"] = f"{wait.total_seconds():f}s"
    parameters = known.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise InvalidInput(f"parameters must be a dict, as in {{'gamma': 0.1}}; got {shown(parameters)}")
    known["parameters"] = {**parameters, **{word: value for word, value in options.items() if word not in known}}
    for word, value in {**known, **known["parameters"]}.items():
        if isinstance(value, float | np.floating):
            check_number(word, value)  # JSON has no NaN
    body = encode({**known, "name": check_model_name(name), "classes": check_names(classes)})
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
    rows = _listed("xs", xs)
    names = [None] * len(rows) if ids is None else _listed("ids", ids)
    if len(names) != len(rows):
        raise InvalidInput(f"ids must be one for each of the {len(rows)} xs, got {len(names)}")
    among = _among(allowed)
    wanted = []
    for place, (x, given) in enumerate(zip(rows, names, strict=True)):
        try:
            wanted.append(_wanted(x, given, among, stateless))
        except InvalidInput as problem:
            raise InvalidInput(f"xs[{place}]: {problem}") from None
    return _deciding(name, {"decisions": wanted}, replies.read_decisions)


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"{name} must be a list, one for each decision; got {shown(given)}")
    return list(given)


def _wanted(x: Any, id: str | None, allowed: Any, stateless: bool | None) -> dict[str, Any]:
    return {
        "features": as_sent(x),
        "id": None if id is None else check_id(id),
        "allowed": _among(allowed),
        "stateless": None if stateless is None else check_bool("stateless", stateless),
    }


def _among(allowed: Any) -> list[Name] | None:
    if allowed is not None and (isinstance(allowed, str | bytes) or not isinstance(allowed, Iterable)):
        raise InvalidInput(f"allowed must be a list of classes, got {shown(allowed)}")
    return None if allowed is None else [check_class(name) for name in allowed]


def _deciding(name: str, wanted: Mapping[str, Any], read: Read[T]) -> ClientRequest[T]:
    return ClientRequest("POST", _path(name, "decisions"), read, encode(wanted), key=new_id(), unsure=DECIDING)


def feedback(name: str, given: GivenAnswer) -> ClientRequest[Word]:
    """GivenAnswer once."""
    return _settling("POST", _path(name, "feedback"), encode(checked_answer(given)))


def feedback_many(name: str, given: Iterable[GivenAnswer]) -> ClientRequest[list[Word | DelaytronError]]:
    """GivenAnswer several times."""
    body = encode({"feedback": [checked_answer(one) for one in _listed("answers", given)]})
    return ClientRequest("POST", _path(name, "feedback"), replies.read_words, body, unsure=AGAIN)


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
    body = encode({"name": check_class(label)})
    path = _path(name, "classes")
    return ClientRequest("POST", path, replies.read_model, body, unsure=CHANGING, again=False, slow=True)


def retire_class(name: str, label: Name) -> ClientRequest[messages.ModelReply]:
    """Let a class not be chosen any more."""
    path = _path(name, "classes", str(check_class(label)))
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
