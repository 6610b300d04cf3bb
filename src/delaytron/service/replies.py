"""What a model knows, as replies."""

from datetime import UTC, datetime
from typing import Any

import numpy as np

from delaytron.journal.clock import Moment
from delaytron.journal.records import Status
from delaytron.model import facts
from delaytron.model.core import Core
from delaytron.model.explaining import Explanation
from delaytron.model.making import Recipe
from delaytron.model.stats import Stats, counted
from delaytron.model.waiting import NS, as_given
from delaytron.records import Row
from delaytron.service.counts import Accuracy, ClassCounts, Staleness, WaitCount
from delaytron.service.messages import (
    STATUSES,
    DecisionState,
    ExplanationReply,
    ModelReply,
    StatsReply,
    WeightsReply,
)
from delaytron.service.rates import Rates

MOST_WEIGHTS = 1_000_000  # numbers of a reply


def model_reply(name: str, recipe: Recipe, core: Core, stateless: bool) -> ModelReply:
    """Return a model as others see it."""
    asked = recipe.asked
    return ModelReply(
        name,
        core.classes.active,
        asked["learner"],
        asked["parameters"],
        asked["features"],
        as_given(asked["expire_after"]),
        asked["on_expiry"],
        stateless,
        core.rounds,
        len(core.open),
    )


def decision_state(
    id: str, names: list[Any], known: Status, told: facts.Decided | None, now: Moment | None
) -> DecisionState:
    """Return a decision, and what became of it."""
    state = DecisionState(
        id=id,
        status=STATUSES[known.status],
        label=names[known.label or 0],
        value=known.value,
        purged=known.purged,
    )
    if told is not None and now is not None:
        allowed = None if told.allowed is None else [names[k] for k in np.frombuffer(told.allowed, "<u4")]
        state.probability = told.prob
        state.greedy = names[told.greedy]
        state.round = told.round
        state.decided_at = datetime.fromtimestamp(now.wall / NS, UTC).isoformat()
        state.allowed = allowed
    return state


def stats_reply(core: Core, now: Moment, rates: Rates, staleness: Staleness | None = None) -> StatsReply:
    """Return what a model counts, and the rates of the last minute."""
    counts = counted(core, now)
    per_second, exploration = rates.of_last_minute()
    return StatsReply(
        decisions=counts.decisions,
        open=counts.open,
        answered=counts.answered,
        expired=counts.expired,
        cancelled=counts.cancelled,
        late=counts.late,
        issued=core.tally.issued,
        redeemed=core.tally.redeemed,
        oldest_seconds=counts.oldest,
        accuracy=_accuracy(sum(core.tally.reward), counts.answered, counts.open),
        decisions_per_second=per_second,
        exploration=exploration,
        waits=[WaitCount(*wait) for wait in counts.waits.items()],
        classes=_classes(core, counts),
        staleness=staleness,
    )


def _accuracy(reward: float, answered: int, waiting: int) -> Accuracy:
    if not answered + waiting:
        return Accuracy(None, None, None)
    every = answered + waiting
    return Accuracy(reward / answered if answered else None, reward / every, (reward + waiting) / every)


def _classes(core: Core, counts: Stats) -> list[ClassCounts]:
    retired = core.classes.retired
    return [
        ClassCounts(name, label in retired, *of_class) for label, (name, of_class) in enumerate(counts.classes.items())
    ]


def explanation_reply(explained: Explanation) -> ExplanationReply:
    """Return why a class looks best."""
    return ExplanationReply(**explained._asdict())


def weights_reply(core: Core) -> WeightsReply:
    """Return the weights of all features; of hashed ones only those that are not 0, as far as a reply can hold them."""
    weights = core.learner.weights
    places = np.flatnonzero(weights.any(axis=0)) if core.encoder.sparse else np.arange(weights.shape[1])
    places = places[: MOST_WEIGHTS // weights.shape[0]]
    return WeightsReply(core.classes.names, _names(core, places), weights[:, places].tolist())


def _names(core: Core, places: Any) -> list[str]:
    """Return the names of features; the default learner has a constant after them."""
    n_features = core.encoder.n_features
    known = places[places < n_features]
    row = Row(known.astype(np.uint32), np.ones(known.size)) if core.encoder.sparse else Row(None, np.ones(n_features))
    return [*core.encoder.names_of(row), *(["(constant)"] * (places.size - known.size))]
