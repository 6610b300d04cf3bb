"""The names that were seen at each place of a hashed row, for explanations; bounded."""

from collections.abc import Iterable
from typing import Any

from delaytron.checks import shown
from delaytron.errors import InvalidInput
from delaytron.model.values import check_unicode

MOST_NAMES = 100_000  # in all; later ones are not kept
MOST_AT_A_PLACE = 4
LONGEST_NAME = 200  # characters; the rest of a name is not kept


class NameTable:
    """Which names were seen at which index.

    Examples
    --------
    >>> table = NameTable()
    >>> table.add("age", 3), table.add("city=Rome", 3), table.add("age", 3)
    (True, True, False)
    >>> table.at(3), table.at(4)
    ('age or city=Rome', '#4')
    """

    def __init__(self) -> None:
        self._names: dict[int, list[str]] = {}
        self._count = 0

    def add(self, name: str, index: int) -> bool:
        """Keep a name, if there is room and it is not known; return whether it is new."""
        if self._count >= MOST_NAMES:
            return False
        names = self._names.setdefault(index, [])
        name = name[:LONGEST_NAME]
        if len(names) >= MOST_AT_A_PLACE or name in names:
            return False
        names.append(name)
        self._count += 1
        return True

    def at(self, index: int) -> str:
        """Return the name of an index: all that were seen there, or its number if none was."""
        names = self._names.get(index)
        return " or ".join(names) if names else f"#{index}"

    def as_json(self) -> dict[str, list[str]]:
        """Return a copy, to be stored: the indices as text."""
        return {str(index): list(names) for index, names in self._names.items()}

    def whole_names(self) -> Iterable[tuple[str, int]]:
        """Iterate over the names that were not cut off, with their indices."""
        return ((name, i) for i, names in self._names.items() for name in names if len(name) < LONGEST_NAME)

    @classmethod
    def from_json(cls, given: Any, n_features: int) -> "NameTable":
        """Return the table that was stored; raise if what came is none."""
        if not isinstance(given, dict):
            raise _damaged(f"is a {type(given).__name__}")
        table = cls()
        for key, names in given.items():
            table._put(_as_index(key, n_features), names)
        return table

    def _put(self, index: int, names: Any) -> None:
        if not isinstance(names, list) or not 1 <= len(names) <= MOST_AT_A_PLACE:
            raise _damaged(f"has {shown(names)} at {index}")
        if len(set(map(_as_name, names))) < len(names):
            raise _damaged(f"has a name twice at {index}")
        self._names[index] = list(names)
        self._count += len(names)
        if self._count > MOST_NAMES:
            raise _damaged(f"has more than {MOST_NAMES} names")


def _as_index(key: Any, n_features: int) -> int:
    digits = isinstance(key, str) and len(key) < 20 and key.isascii() and key.isdigit()
    if not digits or str(int(key)) != key or int(key) >= n_features:
        raise _damaged(f"has the index {shown(key)}, which is not in 0..{n_features - 1}")
    return int(key)


def _as_name(name: Any) -> str:
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise _damaged(f"has the name {shown(name)}")
    return check_unicode(name)


def _damaged(how: str) -> InvalidInput:
    allowed = f"a dict of indices, with up to {MOST_AT_A_PLACE} different names each"
    return InvalidInput(f"the table of names must be {allowed}, but it {how}; take one that was stored by this package")
