"""The interface of backends (a folder of journals, PostgreSQL), and what they share: checks of requests, replies."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import msgspec
import numpy as np

from delaytron.checks import check_choice
from delaytron.errors import InvalidInput, shown
from delaytron.journal.store import StoredReply
from delaytron.learners import LEARNERS
from delaytron.learners.arguments import COMMON, own_parameters
from delaytron.model.drift import Drift
from delaytron.model.encoders import FeatureEncoder, VectorEncoder
from delaytron.model.engine import Found
from delaytron.model.inspection import counted
from delaytron.model.recipe import NS, Recipe, as_given, check_same, read_recipe
from delaytron.model.state import State
from delaytron.records import Moment, Row
from delaytron.service import messages
from delaytron.service.messages import (
    Accuracy,
    ClassCounts,
    DecisionReply,
    DecisionRequest,
    DecisionState,
    DriftCounts,
    ModelReply,
    NewModel,
    StatsReply,
    WaitCount,
    WeightsReply,
)
from delaytron.service.problems import Conflict, Unavailable

SECONDS = 60  # that rates are measured over
MOST_WEIGHTS = 1_000_000  # numbers in a reply

T = TypeVar("T")
encode_replies = msgspec.msgpack.Encoder().encode
_decode_replies = msgspec.msgpack.Decoder(list[DecisionReply]).decode


class Rates:
    """Counts of the decisions of the last minute, and of those that explored.

    Examples
    --------
    >>> rates = Rates(clock=lambda: 100.5)
    >>> rates.count(decisions=3, explored=1)
    >>> rates.of_last_minute()
    (0.05, 0.3333333333333333)
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._counts: dict[int, tuple[int, int]] = {}  # second -> decisions, explored

    def count(self, decisions: int, explored: int) -> None:
        """Count decisions that were made now."""
        second = int(self._clock())
        before = self._counts.get(second, (0, 0))
        self._counts[second] = (before[0] + decisions, before[1] + explored)
        for old in [known for known in self._counts if known < second - SECONDS]:
            del self._counts[old]

    def of_last_minute(self) -> tuple[float, float | None]:
        """Return the decisions per second, and the share that explored; None for that if there were no decisions."""
        second = int(self._clock())
        recent = [counts for known, counts in self._counts.items() if second - SECONDS <= known]
        decisions = sum(counts[0] for counts in recent)
        explored = sum(counts[1] for counts in recent)
        return decisions / SECONDS, explored / decisions if decisions else None


class Repeatable(NamedTuple):
    """The `Idempotency-Key` of a request, and a hash of its body: a retry has the same of both."""

    key: str
    fingerprint: bytes


class Backend(Protocol):
    """Models by their names; methods raise the errors of `delaytron.errors` and `delaytron.service.problems`."""

    async def start(self) -> None:
        """Open the stored models; until then the service is not ready."""

    async def stop(self) -> None:
        """Finish what has begun, and close everything."""

    def unready(self) -> Unavailable | None:
        """Return the error that requests get now; None if the backend is ready."""

    async def create(self, wanted: messages.NewModel) -> tuple[messages.ModelReply, bool]:
        """Create a model, or find the same one; return it, and whether it is new.

        Raises Conflict if the name is that of a model with other parameters.
        """

    async def models(self) -> list[messages.ModelReply]:
        """Return all models, by their names."""

    async def model(self, name: str) -> messages.ModelReply:
        """Return one model; raise UnknownModel, as all methods do that take a name."""

    async def decide(
        self, name: str, wanted: list[messages.DecisionRequest], repeatable: Repeatable | None
    ) -> list[messages.DecisionReply]:
        """Make all decisions of a request, or none; return them when they are on disk. A retry gets the stored ones."""

    async def feedback(self, name: str, given: list[messages.FeedbackRequest]) -> list[messages.Result | Exception]:
        """Store answers; return the result or the error of each when they are on disk."""

    async def cancel(self, name: str, id: str) -> messages.Result:
        """Cancel an open decision; later feedback for it is ignored."""

    async def decision(self, name: str, id: str) -> messages.DecisionState:
        """Return a decision and its status."""

    async def recent(self, name: str, count: int) -> list[messages.DecisionState]:
        """Return the last decisions, the newest first."""

    async def explain(self, name: str, id: str) -> messages.ExplanationReply:
        """Return why a class looks best for the features of a decision."""

    async def add_class(self, name: str, wanted: messages.NewClass) -> messages.ModelReply:
        """Add a class."""

    async def retire_class(self, name: str, label: Any) -> messages.ModelReply:
        """Retire a class: it is not chosen any more."""

    async def stats(self, name: str) -> messages.StatsReply:
        """Return counts and rates."""

    async def digest(self, name: str) -> messages.DigestReply:
        """Return the hash of the state of a model."""

    async def weights(self, name: str) -> messages.WeightsReply:
        """Return the weights."""


def recipe_of(wanted: NewModel) -> Recipe:
    """Return the recipe of a new model; raise InvalidInput if one of its parameters is wrong."""
    learner: Any = LEARNERS.get(wanted.learner)
    if learner is not None:
        known = [*own_parameters(learner), *(word for word in COMMON if word != "seed")]  # the seed is its own field
        for name in wanted.parameters:
            check_choice(f"a parameter of {wanted.learner}", name, known)
    shape = {"features": wanted.features, "bits": wanted.bits, "ngrams": wanted.ngrams}
    waiting = {
        "expire_after": wanted.expire_after,
        "on_expiry": wanted.on_expiry,
        "correct_within": wanted.correct_within,
    }
    try:
        return read_recipe(wanted.classes, wanted.learner, shape, waiting, wanted.seed, wanted.parameters)
    except TypeError as problem:  # a parameter that is given twice, or of an unexpected type
        raise InvalidInput(
            f"parameters do not fit {wanted.learner}: {problem}", "leave it out, or correct it", parameter="parameters"
        ) from None


