"""All that a model knows, as bytes: for snapshots in a journal and for files. Never pickle."""

import json
import zlib
from hashlib import sha256
from typing import Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.files.tensors import Tensors, pack_tensors, unpack_tensors
from delaytron.journal.clock import Moment
from delaytron.learners.base import Learner
from delaytron.learners.files import UNREADABLE, parts_of, rebuild
from delaytron.model.classes import Classes
from delaytron.model.core import Core, Unanswered
from delaytron.model.making import Recipe, make_core
from delaytron.model.tally import Tally

FAMILY = "delaytron-model-"
FORMAT = FAMILY + "1"
WORDS = "model"  # the tensor that has what is told in words, as JSON


def pack_core(core: Core, recipe: Recipe, more: dict[str, Any]) -> bytes:
    """Return all that a model knows; `more` is kept with it, as JSON."""
    header, tensors = parts_of(core.learner)
    words = {"recipe": recipe._asdict(), "learner": header, **_words(core), "more": more}
    text = np.frombuffer(json.dumps(words).encode(), np.uint8)
    head, content = pack_tensors({**tensors, WORDS: text}, {"format": FORMAT})
    return head + bytes(content)


def _words(core: Core) -> dict[str, Any]:
    return {
        "names": core.classes.names,
        "retired": sorted(core.classes.retired),
        "open": _columns(core.open),
        "lapsed": _columns(core.lapsed),
        "tally": core.tally.as_json(),
    }


def unpack_core(content: bytes, source: str) -> tuple[Core, Recipe, dict[str, Any]]:
    """Return what `pack_core` was given; raise if the bytes are not of it, or damaged."""
    texts, tensors = unpack_tensors(content, source)
    if texts.get("format") != FORMAT:
        raise InvalidInput(
            f"{source} is of format {texts.get('format')!r}, this version reads {FORMAT!r}; update delaytron"
        )
    try:
        words = json.loads(bytes(tensors.pop(WORDS)))
        return _rebuilt(words, tensors), Recipe(**words["recipe"]), words["more"]
    except UNREADABLE as problem:
        raise InvalidInput(f"{source} is not a model that this version can read: {problem}") from None


def _rebuilt(words: dict[str, Any], tensors: Tensors) -> Core:
    core = make_core(Recipe(**words["recipe"]))
    learner = rebuild(words["learner"], tensors)
    if not isinstance(learner, Learner) or learner.n_classes != len(words["names"]):
        raise InvalidInput(f"it has {len(words['names'])} names for {learner.n_classes} classes")
    core.learner = learner
    core.classes = Classes(words["names"], words["retired"])
    core.open = _waiting(words["open"])
    core.lapsed = _waiting(words["lapsed"])
    core.tally = Tally.from_json(words["tally"])
    return core


def _columns(waiting: dict[str, Unanswered]) -> list[list[Any]]:
    return [[issued, *decided[:2], *decided.now] for issued, decided in waiting.items()]


def _waiting(stored: list[list[Any]]) -> dict[str, Unanswered]:
    return {issued: Unanswered(number, label, Moment(wall, clock)) for issued, number, label, wall, clock in stored}


def compress(content: bytes) -> bytes:
    """Return a snapshot as a journal keeps it: most of the numbers of a hashed model are 0."""
    return zlib.compress(content, 1)


def decompress(content: bytes, source: str) -> bytes:
    """Return the bytes that were compressed, or raise."""
    try:
        return zlib.decompress(content)
    except zlib.error as problem:
        raise InvalidInput(f"{source} is damaged: {problem}; restore it from a backup") from None


def digest(core: Core, recipe: Recipe) -> str:
    """Return the SHA-256 of all that a model has learned and waits for: equal states have equal ones."""
    return sha256(pack_core(core, recipe, {})).hexdigest()
