"""What tells the actions of a log apart: a name that each of them has, or only their numbers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from delaytron.checks import as_class_name
from delaytron.errors import InvalidInput
from delaytron.logs.dsjson import Actions
from delaytron.logs.features import context_features

Name: TypeAlias = str | int

NUMBER = "number"
NAMING = ("_tag", "id", "tag", "name")  # what a feature with the name of an action is called, the best first
MOST_CLASSES = 1000
MOST_TRIED = 32  # features that may tell actions apart where none is called so
MOST_SEEN = 100_000  # lists of actions that are known to be nothing new


def value_at(given: Any, path: Sequence[str]) -> Any:
    """Return what stands at a path of names, through lists of dicts, too; None if nothing does.

    Examples
    --------
    >>> value_at({"i": [{"constant": 1}, {"id": "tea"}]}, ["i", "id"])
    'tea'
    """
    if not path:
        return given
    parts = given if isinstance(given, list) else [given]
    found = (value_at(part[path[0]], path[1:]) for part in parts if isinstance(part, Mapping) and path[0] in part)
    return next((value for value in found if value is not None), None)


def names_by(path: str, actions: Actions) -> list[Name] | None:
    """Return the names of the actions of an event, by what stands at a path; None if not each has one of its own.

    Examples
    --------
    >>> names_by("i.id", ({"i": {"id": "tea"}}, {"i": {"id": "coffee"}})), names_by("number", ({}, {}))
    (['tea', 'coffee'], [1, 2])
    """
    if path == NUMBER:
        return list(range(1, len(actions) + 1))
    steps = path.split(".")
    names = [name for action in actions if (name := as_class_name(value_at(action, steps))) is not None]
    return names if len(set(names)) == len(actions) else None


def paths_to_names(action: Mapping[str, Any]) -> list[str]:
    """Return where an action may have its name, at the top or in a namespace, the likeliest place first.

    Examples
    --------
    >>> paths_to_names({"i": {"constant": 1, "id": "tea"}, "_tag": "tea", "price": 3})
    ['_tag', 'i.id']
    """
    named = [path for path in _paths(action) if path[-1].lower() in NAMING]
    return [".".join(path) for path in sorted(named, key=lambda path: (NAMING.index(path[-1].lower()), len(path)))]


def _paths(action: Mapping[str, Any]) -> list[list[str]]:
    found = [[name] for name in action]
    for outer, inner in action.items():
        found += [[outer, name] for part in _parts(inner) for name in part if "." not in outer]
    return found


def _parts(value: Any) -> Iterable[Mapping[str, Any]]:
    return (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, Mapping))


class Named(NamedTuple):
    """The actions of a log by one way to tell them apart: their names, with what is remembered of their features."""

    features: dict[Name, int]
    varying: set[Name]


class ActionNames:
    """Finds out what tells actions apart, and whether their own features are always the same.

    Parameters
    ----------
    path
        What the user says; None to look for it.
    wanted
        The names that count, as texts; None for all.
    """

    def __init__(self, path: str | None, wanted: Iterable[str] | None) -> None:
        self.path = path
        self.wanted = None if wanted is None else frozenset(wanted)
        self.ways: dict[str, Named] = {}
        self.lost: dict[str, str] = {}  # where actions had no names, by what would have told them apart
        self._telling: dict[str, set[Name]] = {}  # other features that tell actions apart so far, with their values
        self._seen: set[bytes] = set()

    def see(self, actions: Actions, multi: bytes, place: str) -> bool:
        """Take the actions of an event in; return whether they have names."""
        key = blake2b(multi, digest_size=16).digest()
        if key in self._seen:
            return True
        if not self.ways:
            self._begin(actions)
        self._try_others(actions)
        prints = [_print_of(action) for action in actions]
        nameless = [way for way in self.ways if not self._see_by(way, actions, prints)]
        if self.path is not None and nameless:
            return False
        for way in nameless:
            del self.ways[way]
            self.lost[way] = place
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        self._seen.add(key)
        return True

    def _begin(self, actions: Actions) -> None:
        paths = [*paths_to_names(actions[0]), NUMBER] if self.path is None else [self.path]
        self.ways = {path: Named({}, set()) for path in dict.fromkeys(paths)}
        if self.path is None:
            others = [path for names in _paths(actions[0]) if (path := ".".join(names)) not in self.ways]
            self._telling = {path: set() for path in others if names_by(path, actions)}

    def _try_others(self, actions: Actions) -> None:
        """Keep the features by which the actions of this event have names, too."""
        tried = list(self._telling.items())[:MOST_TRIED]
        self._telling = {path: known.union(names) for path, known in tried if (names := names_by(path, actions))}

    def _see_by(self, way: str, actions: Actions, prints: list[int]) -> bool:
        names = names_by(way, actions)
        known = self.ways[way]
        for name, own in zip(names or (), prints, strict=False):
            if not self._counts(name) or len(known.features) > MOST_CLASSES:
                continue
            if known.features.setdefault(name, own) != own:
                known.varying.add(name)
        return names is not None

    def _counts(self, name: Name) -> bool:
        return self.wanted is None or str(name) in self.wanted

    @property
    def way(self) -> str:
        """What tells actions apart: the first way by which each has a name."""
        return next(iter(self.ways), NUMBER)

    @property
    def doubts(self) -> list[str]:
        """Why places must not be taken for names, with what else to take: one line, or none if all is well."""
        if self.path is not None or self.way != NUMBER or NUMBER not in self.ways or not self.ways[NUMBER].varying:
            return []
        told = sorted((len(known), path) for path, known in self._telling.items() if 2 <= len(known) <= MOST_CLASSES)
        advice = f"action={told[0][1]!r} tells them apart" if told else "give every action an id of its own"
        return [
            "not every action has an id, so the n-th action is taken for class n; but the n-th action differs between "
            f"events (its own features vary), and so would the class: {advice}, or say action={NUMBER!r} if places are "
            "meant"
        ]


def _print_of(action: Mapping[str, Any]) -> int:
    """Return a number that tells the features of actions apart."""
    try:
        return hash(json.dumps(context_features(action), sort_keys=True))
    except InvalidInput:  # no row can be made of them
        return 0
