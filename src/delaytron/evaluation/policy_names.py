"""A learner as a policy: by its name alone, with its parameters in a text, or beside them."""

from typing import Any, NamedTuple

from delaytron.errors import InvalidInput
from delaytron.formats import plain_value
from delaytron.learners import LEARNERS


class NamedPolicy(NamedTuple):
    """The name of a policy, and the parameters of the learner that it names."""

    name: str
    parameters: dict[str, Any]


def read_name(policy: Any, parameters: dict[str, Any]) -> NamedPolicy | None:
    """Return a policy that is given by its name, or None; further parameters go before those that stand with it.

    Examples
    --------
    >>> read_name("gap:gamma=0.1,eta=2", {})
    NamedPolicy(name='gap', parameters={'gamma': 0.1, 'eta': 2})
    >>> read_name(("gap", {"gamma": 0.1}), {}) == read_name("gap", {"gamma": 0.1})
    True
    """
    if isinstance(policy, tuple) and len(policy) == 2 and isinstance(policy[0], str) and isinstance(policy[1], dict):
        return NamedPolicy(policy[0], policy[1] | parameters)
    if not isinstance(policy, str):
        return None
    name, colon, rest = policy.partition(":")
    if colon and name in LEARNERS:
        return NamedPolicy(name, _assigned(policy, rest) | parameters)
    return NamedPolicy(policy, parameters)


def _assigned(text: str, rest: str) -> dict[str, Any]:
    pairs = [part.partition("=") for part in rest.split(",")]
    if not all(equals for _, equals, _ in pairs):
        raise InvalidInput(f"a policy with parameters must be NAME:PARAMETER=VALUE,...; got {text!r}")
    return {name.strip(): plain_value(value) for name, _, value in pairs}
