"""Answers to decisions: the status of a decision, which answers a model takes, and the reply to each of them.

One vocabulary for Python, HTTP, the client, `dt.Journal` and PostgreSQL:

=============================  ==============  ==================  ====================
status of the decision         first answer    the same again      another one
=============================  ==============  ==================  ====================
open                           "accepted"      "duplicate"         ConflictingFeedback
expired, counted as wrong      "corrected"     "duplicate"         ConflictingFeedback
expired, dropped or released   "late"          "duplicate"         ConflictingFeedback
cancelled                      "cancelled"     "cancelled"         "cancelled"
=============================  ==============  ==================  ====================
"""

import json
from enum import IntEnum
from typing import Any, NamedTuple

from delaytron.checks import as_class_name, check_bool, check_number, did_you_mean
from delaytron.errors import ConflictingFeedback, InvalidInput, UnknownDecision, shown

LONGEST_LIST = 200  # characters of the names of classes in a message


class Status(IntEnum):
    """The status of a decision; the numbers are stored."""

    OPEN = 0
    ANSWERED = 1
    EXPIRED = 2
    CANCELLED = 3


class Known(NamedTuple):
    """The entry of an issued id in an id table.

    Attributes
    ----------
    status : Status
    value : float or None
        The answer: 0 (wrong) to 1 (right), or the index of the true class. Of an expired decision: its late answer.
    label : int or None
        The index of the class that was played.
    correctable : bool
        The decision expired as wrong, and the learner still keeps its round: the first answer corrects it.
    purged : bool
        Its facts were deleted by a compaction; only this entry is left.
    seq : int or None
        The number of the fact of the decision; None or 0 where no facts are kept, None after a purge.
    digest : bytes or None
        Of the input (features and allowed classes), to recognise a retry.
    played : (int, int, float) or None
        Round, greedy label and probability, where the store keeps no facts to find them in.
    """

    status: Status
    value: float | None = None
    label: int | None = None
    correctable: bool = False
    purged: bool = False
    seq: int | None = None
    digest: bytes | None = None
    played: tuple[int, int, float] | None = None


class Answering(NamedTuple):
    """The answers that a model takes.

    `feedback_type` is "correct" (right or wrong) or "label" (the true class); with `rewards` any number from 0 to 1 is
    taken as well. `classes` are the names of the classes, by index.
    """

    feedback_type: str
    rewards: bool
    classes: tuple[Any, ...]


def read_answering(config: bytes, classes: bytes | None = None) -> Answering:
    """Return the answers that the model of a stored configuration takes; `classes` are its present ones, as JSON.

    Examples
    --------
    >>> read_answering(b'{"classes": ["a", "b"], "rewards": true}')
    Answering(feedback_type='correct', rewards=True, classes=('a', 'b'))
    """
    stored = json.loads(config)
    names = stored.get("classes", []) if classes is None else json.loads(classes)
    return Answering(stored.get("feedback_type", "correct"), bool(stored.get("rewards")), tuple(names))


def read_value(answering: Answering, correct: Any, label: Any, reward: Any, played: int | None) -> float:
    """Return an answer as a number: 0 for wrong to 1 for right, or the index of the true class.

    Where right or wrong is expected, a `label` is right if it is the class that was `played`. Raises InvalidInput
    unless exactly one of `correct`, `label` and `reward` is given, and is one that the model takes.

    Examples
    --------
    >>> answering = Answering("correct", False, ("tea", "coffee"))
    >>> read_value(answering, True, None, None, 0), read_value(answering, None, "coffee", None, 0)
    (1.0, 0.0)
    """
    by_label = answering.feedback_type == "label"
    if label is None and reward is None and correct is not None and not by_label:
        return float(check_bool("correct", correct))
    if correct is None and reward is None and label is not None:
        index = _class_index(answering.classes, label)
        return float(index if by_label else index == played)
    if correct is None and label is None and reward is not None and answering.rewards and not by_label:
        number = check_number("reward", reward)
        if not 0 <= number <= 1:
            raise InvalidInput.of("reward", "from 0 (wrong) to 1 (right)", reward)
        return number
    allowed = ["label"] if by_label else ["correct", "label", "reward"] if answering.rewards else ["correct", "label"]
    given = {"correct": correct, "label": label, "reward": reward}
    names = [name for name, value in given.items() if value is not None]
    got = ", ".join(f"{name}={shown(given[name])}" for name in names) or "nothing"
    listed = ", ".join(f"{name}=..." for name in allowed)
    hint = "give exactly one of them"
    if names == ["reward"] and not by_label:
        hint = "this learner takes right or wrong only"
    raise InvalidInput(f"feedback takes one of {listed}; got {got}", hint)


def _class_index(classes: tuple[Any, ...], label: Any) -> int:
    name = as_class_name(label.item() if getattr(label, "ndim", None) == 0 else label)  # an array of one number
    if name in classes:  # None is not
        return classes.index(name)
    known = f"known are {', '.join(map(str, classes[:10]))[:LONGEST_LIST]}"
    hint = did_you_mean(str(label), map(str, classes)) or known
    raise InvalidInput.of("label", "the name of a class", label, hint)


def reply(id: str, known: Known | None, value: float, answering: Answering) -> str:
    """Return the reply to an answer: "accepted", "duplicate", "corrected", "late" or "cancelled".

    "accepted", "corrected" and "late" are replies to a first answer, which must now be stored; the learner does not
    learn from a late one. Raises UnknownDecision if the id was never issued, and ConflictingFeedback if the decision
    was answered differently.

    Examples
    --------
    >>> reply("r", Known(Status.ANSWERED, 1.0, 0), 1.0, Answering("correct", False, ()))
    'duplicate'
    """
    if known is None:
        raise never_issued(id)
    if known.status == Status.CANCELLED:
        return "cancelled"
    if known.value is not None:
        if known.value == value:
            return "duplicate"
        before, now = _shown_answer(answering, known.value), _shown_answer(answering, value)
        raise ConflictingFeedback(
            f"decision {id!r} was answered {before}, now {now} came", "a second answer must agree"
        )
    if known.status == Status.EXPIRED:
        return "corrected" if known.correctable else "late"
    return "accepted"


def reply_to_cancel(id: str, known: Known | None) -> str:
    """Return the reply to a cancellation: "cancelled" if that is new, "duplicate" if it was cancelled before.

    Raises UnknownDecision if the id was never issued, and ConflictingFeedback if it was answered or has expired.
    """
    if known is None:
        raise never_issued(id)
    if known.status == Status.OPEN:
        return "cancelled"
    if known.status == Status.CANCELLED:
        return "duplicate"
    settled = "was answered" if known.status == Status.ANSWERED else "has expired"
    raise ConflictingFeedback(f"decision {id!r} {settled} already", "only an open decision can be cancelled")


def never_issued(id: str) -> UnknownDecision:
    """Return the error for an id that was never issued."""
    return UnknownDecision(f"decision {id!r} was never issued", "check the id, and that this is its journal")


def _shown_answer(answering: Answering, value: float) -> str:
    if answering.feedback_type == "label":
        return repr(answering.classes[int(value)])
    return {0.0: "'wrong'", 1.0: "'correct'"}.get(value, f"reward {value}")
