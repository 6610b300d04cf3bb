"""Arguments of every learner: parameters that are fixed, rows as the kernels read them, common parameters, answers."""

from collections.abc import Iterable
from inspect import Parameter, signature
from operator import attrgetter
from typing import Any, TypedDict

import numpy as np

from delaytron.checks import (
    MODERATE,
    as_numbers,
    check_bool,
    check_choice,
    check_integer,
    check_matrix,
    check_number,
    did_you_mean,
    first_not_finite,
    has_moderate_square,
    is_extreme,
    is_sparse,
)
from delaytron.errors import InvalidInput, Setting, shown
from delaytron.kernels.explore import pick_one
from delaytron.learners.book import Expiry, read_expiry
from delaytron.records import Array, Ints, Row
from delaytron.rng import fresh_seed


def stored_as(name: str) -> str:
    """Return the key under which an object stores a parameter."""
    return f"_fixed_{name}"


def fix_parameters(cls: type, names: Iterable[str]) -> None:
    """Make these attributes of a class settable once, by the constructor.

    Examples
    --------
    >>> class Sample: ...
    >>> fix_parameters(Sample, ["rate"])
    >>> sample = Sample()
    >>> sample.rate = 0.1
    >>> sample.rate
    0.1
    >>> sample.rate = 0.9
    Traceback (most recent call last):
    ...
    AttributeError: rate of a Sample cannot be changed; make a new one with rate=0.9
    """

    def fixed(name: str) -> property:
        def set_once(owner: Any, value: Any) -> None:
            if stored_as(name) in vars(owner):
                problem = f"{name} of a {type(owner).__name__} cannot be changed"
                raise AttributeError(f"{problem}; make a new one with {name}={shown(value)}")
            vars(owner)[stored_as(name)] = value

        return property(attrgetter(stored_as(name)), set_once)  # a getter in C: parameters are read in every round

    for name in names:
        setattr(cls, name, fixed(name))


def as_row(x: Any, n_features: int, sparse: bool | None) -> Row:
    """Return a copy of one example, sparse or dense as `sparse` says (None: as given); raise InvalidInput.

    Examples
    --------
    >>> as_row([0, 2.5], 2, sparse=True)
    Row(indices=array([1], dtype=uint32), values=array([2.5]))
    """
    dense = type(x) is np.ndarray or not is_sparse(x)
    row = Row(None, _dense_row(x, n_features)) if dense else _sparse_row(x, n_features)
    return row if sparse is None else as_kind_of_row(row, n_features, sparse)


def as_kind_of_row(row: Row, n_features: int, sparse: bool) -> Row:
    """Return a checked row, converted to a sparse or a dense one if it is of the other kind."""
    if sparse == (row.indices is not None):
        return row
    if sparse:
        indices = np.flatnonzero(row.values)
        return Row(indices.astype(np.uint32), row.values[indices])
    values = np.zeros(n_features)
    values[row.indices] = row.values
    return Row(None, values)


def _dense_row(x: Any, n_features: int) -> Array:
    """Return a copy of a dense row as float64; raise InvalidInput if it is not a row of `n_features` finite numbers."""
    hint = f"pass one number for each of the {n_features} features"
    try:
        if type(x) is np.ndarray and x.dtype.char == "d":  # what most applications pass, in a third of the time
            values = x.copy()
        else:
            given = np.asarray(x)
            values = np.array(given if given.dtype.kind in "biuf" else as_numbers(x), dtype=np.float64)
    except (InvalidInput, TypeError, ValueError, OverflowError):
        raise InvalidInput.of("x", f"{n_features} numbers", x, hint) from None
    if values.shape != (n_features,):
        raise InvalidInput.of("x", f"1-D with {n_features} numbers", hint=hint, got=f"shape {values.shape}")
    if not has_moderate_square(values):  # one product finds both: what is not finite, and what is too large or small
        position = first_not_finite(values)
        if position is not None:
            found = f"{values[position]} at position {position}"
            raise InvalidInput.of("x", "finite", hint="replace or impute missing values", got=found)
        check_row(values)
    return values


def check_row(values: Array) -> None:
    """Raise InvalidInput if the largest number of a row is so large or so small that its square loses its digits.

    Examples
    --------
    >>> check_row(np.array([1e-160, 0.0]))
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: x must have a largest number of 0 or from 1e-50 to 1e+50, got 1e-160; scale it
    """
    largest = float(np.abs(values).max(initial=0.0))
    if is_extreme(largest):
        raise InvalidInput.of("x", MODERATE, got=f"{largest:g}", hint="scale it", verb="have")


def _sparse_row(x: Any, n_features: int) -> Row:
    """Return a copy of a sparse row; raise InvalidInput as `_dense_row` does."""
    if not _is_plain_csr_row(x, n_features):
        x = check_matrix(x, n_features, one_row_ok=True)
    if x.shape[0] != 1:
        raise InvalidInput.of("x", "one row", got=f"{x.shape[0]}", hint="pass them one by one, or use decide_many")
    values = x.data.astype(np.float64)
    if not has_moderate_square(values):
        if first_not_finite(values) is not None:
            check_matrix(x, n_features)  # raises, with the position
        check_row(values)
    return Row(x.indices.astype(np.uint32), values)


