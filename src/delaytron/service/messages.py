"""Bodies of requests and replies, and how the body of a request is read and checked."""

import json
from typing import Annotated, Any, Generic, Literal, NoReturn, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from delaytron.checks import did_you_mean
from delaytron.errors import LONGEST_SHOWN, DelaytronError, InvalidInput
from delaytron.journal.ids import LONGEST_ID
from delaytron.learners import DEFAULT_LEARNER
from delaytron.model.encoders import MOST_BITS
from delaytron.model.words import MOST_WORDS
from delaytron.service.problems import Malformed, ProblemReply

LONGEST_INTEGER = 4_300  # digits that Python and msgspec convert
RECENT = 20  # decisions that are shown
MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}(?!\n)$"  # cannot be a path; in Python `$` also matches before a final \n
IDEMPOTENCY_KEY = "^[!-~]([ -~]*[!-~])?$"  # printable ASCII
LONGEST_KEY = 200  # characters of an Idempotency-Key

T = TypeVar("T")
ClassName = str | int
Result = Literal["accepted", "duplicate", "corrected", "late", "cancelled"]
Status = Literal["open", "answered", "expired", "cancelled"]  # the names of `answers.Status`

# Fields of requests: the description says what a value must be, in errors as in the OpenAPI document.
Id = Annotated[
    Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)] | None,
    Meta(description=f"a string of 1 to {LONGEST_ID} bytes"),
]
Allowed = Annotated[list[ClassName] | None, Meta(description="a list of strings or integers")]
FEATURES = "an object, or a list of numbers or of pairs of an index and a number"
Features = Annotated[dict[str, Any] | list[Any], Meta(description=FEATURES)]
Wait = Annotated[int | str | None, Meta(description="a number of decisions, or a time such as '6h'")]


class ClassCounts(Struct):
    """Counts of the decisions for one class, and their mean reward."""

    name: ClassName
    retired: bool
    played: int
    answered: int
    mean_reward: float | None


class WaitCount(Struct):
    """The number of answers that took at most `seconds`, and more than half of that."""

    seconds: float
    answers: int


class Accuracy(Struct):
    """The mean reward so far, and what it would be if all open decisions were wrong (`low`) or right (`high`).

    Counted are answers that the model learned from, and a 0 for each decision that expired as wrong; `high` takes those
    of them that can still be corrected as right.
    """

    mean: float | None
    low: float | None
    high: float | None


class DriftCounts(Struct):
    """Challengers: whether one learns beside the model, how many were born, won and were dropped, the last change."""

    challenger: bool
    born: int
    won: int
    dropped: int
    changed_at: str | None


class Staleness(Struct):
    """How far a front end lags behind the learner, in seconds and in decisions, and what that adds to the bound."""

    seconds: float
    decisions: int
    bound: str


class NewModel(Struct, forbid_unknown_fields=True):
    """A model to be made, with the parameters of `dt.Model`."""

    name: Annotated[
        str,
        Meta(pattern=MODEL_NAME, description="1 to 64 letters, digits, _ or -, the first a letter or a digit"),
    ]
    classes: Annotated[list[ClassName], Meta(min_length=2, description="a list of strings or integers, two at least")]
    learner: Annotated[str, Meta(description="the name of a learner")] = DEFAULT_LEARNER
    parameters: Annotated[dict[str, Any], Meta(description="an object")] = {}
    features: Annotated[
        str | int | list[str], Meta(description='"hashed", a number of features, or a list of their names')
    ] = "hashed"
    bits: Annotated[int, Meta(ge=1, le=MOST_BITS, description=f"an integer from 1 to {MOST_BITS}")] = 18
    ngrams: Annotated[int, Meta(ge=1, le=MOST_WORDS, description=f"an integer from 1 to {MOST_WORDS}")] = 1
    expire_after: Wait = None
    on_expiry: Annotated[Literal["drop", "wrong"], Meta(description='"drop" or "wrong"')] = "drop"
    correct_within: Wait = None
    seed: Annotated[int | None, Meta(description="an integer")] = None


class ModelReply(Struct):
    """A model: how it was made, and what it has decided."""

    name: str
    classes: list[ClassName]
    learner: str
    parameters: dict[str, Any]
    features: str | int | list[str]
    expire_after: int | str | None
    on_expiry: str
    correct_within: int | str | None
    decisions: int
    open: int


class ModelList(Struct):
    """All models."""

    models: list[ModelReply]


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """What to decide about: an object of named features, a list of numbers, or pairs of an index and a number."""

    features: Features
    id: Id = None
    allowed: Allowed = None


