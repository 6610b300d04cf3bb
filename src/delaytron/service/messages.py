"""What travels over HTTP: the bodies of requests and of replies."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from delaytron.learners import DEFAULT_LEARNER
from delaytron.service.counts import Accuracy, ClassCounts, ClassName, Staleness, WaitCount

RECENT = 20  # decisions that are shown
MODEL_NAME = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"  # cannot be a path

ModelName = Annotated[str, Meta(pattern=MODEL_NAME)]
DecisionId = Annotated[str, Meta(min_length=1, max_length=200)]
Features = dict[str, Any] | list[Any]
Share = Annotated[float, Meta(ge=0, le=1)]
Result = Literal["applied", "duplicate", "late_corrected", "late_recorded", "cancelled"]
Status = Literal["open", "answered", "expired", "cancelled"]
STATUSES: tuple[Status, ...] = ("open", "answered", "expired", "cancelled")  # by their numbers in a journal


class NewModel(Struct, forbid_unknown_fields=True):
    """A model to be made, as `dt.Model` takes it. `stateless`: its decisions travel in tokens, unless one says not."""

    name: ModelName
    classes: Annotated[list[ClassName], Meta(min_length=2)]
    learner: str = DEFAULT_LEARNER
    parameters: dict[str, Any] = {}
    features: str | int | list[str] = "hashed"
    bits: Annotated[int, Meta(ge=1, le=24)] = 18
    ngrams: Annotated[int, Meta(ge=1, le=8)] = 1
    expire_after: int | str | None = None
    on_expiry: Literal["drop", "wrong"] = "drop"
    seed: int | None = None
    stateless: bool = False


class ModelReply(Struct):
    """A model: how it was made, and what it has decided."""

    name: str
    classes: list[ClassName]
    learner: str
    parameters: dict[str, Any]
    features: str | int | list[str]
    expire_after: int | str | None
    on_expiry: str
    stateless: bool
    decisions: int
    open: int


class ModelList(Struct):
    """All models."""

    models: list[ModelReply]


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """What to decide about: an object of named features, a list of numbers, or pairs of an index and a number."""

    features: Features
    id: DecisionId | None = None
    allowed: list[ClassName] | None = None
    stateless: bool | None = None


class DecisionBatch(Struct, forbid_unknown_fields=True):
    """Several decisions at once: all of them are made, or none."""

    decisions: Annotated[list[DecisionRequest], Meta(min_length=1)]


class DecisionBody(Struct, forbid_unknown_fields=True):
    """One of both; a body has either `features` or `decisions`."""

    features: Features | UnsetType = UNSET
    id: DecisionId | None = None
    allowed: list[ClassName] | None = None
    stateless: bool | None = None
    decisions: Annotated[list[DecisionRequest], Meta(min_length=1)] | UnsetType = UNSET


class DecisionReply(Struct):
    """A decision; a stateless one is answered with its token."""

    id: str
    label: ClassName
    probability: float
    round: int
    token: str | UnsetType = UNSET


class DecisionReplies(Struct):
    """Decisions, in the order in which they were asked for."""

    decisions: list[DecisionReply]


class FeedbackRequest(Struct, forbid_unknown_fields=True):
    """The answer to a decision, named by its id or its token: `correct`, `reward`, or the true `label`."""

    id: DecisionId | None = None
    token: str | None = None
    correct: bool | None = None
    reward: Share | None = None
    label: ClassName | None = None


class FeedbackBatch(Struct, forbid_unknown_fields=True):
    """Several answers at once; each has its own result."""

    feedback: Annotated[list[FeedbackRequest], Meta(min_length=1)]


class FeedbackBody(FeedbackRequest, forbid_unknown_fields=True):
    """One of both; a body that has `feedback` has nothing else."""

    feedback: Annotated[list[FeedbackRequest], Meta(min_length=1)] | UnsetType = UNSET


class FeedbackReply(Struct):
    """What became of an answer."""

    result: Result


class ProblemReply(Struct, rename={"kind": "type"}):
    """Why a request was refused (RFC 9457); `result` is the last word of its type."""

    kind: str
    title: str
    status: int
    detail: str
    result: str


class FeedbackOutcome(Struct):
    """What became of one answer of several: the status that it would have had alone, and its result or the problem."""

    id: str | None
    status: int
    result: Result | UnsetType = UNSET
    problem: ProblemReply | UnsetType = UNSET


class FeedbackReplies(Struct):
    """What became of several answers, in their order."""

    results: list[FeedbackOutcome]


class DecisionState(Struct):
    """A decision, and what became of it; times are ISO 8601. Of a purged one little is left."""

    id: str
    status: Status
    label: ClassName
    value: float | None
    purged: bool
    probability: float | None = None
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

    name: ClassName


class StatsReply(Struct):
    """Counts since the beginning; rates are of the last minute."""

    decisions: int
    open: int
    answered: int
    expired: int
    cancelled: int
    late: int
    issued: int
    redeemed: int
    oldest_seconds: float | None
    accuracy: Accuracy
    decisions_per_second: float
    exploration: float | None
    waits: list[WaitCount]
    classes: list[ClassCounts]
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
    """Whether the service is there."""

    status: Literal["ok", "starting", "stopping", "unavailable"]


class RecentDecisions(Struct):
    """The last decisions, the newest first."""

    decisions: list[DecisionState]
