"""The names of the classes: which label is which, and which may still be chosen."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from delaytron.checks import LONGEST_NAME, as_class_name, did_you_mean, shown
from delaytron.errors import InvalidInput
from delaytron.records import Ints

Name: TypeAlias = str | int


def check_name(name: Any) -> Name:
    """Return the name of a class, or raise."""
    plain = as_class_name(name)
    if plain is not None:
        return plain
    raise InvalidInput(
        f"a class must be named by a printable text of up to {LONGEST_NAME} bytes or by an integer, got {shown(name)}"
    )


def check_names(names: Any) -> list[Name]:
    """Return the names of at least two classes, or raise."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InvalidInput(f"classes must be a list of names, as in ['small', 'large']; got {shown(names)}")
    checked = [check_name(name) for name in names]
    if len(checked) < 2 or len(set(checked)) < len(checked):
        raise InvalidInput(f"classes must be two at least, and no two of the same name; got {shown(checked)}")
    return checked


class Classes:
    """Names by label; a retired class keeps its label.

    Examples
    --------
    >>> classes = Classes(["small", "medium", "large"])
    >>> classes.retire("medium")
    >>> classes.allowed(None).tolist(), classes.allowed(["large"]).tolist()
    ([0, 2], [2])
    """

    def __init__(self, names: Iterable[Name], retired: Iterable[int] = ()) -> None:
        self.names = list(names)
        self.retired = set(retired)
        self.refresh()

    def refresh(self) -> None:
        """Find labels by their names, and those that may be chosen."""
        self._labels = {name: label for label, name in enumerate(self.names)}
        self._active = np.array([k for k in range(len(self.names)) if k not in self.retired], np.int64)

    @property
    def active(self) -> list[Name]:
        """The names that may be chosen."""
        return [self.names[label] for label in self._active.tolist()]

    def label(self, name: Any) -> int:
        """Return the label of a name, or raise."""
        plain = as_class_name(name)
        label = None if plain is None else self._labels.get(plain)
        if label is None:
            hint = did_you_mean(str(plain), map(str, self.names)) or f"; known are {shown(self.names[:10])}"
            raise InvalidInput(f"there is no class {shown(name)}{hint}")
        return label

    def allowed(self, names: Any) -> Ints:
        """Return the labels of these names in ascending order, of all that may be chosen for None; or raise."""
        if names is None:
            return self._active
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise InvalidInput(f"allowed must be a list of classes, got {shown(names)}")
        labels = sorted({self.label(name) for name in names})
        if not labels:
            raise InvalidInput("allowed must have one class at least, got none; leave it out to allow all")
        for label in labels:
            if label in self.retired:
                raise InvalidInput(f"class {self.names[label]!r} is retired; allowed may have {self.active[:10]}")
        return np.array(labels, np.int64)

    def check_new(self, name: Any) -> Name:
        """Return a name that can be added: a new one, or a retired one that comes back."""
        checked = check_name(name)
        label = self._labels.get(checked)
        if label is not None and label not in self.retired:
            raise InvalidInput(f"there is a class {checked!r} already; give another name")
        return checked

    def add(self, name: Name) -> bool:
        """Add a checked name; return whether it is new."""
        label = self._labels.get(name)
        if label is None:
            self.names.append(name)
        else:
            self.retired.discard(label)
        self.refresh()
        return label is None

    def check_retirable(self, name: Any) -> Name:
        """Return the name of a class that can be retired, or raise."""
        label = self.label(name)
        if label in self.retired:
            raise InvalidInput(f"class {name!r} is retired already; there is nothing to do")
        if len(self._active) == 1:
            raise InvalidInput(f"class {name!r} is the last one; add another before you retire it")
        return self.names[label]

    def retire(self, name: Name) -> None:
        """Let a class not be chosen any more."""
        self.retired.add(self._labels[name])
        self.refresh()
