"""Snapshots: the whole State as bytes, for journals and saved files; no pickle."""

import json
import zlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import reason_of
from delaytron.errors import InvalidInput, shown
from delaytron.files.tensors import Tensors, pack_tensors, unpack_tensors
from delaytron.journal.store import Snapshot
from delaytron.learners.book import Book, RoundBlock
from delaytron.learners.files import UNREADABLE, fill, make, parts_of
from delaytron.learners.learner import Learner
from delaytron.learners.rule import stack
from delaytron.model.classes import Classes
from delaytron.model.recipe import Recipe
from delaytron.model.state import State, Tally

FAMILY = "delaytron-model-"
FORMAT = FAMILY + "1"
UPDATE = "update delaytron, or restore it from a backup"
REST = "model"  # the tensor that has everything but arrays, as JSON
LARGE = 4096  # rows; of larger tables only the rows that differ from the initial ones are stored
PLACES, ROWS = ".places", ".rows"


def pack_state(state: State, recipe: Recipe, more: dict[str, Any]) -> bytes:
    """Return a state as bytes, with its recipe and with `more`, which is stored as JSON."""
    header, tensors = parts_of(state.learner)
    numbers = tensors["open.round"].tolist()
    entries = [state.book.entry(number) for number in numbers]
    tensors = keep_changed(tensors, _initial(state.learner, state.learner.sparse))
    tensors["open.moment"] = np.array([entry.now for entry in entries], np.int64).reshape(-1, 2)
    rest = {
        "recipe": recipe._asdict(),
        "learner": header,
        "names": state.classes.names,
        "retired": sorted(state.classes.retired),
        "ids": [entry.id for entry in entries],
        "tally": state.tally.as_json(),
        "more": more,
    }
    text = np.frombuffer(json.dumps(rest).encode(), np.uint8)
    head, content = pack_tensors({**tensors, REST: text}, {"format": FORMAT})
    return head + bytes(content)


def unpack_state(content: bytes, source: str) -> tuple[State, Recipe, dict[str, Any]]:
    """Return the arguments of `pack_state`; raise InvalidInput if the bytes are damaged or of something else."""
    return state_of(*unpack_tensors(content, source), source)


def state_of(texts: dict[str, str], tensors: Tensors, source: str) -> tuple[State, Recipe, dict[str, Any]]:
    """Return the arguments of `pack_state` from the texts and arrays of a file; raise InvalidInput as above."""
    if texts.get("format") != FORMAT:
        raise InvalidInput(
            f"{source} is of format {shown(texts.get('format'))}, this version reads {FORMAT!r}", "update delaytron"
        )
    try:
        rest = json.loads(bytes(tensors.pop(REST)))
        recipe = Recipe(**rest["recipe"])
        return _rebuilt(recipe, rest, tensors), recipe, rest["more"]
    except UNREADABLE as problem:
        raise InvalidInput(
            f"{source} is not a model that this version can read: {reason_of(problem)}", UPDATE
        ) from None


def _rebuilt(recipe: Recipe, rest: dict[str, Any], tensors: Tensors) -> State:
    """Return the state; raise an error of `UNREADABLE` if its parts do not fit together."""

    def check(fits: bool, problem: str) -> None:
        if not fits:
            raise ValueError(problem)

    ids, moments, names = rest["ids"], tensors.pop("open.moment"), rest["names"]
    rounds = tensors["open.round"].size
    listed = moments.dtype == np.int64 and moments.shape == (len(ids), 2) and all(isinstance(one, str) for one in ids)
    check(listed, f"it has {len(ids)} ids for {moments.shape} of {moments.dtype}")
    check(len(ids) == rounds and len(set(ids)) == rounds, f"it has {len(ids)} ids for {rounds} decisions")
    header = rest["learner"]
    sparse, n_classes = bool(header["sparse"]), header["settings"]["n_classes"]
    # Before memory is allocated by it: a crafted header may ask for any number of classes.
    check(n_classes == len(names), f"it has {len(names)} names for {shown(n_classes)} classes")
    learner = make(header, allocate=False)
    learner.book = book = Book(recipe.expiry(), remembers=False)
    fill(learner, sparse, fill_in(tensors, _initial(learner, sparse)))
    # All decisions that were read share one block, which has no ids and moments yet.
    for block in {id(block): block for block in book.kept.values()}.values():
        if isinstance(block, RoundBlock):
            named = block._replace(ids=ids, moments=moments.copy())
            book.kept = dict.fromkeys(block.rounds.tolist(), named)
    encoder = recipe.new_encoder()
    check(
        encoder.sparse == learner.sparse and encoder.n_features == learner.n_features,
        f"its learner has {learner.n_features} features, its encoder {encoder.n_features}",
    )
    return State(learner, encoder, Classes(names, rest["retired"]), Tally.from_json(rest["tally"]))


