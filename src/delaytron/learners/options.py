"""What every learner takes besides its own parameters."""

from inspect import Parameter, signature
from typing import Any, TypedDict

import numpy as np

from delaytron.checks import check_bool, check_choice, check_integer, check_number, did_you_mean, shown
from delaytron.errors import InvalidInput
from delaytron.kernels.explore import pick_one
from delaytron.learners.feedback import FeedbackModel, read_feedback_model
from delaytron.records import Ints
from delaytron.rng import fresh_seed

DEFAULT_GAMMA = 2.0**-6
GAMMAS = tuple(2.0**-k for k in range(2, 12))
WORDS = {"correct": ("wrong", "correct")}  # what the answers 0, 1 mean; a label means itself


class Common(TypedDict, total=False):
    """The common parameters; `Learner` tells what they mean."""

    seed: int | None
    noise: tuple[float, float] | None
    expire_after: int | None
    on_expiry: str
    average: bool
    standardize: bool
    ties: str | None


COMMON: dict[str, Any] = {
    "seed": None,
    "noise": None,
    "expire_after": None,
    "on_expiry": "drop",
    "average": False,
    "standardize": False,
    "ties": None,
}


def own_parameters(cls: type) -> dict[str, Any]:
    """Return the parameters that a learner takes beyond those that all take, with their defaults."""
    given = signature(cls).parameters.values()
    own = (p for p in given if p.kind is not Parameter.VAR_KEYWORD and p.name not in ("n_classes", "n_features"))
    return {p.name: p.default for p in own}


def read_ties(learner: Any, ties: Any) -> str | None:
    """Check how labels of equal scores are told apart; None leaves it to the learner."""
    if ties is None:
        return None
    word = check_choice("ties", ties, ("first", "random"))
    if word == "random" and learner.rule.pick is not pick_one:
        raise InvalidInput(f"{learner.name} has its own way with equal scores; leave out ties='random'")
    if word == "first" and learner.rule.ties == "shares":
        raise InvalidInput(f"{learner.name} always shares ties at random; leave out ties='first'")
    return word


def read_common(learner: Any, common: Common) -> tuple[dict[str, Any], FeedbackModel]:
    """Check the common parameters for a learner; return them all, and what its feedback will be like."""
    for unknown in common.keys() - COMMON.keys():
        known = [*own_parameters(type(learner)), *COMMON]
        hint = did_you_mean(unknown, known) or f"; it takes {', '.join(known)}"
        raise TypeError(f"{type(learner).__name__}() got an unexpected keyword argument {unknown!r}{hint}")
    options: dict[str, Any] = COMMON | common
    seed = options["seed"]
    options["seed"] = fresh_seed() if seed is None else check_integer("seed", seed, at_least=0)
    options["average"] = check_bool("average", options["average"])
    if options["average"] and not learner.averages:
        raise InvalidInput(f"{learner.name} has no averaged weights; leave out average=True")
    options["ties"] = read_ties(learner, options["ties"])
    options["standardize"] = check_bool("standardize", options["standardize"])
    if options["average"] and options["standardize"]:
        raise InvalidInput("weights for standardised rows have no average: leave out average=True or standardize=True")
    feedback_model = read_feedback_model(options["noise"], options["expire_after"], options["on_expiry"])
    options["expire_after"] = feedback_model.expire_after if feedback_model.expires else None
    if learner.feedback_type == "label" and (feedback_model.flips or feedback_model.as_wrong):
        raise InvalidInput(f"{learner.name} is told the true label: leave out noise and on_expiry='wrong'")
    return options, feedback_model


def read_allowed(learner: Any, allowed: Any) -> Ints:
    """Return the labels among which to choose, in ascending order, or raise."""
    if not learner.rule.restricts:
        raise InvalidInput(f"{learner.name} plays sets of labels: it takes no allowed=..., leave it out")
    try:
        given = np.asarray(allowed)
    except ValueError:
        given = np.empty(0)  # rows of different lengths
    inside = given.dtype.kind in "iu" and bool(((given >= 0) & (given < learner.n_classes)).all())
    if given.ndim != 1 or not given.size or not inside:
        raise InvalidInput(f"allowed must be a list of labels in 0..{learner.n_classes - 1}, got {shown(allowed)}")
    return np.unique(given).astype(np.int64)


def read_answer(learner: Any, correct: Any, label: Any, reward: Any = None) -> float:
    """Check what `feedback` is told; return it as a small integer, or as the reward it is."""
    if label is None and reward is None and correct is not None and learner.feedback_type == "correct":
        return int(check_bool("correct", correct))
    given = {"correct": correct, "label": label, "reward": reward}
    told = [name for name, value in given.items() if value is not None]
    if reward is not None and told == ["reward"] and learner.takes_rewards:
        return _read_reward(learner, reward)
    if told != [learner.feedback_type]:
        came = ", ".join(f"{name}={shown(given[name])}" for name in told) or "no answer"
        raise InvalidInput(f"{type(learner).__name__} takes feedback(id, {_known(learner)}=...); got {came}")
    if check_integer("label", label, at_least=0) >= learner.n_classes:
        raise InvalidInput(f"label must be in 0..{learner.n_classes - 1}, got {shown(label)}")
    return int(label)


def _known(learner: Any) -> str:
    return f"{learner.feedback_type}=...) or feedback(id, reward" if learner.takes_rewards else learner.feedback_type


def _read_reward(learner: Any, reward: Any) -> float:
    number = check_number("reward", reward)
    if not 0 <= number <= 1:
        raise InvalidInput(f"reward must be from 0 (wrong) to 1 (right), got {shown(reward)}")
    if learner.feedback_model.flips and 0 < number < 1:
        raise InvalidInput(f"noise=... rehearses false answers: give correct=True or False, got reward={reward!r}")
    return number
