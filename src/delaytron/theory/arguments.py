"""The arguments that all bounds share: what each may be; and formulas that take numbers or arrays of them."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypedDict

import numpy as np

from delaytron.checks import check_bool, check_choice, shown
from delaytron.errors import InvalidInput
from delaytron.records import Array, Ints

Real = float | Array
P = ParamSpec("P")


class Arguments(TypedDict, total=False):
    """What bounds are computed from; `ALLOWED` says what each is, and which numbers it may be."""

    norm: Real
    comparator_loss: Real
    loss_bound: Real | None
    radius: Real
    eta: Real | None
    budget: Real | None
    gamma: Real
    n_classes: Real
    n_rounds: Real | Ints
    delay_received: Real
    total_delay: Real
    missing: Real
    outstanding: Real
    max_outstanding: Real
    greedy_mistakes: Real
    sharpness: Real | None
    log_regret: Real
    best_loss: Real
    n_models: Real
    plays: Real
    least_loss: Real
    failure: Real


NOT_NEGATIVE = ("at least 0", lambda value: value >= 0)
POSITIVE = ("above 0", lambda value: value > 0)
RATE = ("in (0, 1]", lambda value: (value > 0) & (value <= 1))
CLASSES = ("integers of at least 2", lambda value: (value >= 2) & (value == np.floor(value)))
ROUNDS = ("integers of at least 1", lambda value: (value >= 1) & (value == np.floor(value)))

ALLOWED: dict[str, tuple[str, Callable[[Array], Any]]] = {
    "norm": NOT_NEGATIVE,  # ||W||_F, of the weights that the learner is compared with
    "comparator_loss": NOT_NEGATIVE,  # the sum of their hinge losses
    "loss_bound": NOT_NEGATIVE,  # L, above the hinge loss of every unanswered round
    "radius": POSITIVE,  # R, above the length of every row
    "eta": POSITIVE,
    "budget": POSITIVE,  # B, the norm that an anytime learner is made for
    "gamma": RATE,
    "n_classes": CLASSES,  # K
    "n_rounds": ROUNDS,  # T
    "delay_received": NOT_NEGATIVE,  # the sum of d_t over the rounds that are answered by round T
    "total_delay": NOT_NEGATIVE,  # the sum of all d_t
    "missing": NOT_NEGATIVE,  # |M|, the rounds that are not
    "outstanding": NOT_NEGATIVE,  # the sum of o_t, of earlier rounds that wait when round t predicts
    "max_outstanding": NOT_NEGATIVE,  # the largest o_t
    "greedy_mistakes": NOT_NEGATIVE,
    "sharpness": POSITIVE,  # the gamma of inverse gaps, no rate
    "log_regret": NOT_NEGATIVE,  # Reg, of the predicted losses, in the logarithmic loss
    "best_loss": NOT_NEGATIVE,  # L*, the expected mistakes of the best label of every row
    "n_models": ROUNDS,  # N
    "plays": ROUNDS,  # of one class
    "least_loss": RATE,  # 1 - p of the best label is at least this
    "failure": RATE,  # the probability with which a statement may be false
}
AMONG_ROUNDS = ("missing", "max_outstanding")
OPTIONAL = ("eta", "budget", "sharpness")
FLAGS = ("tight", "repaired", "hinge", "greedy_right")


def formula(compute: Callable[P, Any]) -> Callable[P, Any]:
    """Check each argument that a formula is given; numbers give a float, arrays broadcast."""

    @wraps(compute)
    def checked(*args: P.args, **given: P.kwargs) -> Any:
        for name, value in given.items():
            if name in FLAGS:
                given[name] = check_bool(name, value)
            elif name in ALLOWED and not (name in OPTIONAL and value is None):
                given[name] = check(name, value)
        _check_together(given)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = compute(*args, **given)
        if np.isnan(found).any():  # beyond all floats: then an infinite bound is a fair one
            found = np.where(np.isnan(found), np.inf, found)
        return float(found) if np.ndim(found) == 0 else found

    return checked


def check_names(names: Iterable[str]) -> None:
    """Raise if no bound has an argument of such a name."""
    if not isinstance(names, Iterable):
        raise InvalidInput(f"arguments must be a dict, as in {{'gamma': 0.1}}; got {shown(names)}")
    for name in names:
        check_choice("an argument of the bounds", name, ALLOWED)


def check(name: str, value: Any) -> Array:
    """Numbers within the range that their name has, as an array of float64 (of no dimension for one number)."""
    numbers = _as_floats(name, value)
    text, allows = ALLOWED[name]
    bad = ~allows(numbers)
    if bad.any():
        raise InvalidInput(f"{name} must be {text}, got {numbers[bad].flat[0]:.17g}")
    return numbers


def _as_floats(name: str, value: Any) -> Array:
    try:
        given = np.asarray(value)
        large = given.dtype.kind == "O" and all(type(entry) is int for entry in given.flat)  # beyond 64 bits
        if given.dtype.kind in "iuf" or large:
            numbers = np.asarray(given, np.float64)
            if np.isfinite(numbers).all():
                return numbers
    except (ValueError, OverflowError):  # rows of different lengths; beyond all floats
        pass
    raise InvalidInput(f"{name} must be a finite number or an array of them, got {shown(value)}")


def _check_together(given: Mapping[str, Any]) -> None:
    shapes = {name: value.shape for name, value in given.items() if isinstance(value, np.ndarray) and value.ndim}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        given_shapes = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InvalidInput(f"arrays must have shapes that broadcast, got {given_shapes}") from None
    for name in AMONG_ROUNDS:
        if name in given and "n_rounds" in given and np.any(given[name] > given["n_rounds"]):
            raise InvalidInput(f"{name} must be at most n_rounds, got {np.max(given[name]):.17g}")
