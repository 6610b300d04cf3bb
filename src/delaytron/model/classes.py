"""The classes of a model: their names by label, and which of them may be chosen."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from delaytron.checks import LONGEST_NAME, as_class_name, did_you_mean
from delaytron.errors import InvalidInput, Setting, shown
from delaytron.records import Ints

Name: TypeAlias = str | int


def check_name(name: Any) -> Name:
    """Return the name of a class; raise InvalidInput if it cannot be one."""
    plain = as_class_name(name)
    if plain is None:
        allowed = f"a printable text of up to {LONGEST_NAME} bytes or by an integer"
        problem = f"a class must be named by {allowed}, got {shown(name)}"
        raise InvalidInput(problem, "give it another name", parameter="classes")
    return plain


def check_names(names: Any) -> list[Name]:
    """Return the names of a model's classes; raise InvalidInput unless there are at least two distinct ones."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InvalidInput.of("classes", "a list of names, as in ['small', 'large']", names)
    checked = [check_name(name) for name in names]
    if len(checked) < 2 or len(set(checked)) < len(checked):
        raise InvalidInput.of("classes", "at least two distinct names", checked)
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
        """Rebuild the labels by name, and the labels that may be chosen, from `names` and `retired`."""
        self._labels = {name: label for label, name in enumerate(self.names)}
        self._active = np.array([k for k in range(len(self.names)) if k not in self.retired], np.int64)

    @property
    def active(self) -> list[Name]:
        """The names that may be chosen."""
        return [self.names[label] for label in self._active.tolist()]

    def label(self, name: Any) -> int:
        """Return the label of a name; raise InvalidInput if there is no such class."""
        plain = as_class_name(name)
        label = None if plain is None else self._labels.get(plain)
        if label is None:
            hint = did_you_mean(str(plain), map(str, self.names)) or f"known are {shown(self.names[:10])}"
            raise InvalidInput(f"there is no class {shown(name)}", hint)
        return label

    def allowed(self, names: Any, *, retired_too: bool = False) -> Ints:
        """Return the labels of these names, ascending; for None those of all classes that are not retired.

        Raises InvalidInput if a class is unknown, or there is none, or one is retired, unless `retired_too`.
        """
        if names is None:
            return self._active
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise InvalidInput.of("allowed", "a list of classes", names)
        labels = sorted({self.label(name) for name in names})
        if not labels:
            raise InvalidInput.of(
                "allowed", "at least one class", got="none", hint="leave it out to allow all", verb="have"
            )
        for label in labels:
            if label in self.retired and not retired_too:
                hint = (Setting("allowed"), f" may have {self.active[:10]}")
                raise InvalidInput(f"class {self.names[label]!r} is retired", hint, parameter="allowed")
        return np.array(labels, np.int64)

    def check_new(self, name: Any) -> Name:
        """Return a name that can be added: a new or a retired one; raise InvalidInput if the class is active."""
        checked = check_name(name)
        label = self._labels.get(checked)
        if label is not None and label not in self.retired:
            raise InvalidInput(f"there is a class {checked!r} already", "give another name")
        return checked

    def add(self, name: Name) -> bool:
        """Add a checked name, or make a retired class active again; return whether the name is new."""
        label = self._labels.get(name)
        if label is None:
            self.names.append(name)
        else:
            self.retired.discard(label)
        self.refresh()
        return label is None

    def check_retirable(self, name: Any) -> Name:
        """Return the name of a class that can be retired; raise InvalidInput if it is retired, or the last one."""
        label = self.label(name)
        if label in self.retired:
            raise InvalidInput(f"class {name!r} is retired already", "there is nothing to do")
        if len(self._active) == 1:
            raise InvalidInput(f"class {name!r} is the last one", "add another before you retire it")
        return self.names[label]

    def retire(self, name: Name) -> None:
        """Retire a class: it is not chosen any more."""
        self.retired.add(self._labels[name])
        self.refresh()
