"""Learners as files: one safetensors file with the state, the open decisions and the answers. Never pickle."""

import json
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict
from warnings import warn

import numpy as np

from delaytron.checks import check_path, reason_of, shown
from delaytron.errors import InvalidInput
from delaytron.files.atomic import replace_file
from delaytron.files.tensors import Tensors, pack_tensors
from delaytron.kernels.loop import DROPPED, EXPIRED
from delaytron.learners.file_checks import check_average, check_open_decisions, check_state, not_finite
from delaytron.learners.ledger import OPEN, Ledger
from delaytron.learners.open_rounds import keep_open, open_tensors
from delaytron.learners.rounds import is_begun

if TYPE_CHECKING:
    from delaytron.learners.stateful import Stateful

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


def save(learner: "Stateful", path: str | Path) -> None:
    """Write a learner so that after a crash there is the old file or the new one, and never half of one."""
    header, tensors = parts_of(learner)
    replace_file(check_path("path", path), *pack_tensors(tensors, {"format": FORMAT, "header": json.dumps(header)}))


def parts_of(learner: "Stateful") -> tuple[Header, Tensors]:
    """Return all that a learner knows: what is told in words, and numbers, which are not copied."""
    described = describe(learner)
    header: Header = {"learner": described["learner"], "settings": described["settings"], "sparse": learner.sparse}
    if is_begun(learner):
        header["begun"] = True
    return header, _state_tensors(learner) | _ledger_tensors(learner)


def learner_of(path: str | Path, texts: dict[str, str], tensors: Tensors) -> "Stateful":
    """Return the learner of a file; `delaytron.load` tells what is refused."""
    _check_texts(path, texts)
    try:
        learner = rebuild(json.loads(texts["header"]), tensors)
    except UNREADABLE as problem:
        step = "update delaytron, or restore the file from a backup"
        raise InvalidInput(
            f"{path} is not a learner that this version can read: {reason_of(problem)}; {step}"
        ) from None
    if names := ", ".join(not_finite(tensors)):
        lost = f"{path} was saved with numbers that are not finite in {names}: rows were too large"
        warn(f"{lost}; answer its open decisions, then begin with a new learner and scaled rows", stacklevel=3)
    return learner


def _check_texts(path: str | Path, texts: dict[str, str]) -> None:
    if texts.get("format") != FORMAT:
        found = f"its format is {shown(texts.get('format'))}, not {FORMAT!r}"
        raise InvalidInput(f"{path} is not a learner: {found}; give a file that save(path) wrote, or update delaytron")
    if set(texts) != TEXTS:  # also the digest, if its name is damaged
        both = f"{shown(sorted(texts))} instead of {sorted(TEXTS)}"
        raise InvalidInput(f"{path} is damaged: its header tells {both}; restore it from a backup")


def _registry() -> "dict[str, type[Stateful]]":
    from delaytron.learners import LEARNERS, Bold  # noqa: PLC0415 - the registry imports every learner

    return {**LEARNERS, Bold.name: Bold}


def describe(learner: "Stateful") -> Described:
    """Return the name and the settings of a learner, and in these likewise of the one that it is made of."""
    name = type(learner).name
    settings = learner.settings()
    if _registry().get(name) is not type(learner):
        raise InvalidInput(
            f"only learners of dt.LEARNERS can be saved, got {type(learner).__name__}; add it under a name of its own"
        )
    if "base" in settings:
        settings["base"] = describe(settings["base"])
    return {"learner": name, "settings": settings}


class _NoState:
    """Keeps a learner from taking memory for its state."""

    def _reset_state(self, sparse: bool) -> None:
        """Leave it: the file may not have numbers for a state of that size."""


def make(described: Described, with_state: bool) -> "Stateful":
    """Return a learner as described; JSON has made lists of tuples."""
    given = described["settings"].items()
    settings: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in given}
    if "base" in settings:
        settings["base"] = make(settings["base"], with_state)
    cls = _registry()[described["learner"]]
    if not with_state:
        cls = type(cls.__name__, (_NoState, cls), {})
    return cls(**settings)


def rebuild(header: Header, tensors: Tensors) -> "Stateful":
    """Return the learner; what it needs memory for is held against the numbers of the file before it is taken."""
    sparse = bool(header["sparse"])
    _check_n_classes(header, tensors)
    like = make(header, with_state=False)
    if like.takes_rewards and tensors["answers"].dtype == np.int32:  # saved before it did
        tensors["answers"] = tensors["answers"].astype(np.float64)
    state = check_state(like, sparse, tensors)
    check_open_decisions(like, sparse, tensors)
    average = check_average(like, sparse, tensors) if like.average else None
    learner = make(header, with_state=True)
    ledger = _ledger(learner, tensors, sparse)
    learner.restore(sparse, state, ledger, average, header.get("begun") is True)
    return learner


def _check_n_classes(described: Described, tensors: Tensors) -> None:
    """Raise if a file cannot even have one number per class."""
    settings = described["settings"]
    n_classes = settings["base"]["settings"]["n_classes"] if "base" in settings else settings["n_classes"]
    most = max(tensor.size for tensor in tensors.values())
    if n_classes > most:
        raise InvalidInput(f"n_classes is {n_classes}, and no tensor has more than {most} numbers")


def _state_tensors(learner: "Stateful") -> Tensors:
    tensors: Tensors = {f"state.{name}": field for name, field in learner.state._asdict().items()}
    if learner.average:
        tensors["average.total"] = learner._average.total
    return tensors


def _ledger_tensors(learner: "Stateful") -> Tensors:
    ledger = learner.ledger
    tensors: Tensors = {
        "answers": np.array(ledger.answers, np.float64 if learner.takes_rewards else np.int32),
        "arrived": np.array(list(ledger.arrived), np.int64),
        "arrived.kind": np.array(list(ledger.arrived.values()), np.int64),
    }
    return tensors | open_tensors(ledger, len(learner.rule.extras), learner.sparse)


def _ledger(learner: "Stateful", tensors: Tensors, sparse: bool) -> Ledger:
    ledger = learner.ledger
    ledger.answers = array(ledger.answers.typecode, tensors["answers"].tolist())
    ledger.arrived = dict(zip(tensors["arrived"].tolist(), tensors["arrived.kind"].tolist(), strict=True))
    ended = [number for number, kind in ledger.arrived.items() if kind in (EXPIRED, DROPPED)]
    ledger.ended = {number: int(ledger.answers[number - 1]) for number in ended}
    ledger.settled = int(np.count_nonzero(tensors["answers"] != OPEN))
    keep_open(ledger, tensors, learner.n_features, sparse)
    return ledger