Decisions = Annotated[list[DecisionRequest], Meta(min_length=1)]


class DecisionBatch(Struct, forbid_unknown_fields=True):
    """Several decisions at once: all of them are made, or none."""

    decisions: Decisions


class DecisionBody(Struct, forbid_unknown_fields=True):
    """A decision or a batch: a body has either `features` or `decisions`."""

    features: Annotated[Features | UnsetType, Meta(description=FEATURES)] = UNSET
    id: Id = None
    allowed: Allowed = None
    decisions: Annotated[Decisions | UnsetType, Meta(description="a list of at least one object")] = UNSET


class DecisionReply(Struct):
    """A decision."""

    id: str
    label: ClassName
    prob: float
    round: int


class DecisionReplies(Struct):
    """Decisions, in the order in which they were asked for."""

    decisions: list[DecisionReply]


class FeedbackRequest(Struct, forbid_unknown_fields=True):
    """The answer to a decision, named by its id: `correct`, `reward`, or the true `label`."""

    id: Id = None
    correct: Annotated[bool | None, Meta(description="true or false")] = None
    reward: Annotated[Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="a number from 0 to 1")] = None
    label: Annotated[ClassName | None, Meta(description="a string or an integer")] = None


Answers = Annotated[list[FeedbackRequest], Meta(min_length=1)]


class FeedbackBatch(Struct, forbid_unknown_fields=True):
    """Several answers at once; each has its own result."""

    feedback: Answers


class FeedbackBody(FeedbackRequest, forbid_unknown_fields=True):
    """An answer or a batch: a body that has `feedback` has nothing else."""

    feedback: Annotated[Answers | UnsetType, Meta(description="a list of at least one object")] = UNSET


class FeedbackReply(Struct):
    """The result of an answer or of a cancellation."""

    result: Result


class FeedbackOutcome(Struct):
    """The outcome of one answer of several: the status that it would have had alone, and its result or the problem."""

    id: str | None
    status: int
    result: Result | UnsetType = UNSET
    problem: ProblemReply | UnsetType = UNSET


class FeedbackReplies(Struct):
    """The outcomes of several answers, in their order."""

    results: list[FeedbackOutcome]


class DecisionState(Struct):
    """A decision and its status; times are ISO 8601. Of a purged one only `id`, `status`, `label`, `value` are left."""

    id: str
    status: Status
    label: ClassName
    value: float | None
    purged: bool
    prob: float | None = None
    greedy: ClassName | None = None
    round: int | None = None
    decided_at: str | None = None
    allowed: list[ClassName] | None = None


class ExplanationReply(Struct):
    """Why a class looks best now for the features of a decision: scores, and what each feature adds to them."""

    label: ClassName
    scores: dict[ClassName, float]
    constant: dict[ClassName, float]
    features: dict[str, dict[ClassName, float]]


class NewClass(Struct, forbid_unknown_fields=True):
    """A class to be added."""

    name: Annotated[ClassName, Meta(description="a string or an integer")]


class StatsReply(Struct):
    """Counts since the beginning; rates are of the last minute. `drift` is null if the learner has no challengers."""

    decisions: int
    open: int
    answered: int
    expired: int
    cancelled: int
    corrected: int
    late: int
    oldest_seconds: float | None
    accuracy: Accuracy
    decisions_per_second: float
    exploration: float | None
    waits: list[WaitCount]
    classes: list[ClassCounts]
    mean_reward: float | None = None
    drift: DriftCounts | None = None
    staleness: Staleness | None = None


class WeightsReply(Struct):
    """The weights: a row for each class. Of hashed features only those that are not 0, by the names that are known."""

    classes: list[ClassName]
    features: list[str]
    weights: list[list[float]]


class DigestReply(Struct):
    """A SHA-256 of all that a model has learned and waits for: that of `delaytron verify` of its journal."""

    digest: str


class Health(Struct):
    """The reply of /healthz and /readyz; a service that is not ready replies with a problem."""

    status: Literal["ok"]


class RecentDecisions(Struct):
    """The last decisions, the newest first."""

    decisions: list[DecisionState]


