"""Learners by their names in the registry, and as files: one safetensors file each, never pickle.

What compiled code will use as an index is checked here, where bytes become a learner, before anything reads it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from delaytron.answers import Status
from delaytron.checks import check_choice, check_path, reason_of
from delaytron.errors import InvalidInput, shown
from delaytron.files.atomic import replace_file
from delaytron.files.tensors import Tensors, pack_tensors
from delaytron.kernels.loop import ANSWER_EVENT, CORRECTION_EVENT, EXPIRY_EVENT
from delaytron.learners import LEARNERS, Bold
from delaytron.learners.arguments import COMMON, own_parameters
from delaytron.learners.book import NO_EVENT, read_settled
from delaytron.learners.learner import Learner
from delaytron.learners.rule import no_runs

FORMAT = "delaytron-learner-1"
TEXTS = {"format", "header"}
UNREADABLE = (KeyError, TypeError, IndexError, ValueError, AttributeError, MemoryError, OverflowError, RecursionError)
MOST_ROUNDS = 2**52  # compiled code holds round numbers as floats; a loaded learner plays further rounds

COLUMNS = {  # of decisions, with their types
    "rounds": "int64",
    "settled": "uint8",
    "ended.round": "int64",
    "ended.status": "int64",
    "ended.value": "float64",
    "ended.event": "int64",
    "open.round": "int64",
    "open.greedy": "int64",
    "open.label": "int64",
    "open.prob": "float64",
    "open.starts": "int64",
    "open.values": "float64",
    "open.indices": "uint32",
}

# By name.


class Described(TypedDict):
    """The name of a learner and the arguments of its constructor."""

    learner: str
    settings: Any  # they differ from learner to learner; its constructor checks them


def make_named(
    learner: Any, parameters: Mapping[str, Any] | None, n_classes: int, n_features: int, seed: int | None
) -> Learner:
    """Return a learner by its name, with its parameters by theirs; raise InvalidInput for names that do not exist.

    Examples
    --------
    >>> make_named("delaytron", {"gamma": 0.25}, n_classes=3, n_features=4, seed=7)
    Delaytron(n_classes=3, n_features=4, gamma=0.25, eta=1.0, seed=7)
    >>> make_named("delaytron", {"lr": 0.25}, n_classes=3, n_features=4, seed=7)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: a parameter of delaytron must be one of gamma, eta, ... got 'lr'...
    """
    cls: Any = LEARNERS[check_choice("learner", learner, LEARNERS)]
    if not isinstance(parameters, Mapping | None):
        raise InvalidInput.of("parameters", "a dict, as in {'gamma': 0.1}, or None", parameters, "pass name: value")
    known = [*own_parameters(cls), *(name for name in COMMON if name != "seed")]
    for name in parameters or {}:
        check_choice(f"a parameter of {cls.name}", name, known)
    made: Learner = cls(n_classes, n_features, seed=seed, **(parameters or {}))
    return made


def describe(learner: Learner) -> Described:
    """Return the name and the settings of a learner; its base, if it has one, is described likewise.

    Raises InvalidInput if it is not one of the registry.
    """
    name = type(learner).name
    settings = learner.settings()
    if _class_of(name) is not type(learner):
        raise InvalidInput(
            f"only learners of dt.LEARNERS can be saved, got {type(learner).__name__}",
            "add it to dt.LEARNERS under its own name",
        )
    if "base" in settings:
        settings["base"] = describe(settings["base"])
    return {"learner": name, "settings": settings}


def make(described: Described, allocate: bool = True) -> Learner:
    """Return a learner as described; without `allocate` it has no state yet, and takes no memory for one."""
    # JSON has lists where settings have tuples.
    settings: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in described["settings"].items()}
    if "base" in settings:
        settings["base"] = make(settings["base"], allocate)
    cls = _class_of(described["learner"])
    if cls is None:
        raise KeyError(described["learner"])
    learner = object.__new__(cls)
    vars(learner)["_allocates"] = allocate
    learner.__init__(**settings)  # type: ignore[misc]
    return learner


def _class_of(name: str) -> type[Learner] | None:
    return Bold if name == Bold.name else LEARNERS.get(name)


# As files.


class Header(Described):
    """What a file says about a learner besides its arrays."""

    sparse: bool


def save(learner: Learner, path: str | Path) -> None:
    """Write a learner; after a crash there is the old file or the new one, never half of one."""
    header, tensors = parts_of(learner)
    replace_file(check_path("path", path), *pack_tensors(tensors, {"format": FORMAT, "header": json.dumps(header)}))


def parts_of(learner: Learner) -> tuple[Header, Tensors]:
    """Return everything that a learner knows: its description, and its arrays, which are not copied."""
    header: Header = {**describe(learner), "sparse": learner.sparse}
    state = {f"state.{name}": field for name, field in learner.state._asdict().items()}
    return header, state | learner.book.tensors(len(learner.rule.extras), learner.sparse)


def learner_of(path: str | Path, texts: dict[str, str], tensors: Tensors) -> Learner:
    """Return the learner of a file that was read, with a warning if its numbers are not finite.

    Raises InvalidInput if this version cannot read it.
    """
    if texts.get("format") != FORMAT:
        found = f"its format is {shown(texts.get('format'))}, not {FORMAT!r}"
        raise InvalidInput(
            f"{path} is not a learner: {found}", "give a file that save(path) wrote, or update delaytron"
        )
    if set(texts) != TEXTS:
        both = f"{shown(sorted(texts))} instead of {sorted(TEXTS)}"
        raise InvalidInput(f"{path} is damaged: its header has {both}", "restore it from a backup")
    try:
        learner = rebuild(json.loads(texts["header"]), tensors)
    except UNREADABLE as problem:
        raise InvalidInput(
            f"{path} is not a learner that this version can read: {reason_of(problem)}",
            "update delaytron, or restore the file from a backup",
        ) from None
    # NaN in `ended.value` means that there is no answer.
    infinite = sorted(name for name, t in tensors.items() if name != "ended.value" and not np.isfinite(t).all())
    if infinite:
        problem_found = (
            f"{path} was saved with numbers that are not finite in {', '.join(infinite)}: rows were too large"
        )
        warn(f"{problem_found}; answer its open decisions, then begin with a new learner and scaled rows", stacklevel=3)
    return learner


def rebuild(header: Header, tensors: Tensors) -> Learner:
    """Return the learner of a file; raise one of `UNREADABLE` if compiled code could not trust the file.

    The sizes in the header are compared with the tensors before memory is allocated by them.
    """
    settings = header["settings"]
    n_classes = settings["base"]["settings"]["n_classes"] if "base" in settings else settings["n_classes"]
    longest = max(tensor.size for tensor in tensors.values())
    if n_classes > longest:  # not even one number per class
        raise ValueError(f"n_classes is {n_classes}, and no tensor has more than {longest} numbers")
    learner = make(header, allocate=False)
    fill(learner, bool(header["sparse"]), tensors)
    return learner


def fill(learner: Learner, sparse: bool, tensors: Tensors) -> None:
    """Let a learner that was made without a state, with an empty Book, take over the tensors of a file.

    Raises ValueError if compiled code could not trust them.
    """
    state = check_state(learner, sparse, tensors)
    check_decisions(learner, sparse, tensors)
    learner.book.restore(tensors, learner.n_features, sparse)
    learner.restore(sparse, state, learner.book)


def check_state(learner: Learner, sparse: bool, tensors: Tensors) -> Any:
    """Return the state in a file; raise ValueError if its arrays are not like those of the learner, which has none."""
    like = learner.rule.init(no_runs(learner.params), learner.size(sparse))
    fields = {name: np.array(tensors[f"state.{name}"]) for name in like._fields}
    for name, field in fields.items():
        shape, dtype = getattr(like, name).shape[1:], getattr(like, name).dtype
        if learner.rule.per_round_state:  # of any length; `restore` compares them
            shape = (len(field), *shape[1:])
        if field.shape != shape or field.dtype != dtype:
            raise ValueError(f"state.{name} has shape {field.shape} of {field.dtype}, expected {shape} of {dtype}")
        if field.dtype.kind == "i" and field.size and field.min() < 0:  # integers are counts and indices
            raise ValueError(f"state.{name} is below 0")
    return type(like)(**fields)


def check_decisions(learner: Learner, sparse: bool, tensors: Tensors) -> None:
    """Raise ValueError if compiled code must not trust the decisions in a file."""
    for name, kind in COLUMNS.items():
        if (sparse or name != "open.indices") and (str(tensors[name].dtype), tensors[name].ndim) != (kind, 1):
            raise ValueError(f"{name} must be a column of {kind}")
    K, d = learner.n_classes, learner.n_features
    kept, starts, values = tensors["open.round"], tensors["open.starts"], tensors["open.values"]
    lengths = np.diff(starts)

    def are_indices(numbers: NDArray[Any], below: int, count: int) -> bool:
        return numbers.shape == (count,) and bool(((numbers >= 0) & (numbers < below)).all())

    rounds, prob, extra = tensors["rounds"], tensors["open.prob"], tensors["open.extra"]
    kinds = learner.rule.extras
    is_noted = extra.shape == (kept.size, len(kinds)) and extra.dtype == np.float64
    # Numbers that a round noted may be any, even NaN where weights overflowed; labels will be used as indices.
    noted = [extra[:, i] for i, kind in enumerate(kinds) if kind == "label"] if is_noted else []
    sound = {
        "rounds": rounds.size == 2
        and 0 <= rounds[1] <= rounds[0] <= MOST_ROUNDS
        and (np.diff(kept) > 0).all()
        and (not kept.size or 1 <= kept[0] <= kept[-1] <= rounds[0]),
        "open.greedy": are_indices(tensors["open.greedy"], K, kept.size),
        "open.label": are_indices(tensors["open.label"], K, kept.size),
        "open.prob": prob.size == kept.size and (np.isnan(prob) | (np.abs(prob - 0.5) <= 0.5)).all(),
        "open.extra": is_noted
        and all(are_indices(column, K, kept.size) and (column % 1 == 0).all() for column in noted),
        "open.starts": starts.size == kept.size + 1 and starts[0] == 0 and starts[-1] == values.size,
        "open.values": np.isfinite(values).all() and (lengths >= 0).all() and (sparse or (lengths == d).all()),
        "open.indices": not sparse or are_indices(tensors["open.indices"], d, values.size),
    }
    for name, good in sound.items():
        if not good:
            raise ValueError(f"{name} is inconsistent")
    if not _settled_are_sound(learner, tensors):
        raise ValueError("settled is inconsistent")
    if not _ended_are_sound(learner, tensors):
        raise ValueError("ended is inconsistent")


def _settled_are_sound(learner: Learner, tensors: Tensors) -> bool:
    """Return whether every settled round has a status, and an answer if it was answered.

    An expired one may have an answer, too: one that came late.
    """
    status, value = read_settled(tensors)  # unsigned; NaN where there is no answer
    has_answer = ~np.isnan(value)
    statuses_exist = status.max(initial=0) <= max(Status)
    answered_have_one = has_answer[status == Status.ANSWERED].all()
    return bool(statuses_exist and answered_have_one and _are_answers(learner, value[has_answer]))


def _ended_are_sound(learner: Learner, tensors: Tensors) -> bool:
    """Return whether every ended round is kept, was answered or expired as wrong, and has an event that fits."""
    rounds, status, value, event = (tensors[f"ended.{name}"] for name in ("round", "status", "value", "event"))
    if not (rounds.size == status.size == value.size == event.size and (np.diff(rounds) > 0).all()):
        return False
    answered = status == Status.ANSWERED
    as_wrong = learner.book.expiry.as_wrong
    expired = (status == Status.EXPIRED) & np.isnan(value) & np.isin(event, (NO_EVENT, EXPIRY_EVENT, ANSWER_EVENT))
    fits = np.where(answered, (event == ANSWER_EVENT) | (as_wrong & (event == CORRECTION_EVENT)), as_wrong & expired)
    return bool(np.isin(rounds, tensors["open.round"]).all() and fits.all() and _are_answers(learner, value[answered]))


def _are_answers(learner: Learner, values: NDArray[Any]) -> bool:
    highest = 1 if learner.feedback_type == "correct" else learner.n_classes - 1
    whole = learner.takes_rewards or bool((values % 1 == 0).all())
    return whole and bool(((values >= 0) & (values <= highest)).all())
