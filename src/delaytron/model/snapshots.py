"""All that a model knows, as bytes: for snapshots in a journal and for files. Never pickle."""

import json
import zlib
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import reason_of, shown
from delaytron.errors import InvalidInput
from delaytron.files.tensors import Tensors, pack_tensors, unpack_tensors
from delaytron.journal.clock import Moment
from delaytron.journal.records import Snapshot
from delaytron.learners.base import Learner
from delaytron.learners.files import UNREADABLE, Header, make, parts_of, rebuild
from delaytron.learners.rule import stack
from delaytron.model.changed_rows import LARGE, fill_in, keep_changed
from delaytron.model.classes import Classes
from delaytron.model.core import Core, Unanswered
from delaytron.model.making import Recipe, make_core
from delaytron.model.tally import Tally

FAMILY = "delaytron-model-"
FORMAT = FAMILY + "1"
UPDATE = "update delaytron, or restore it from a backup"
WORDS = "model"  # the tensor that has what is told in words, as JSON


def pack_core(core: Core, recipe: Recipe, more: dict[str, Any]) -> bytes:
    """Return all that a model knows; `more` is kept with it, as JSON."""
    header, tensors = parts_of(core.learner)
    tensors = keep_changed(tensors, _initial(header)) | _columns("open", core.open) | _columns("lapsed", core.lapsed)
    words = {"recipe": recipe._asdict(), "learner": header, **_words(core), "more": more}
    text = np.frombuffer(json.dumps(words).encode(), np.uint8)
    head, content = pack_tensors({**tensors, WORDS: text}, {"format": FORMAT})
    return head + bytes(content)


def _initial(header: Header) -> Tensors:
    """Return the large tables that a learner begins with."""
    learner = make(header, with_state=False)
    size = learner.size(header["sparse"])
    if size.n_features < LARGE:
        return {}
    state = learner.rule.init(stack(learner.params), size)
    return {
        f"state.{name}": field[0] for name, field in state._asdict().items() if field.shape[1:2] == (size.n_features,)
    }


def _words(core: Core) -> dict[str, Any]:
    return {
        "names": core.classes.names,
        "retired": sorted(core.classes.retired),
        "open": list(core.open),
        "lapsed": list(core.lapsed),
        "tally": core.tally.as_json(),
    }


def unpack_core(content: bytes, source: str) -> tuple[Core, Recipe, dict[str, Any]]:
    """Return what `pack_core` was given; raise if the bytes are not of it, or damaged."""
    return core_of(*unpack_tensors(content, source), source)


def core_of(texts: dict[str, str], tensors: Tensors, source: str) -> tuple[Core, Recipe, dict[str, Any]]:
    """Return the same, of the texts and arrays of a file."""
    if texts.get("format") != FORMAT:
        raise InvalidInput(
            f"{source} is of format {shown(texts.get('format'))}, this version reads {FORMAT!r}; update delaytron"
        )
    try:
        words = json.loads(bytes(tensors.pop(WORDS)))
        return _rebuilt(words, tensors), Recipe(**words["recipe"]), words["more"]
    except UNREADABLE as problem:
        raise InvalidInput(
            f"{source} is not a model that this version can read: {reason_of(problem)}; {UPDATE}"
        ) from None


def _rebuilt(words: dict[str, Any], tensors: Tensors) -> Core:
    core = make_core(Recipe(**words["recipe"]))
    learner = rebuild(words["learner"], fill_in(tensors, _initial(words["learner"])))
    if not isinstance(learner, Learner) or learner.n_classes != len(words["names"]):
        raise InvalidInput(f"it has {len(words['names'])} names for {learner.n_classes} classes")
    core.learner = learner
    core.classes = Classes(words["names"], words["retired"])
    core.open = _waiting(words["open"], tensors["model.open"])
    core.lapsed = _waiting(words["lapsed"], tensors["model.lapsed"])
    core.tally = Tally.from_json(words["tally"])
    return core


def _columns(name: str, waiting: dict[str, Unanswered]) -> Tensors:
    """Return the numbers of decisions without an answer, a row each."""
    rows = [(number, label, *now) for number, label, now in waiting.values()]
    return {f"model.{name}": np.array(rows, np.int64).reshape(-1, 4)}


def _waiting(ids: list[str], rows: NDArray[np.int64]) -> dict[str, Unanswered]:
    if rows.dtype != np.int64 or rows.shape != (len(ids), 4):
        raise InvalidInput(f"it has {len(ids)} ids for {rows.shape} of {rows.dtype}")
    number, label, wall, clock = rows.T.tolist()
    return dict(zip(ids, map(Unanswered, number, label, map(Moment, wall, clock)), strict=True))


def compress(content: bytes) -> bytes:
    """Return a snapshot as a journal keeps it: most of the numbers of a hashed model are 0."""
    return zlib.compress(content, 1)


def decompress(content: bytes, source: str) -> bytes:
    """Return the bytes that were compressed, or raise."""
    try:
        return zlib.decompress(content)
    except zlib.error as problem:
        raise InvalidInput(f"{source} is damaged: {problem}; restore it from a backup") from None


def read_snapshot(snapshot: Snapshot) -> tuple[Core, dict[str, Any]]:
    """Return the model of a snapshot, with the names it has seen, and what else is kept there."""
    source = f"the snapshot at fact {snapshot.seq}"
    core, _, more = unpack_core(decompress(snapshot.body, source), source)
    core.encoder.take_names(more["names"])
    return core, more


def digest(core: Core, recipe: Recipe) -> str:
    """Return the SHA-256 of all that a model has learned and waits for: equal states have equal ones."""
    return sha256(pack_core(core, recipe, {})).hexdigest()