class BodyReader(Generic[T]):
    """Reads the bodies of one route; `example` is a valid body, for error messages.

    Examples
    --------
    >>> reader = BodyReader(NewClass, '{"name": "huge"}')
    >>> reader.read(b'{"name": "tiny"}').name
    'tiny'
    >>> reader.read(b'{"name": 1.5}')
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: name must be a string or an integer, got 1.5
    """

    def __init__(self, kind: type[T], example: str) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self._send = f"send an object such as {example}"

    def read(self, body: bytes) -> T:
        """Return the message in a body; raise Malformed if it is not JSON, and InvalidInput if it is another message.

        Where msgspec refuses a body, it is decoded once more without types and compared with them field by field: the
        error has the path and the value of the first wrong field as data, which msgspec has only in its message.
        """
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            try:
                raise self._explain(body) from None
            except RecursionError:
                raise InvalidInput("the body is nested too deeply", "send flat features") from None

    def _explain(self, body: bytes) -> DelaytronError:
        if not body.strip():
            return Malformed("the body is empty", self._send)
        try:
            found = json.loads(
                body.decode(),
                parse_int=lambda digits: int(digits) if len(digits) < LONGEST_INTEGER else float("inf"),
                parse_constant=self._refuse_constant,
            )
            msgspec.json.encode(found)
        except json.JSONDecodeError as problem:
            return Malformed(f"the body must be JSON: {problem.msg} (character {problem.pos})", self._send)
        except UnicodeDecodeError:
            return Malformed("the body must be JSON in UTF-8, got other bytes", self._send)
        except UnicodeEncodeError:
            return Malformed("the body must be JSON in Unicode, got half of a \\u escape", self._send)
        if not isinstance(found, dict):
            return InvalidInput(f"the body must be an object, got {_shown(found)}", self._send, allowed="an object")
        # A key that is given twice hides its first value here, but not from msgspec: then nothing is found.
        unknown = InvalidInput("the body must have every field once, and of the right type", self._send)
        return _too_large_number(found) or _wrong_field(self._kind, found, "") or unknown

    def _refuse_constant(self, name: str) -> NoReturn:
        raise Malformed(f"the body must be JSON, which has no {name}", self._send)


def _too_large_number(body: Any) -> InvalidInput | None:
    """Return the error for the first number beyond the floats; JSON has no infinity, so that is how one is read."""
    waiting = [("", body)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return InvalidInput(
                f"a number in {path} must fit into a 64-bit float, got a larger one", "scale it", parameter=path
            )
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}" if path else name, inner) for name, inner in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [(f"{path}[{place}]", value[place]) for place in reversed(range(len(value)))]
    return None


def _wrong_field(kind: Any, found: dict[str, Any], path: str) -> InvalidInput | None:
    """Return the error for the first field of an object that its message type refuses; None if there is none."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    within, stem = (f"{path}: ", f"{path}.") if path else ("", "")
    for name, value in found.items():
        if name not in fields:
            hint = did_you_mean(name, fields) or f"known are {', '.join(fields)}"
            return InvalidInput(f"{within}there is no field {_shown(name)}", hint, parameter=f"{stem}{name}")
        error = _wrong_value(fields[name].type, value, f"{stem}{name}")
        if error is not None:
            return error
    for name, field in fields.items():
        if field.required and name not in found:
            allowed = _description(field.type)
            return InvalidInput(
                f"{within}the field {name} is missing",
                f"it must be {allowed}",
                parameter=f"{stem}{name}",
                allowed=allowed,
            )
    return None


def _wrong_value(kind: Any, value: Any, path: str) -> InvalidInput | None:
    """Return the error for the value of a field, or for the first wrong entry of a list; None if it is right."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        pass
    else:
        return None
    entry = _entry_type(kind)
    if entry is not None and isinstance(value, list):
        for place, inner in enumerate(value):
            at = f"{path}[{place}]"
            if isinstance(inner, dict) and isinstance(entry, type) and issubclass(entry, Struct):
                error = _wrong_field(entry, inner, at)
                if error is not None:
                    return error
            else:
                try:
                    msgspec.convert(inner, entry)
                except msgspec.ValidationError:
                    return InvalidInput.of(path, _description(kind), inner, got=f"{_shown(inner)} at {at}")
    return InvalidInput.of(path, _description(kind), value, got=_shown(value))


def _description(kind: Any) -> str:
    """Return what a value of a field must be."""
    return next(str(meta.description) for meta in kind.__metadata__ if meta.description)


def _entry_type(kind: Any) -> Any:
    """Return the type of the entries, if a field takes a list; else None.

    Examples
    --------
    >>> _entry_type(Annotated[list[int] | None, Meta(description="numbers")]), _entry_type(str)
    (<class 'int'>, None)
    """
    if get_origin(kind) is list:
        return get_args(kind)[0]
    parts = get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind)
    return next((found for found in map(_entry_type, parts) if found is not None), None)


def _shown(value: Any) -> str:
    """Return a value as JSON, cut where it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