def _initial(learner: Learner, sparse: bool) -> Tensors:
    """Return the large tables of a learner as they are before it has learned anything."""
    size = learner.size(sparse)
    if size.n_features < LARGE:
        return {}
    state = learner.rule.init(stack(learner.params), size)
    return {
        f"state.{name}": field[0] for name, field in state._asdict().items() if field.shape[1:2] == (size.n_features,)
    }


def keep_changed(tensors: Tensors, initial: Tensors) -> Tensors:
    """Replace large tables by their changed rows, and the places of these.

    Models with hashed features have large tables, of which they use few rows.

    Examples
    --------
    >>> initial = {"W": np.zeros((5000, 2))}
    >>> table = initial["W"].copy()
    >>> table[7] = 1.0
    >>> kept = keep_changed({"W": table}, initial)
    >>> kept["W.places"].tolist(), kept["W.rows"].tolist()
    ([7], [[1.0, 1.0]])
    >>> bool((fill_in(kept, initial)["W"] == table).all())
    True
    """
    kept: Tensors = {}
    for name, table in tensors.items():
        if name not in initial or len(table) < LARGE:
            kept[name] = table
            continue
        # By bits: a NaN equals itself, and -0.0 differs from 0.0.
        differs = (table.view(np.uint64) != initial[name].view(np.uint64)).reshape(len(table), -1).any(axis=1)
        places = np.flatnonzero(differs)
        kept[name + PLACES] = places.astype(np.uint32)
        kept[name + ROWS] = table[places]
    return kept


def fill_in(kept: Mapping[str, NDArray[Any]], initial: Tensors) -> Tensors:
    """Return whole tables, the inverse of `keep_changed`; raise ValueError if the changed rows do not fit."""
    tensors: Tensors = {}
    for name, table in kept.items():
        if name.endswith(PLACES):
            whole = name.removesuffix(PLACES)
            places, rows, filled = table, kept[whole + ROWS], initial[whole].copy()
            fits = places.ndim == 1 and rows.shape == (places.size, *filled.shape[1:]) and rows.dtype == filled.dtype
            if not fits or places.dtype != np.uint32 or (places.size and places.max() >= len(filled)):
                raise ValueError(f"{whole} has {rows.shape} of {rows.dtype} changed rows, not fit for {filled.shape}")
            filled[places] = rows
            tensors[whole] = filled
        elif not name.endswith(ROWS):
            tensors[name] = table
    return tensors


def compress(content: bytes) -> bytes:
    """Return a snapshot as a journal stores it."""
    return zlib.compress(content, 1)  # fast: most of the numbers of a model with hashed features are 0


def decompress(content: bytes, source: str) -> bytes:
    """Return the bytes of a compressed snapshot; raise InvalidInput if they are damaged."""
    try:
        return zlib.decompress(content)
    except zlib.error as problem:
        raise InvalidInput(f"{source} is damaged: {problem}", "restore it from a backup") from None


def read_snapshot(snapshot: Snapshot) -> tuple[State, Recipe, dict[str, Any]]:
    """Return the state of a snapshot of a journal, its recipe, and the rest that `pack_state` was given."""
    source = f"the snapshot after fact {snapshot.seq}"
    state, recipe, more = unpack_state(decompress(snapshot.body, source), source)
    state.encoder.take_names(more["names"])
    return state, recipe, more


def digest(state: State, recipe: Recipe) -> str:
    """Return the SHA-256 of a state, without its table of names: equal states have equal digests."""
    return sha256(pack_state(state, recipe, {})).hexdigest()
