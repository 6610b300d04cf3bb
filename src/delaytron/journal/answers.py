"""Answers to decisions: what a configuration allows, and what is said to the one who answers."""

import json
from typing import Any, NamedTuple

from delaytron.checks import check_bool, check_number, did_you_mean, shown
from delaytron.errors import ConflictingFeedback, InvalidInput, UnknownDecision
from delaytron.journal.ids import never_issued
from delaytron.journal.records import ANSWERED, CANCELLED, EXPIRED, OPEN, Status

LONGEST_LIST = 200  # characters of the names of classes in a message


class Answering(NamedTuple):
    """Which answers a model takes: `told` is "correct" or "label"; `classes` are their names, by index."""

    told: str
    rewards: bool
    classes: tuple[Any, ...]
    late: bool  # an answer is taken after the expiry, too


def read_answering(config: bytes, classes: bytes | None = None) -> Answering:
    """Read it from a configuration; `classes` are the present ones, if they are others.

    Examples
    --------
    >>> read_answering(b'{"classes": ["a", "b"], "rewards": true, "on_expiry": "wrong"}')
    Answering(told='correct', rewards=True, classes=('a', 'b'), late=True)
    """
    stored = json.loads(config)
    names = stored.get("classes", []) if classes is None else json.loads(classes)
    told = stored.get("feedback_type", "correct")
    return Answering(told, bool(stored.get("rewards")), tuple(names), stored.get("on_expiry") == "wrong")


def read_value(answering: Answering, correct: Any, label: Any, reward: Any, played: int | None) -> float:
    """Check an answer; return 0 for wrong to 1 for right, or the index of the true class where that is told.

    A `label` for one who is told right or wrong is right if it was `played`.
    """
    given = {"correct": correct, "label": label, "reward": reward}
    names = [name for name, value in given.items() if value is not None]
    allowed = _allowed(answering)
    if len(names) != 1 or names[0] not in allowed:
        came = ", ".join(f"{name}={shown(given[name])}" for name in names) or "nothing"
        only = "; this learner takes right or wrong only" if names == ["reward"] and answering.told == "correct" else ""
        raise InvalidInput(f"feedback takes one of {', '.join(f'{name}=...' for name in allowed)}; got {came}{only}")
    if label is not None:
        index = _index(answering.classes, label)
        return float(index if answering.told == "label" else index == played)
    return float(check_bool("correct", correct)) if reward is None else _reward(reward)


def _allowed(answering: Answering) -> tuple[str, ...]:
    if answering.told == "label":
        return ("label",)
    return ("correct", "label", "reward") if answering.rewards else ("correct", "label")


def _reward(reward: Any) -> float:
    number = check_number("reward", reward)
    if not 0 <= number <= 1:
        raise InvalidInput(f"reward must be from 0 (wrong) to 1 (right), got {shown(reward)}")
    return number


def _index(classes: tuple[Any, ...], label: Any) -> int:
    plain = label.item() if getattr(label, "ndim", None) == 0 else label  # a number of NumPy
    for index, name in enumerate(classes):
        if type(name) is type(plain) and name == plain:
            return index
    known = f"; known are {', '.join(map(str, classes[:10]))[:LONGEST_LIST]}"
    hint = did_you_mean(str(label), map(str, classes)) or known
    raise InvalidInput(f"label must be the name of a class, got {shown(label)}{hint}")


def reply(id: str, known: Status | None, value: float, answering: Answering) -> str:
    """Return what is said to an answer: "accepted" if it is new, else why it changes nothing.

    Examples
    --------
    >>> reply("r", Status(ANSWERED, 1.0, 0, False), 1.0, Answering("correct", False, (), False))
    'duplicate'
    """
    if known is None:
        raise UnknownDecision(f"decision {id!r} was never issued; check the id, and that this is its journal")
    if known.status == CANCELLED:
        return "cancelled"
    if known.status == EXPIRED and (known.purged or not answering.late):
        return "expired"
    if known.status != ANSWERED:
        return "accepted"
    if known.value == value:
        return "duplicate"
    both = f"{_word(answering, known.value)}, now {_word(answering, value)} came"
    raise ConflictingFeedback(f"decision {id!r} was answered {both}; a second answer must agree")


def reply_to_cancel(id: str, known: Status | None) -> str:
    """Return what is said to one who wants no answer any more: "cancelled" if that is new, "duplicate" if it is not."""
    if known is None:
        raise never_issued(id)
    if known.status == OPEN:
        return "cancelled"
    if known.status == CANCELLED:
        return "duplicate"
    became = "was answered" if known.status == ANSWERED else "has expired"
    raise ConflictingFeedback(f"decision {id!r} {became} already; it cannot be cancelled any more")


def other_late_answer(id: str) -> ConflictingFeedback:
    """Return the error for a second answer after the expiry that is not the first one."""
    return ConflictingFeedback(f"decision {id!r} was answered otherwise after it expired; both must agree")


def reply_to_token(id: str, known: float | None, value: float) -> str:
    """Return what is said to the answer to a token: "applied" if it is new, "duplicate" if it was known."""
    if known is None:
        return "applied"
    if known == value:
        return "duplicate"
    raise ConflictingFeedback(f"decision {id!r} was answered otherwise before; a second answer must agree")


def _word(answering: Answering, value: float | None) -> str:
    if value is not None and answering.told == "label":
        return repr(answering.classes[int(value)])
    return {0.0: "'wrong'", 1.0: "'correct'"}.get(value, f"reward {value}") if value is not None else "nothing"