def _is_plain_csr_row(x: Any, n_features: int) -> bool:
    """Return whether x is one CSR row of sorted float64 numbers: this takes a tenth of the time of a full check."""
    if x.format != "csr" or x.shape != (1, n_features) or x.data.dtype != np.float64:
        return False
    indices = x.indices
    ordered = indices.size == x.data.size and bool((indices[1:] > indices[:-1]).all())
    inside = indices.size == 0 or 0 <= indices[0] <= indices[-1] < n_features
    whole = x.indptr[0] == 0 and x.indptr[-1] == indices.size
    return ordered and bool(inside and whole)


DEFAULT_GAMMA = 2.0**-6
GAMMAS = tuple(2.0**-k for k in range(2, 12))


class Common(TypedDict, total=False):
    """The common parameters; see `Learner`."""

    seed: int | None
    expire_after: int | None
    on_expiry: str
    correct_within: int | None
    standardize: bool
    ties: str | None


COMMON: dict[str, Any] = {
    "seed": None,
    "expire_after": None,
    "on_expiry": "drop",
    "correct_within": None,
    "standardize": False,
    "ties": None,
}


def own_parameters(cls: type) -> dict[str, Any]:
    """Return the parameters of a learner that are not common to all, with their defaults."""
    given = signature(cls).parameters.values()
    own = (p for p in given if p.kind is not Parameter.VAR_KEYWORD and p.name not in ("n_classes", "n_features"))
    return {p.name: p.default for p in own}


def read_common(learner: Any, common: Common) -> tuple[dict[str, Any], Expiry]:
    """Return all common parameters of a learner, checked and with defaults, and its `Expiry`.

    Raises TypeError for an unknown parameter, InvalidInput for a wrong value.
    """
    for unknown in common.keys() - COMMON.keys():
        known = [*own_parameters(type(learner)), *COMMON]
        hint = did_you_mean(unknown, known) or f"it takes {', '.join(known)}"
        raise TypeError(f"{type(learner).__name__}() got an unexpected keyword argument {unknown!r}; {hint}")
    options: dict[str, Any] = COMMON | common
    seed = options["seed"]
    options["seed"] = fresh_seed() if seed is None else check_integer("seed", seed, at_least=0)
    if options["ties"] is not None:
        ties = options["ties"] = check_choice("ties", options["ties"], ("first", "random"))
        leave_out = ("leave out ", Setting("ties", repr(ties)))
        if ties == "random" and learner.rule.pick is not pick_one:
            raise InvalidInput(f"{learner.name} breaks ties in its own way", leave_out, parameter="ties")
        if ties == "first" and learner.rule.ties == "shares":
            raise InvalidInput(f"{learner.name} always shares ties at random", leave_out, parameter="ties")
    options["standardize"] = check_bool("standardize", options["standardize"])
    expiry = read_expiry(options["expire_after"], options["on_expiry"], options["correct_within"])
    options["expire_after"] = expiry.rounds if expiry.expires else None
    if learner.feedback_type == "label" and expiry.as_wrong:
        raise InvalidInput(
            f"{learner.name} learns from the true label, so an expired decision cannot count as wrong",
            ("leave out ", Setting("on_expiry", "'wrong'")),
            parameter="on_expiry",
        )
    return options, expiry


def read_allowed(learner: Any, allowed: Any) -> Ints:
    """Return the allowed labels, ascending and distinct; raise InvalidInput if they are no labels of the learner."""
    if not learner.rule.restricts:
        problem = f"{learner.name} plays sets of labels: it cannot choose among some of them"
        raise InvalidInput(problem, ("leave out ", Setting("allowed")), parameter="allowed")
    try:
        given = np.asarray(allowed)
    except ValueError:
        given = np.empty(0)  # rows of different lengths
    inside = given.dtype.kind in "iu" and bool(((given >= 0) & (given < learner.n_classes)).all())
    if given.ndim != 1 or not given.size or not inside:
        raise InvalidInput.of(
            "allowed", f"a list of labels in 0..{learner.n_classes - 1}", allowed, "give at least one label"
        )
    return np.unique(given).astype(np.int64)


def read_answer(learner: Any, correct: Any, label: Any, reward: Any = None) -> float:
    """Return the answer given to `feedback` as a number: 0 or 1, the true label, or a reward from 0 to 1.

    Raises InvalidInput if the learner does not take such an answer.
    """
    if label is None and reward is None and correct is not None and learner.feedback_type == "correct":
        # First, because it is by far the most frequent.
        return 1 if correct is True else 0 if correct is False else int(check_bool("correct", correct))
    answers = {"correct": correct, "label": label, "reward": reward}
    given = {name: value for name, value in answers.items() if value is not None}
    if list(given) == ["reward"] and learner.takes_rewards:
        number = check_number("reward", reward)
        if not 0 <= number <= 1:
            raise InvalidInput.of("reward", "from 0 (wrong) to 1 (right)", reward, "rescale it")
        return number
    if list(given) != [learner.feedback_type]:
        came = ", ".join(f"{name}={shown(value)}" for name, value in given.items()) or "no answer"
        taken = [learner.feedback_type, *(["reward"] if learner.takes_rewards else [])]
        calls = " or ".join(f"feedback(id, {name}=...)" for name in taken)
        raise InvalidInput(f"{type(learner).__name__} was given {came}", f"use {calls}")
    if check_integer("label", label, at_least=0) >= learner.n_classes:
        raise InvalidInput.of(
            "label", f"in 0..{learner.n_classes - 1}", label, "add the class first, or check the label"
        )
    return int(label)
