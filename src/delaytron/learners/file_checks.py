"""What a saved learner must be like before compiled code may trust it."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput
from delaytron.kernels.loop import ANSWERED, REVISED
from delaytron.learners.ledger import LAPSED, OPEN

if TYPE_CHECKING:
    from delaytron.learners.base import Learner

Tensors = dict[str, NDArray[Any]]
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


def check_field(name: str, field: NDArray[Any], like: NDArray[Any]) -> None:
    """Raise if an array is not like the one it stands for."""
    if field.shape != like.shape or field.dtype != like.dtype:
        raise InvalidInput(f"{name} has shape {field.shape}, expected {like.shape}")
    if not np.isfinite(field).all() or (field.dtype.kind == "i" and field.size and field.min() < 0):
        raise InvalidInput(f"{name} is not finite, or below 0")


def check_open_decisions(learner: "Learner", sparse: bool, tensors: Tensors) -> None:
    """Raise if the compiled update must not trust the open decisions of a file."""
    for name, kind in KINDS.items():
        if (sparse or name != "open.indices") and (str(tensors[name].dtype), tensors[name].ndim) != (kind, 1):
            raise InvalidInput(f"{name} must be a column of {kind}")
    K, d = learner.n_classes, learner.n_features
    rounds, starts, values = tensors["open.round"], tensors["open.starts"], tensors["open.values"]
    lengths = np.diff(starts)
    sound = {
        "answers": _answers_are_sound(learner, tensors["answers"]),
        "arrived": _arrivals_are_sound(learner, tensors),
        "open.greedy": _between(tensors["open.greedy"], K, rounds.size),
        "open.label": _between(tensors["open.label"], K, rounds.size),
        "open.prob": tensors["open.prob"].size == rounds.size and (np.abs(tensors["open.prob"] - 0.5) <= 0.5).all(),
        "open.extra": _extras_are_sound(learner, tensors["open.extra"], rounds.size),
        "open.starts": starts.size == rounds.size + 1 and starts[0] == 0 and starts[-1] == values.size,
        "open.values": np.isfinite(values).all() and (lengths >= 0).all() and (sparse or (lengths == d).all()),
        "open.indices": not sparse or _between(tensors["open.indices"], d, values.size),
    }
    if not all(sound.values()):
        raise InvalidInput(f"{next(name for name, good in sound.items() if not good)} makes no sense")


def _answers_are_sound(learner: "Learner", answers: NDArray[Any]) -> bool:
    lowest = LAPSED if learner.feedback_model.expires else OPEN
    highest = 1 if learner.feedback_type == "correct" else learner.n_classes - 1
    return bool(((answers >= lowest) & (answers <= highest)).all())


def _arrivals_are_sound(learner: "Learner", tensors: Tensors) -> bool:
    """Whether the decisions kept are those that wait, those that may be corrected and those with a fresh answer."""
    answers, arrived, kinds = tensors["answers"], tensors["arrived"], tensors["arrived.kind"]
    kept = (OPEN, LAPSED) if learner.feedback_model.as_wrong else (OPEN,)
    waiting = np.flatnonzero(np.isin(answers, kept)) + 1
    allowed = (ANSWERED, REVISED) if learner.feedback_model.as_wrong else (ANSWERED,)
    return bool(
        np.array_equal(np.sort(tensors["open.round"]), np.union1d(waiting, arrived))
        and not np.isin(arrived, waiting).any()
        and np.unique(arrived).size == kinds.size == arrived.size
        and np.isin(kinds, allowed).all()
    )


def _extras_are_sound(learner: "Learner", extra: NDArray[Any], count: int) -> bool:
    if extra.shape != (count, len(learner.rule.extras)) or not np.isfinite(extra).all():
        return False
    indices = [extra[:, i] for i, kind in enumerate(learner.rule.extras) if kind == "label"]
    return all(_between(column, learner.n_classes, count) and (column % 1 == 0).all() for column in indices)


def _between(numbers: NDArray[Any], below: int, count: int) -> bool:
    return numbers.shape == (count,) and bool(((numbers >= 0) & (numbers < below)).all())
