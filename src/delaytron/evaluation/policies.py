"""Policies as probabilities: for every decision of a log, how likely each label would have been."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from delaytron.checks import check_choice
from delaytron.errors import InvalidInput
from delaytron.evaluation.features import BITS, bits_for, rows_of
from delaytron.evaluation.policy_names import read_name
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.looking import look, room_to_look
from delaytron.learners.named import make_named
from delaytron.learners.rows import as_row
from delaytron.matrices import check_matrix
from delaytron.records import Array, Ints
from delaytron.rng import stream

if TYPE_CHECKING:
    from delaytron.logs.log import Log
    from delaytron.model.model import Model

CLOSE = 1e-6  # what the sum of probabilities may be off
MOST_LISTED = 8  # classes in a message
LOGGED, UNIFORM, ALWAYS = "logged", "uniform", "always:"

Advance = Callable[[int], object]


class Policy(NamedTuple):
    """A policy with a name: its probabilities on a log, or a learner that is to learn from the log."""

    name: str
    probabilities: Array | None = None
    learner: Learner | None = None


def read_policy(log: "Log", policy: Any, seed: int, parameters: dict[str, Any], advance: Advance) -> Policy:
    """Return what was asked for as a policy on this log, or raise."""
    named = read_name(policy, parameters)
    if named is not None:
        return _named(log, *named, seed)
    _refuse_parameters(parameters)
    if isinstance(policy, Learner):
        return Policy(policy.name, learner_probabilities(log, policy, advance))
    if type(policy).__name__ == "Model" and hasattr(policy, "open_decisions"):
        return Policy("model", _model_probabilities(log, policy, advance))
    return Policy("array", check_probabilities(log, policy))


def _named(log: "Log", name: str, parameters: dict[str, Any], seed: int) -> Policy:
    fixed = _fixed(log, name)
    if fixed is not None:
        _refuse_parameters(parameters)
        return Policy(name, fixed)
    check_choice("policy", name, (*LEARNERS, UNIFORM, LOGGED, f"{ALWAYS}CLASS"))
    n_features = 2**BITS if log.n_features is None else log.n_features
    learner = make_named(name, parameters, log.n_classes, n_features, seed)
    return Policy(_title(name, parameters), learner=check_learner(log, learner))


def _fixed(log: "Log", name: str) -> Array | None:
    """Return the probabilities of a policy that is no learner."""
    if name.startswith(ALWAYS):
        return _always(log, name.removeprefix(ALWAYS))
    if name == UNIFORM:
        return _uniform(log)
    return _logged(log) if name == LOGGED else None


def _refuse_parameters(parameters: dict[str, Any]) -> None:
    if parameters:
        raise InvalidInput(
            f"parameters are for a learner that is given by its name, got {', '.join(parameters)}; leave them out"
        )


def _title(name: str, parameters: dict[str, Any]) -> str:
    given = ",".join(f"{parameter}={value}" for parameter, value in parameters.items())
    return f"{name}:{given}" if given else name


def check_learner(log: "Log", learner: Learner) -> Learner:
    """Raise if a learner cannot learn from a log."""
    if learner.rule.peek is None:
        raise InvalidInput(
            f"{learner.name} plays sets of labels, and no single label has a probability; take another learner"
        )
    if learner.feedback_type == "label":
        raise InvalidInput(f"{learner.name} must be told the right label, a log has rewards; take another learner")
    known = log.outcomes[~np.isnan(log.outcomes)]
    between = known[(known > 0) & (known < 1)]
    if between.size and not learner.takes_rewards:
        raise InvalidInput(f"{learner.name} takes rewards of 0 and 1 only, got {between[0]}; take another learner")
    return learner


def check_probabilities(log: "Log", given: Any) -> Array:
    """Return an array of probabilities, one row for each decision, or raise."""
    shape = (len(log), log.n_classes)
    try:
        found = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != shape:
        kinds = "a learner, its name, or an array of probabilities"
        raise InvalidInput(f"a policy must be {kinds} of shape {shape}, got {_shown(given, found)}")
    fine = (found >= 0).all(axis=1) & (abs(found.sum(axis=1) - 1) <= CLOSE)
    if not fine.all():
        row = int(np.argmin(fine))
        raise InvalidInput(f"probabilities must be at least 0 and sum to 1, got {str(found[row])[:100]} in row {row}")
    if log.allowed is not None and (found[~log.allowed] > 0).any():
        row, label = np.argwhere((found > 0) & ~log.allowed)[0]
        raise InvalidInput(
            f"label {label} was not allowed in row {row}, got probability {found[row, label]}; make it 0"
        )
    return found


def _shown(given: Any, found: Array) -> str:
    return f"shape {found.shape}" if found.size and found.ndim else type(given).__name__


def _uniform(log: "Log") -> Array:
    if log.allowed is None:
        return np.full((len(log), log.n_classes), 1.0 / log.n_classes)
    return np.asarray(log.allowed / log.allowed.sum(axis=1, keepdims=True))


def _logged(log: "Log") -> Array:
    """Return the probabilities of the log's own policy: at least that of the label, more the log may not tell."""
    told = log.probabilities
    found = np.zeros((len(log), log.n_classes)) if told is None else np.array(told)
    found[np.arange(len(log)), log.labels] = log.probs
    return found


