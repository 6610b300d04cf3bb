"""What a saved learner must be like before compiled code may trust it."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput
from delaytron.files.tensors import Tensors
from delaytron.kernels.linear import weight_shape
from delaytron.kernels.loop import ANSWERED, DROPPED, EXPIRED, REVISED
from delaytron.learners.ledger import LAPSED, OPEN, RELEASED
from delaytron.learners.rule import no_runs
from delaytron.records import Array

if TYPE_CHECKING:
    from delaytron.learners.stateful import Stateful

KINDS = {
    "answers": "int32",
    "arrived": "int64",
    "arrived.kind": "int64",
    "open.round": "int64",
    "open.greedy": "int64",
    "open.label": "int64",
    "open.prob": "float64",
    "open.starts": "int64",
    "open.values": "float64",
    "open.indices": "uint32",
}


def check_state(learner: "Stateful", sparse: bool, tensors: Tensors) -> Any:
    """Return the state out of a file; raise if its arrays are not like those of the learner, which needs no state."""
    like = learner.rule.init(no_runs(learner.params), learner.size(sparse))
    fields = {name: np.array(tensors[f"state.{name}"]) for name in like._fields}
    for name, field in fields.items():
        shape = getattr(like, name).shape[1:]
        if learner.rule.per_round_state:  # of any length; `restore` compares them
            shape = (len(field), *shape[1:])
        check_field(f"state.{name}", field, shape, getattr(like, name).dtype)
    return type(like)(**fields)


def check_average(learner: "Stateful", sparse: bool, tensors: Tensors) -> Array:
    """Return the sum out of which averaged weights are made; raise if it is not of their shape."""
    total = np.array(tensors["average.total"])
    shape = weight_shape(learner.n_classes, learner.n_features, sparse)
    check_field("average.total", total, shape, np.dtype(np.float64))
    return total


def check_field(name: str, field: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise if an array has not this shape and type, or counts below 0."""
    if field.shape != shape or field.dtype != dtype:
        raise InvalidInput(f"{name} has shape {field.shape} of {field.dtype}, expected {shape} of {dtype}")
    if field.dtype.kind == "i" and field.size and field.min() < 0:
        raise InvalidInput(f"{name} is below 0")


def not_finite(tensors: Tensors) -> list[str]:
    """Return the names of the tensors in which there are infinite numbers or NaN."""
    return sorted(name for name, tensor in tensors.items() if not np.isfinite(tensor).all())


def check_open_decisions(learner: "Stateful", sparse: bool, tensors: Tensors) -> None:
    """Raise if the compiled update must not trust the open decisions of a file."""
    kinds = KINDS | {"answers": "float64"} if learner.takes_rewards else KINDS
    for name, kind in kinds.items():
        if (sparse or name != "open.indices") and (str(tensors[name].dtype), tensors[name].ndim) != (kind, 1):
            raise InvalidInput(f"{name} must be a column of {kind}")
    K = learner.n_classes
    d = learner.n_features
    rounds = tensors["open.round"]
    starts = tensors["open.starts"]
    values = tensors["open.values"]
    lengths = np.diff(starts)
    sound = {
        "answers": _answers_are_sound(learner, tensors["answers"]),
        "arrived": _arrivals_are_sound(learner, tensors),
        "open.greedy": _between(tensors["open.greedy"], K, rounds.size),
        "open.label": _between(tensors["open.label"], K, rounds.size),
        "open.prob": _are_probabilities(tensors["open.prob"], rounds.size),
        "open.extra": _extras_are_sound(learner, tensors["open.extra"], rounds.size),
        "open.starts": starts.size == rounds.size + 1 and starts[0] == 0 and starts[-1] == values.size,
        "open.values": np.isfinite(values).all() and (lengths >= 0).all() and (sparse or (lengths == d).all()),
        "open.indices": not sparse or _between(tensors["open.indices"], d, values.size),
    }
    if not all(sound.values()):
        raise InvalidInput(f"{next(name for name, good in sound.items() if not good)} is inconsistent")


def _answers_are_sound(learner: "Stateful", answers: NDArray[Any]) -> bool:
    highest = 1 if learner.feedback_type == "correct" else learner.n_classes - 1
    whole_below_0 = (answers >= 0) | (answers % 1 == 0)
    return bool(((answers >= RELEASED) & (answers <= highest) & whole_below_0).all())


def _arrivals_are_sound(learner: "Stateful", tensors: Tensors) -> bool:
    """Whether the decisions kept are those that wait, those that may be corrected and those with a fresh event."""
    answers = tensors["answers"]
    arrived = tensors["arrived"]
    kinds = tensors["arrived.kind"]
    as_wrong = learner.feedback_model.as_wrong
    waiting = np.flatnonzero(np.isin(answers, (OPEN, LAPSED) if as_wrong else (OPEN,))) + 1
    allowed = (ANSWERED, REVISED, EXPIRED, DROPPED) if as_wrong else (ANSWERED, DROPPED)
    if not (np.unique(arrived).size == kinds.size == arrived.size and np.isin(kinds, allowed).all()):
        return False
    if not _between(arrived - 1, answers.size, arrived.size):
        return False
    answered = np.isin(kinds, (ANSWERED, REVISED))
    return bool(
        np.array_equal(np.sort(tensors["open.round"]), np.union1d(waiting, arrived))
        and (answers[arrived[answered] - 1] >= 0).all()
        and (answers[arrived[~answered] - 1] < OPEN).all()
    )


def _extras_are_sound(learner: "Stateful", extra: NDArray[Any], count: int) -> bool:
    """Whether the labels that rounds noted are labels; a number may be any, even NaN where the weights overflowed."""
    if extra.shape != (count, len(learner.rule.extras)) or extra.dtype != np.float64:
        return False
    indices = [extra[:, i] for i, kind in enumerate(learner.rule.extras) if kind == "label"]
    return all(_between(column, learner.n_classes, count) and (column % 1 == 0).all() for column in indices)


def _are_probabilities(numbers: NDArray[Any], count: int) -> bool:
    return numbers.size == count and bool((np.isnan(numbers) | (np.abs(numbers - 0.5) <= 0.5)).all())


def _between(numbers: NDArray[Any], below: int, count: int) -> bool:
    return numbers.shape == (count,) and bool(((numbers >= 0) & (numbers < below)).all())