def check_same_model(stored: Recipe, wanted: NewModel, recipe: Recipe) -> None:
    """Raise Conflict if the stored model of this name has other parameters."""
    try:
        check_same(stored, recipe, f"model {wanted.name!r}")
    except InvalidInput as problem:
        raise Conflict(problem.problem, "take another name") from None


def check_each(wanted: list[DecisionRequest], check: Callable[[DecisionRequest], T]) -> list[T]:
    """Return the results of `check` for the decisions of a request; an InvalidInput names the place in the batch."""
    checked = []
    for place, one in enumerate(wanted):
        try:
            checked.append(check(one))
        except InvalidInput as problem:
            raise problem if len(wanted) == 1 else problem.at(f"decisions[{place}]") from None
    return checked


def class_named(names: list[Any], label: str) -> Any:
    """Return the class that a path names: a string, or an integer if only that can be meant.

    Examples
    --------
    >>> class_named(["small", 2], "2"), class_named(["small", "2"], "2")
    (2, '2')
    """
    return int(label) if label not in names and re.fullmatch(r"-?\d{1,20}", label) else label


def repeated(before: StoredReply, repeatable: Repeatable) -> list[DecisionReply]:
    """Return the stored reply to an idempotency key; raise Conflict if it was stored for another body."""
    if before.fingerprint != repeatable.fingerprint:
        raise Conflict("this Idempotency-Key came with another body before", "use a new key for a new request")
    return _decode_replies(before.reply)


def as_features(encoder: FeatureEncoder, features: Any) -> Any:
    """Return features as the model takes them; pairs of an index and a number become a vector."""
    is_sparse = isinstance(features, list) and bool(features) and all(isinstance(item, list) for item in features)
    if not (is_sparse and isinstance(encoder, VectorEncoder)):
        return features
    size = encoder.n_features
    vector = np.zeros(size)
    seen = set()
    for pair in features:
        index, number = pair if len(pair) == 2 else (None, None)
        if type(index) is not int or not 0 <= index < size or index in seen or type(number) not in (int, float):
            allowed = f"pairs of an index from 0 to {size - 1}, each once, and a number"
            raise InvalidInput(
                f"sparse features must be {allowed}; got {shown(pair)}",
                "send each index once, as in [[0, 1.5]]",
                parameter="features",
                allowed=allowed,
            )
        seen.add(index)
        try:
            vector[index] = number
        except OverflowError:
            raise InvalidInput(
                f"the number at index {index} must fit into a 64-bit float", "scale it", parameter="features"
            ) from None
    return vector


def model_reply(name: str, recipe: Recipe, state: State) -> ModelReply:
    """Return a model as clients see it."""
    asked = recipe.asked
    return ModelReply(
        name,
        state.classes.active,
        asked["learner"],
        asked["parameters"],
        asked["features"],
        as_given(asked["expire_after"]),
        asked["on_expiry"],
        as_given(asked["correct_within"]),
        state.rounds,
        state.pending,
    )


def decision_state(id: str, names: list[Any], found: Found) -> DecisionState:
    """Return a decision and its status."""
    known = found.known
    status = cast(messages.Status, known.status.name.lower())
    state = DecisionState(id=id, status=status, label=names[known.label or 0], value=known.value, purged=known.purged)
    if found.now is not None and found.greedy is not None:
        state.prob = found.prob
        state.greedy = names[found.greedy]
        state.round = found.round
        state.decided_at = datetime.fromtimestamp(found.now.wall / NS, UTC).isoformat()
        state.allowed = None if found.allowed is None else [names[k] for k in found.allowed]
    return state


def stats_reply(state: State, now: Moment, rates: Rates) -> StatsReply:
    """Return the counts of a model, and the rates of the last minute."""
    counts = counted(state, now)
    per_second, exploration = rates.of_last_minute()
    return StatsReply(
        decisions=counts.decisions,
        open=counts.open,
        answered=counts.answered,
        expired=counts.expired,
        cancelled=counts.cancelled,
        corrected=counts.corrected,
        late=counts.late,
        oldest_seconds=counts.oldest,
        accuracy=Accuracy(*counts.accuracy),
        decisions_per_second=per_second,
        exploration=exploration,
        waits=[WaitCount(*wait) for wait in counts.waits.items()],
        classes=[
            ClassCounts(name, label in state.classes.retired, *of_class)
            for label, (name, of_class) in enumerate(counts.classes.items())
        ],
        mean_reward=counts.mean_reward,
        drift=None if counts.drift is None else drift_counts(counts.drift),
    )


def drift_counts(drift: Drift) -> DriftCounts:
    """Return the counts of challengers as clients see them."""
    at = drift.changed_at
    return DriftCounts(drift.challenger, drift.born, drift.won, drift.dropped, None if at is None else at.isoformat())


def weights_reply(state: State) -> WeightsReply:
    """Return the weights; of hashed features those that are not 0, the first ones if a reply cannot hold all."""
    encoder, weights = state.encoder, state.learner.weights
    places = np.flatnonzero(weights.any(axis=0)) if encoder.sparse else np.arange(weights.shape[1])
    places = places[: MOST_WEIGHTS // weights.shape[0]]
    known = places[places < encoder.n_features]
    row = Row(known.astype(np.uint32), np.ones(known.size)) if encoder.sparse else Row(None, np.ones(known.size))
    # The default learner has a constant after the features.
    names = [*encoder.names_of(row), *(["(constant)"] * (places.size - known.size))]
    return WeightsReply(state.classes.names, names, weights[:, places].tolist())
