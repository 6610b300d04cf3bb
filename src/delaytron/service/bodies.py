"""Bodies of requests: read into messages, and what is wrong with one told in the words of its reader."""

import re
from typing import Any, Generic, TypeVar

import msgspec

from delaytron.checks import LONGEST_SHOWN, did_you_mean
from delaytron.errors import InvalidInput

T = TypeVar("T")

CLASS = "a string or an integer"
CLASSES = "a list of strings or integers"
FLAG = "true or false"
ID = "a string of 1 to 200 bytes"
DECISION = {
    "features": "an object, or a list of numbers or of pairs of an index and a number",
    "id": ID,
    "allowed": CLASSES,
    "stateless": FLAG,
    "decisions": "a list of at least one object",
}
ANSWER = {
    "id": ID,
    "token": "a string",
    "correct": FLAG,
    "reward": "a number from 0 to 1",
    "label": CLASS,
    "feedback": "a list of at least one object",
}
NEW_MODEL = {
    "name": "1 to 64 letters, digits, _ or -, the first a letter or a digit",
    "classes": f"{CLASSES}, two at least",
    "learner": "the name of a learner",
    "parameters": "an object",
    "features": '"hashed", a number of features, or a list of their names',
    "bits": "an integer from 1 to 24",
    "ngrams": "an integer from 1 to 8",
    "expire_after": "a number of decisions, or a time such as '6h'",
    "on_expiry": '"drop" or "wrong"',
    "seed": "an integer",
    "stateless": FLAG,
}
PLACE = re.compile(r" - at `\$\.?([\w.\[\]]*)`$")
STEP = re.compile(r"[^.\[\]]+")
FIELD = re.compile(r"(unknown|required) field `(.*?)`?\Z", re.DOTALL)
CUT_OFF = "Input data was truncated"


class BodyReader(Generic[T]):
    r"""Reads the bodies of one route; `fields` says what each field must be, `example` is a body that will do.

    Examples
    --------
    >>> from delaytron.service.messages import NewClass
    >>> reader = BodyReader(NewClass, {"name": CLASS}, '{"name": "huge"}')
    >>> reader.read(b'{"name": 1.5}')
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: name must be a string or an integer, got 1.5
    """

    def __init__(self, kind: type[T], fields: dict[str, str], example: str) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._fields = fields
        self._example = example

    def read(self, body: bytes) -> T:
        """Return the message in a body, or raise."""
        try:
            return self._decoder.decode(body)
        except RecursionError:
            raise InvalidInput("the body is nested too deeply; send flat features") from None
        except msgspec.ValidationError as problem:
            raise InvalidInput(self._invalid(body, str(problem))) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise msgspec.DecodeError(self._malformed(body, problem)) from None

    def _malformed(self, body: bytes, problem: Exception) -> str:
        send = f"send an object such as {self._example}"
        if not body.strip():
            return f"the body is empty; {send}"
        if isinstance(problem, UnicodeDecodeError):
            return f"the body must be JSON in UTF-8, got other bytes; {send}"
        why = str(problem).removeprefix("JSON is malformed: ")
        why = "it is cut off, or has half of a \\u escape" if why == CUT_OFF else why
        return f"the body must be JSON: {why}; {send}"

    def _invalid(self, body: bytes, said: str) -> str:
        """Return what is wrong with a field."""
        place = PLACE.search(said)
        path = place[1] if place else ""
        if found := FIELD.search(said[: place.start()] if place else said):
            return self._wrong_field(path, *found.groups())
        if not path:
            return f"the body must be an object{_got(body, path)}; send one such as {self._example}"
        if "out of range" in said:
            return f"a number in {path.replace('[...]', '')} must fit into a 64-bit float, got a larger one; scale it"
        field = re.sub(r"(\[\d+\])+$", "", path)  # of a list, where one of its entries is wrong
        return f"{field} must be {self._fields[STEP.findall(field)[-1]]}{_got(body, path)}"

    def _wrong_field(self, path: str, problem: str, field: str) -> str:
        within = f"{path}: " if path else ""
        if problem == "required":
            return f"{within}the field {field} is missing; it must be {self._fields[field]}"
        known = [name for name in self._fields if name not in path]  # a batch has no batches in it
        hint = did_you_mean(field, known) or f"; known are {', '.join(known)}"
        return f"{within}there is no field {_shown(field)}{hint}"


def _got(body: bytes, path: str) -> str:
    """Return what stands at a path such as `decisions[1].id`, as part of a message; nothing if it cannot be read."""
    try:
        found = msgspec.json.decode(body)
        for step in STEP.findall(path):
            found = found[int(step)] if isinstance(found, list) else found[step]
        return f", got {_shown(found)}" + (f" at {path}" if path.endswith("]") else "")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # after what is wrong there is something worse
        return ""


def _shown(value: Any) -> str:
    """Return a value as JSON, and not all of it if it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
