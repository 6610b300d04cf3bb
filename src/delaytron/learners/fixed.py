"""Parameters that can be read and never be changed: what a learner shows is what it does."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from delaytron.checks import shown


def fixed(name: str) -> property:
    """Return an attribute that the constructor sets once.

    Examples
    --------
    >>> class Sample:
    ...     rate = fixed("rate")
    >>> sample = Sample()
    >>> sample.rate = 0.1
    >>> sample.rate
    0.1
    >>> sample.rate = 0.9
    Traceback (most recent call last):
    ...
    AttributeError: rate is fixed once a Sample is made; make a new one with rate=0.9
    """

    def set_once(owner: Any, value: Any) -> None:
        if stored_as(name) in vars(owner):
            made = f"{name} is fixed once a {type(owner).__name__} is made"
            raise AttributeError(f"{made}; make a new one with {name}={shown(value)}")
        vars(owner)[stored_as(name)] = value

    return property(attrgetter(stored_as(name)), set_once)  # a getter in C: parameters are read in every round


def stored_as(name: str) -> str:
    """Return under which name an object holds a parameter."""
    return f"_fixed_{name}"


def fix_parameters(cls: type, names: Iterable[str]) -> None:
    """Let these attributes of a class be set once."""
    for name in names:
        setattr(cls, name, fixed(name))
