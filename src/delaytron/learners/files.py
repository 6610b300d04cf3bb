"""Learners as files: one safetensors file with the state, the open decisions and the answers. Never pickle."""

import json
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict
from warnings import warn

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.files.atomic import replace_file
from delaytron.files.tensors import Tensors, pack_tensors, read_tensors
from delaytron.learners.file_checks import check_average, check_open_decisions, check_state, not_finite
from delaytron.learners.ledger import OPEN, Ledger
from delaytron.learners.rounds import is_begun
from delaytron.records import Play, Row

if TYPE_CHECKING:
    from delaytron.learners.base import Learner

FORMAT = "delaytron-learner-1"
TEXTS = {"format", "header"}
UNREADABLE = (KeyError, TypeError, IndexError, ValueError, AttributeError, MemoryError, OverflowError, RecursionError)


class Described(TypedDict):
    """The name of a learner and the arguments that make one like it."""

    learner: str
    settings: Any  # they differ from learner to learner; its constructor checks them


class Header(Described):
    """What a file tells of a learner besides its numbers."""

    sparse: bool
    begun: NotRequired[bool]  # the clock has ticked for a round that was interrupted


def save(learner: "Learner", path: str | Path) -> None:
    """Write a learner so that after a crash there is the old file or the new one, and never half of one."""
    described = _describe(learner)
    header: Header = {"learner": described["learner"], "settings": described["settings"], "sparse": learner.sparse}
    if is_begun(learner):
        header["begun"] = True
    tensors = _state_tensors(learner) | _ledger_tensors(learner)
    replace_file(Path(path), *pack_tensors(tensors, {"format": FORMAT, "header": json.dumps(header)}))


def load(path: str | Path) -> "Learner":
    """Read a learner that `save` wrote; it goes on exactly as the saved one would have.

    A file that is damaged is refused. A learner whose numbers had overflowed before it was saved is read with a
    warning: its open decisions are there, its weights are of no use.

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
    texts, tensors = read_tensors(Path(path))
    _check_texts(path, texts)
    try:
        learner = _rebuild(json.loads(texts["header"]), tensors)
    except UNREADABLE as problem:
        raise InvalidInput(f"{path} is not a learner that this version can read: {problem}") from None
    if names := ", ".join(not_finite(tensors)):
        warn(f"{path} was saved with numbers that are not finite in {names}: rows were too large", stacklevel=2)
    return learner


def _check_texts(path: str | Path, texts: dict[str, str]) -> None:
    if texts.get("format") != FORMAT:
        raise InvalidInput(f"{path} is not a learner: its format is {texts.get('format')!r}, not {FORMAT!r}")
    if set(texts) != TEXTS:  # also the digest, if its name is damaged
        raise InvalidInput(f"{path} is damaged: its header tells {sorted(texts)} instead of {sorted(TEXTS)}")


def _registry() -> "dict[str, type[Learner]]":
    from delaytron.learners import LEARNERS, Bold  # noqa: PLC0415 - the registry imports every learner

    return {**LEARNERS, Bold.name: Bold}


def _describe(learner: "Learner") -> Described:
    """Return the name and the settings of a learner, and in these likewise of the one that it is made of."""
    name = type(learner).name
    settings = learner.settings()
    if _registry().get(name) is not type(learner):
        raise InvalidInput(f"only learners of the registry can be saved, got {type(learner).__name__}")
    if "base" in settings:
        settings["base"] = _describe(settings["base"])
    return {"learner": name, "settings": settings}


class _NoState:
    """Keeps a learner from taking memory for its state."""

    def _reset_state(self, sparse: bool) -> None:
        """Leave it: the file may not have numbers for a state of that size."""


def _make(described: Described, with_state: bool) -> "Learner":
    """Return a learner as described; JSON has made lists of tuples."""
    given = described["settings"].items()
    settings: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in given}
    if "base" in settings:
        settings["base"] = _make(settings["base"], with_state)
    cls = _registry()[described["learner"]]
    if not with_state:
        cls = type(cls.__name__, (_NoState, cls), {})
    return cls(**settings)


def _rebuild(header: Header, tensors: Tensors) -> "Learner":
    """Return the learner; what it needs memory for is held against the numbers of the file before it is taken."""
    sparse = bool(header["sparse"])
    _check_n_classes(header, tensors)
    like = _make(header, with_state=False)
    state = check_state(like, sparse, tensors)
    check_open_decisions(like, sparse, tensors)
    average = check_average(like, sparse, tensors) if like.average else None
    learner = _make(header, with_state=True)
    ledger = _ledger(learner.ledger, tensors, sparse)
    learner.restore(sparse, state, ledger, average, header.get("begun") is True)
    return learner


def _check_n_classes(described: Described, tensors: Tensors) -> None:
    """Raise if a file cannot even have one number per class."""
    settings = described["settings"]
    n_classes = settings["base"]["settings"]["n_classes"] if "base" in settings else settings["n_classes"]
    most = max(tensor.size for tensor in tensors.values())
    if n_classes > most:
        raise InvalidInput(f"n_classes is {n_classes}, and no tensor has more than {most} numbers")


def _state_tensors(learner: "Learner") -> Tensors:
    tensors: Tensors = {f"state.{name}": field for name, field in learner.state._asdict().items()}
    if learner.average:
        tensors["average.total"] = learner._average.total
    return tensors


def _ledger_tensors(learner: "Learner") -> Tensors:
    ledger = learner.ledger
    plays = list(ledger.plays.values())
    lengths = np.array([play.x.values.size for play in plays], np.int64)
    tensors: Tensors = {
        "answers": np.array(ledger.answers, np.float64 if learner.takes_rewards else np.int32),
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
    ledger.answers = array(ledger.answers.typecode, tensors["answers"].tolist())
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
