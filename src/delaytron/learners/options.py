"""What every learner takes besides its own parameters."""

from inspect import Parameter, signature
from typing import Any, TypedDict

from delaytron.checks import flag, whole
from delaytron.errors import InvalidInput
from delaytron.learners.feedback import Life, read_life
from delaytron.rng import fresh_seed

WORDS = {"correct": ("wrong", "correct")}  # what the answers 0, 1 mean; a label means itself


class Common(TypedDict, total=False):
    """The common parameters; `Learner` tells what they mean."""

    seed: int | None
    noise: tuple[float, float] | None
    expire_after: int | None
    on_expiry: str
    average: bool


COMMON: dict[str, Any] = {"seed": None, "noise": None, "expire_after": None, "on_expiry": "drop", "average": False}


def own_parameters(cls: type) -> dict[str, Any]:
    """Return the parameters that a learner takes beyond those that all take, with their defaults."""
    given = signature(cls).parameters.values()
    own = (p for p in given if p.kind is not Parameter.VAR_KEYWORD and p.name not in ("n_classes", "n_features"))
    return {p.name: p.default for p in own}


def read_common(learner: Any, common: Common) -> tuple[dict[str, Any], Life]:
    """Check the common parameters for a learner; return them all, and what its feedback will be like."""
    for unknown in set(common) - set(COMMON):
        raise TypeError(f"{type(learner).__name__}() got an unexpected keyword argument {unknown!r}")
    options: dict[str, Any] = COMMON | common
    seed = options["seed"]
    options["seed"] = fresh_seed() if seed is None else whole("seed", seed, at_least=0)
    options["average"] = flag("average", options["average"])
    if options["average"] and not learner.averages:
        raise InvalidInput(f"{learner.name} has no averaged weights; leave out average=True")
    life = read_life(options["noise"], options["expire_after"], options["on_expiry"])
    options["expire_after"] = life.expire_after if life.expires else None
    if learner.hears == "label" and (life.lies or life.as_wrong):
        raise InvalidInput(f"{learner.name} is told the true label: it takes no noise and no on_expiry='wrong'")
    return options, life


def read_answer(learner: Any, correct: Any, label: Any) -> int:
    """Check what `feedback` is told; return it as a small whole number."""
    given = {"correct": correct, "label": label}
    value = given.pop(learner.hears)
    if value is None or next(iter(given.values())) is not None:
        raise InvalidInput(f"{type(learner).__name__} is told feedback(id, {learner.hears}=...), nothing else")
    if learner.hears == "correct":
        return int(flag("correct", value))
    if whole("label", value, at_least=0) >= learner.n_classes:
        raise InvalidInput(f"label must be in 0..{learner.n_classes - 1}, got {value!r}")
    return int(value)
