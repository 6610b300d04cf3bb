"""Learners as files: one safetensors file with the state, the open decisions and the answers. Never pickle."""

import json
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput
from delaytron.files.atomic import replace_file
from delaytron.kernels.linear import zero_weights
from delaytron.learners.file_checks import Tensors, check_field, check_open_decisions
from delaytron.learners.ledger import OPEN, Ledger
from delaytron.learners.rounds import is_begun
from delaytron.learners.rule import stack
from delaytron.records import Play, Row

if TYPE_CHECKING:
    from delaytron.learners.base import Learner

FORMAT = "delaytron-learner-1"


def save(learner: "Learner", path: str | Path) -> None:
    """Write a learner so that after a crash there is the old file or the new one, and never half of one."""
    from safetensors.numpy import save as to_bytes  # noqa: PLC0415 - only needed here

    header = _describe(learner) | {"sparse": learner.sparse} | ({"begun": True} if is_begun(learner) else {})
    tensors = _state_tensors(learner) | _ledger_tensors(learner)
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
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, MemoryError, OverflowError) as problem:
        raise InvalidInput(f"{path} is not a learner that this version can read: {problem}") from None


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
    from delaytron.learners import LEARNERS, Bold  # noqa: PLC0415 - the registry imports every learner

    return {**LEARNERS, Bold.name: Bold}


def _describe(learner: "Learner") -> dict[str, Any]:
    """Return the name and the settings of a learner, and in these likewise of the one that it is made of."""
    name, settings = type(learner).name, learner.settings()
    if _registry().get(name) is not type(learner):
        raise InvalidInput(f"only learners of the registry can be saved, got {type(learner).__name__}")
    if "base" in settings:
        settings["base"] = _describe(settings["base"])
    return {"learner": name, "settings": settings}


def _make(described: dict[str, Any]) -> "Learner":
    """Return a learner as described; JSON has made lists of tuples."""
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in described["settings"].items()
    }
    if "base" in settings:
        settings["base"] = _make(settings["base"])
    return _registry()[described["learner"]](**settings)


def _rebuild(header: dict[str, Any], tensors: Tensors) -> "Learner":
    learner, sparse = _make(header), bool(header["sparse"])
    check_open_decisions(learner, sparse, tensors)
    average = _weights_like(learner, sparse, tensors["average.total"]) if learner.average else None
    state = _state(learner, sparse, tensors)
    ledger = _ledger(learner.ledger, tensors, sparse)
    learner.restore(sparse, state, ledger, average, header.get("begun") is True)
    return learner


def _state_tensors(learner: "Learner") -> Tensors:
    average = {"average.total": learner._average.total} if learner.average else {}
    tensors = {f"state.{name}": field for name, field in learner.state._asdict().items()} | average
    for name, field in tensors.items():
        if not np.isfinite(field).all():
            raise InvalidInput(f"cannot save: {name} is not finite, the rows were too large; nothing was written")
    return tensors


def _state(learner: "Learner", sparse: bool, tensors: Tensors) -> Any:
    like = learner.rule.init(stack(learner.params), learner.size(sparse))
    fields = {name: np.array(tensors[f"state.{name}"]) for name in like._fields}
    for name, field in fields.items():
        one = getattr(like, name)[0]
        if learner.rule.per_round_state:  # of any length; `restore` compares them
            one = np.broadcast_to(one[:1], (len(field), *one.shape[1:]))
        check_field(f"state.{name}", field, one)
    return type(like)(**fields)


def _weights_like(learner: "Learner", sparse: bool, total: NDArray[Any]) -> NDArray[Any]:
    check_field("average.total", total, zero_weights(1, learner.size(sparse))[0])
    return np.array(total)


def _ledger_tensors(learner: "Learner") -> Tensors:
    ledger = learner.ledger
    plays = list(ledger.plays.values())
    lengths = np.array([play.x.values.size for play in plays], np.int64)
    tensors: Tensors = {
        "answers": np.array(ledger.answers, np.int32),
        "arrived": np.array(list(ledger.arrived), np.int64),
        "arrived.kind": np.array(list(ledger.arrived.values()), np.int64),
        "open.round": np.array([play.round for play in plays], np.int64),
        "open.greedy": np.array([play.greedy for play in plays], np.int64),
        "open.label": np.array([play.label for play in plays], np.int64),
        "open.prob": np.array([play.prob for play in plays], np.float64),
        "open.extra": np.array([play.extra for play in plays]).reshape(len(plays), len(learner.rule.extras)),
        "open.starts": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "open.values": np.concatenate([play.x.values for play in plays] or [np.empty(0)]),
    }
    if learner.sparse:
        nothing = np.empty(0, np.uint32)
        tensors["open.indices"] = np.concatenate([play.x.indices for play in plays] or [nothing])
    return tensors


def _ledger(ledger: Ledger, tensors: Tensors, sparse: bool) -> Ledger:
    ledger.answers = array("i", tensors["answers"].tolist())
    ledger.arrived = dict(zip(tensors["arrived"].tolist(), tensors["arrived.kind"].tolist(), strict=True))
    ledger.settled = int(np.count_nonzero(tensors["answers"] != OPEN))
    columns = [tensors[f"open.{name}"].tolist() for name in ("round", "greedy", "label", "prob")]
    for i, (number, greedy, label, prob) in enumerate(zip(*columns, strict=True)):
        extra = tensors["open.extra"][i].copy()
        ledger.plays[number] = Play(number, _open_row(tensors, i, sparse), greedy, label, prob, extra)
    return ledger


def _open_row(tensors: Tensors, i: int, sparse: bool) -> Row:
    part = slice(*tensors["open.starts"][i : i + 2])
    return Row(tensors["open.indices"][part].copy() if sparse else None, tensors["open.values"][part].copy())
