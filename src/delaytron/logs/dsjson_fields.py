"""The fields of a line of dsjson: their names and types, and what several of them say together."""

from typing import Any

import msgspec
from msgspec import Raw, Struct, field


class UnusableError(Exception):
    """Ends the reading of a line: why in one word, and in several."""


class Noted(Struct):
    """An outcome that was reported for an event."""

    v: Any = None
    action_taken: Any = field(name="ActionTaken", default=None)
    time: Any = field(name="EnqueuedTimeUtc", default=None)


class LogLine(Struct):
    """What is read of a line; all else is passed over."""

    event_id: str | None = field(name="EventId", default=None)
    cost: float | None = field(name="_label_cost", default=None)
    other_cost: float | None = field(name="_label_Cost", default=None)
    prob: float | None = field(name="_label_probability", default=None)
    other_prob: float | None = field(name="_label_Probability", default=None)
    action: int | None = field(name="_label_Action", default=None)
    other_action: int | None = field(name="_label_action", default=None)
    index: int | None = field(name="_labelIndex", default=None)
    original_cost: float | None = field(name="_original_label_cost", default=None)
    skip_learn: bool | None = field(name="_skipLearn", default=None)
    deferred: bool | None = field(name="DeferredAction", default=None)
    action_taken: Any = field(name="ActionTaken", default=None)
    a: list[int] | None = None
    p: list[float] | None = None
    c: dict[str, Raw] | None = None
    o: list[Noted] | None = None
    v: Any = None
    pdrop: float | None = None
    reward_value: Any = field(name="RewardValue", default=None)
    observations: list[Noted] | None = field(name="Observations", default=None)
    outcomes: Any = field(name="_outcomes", default=None)
    continuous: Any = field(name="_label_ca", default=None)
    time: Any = field(name="Timestamp", default=None)
    enqueued: Any = field(name="EnqueuedTimeUtc", default=None)


_decode = msgspec.json.Decoder(LogLine).decode


def parse(line: bytes) -> LogLine:
    """Return the fields of a line, or raise."""
    try:
        return _decode(line)
    except msgspec.ValidationError as problem:
        raise UnusableError("wrong_type", f"it has a value of a wrong type: {problem}") from None
    except (ValueError, RecursionError) as problem:
        raise UnusableError("damaged", f"it is not valid JSON: {problem}") from None


def ranking(line: LogLine, count: int) -> list[int] | None:
    """Return the actions in the order of `p`, from 0; None if they do not fit. Some logs count them from 0 already."""
    if line.a is None:
        return None
    first = 0 if 0 in line.a else 1
    ranked = [number - first for number in line.a]
    fits = len(set(ranked)) == len(ranked) and all(0 <= place < count for place in ranked)
    return ranked if fits else None


def label(line: LogLine, ranked: list[int] | None, count: int) -> int:
    """Return the place of the action that was taken, from 0: that of the label, else the first that is ranked."""
    action = line.action if line.action is not None else line.other_action
    told = {place for place in (None if action is None else action - 1, line.index) if place is not None}
    if not told and ranked:
        told = {ranked[0]}
    if len(told) != 1:
        raise UnusableError("no_label", f"_label_Action must be _labelIndex + 1, got {action} and {line.index}")
    (place,) = told
    if not 0 <= place < count:
        raise UnusableError("no_label", f"_label_Action must be from 1 to {count}, got {place + 1}")
    return place


def probability(line: LogLine, ranked: list[int] | None, place: int) -> float:
    """Return the probability of the action that was taken: that of the label, else where it is ranked."""
    prob = line.prob if line.prob is not None else line.other_prob
    if prob is None and ranked and line.p and len(line.p) == len(ranked) and place in ranked:
        prob = line.p[ranked.index(place)]
    if prob is None:
        raise UnusableError(
            "no_probability",
            "it has no _label_probability, and no p and a that fit together: "
            "write down with which probability the action was taken",
        )
    if not 0 < prob <= 1:
        raise UnusableError("no_probability", f"the probability must be above 0 and at most 1, got {prob!r}")
    return prob


def probabilities(line: LogLine, ranked: list[int] | None, count: int) -> list[float] | None:
    """Return the probabilities in the order of the actions; None unless there is one for each."""
    if ranked is None or line.p is None or not len(line.p) == len(ranked) == count:
        return None
    return [prob for _, prob in sorted(zip(ranked, line.p, strict=True))]


def weight(line: LogLine) -> float:
    """Return for how many events this one stands, if all but some were dropped."""
    if line.pdrop is not None and not 0 <= line.pdrop < 1:
        raise UnusableError("no_probability", f"pdrop must be at least 0 and below 1, got {line.pdrop!r}")
    return 1.0 / (1.0 - (line.pdrop or 0.0))


def heard(notes: list[Noted]) -> tuple[list[Any], bool]:
    """Return the outcomes that were reported, in their order, and whether one was that the action was taken."""
    return [note.v for note in notes if note.v is not None], any(note.action_taken is True for note in notes)


def first_number(values: list[Any]) -> float | None:
    """Return the first value that is a number, if there is one."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:  # an integer that no float can hold
                continue
    return None


def time_heard(notes: list[Noted]) -> Any:
    """Return when the first outcome was reported, as the log says it."""
    return next((note.time for note in notes if note.v is not None), None)
