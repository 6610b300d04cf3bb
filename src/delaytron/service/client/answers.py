"""Answers as a client gives them, checked before they are sent."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypedDict

from delaytron.checks import check_bool, check_number, shown
from delaytron.errors import InvalidInput
from delaytron.journal.ids import check_id
from delaytron.model.classes import Name, check_name

EXAMPLE = '{"id": "req-17", "correct": True}'


class GivenAnswer(TypedDict, total=False):
    """One answer of several: `id` or `token`, and `correct`, `label` or `reward`."""

    id: str | None
    token: str | None
    correct: bool | None
    label: Name | None
    reward: float | None


def checked_answer(given: Any) -> dict[str, Any]:
    """Return an answer as it is sent, or raise; what has no check here the service checks.

    Examples
    --------
    >>> checked_answer({"id": "req-17", "correct": 1})
    {'id': 'req-17', 'correct': True}
    """
    if not isinstance(given, Mapping):
        raise InvalidInput(f"answers must be dicts such as {EXAMPLE}, got {shown(given)}")
    return {**given, **{word: check(given[word]) for word, check in CHECKS.items() if given.get(word) is not None}}


def _check_reward(reward: Any) -> float:
    if not 0 <= check_number("reward", reward) <= 1:
        raise InvalidInput(f"reward must be from 0 (wrong) to 1 (right), got {reward!r}")
    return float(reward)


CHECKS: dict[str, Callable[[Any], Any]] = {
    "id": check_id,
    "correct": partial(check_bool, "correct"),
    "label": check_name,
    "reward": _check_reward,
}
