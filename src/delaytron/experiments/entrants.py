"""Learners from outside the package in an experiment: `module:Class`, any class with `decide` and `feedback`."""

import sys
from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from inspect import getsourcefile
from pathlib import Path
from typing import Any

from delaytron.checks import reason_of
from delaytron.errors import DelaytronError, InvalidInput
from delaytron.simulation.rounds import Entrant

MARK = ":"  # in the name of a learner from outside
DIGITS = 16  # of the digest of its file
METHODS = ("decide", "feedback")


def is_outside(learner: str) -> bool:
    """Whether a name means a class outside the package.

    Examples
    --------
    >>> is_outside("mine:Greedy"), is_outside("delaytron")
    (True, False)
    """
    return MARK in learner


def plain_name(learner: str) -> str:
    """Return the name of a learner without the digest of its file.

    Examples
    --------
    >>> plain_name("mine:Greedy#0123456789abcdef"), plain_name("delaytron")
    ('mine:Greedy', 'delaytron')
    """
    return learner.partition("#")[0]


def with_digest(learner: str) -> str:
    """Return the name of a class with the digest of its file: another content is another learner."""
    return f"{plain_name(learner)}#{_digest(find_class(learner))}"


def find_class(learner: str) -> type:
    """Return the class of a name; modules are also looked for where the command runs.

    Raises InvalidInput if it cannot be imported or is no learner, or if its file is not the one of the digest.
    """
    name, _, digest = learner.partition("#")
    module, _, member = name.partition(MARK)
    here = str(Path.cwd())
    if here not in sys.path:  # a command that pip installed does not look there
        sys.path.append(here)
    try:
        found = getattr(import_module(module), member, None)
    except Exception as problem:  # whatever the module raises as it is imported
        reason = f"{type(problem).__name__}: {reason_of(problem)}"
        raise InvalidInput(f"cannot import {module!r} of {name}: {reason}", "check the name") from problem
    if not isinstance(found, type):
        raise InvalidInput(f"there is no class {member!r} in {module}", 'write name = "module:Class"')
    missing = [method for method in METHODS if not callable(getattr(found, method, None))]
    if missing:
        raise InvalidInput(f"{name} has no method {' and no method '.join(missing)}", "see docs/results/bakeoff.md")
    if digest and _digest(found) != digest:
        raise InvalidInput(
            f"the file of {name} has changed since the experiment began, or is not the same on a worker",
            "restore it, or run the command again",
        )
    return found


def make_entrant(learner: str, n_classes: int, n_features: int, seed: int, parameters: Mapping[str, Any]) -> Entrant:
    """Return a new learner; raise InvalidInput if its constructor fails."""
    cls: Any = find_class(learner)
    try:
        made: Entrant = cls(n_classes=n_classes, n_features=n_features, seed=seed, **parameters)
    except DelaytronError:
        raise
    except Exception as problem:
        reason = f"{type(problem).__name__}: {reason_of(problem)}"
        hint = "it is called with n_classes, n_features, seed and the parameters of its table"
        raise InvalidInput(f"cannot make a {plain_name(learner)}: {reason}", hint) from problem
    return made


def _digest(cls: type) -> str:
    try:
        return sha256(Path(getsourcefile(cls) or "").read_bytes()).hexdigest()[:DIGITS]
    except (OSError, TypeError) as problem:
        hint = "write the class into a file of its own"
        raise InvalidInput(f"the file of {cls.__name__} cannot be read: {reason_of(problem)}", hint) from None
