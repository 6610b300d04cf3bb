"""Learners as files: one safetensors file with the state, the open decisions and the answers. Never pickle."""

import json
import os
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput
from delaytron.kernels.linear import weight_shape
from delaytron.learners.ledger import OPEN, Ledger
from delaytron.records import Play, Row

if TYPE_CHECKING:
    from delaytron.learners.base import Learner

FORMAT = "delaytron-learner-1"
Tensors = dict[str, NDArray[Any]]


def save(learner: "Learner", path: str | Path) -> None:
    """Write a learner so that after a crash there is the old file or the new one, and never half of one."""
    from safetensors.numpy import save as to_bytes  # noqa: PLC0415 - only needed here

    if _registry().get(learner.rule.name) is not type(learner):
        raise InvalidInput(f"only learners of the registry can be saved, got {type(learner).__name__}")
    header = {"learner": learner.rule.name, "settings": learner.settings(), "sparse": learner.sparse}
    tensors = _state_tensors(learner) | _ledger_tensors(learner.ledger, learner.sparse)
    content = to_bytes(tensors, {"format": FORMAT, "header": json.dumps(header)})
    replace_file(Path(path), content)


def load(path: str | Path) -> "Learner":
    """Read a learner that `save` wrote; it goes on exactly as the saved one would have.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> learner = dt.Delaytron(n_classes=3, n_features=2, seed=7)
    >>> decision = learner.decide([1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     learner.save(f"{folder}/model.safetensors")
    ...     again = dt.load(f"{folder}/model.safetensors")
    >>> again.pending, again.feedback(decision.id, correct=True)
    (1, 'accepted')
    """
    metadata, tensors = _read(Path(path))
    try:
        return _rebuild(json.loads(metadata["header"]), tensors)
    except (KeyError, TypeError, IndexError, ValueError) as problem:
        raise InvalidInput(f"{path} is not a learner that this version can read: {problem}") from None


def replace_file(path: Path, content: bytes) -> None:
    """Write the content beside the file, bring it to the disk, then put it in the file's place."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _read(path: Path) -> tuple[dict[str, str], Tensors]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except (SafetensorError, OSError) as problem:
        raise InvalidInput(f"{path} is not a safetensors file: {problem}") from None
    if metadata.get("format") != FORMAT:
        raise InvalidInput(f"{path} is not a learner: its format is {metadata.get('format')!r}, not {FORMAT!r}")
    return metadata, tensors


def _registry() -> "dict[str, type[Learner]]":
    from delaytron.learners import LEARNERS  # noqa: PLC0415 - the registry imports every learner

    return LEARNERS


def _rebuild(header: dict[str, Any], tensors: Tensors) -> "Learner":
    learner, sparse = _registry()[header["learner"]](**header["settings"]), bool(header["sparse"])
    check_open_decisions(learner, sparse, tensors)
    learner.restore(sparse, _state(learner, sparse, tensors), _ledger(learner.ledger, tensors))
    return learner


def _state_tensors(learner: "Learner") -> Tensors:
    return {f"state.{name}": field for name, field in learner.state._asdict().items()}


def _state(learner: "Learner", sparse: bool, tensors: Tensors) -> Any:
    like = learner.rule.init(1, weight_shape(learner.n_classes, learner.n_features, sparse))
    fields = {name: np.array(tensors[f"state.{name}"]) for name in like._fields}
    for name, field in fields.items():
        expected = getattr(like, name)
        if field.shape != expected.shape[1:] or field.dtype != expected.dtype:
            raise InvalidInput(f"state.{name} has shape {field.shape}, expected {expected.shape[1:]}")
        if not np.isfinite(field).all():
            raise InvalidInput(f"state.{name} is not finite")
    return type(like)(**fields)


def _ledger_tensors(ledger: Ledger, sparse: bool) -> Tensors:
    plays = list(ledger.plays.values())
    lengths = np.array([play.x.values.size for play in plays], np.int64)
    tensors: Tensors = {
        "answers": np.array(ledger.answers, np.int32),
        "arrived": np.array(sorted(ledger.arrived), np.int64),
        "open.round": np.array([play.round for play in plays], np.int64),
        "open.greedy": np.array([play.greedy for play in plays], np.int64),
        "open.label": np.array([play.label for play in plays], np.int64),
        "open.prob": np.array([play.prob for play in plays], np.float64),
        "open.starts": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "open.values": np.concatenate([play.x.values for play in plays] or [np.empty(0)]),
    }
    if sparse:
        nothing = np.empty(0, np.uint32)
        tensors["open.indices"] = np.concatenate([play.x.indices for play in plays] or [nothing])
    return tensors


def check_open_decisions(learner: "Learner", sparse: bool, tensors: Tensors) -> None:
    """Refuse a file whose open decisions the compiled update must not trust."""
    K, d = learner.n_classes, learner.n_features
    answers, arrived, rounds = tensors["answers"], tensors["arrived"], tensors["open.round"]
    starts, values = tensors["open.starts"], tensors["open.values"]
    lengths = np.diff(starts)
    highest = 1 if learner.hears == "correct" else K - 1
    waiting = np.flatnonzero(answers == OPEN) + 1
    sound = {
        "answers": ((answers >= OPEN) & (answers <= highest)).all(),
        "arrived": np.array_equal(np.sort(rounds), np.union1d(waiting, arrived))
        and not np.isin(arrived, waiting).any(),
        "open.greedy": _between(tensors["open.greedy"], K, rounds.size),
        "open.label": _between(tensors["open.label"], K, rounds.size),
        "open.prob": tensors["open.prob"].size == rounds.size and (np.abs(tensors["open.prob"] - 0.5) <= 0.5).all(),
        "open.starts": starts.size == rounds.size + 1 and starts[0] == 0 and starts[-1] == values.size,
        "open.values": np.isfinite(values).all() and (lengths >= 0).all() and (sparse or (lengths == d).all()),
        "open.indices": not sparse or _between(tensors["open.indices"], d, values.size),
    }
    if not all(sound.values()):
        raise InvalidInput(f"{next(name for name, good in sound.items() if not good)} makes no sense")


def _between(numbers: NDArray[Any], below: int, count: int) -> bool:
    return numbers.shape == (count,) and bool(((numbers >= 0) & (numbers < below)).all())


def _ledger(ledger: Ledger, tensors: Tensors) -> Ledger:
    ledger.answers = array("i", tensors["answers"].tolist())
    ledger.arrived = set(tensors["arrived"].tolist())
    ledger.answered = int(np.count_nonzero(tensors["answers"] != OPEN))
    columns = [tensors[f"open.{name}"].tolist() for name in ("round", "greedy", "label", "prob")]
    for i, (number, greedy, label, prob) in enumerate(zip(*columns, strict=True)):
        ledger.plays[number] = Play(number, _open_row(tensors, i), greedy, label, prob)
    return ledger


def _open_row(tensors: Tensors, i: int) -> Row:
    part = slice(*tensors["open.starts"][i : i + 2])
    indices = tensors.get("open.indices")
    return Row(None if indices is None else indices[part].copy(), tensors["open.values"][part].copy())
