"""Inspection of a model: counts, open decisions, one decision by its id, explanations, the view of notebooks."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from delaytron.answers import Status
from delaytron.learners import predictions
from delaytron.model.classes import Name
from delaytron.model.drift import Drift, drift_of
from delaytron.model.engine import Engine
from delaytron.model.state import ClassStats, State
from delaytron.notebooks import facts, page, table
from delaytron.records import Moment, Row

NS = 1e9


class OpenDecision(NamedTuple):
    """A decision that waits for an answer."""

    id: str
    round: int
    label: Name
    decided_at: datetime
    seconds: float


class AccuracyBounds(NamedTuple):
    """The mean reward so far, and between which values it stays whatever answers still come.

    It counts every decision that is settled, or will be: the answers that the model learned from, and a 0 for each
    decision that expired as wrong and was not corrected. Decisions that were dropped or cancelled are left out, and so
    are late answers.

    Attributes
    ----------
    mean : float or None
        Of what is known now; None if nothing is.
    low, high : float or None
        If all decisions that wait were wrong, or all were right. `high` takes expired ones that can still be corrected
        as right, too. None if there is no decision to count.
    """

    mean: float | None
    low: float | None
    high: float | None


class Stats(NamedTuple):
    """Counts since the beginning.

    Attributes
    ----------
    decisions, open, expired, cancelled : int
        Decisions: all, and those that are open, have expired, or were cancelled.
    answered : int
        Answers that the model learned from, with those that corrected an expiry.
    mean_reward : float or None
        Of these answers.
    corrected : int
        Answers after an expiry that had counted as wrong.
    late : int
        First answers after a dropped expiry, or after `correct_within`: kept, and not learned from.
    oldest : float or None
        Seconds since the oldest open decision.
    waits : dict
        Numbers of answers by the time they took at most, in seconds: powers of two of a nanosecond.
    classes : dict
        Counts by class.
    accuracy : AccuracyBounds
        The mean reward so far, with the bounds that what is open leaves.
    drift : Drift or None
        Challengers that were born, won and were dropped; None if the learner has none.
    """

    decisions: int
    open: int
    answered: int
    mean_reward: float | None
    expired: int
    cancelled: int
    corrected: int
    late: int
    oldest: float | None
    waits: dict[float, int]
    classes: dict[Name, ClassStats]
    accuracy: AccuracyBounds
    drift: Drift | None


class DecisionStatus(NamedTuple):
    """A decision by its id. `value` is its answer: 0 (wrong) to 1 (right), or the class that was right.

    `status` is "open", "answered", "expired" or "cancelled". Fields that are not known are None: without a journal the
    time of the decision; after a purge all but status, label and value.
    """

    id: str
    status: str
    label: Name
    value: float | Name | None
    round: int | None
    greedy: Name | None
    prob: float | None
    decided_at: datetime | None


def decision_status(engine: Engine, id: str) -> DecisionStatus:
    """Return a decision by its id; raise UnknownDecision if it was never issued."""
    found = engine.find(id)
    names, known = engine.state.classes.names, found.known
    value: float | Name | None = known.value
    if known.value is not None and engine.state.learner.feedback_type == "label":
        value = names[int(known.value)]
    return DecisionStatus(
        id,
        Status(known.status).name.lower(),
        names[known.label or 0],
        value,
        found.round,
        None if found.greedy is None else names[found.greedy],
        found.prob,
        None if found.now is None else datetime.fromtimestamp(found.now.wall / NS, UTC),
    )


def open_decisions(engine: Engine) -> list[OpenDecision]:
    """Return the decisions that wait for an answer, the oldest first."""
    now = engine.store.now()

    def listed(state: State) -> list[OpenDecision]:
        names = state.classes.names
        return [
            OpenDecision(
                waiting.id,
                waiting.round,
                names[waiting.label],
                datetime.fromtimestamp(waiting.now.wall / NS, UTC),
                max(0, now.clock - waiting.now.clock) / NS,
            )
            for waiting in state.waiting()
        ]

    return engine.read(listed)


def stats_of(engine: Engine) -> Stats:
    """Return counts of decisions and answers, now."""
    now = engine.store.now()
    return engine.read(lambda state: counted(state, now))


def counted(state: State, now: Moment) -> Stats:
    """Return counts of decisions and answers at a moment."""
    tally = state.tally
    answered = sum(tally.answered)
    first = next(state.waiting(), None)
    return Stats(
        state.rounds,
        state.pending,
        answered,
        sum(tally.reward) / answered if answered else None,
        tally.expired,
        tally.cancelled,
        tally.corrected,
        tally.late,
        None if first is None else max(0, now.clock - first.now.clock) / NS,
        {2**n / NS: count for n, count in enumerate(tally.waits) if count},
        {name: tally.of_class(label) for label, name in enumerate(state.classes.names)},
        accuracy_of(state),
        drift_of(state),
    )


def accuracy_of(state: State) -> AccuracyBounds:
    """Return the mean reward so far and its bounds."""
    tally, book = state.tally, state.book
    reward, known, waiting, correctable = sum(tally.reward), sum(tally.answered), state.pending, 0
    if book.expiry.as_wrong:
        known += tally.expired - tally.corrected
        correctable = len(state.ids) - waiting
    if not known + waiting:
        return AccuracyBounds(None, None, None)
    most = reward + waiting + correctable
    return AccuracyBounds(reward / known if known else None, reward / (known + waiting), most / (known + waiting))


class Look(NamedTuple):
    """The class that looks best, and with which probability each would be chosen."""

    label: Name
    probabilities: dict[Name, float]


class Explanation(NamedTuple):
    """Why a class looks best.

    `scores` has a number for each class: its `constant` plus what each of the `features` adds. Features that separate
    the classes most come first.
    """

    label: Name
    scores: dict[Name, float]
    constant: dict[Name, float]
    features: dict[str, dict[Name, float]]


def look(engine: Engine, x: Any, allowed: Any) -> Look:
    """Return the greedy class for x and the probability of every class; raise InvalidInput for what it refuses."""

    def looked(state: State) -> Look:
        labels = state.classes.allowed(allowed)
        row = state.encoder.encode(x)
        greedy, p = predictions.look(state.learner, row, labels)
        names = state.classes.names
        return Look(names[greedy], {names[label]: float(p[label]) for label in labels.tolist()})

    return engine.read(looked)


def explain(engine: Engine, x: Any) -> Explanation:
    """Return why a class looks best for x; raise InvalidInput for features that the model does not take."""
    return engine.read(lambda state: explain_row(state, state.encoder.encode(x)))


def explain_row(state: State, row: Row) -> Explanation:
    """Return why a class looks best for an encoded row."""
    labels = state.classes.allowed(None)
    names = [state.classes.names[label] for label in labels.tolist()]
    constant, parts = state.learner._contributions(row)
    chosen = parts[labels]
    scores = (constant + parts.sum(axis=1))[labels]
    spread = np.ptp(chosen, axis=0) if chosen.size else np.empty(0)
    features = state.encoder.names_of(row)
    counts = Counter(features)
    if len(counts) < len(features):  # only the beginning of a long name is kept, so two may be the same
        features = [
            name if counts[name] == 1 else f"{name} #{index}" for name, index in zip(features, row.indices, strict=True)
        ]
    order = np.argsort(-spread, kind="stable").tolist()
    return Explanation(
        names[int(np.argmax(scores))],
        dict(zip(names, scores.tolist(), strict=True)),
        dict(zip(names, constant[labels].tolist(), strict=True)),
        {features[j]: dict(zip(names, chosen[:, j].tolist(), strict=True)) for j in order},
    )


def show(engine: Engine) -> str:
    """Return counts as HTML for a notebook, also those of a closed model."""
    state, asked = engine.state, engine.recipe.asked
    features = asked["features"]
    if isinstance(features, int):
        features = f"vectors of {features} numbers"
    elif not isinstance(features, str):
        features = f"{len(features)} named numbers: {', '.join(features[:20])}"
    answered = sum(state.tally.answered)
    accuracy, drift = accuracy_of(state), drift_of(state)
    counts = {
        "learner": asked["learner"],
        "features": features,
        "decisions": state.rounds,
        "open": state.pending,
        "answered": answered,
        "mean reward": sum(state.tally.reward) / answered if answered else None,
        "expired": state.tally.expired,
    }
    if accuracy.low is not None and accuracy.high is not None:
        counts["accuracy with the open ones"] = f"{accuracy.low:.4g} to {accuracy.high:.4g}"
    if drift is not None:
        now = "one learns, " if drift.challenger else ""
        counts["challengers"] = f"{now}{drift.born} born, {drift.won} won, {drift.dropped} dropped"
    names = list(state.classes.names)
    retired = state.classes.retired
    rows = (
        (f"{name} (retired)" if label in retired else f"{name}", *state.tally.of_class(label))
        for label, name in enumerate(names)
    )
    return page("Model", facts(counts), table(("class", "chosen", "answered", "mean reward"), rows, len(names)))