def _always(log: "Log", text: str) -> Array:
    """Return the policy that plays one class; where it is not allowed, one of the others at random."""
    names = [str(name) for name in log.classes]
    label = names.index(check_choice("the class of a policy", text, names))
    found = np.zeros((len(log), log.n_classes))
    found[:, label] = 1.0
    return found if log.allowed is None else np.where(log.allowed[:, [label]], found, _uniform(log))


def learner_probabilities(log: "Log", learner: Learner, advance: Advance) -> Array:
    """Return what a learner would play if it learned nothing more."""
    if learner.n_classes != log.n_classes:
        raise InvalidInput(
            f"the log has {log.n_classes} classes, this learner has {learner.n_classes}; give one with as many"
        )
    bits = bits_for(learner.n_features) if log.n_features is None else BITS
    X: Any = check_matrix(rows_of(log, bits), learner.n_features)
    room = room_to_look(learner)
    found = np.empty((len(log), log.n_classes))
    with learner._lock:
        for t, labels in enumerate(allowed_labels(log)):
            found[t] = look(
                learner, as_row(X[t : t + 1] if hasattr(X, "tocsr") else X[t], X.shape[1], None), labels, room
            )[1]
            advance(1)
    return found


def _model_probabilities(log: "Log", model: "Model", advance: Advance) -> Array:
    """Return what a model would choose; its classes are those of the log by their names."""
    places = {name: label for label, name in enumerate(log.classes)}
    found = np.zeros((len(log), log.n_classes))
    for t, labels in enumerate(allowed_labels(log)):
        names = [log.classes[label] for label in labels.tolist() if log.classes[label] in model.classes]
        if not names:
            _refuse_classes(log, labels, model.classes, t)
        for name, prob in model.probabilities(log.features[t], allowed=names).items():
            found[t, places[name]] = prob
        advance(1)
    return found


def _refuse_classes(log: "Log", labels: Ints, classes: Iterable[Any], row: int) -> NoReturn:
    has, allows = _first(classes), _first(log.classes[label] for label in labels.tolist())
    raise InvalidInput(
        f"the model has the classes {has}, and row {row} of the log allows {allows}: none of them; "
        "give the classes of the log their names, as in dt.logs.from_arrays(classes=[...])"
    )


def _first(names: Iterable[Any]) -> str:
    several = [repr(name) for name in names]
    return ", ".join(several[:MOST_LISTED]) + (", ..." if len(several) > MOST_LISTED else "")


def allowed_labels(log: "Log") -> list[Ints]:
    """Return for each decision the labels that were allowed, ascending."""
    if log.allowed is None:
        return [np.arange(log.n_classes)] * len(log)
    return [np.flatnonzero(mask) for mask in log.allowed]


def rejection_draws(n_rounds: int, seed: int) -> Array:
    """Return the random numbers that decide which rounds a replay accepts."""
    return stream(seed, "replay").random(n_rounds)
