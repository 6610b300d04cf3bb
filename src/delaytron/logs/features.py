"""The features of a context as Vowpal Wabbit's JSON writes them, as dicts that a `dt.Model` takes.

Namespaces are dicts within dicts. Names that begin with `_` are no features, but for `_text`, whose words are.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from delaytron.errors import InvalidInput

TEXT = "_text"
ACTIONS = "_action"  # no context has it, since its names do not begin so
DEEPEST = 64  # dicts and lists within one another; a model takes fewer


def context_features(context: Mapping[str, Any], actions: Mapping[Any, Mapping[str, Any]] | None = None) -> Any:
    """Return a context of Vowpal Wabbit's JSON as a dict of features; what is plain stays as it is.

    Parameters
    ----------
    context
        What a log has under `c`, or what a caller of Personalizer sends; `_multi` and other names that begin with `_`
        are left out, but for `_text`.
    actions
        The features of each action that can be chosen, by the names of their classes: only where the model was told
        of them, by `delaytron import --action-features`. They stand under `_action`.

    Notes
    -----
    A list of dicts is one dict with all that they have: numbers of one name add up, strings of one name are a list. A
    list of strings stays. Of any other list, numbers and strings have their places as names, from 0.

    Examples
    --------
    >>> context_features({"FromUrl": [{"weather": "Sunny", "_id": 7}, {"age": 31}], "x": [0.5, 2], "tags": ["a", "b"]})
    {'FromUrl': {'weather': 'Sunny', 'age': 31}, 'x': {'0': 0.5, '1': 2}, 'tags': ['a', 'b']}
    >>> context_features({"hour": 7}, actions={"small": {"price": 0.5}})
    {'hour': 7, '_action': {'small': {'price': 0.5}}}
    """
    features = _of_dict(context)
    if actions is not None:
        features[ACTIONS] = {str(name): _of_dict(own) for name, own in actions.items()}
    return features


def _of_dict(given: Mapping[str, Any], depth: int = 1) -> dict[str, Any]:
    if depth > DEEPEST:
        raise InvalidInput(f"features must have at most {DEEPEST} dicts and lists within one another, got more")
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidInput(f"features must be a dict with names that are text, got {str(given)[:60]!r}")
    return {name: _of_value(value, depth) for name, value in given.items() if name[:1] != "_" or name == TEXT}


def _of_value(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return _of_dict(value, depth + 1)
    return _of_list(value, depth + 1) if isinstance(value, list) else value


def _of_list(items: list[Any], depth: int) -> Any:
    if all(item is None or isinstance(item, str) for item in items):
        return items
    merged: dict[str, Any] = {}
    for place, item in enumerate(items):
        named = item if isinstance(item, Mapping) else {str(place): item}
        merge(merged, _of_dict(named, depth).items())
    return merged


def merge(into: dict[str, Any], more: Iterable[tuple[str, Any]]) -> None:
    """Add features to others; numbers of one name add up."""
    for name, value in more:
        into[name] = _both(name, into[name], value) if name in into else value


def _both(name: str, one: Any, other: Any) -> Any:
    """Return what two values of one name are together."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one + other
    if isinstance(one, dict) and isinstance(other, dict):
        both = dict(one)
        merge(both, other.items())
        return both
    if isinstance(one, str | list) and isinstance(other, str | list):
        return [*_listed(one), *_listed(other)]
    kinds = f"as {type(one).__name__} and as {type(other).__name__}"
    raise InvalidInput(f"feature {name[:60]!r} stands twice in a list, {kinds}; rename one of them")


def _listed(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]
