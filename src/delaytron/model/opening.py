"""How a model begins: in memory, in a new journal, from one that there is, or from a file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delaytron.checks import check_choice, reason_of
from delaytron.errors import InvalidInput
from delaytron.files.tensors import Tensors
from delaytron.journal import FactStore
from delaytron.journal.records import Status
from delaytron.journal.store import DURABILITIES
from delaytron.journal.tables import has_journal
from delaytron.model import facts
from delaytron.model.core import Core
from delaytron.model.keeper import Keeper
from delaytron.model.making import Recipe, check_same, make_core
from delaytron.model.memory import MemoryStore
from delaytron.model.snapshots import UPDATE, core_of


def open_keeper(
    recipe: Recipe, journal: str | Path | None, durability: str, more: Mapping[str, Any] | None = None
) -> Keeper:
    """Return what keeps a model as asked for: a new one, or the one of the journal.

    What else is asked of a new journal is `more`: how it began, or how it is served.
    """
    if journal is None:
        check_choice("durability", durability, DURABILITIES)
        return Keeper(MemoryStore(), recipe)
    store = FactStore(journal, config=None if has_journal(journal) else _config(recipe, more), durability=durability)
    return _continue(store, recipe, journal)


def reopen_keeper(journal: str | Path, durability: str) -> Keeper:
    """Return what keeps the model of a journal."""
    return _continue(FactStore(journal, durability=durability), None, journal)


def _config(recipe: Recipe, more: Mapping[str, Any] | None) -> bytes:
    """Return what other processes must know to answer, and the recipe itself."""
    answering = make_core(recipe).answering
    known = {
        "classes": answering.classes,
        "on_expiry": recipe.asked["on_expiry"],
        "feedback_type": answering.told,
        "rewards": answering.rewards,
    }
    return json.dumps({**known, **(more or {}), "recipe": recipe._asdict()}).encode()


def _continue(store: FactStore, asked: Recipe | None, journal: Any) -> Keeper:
    try:
        stored = _recipe_of(store.config, journal)
        if asked is not None:
            check_same(stored, asked, journal)
        keeper = Keeper(store, stored)
        with store.batch():
            if store.last_seq == 0:
                store.append(facts.CREATED, None, store.config, store.now())
            keeper.reload()
    except BaseException:
        store.close()
        raise
    return keeper


def _recipe_of(config: bytes, journal: Any) -> Recipe:
    try:
        return Recipe(**json.loads(config)["recipe"])
    except (KeyError, TypeError):
        raise InvalidInput(
            f"{journal} is not the journal of a model that this version can read; update delaytron"
        ) from None


def load_keeper(texts: dict[str, str], tensors: Tensors, source: str) -> Keeper:
    """Return what keeps a model that was saved to a file."""
    core, recipe, more = core_of(texts, tensors, source)
    try:
        ids = {issued: Status(*status) for issued, status in more["ids"].items()}
        keeper = Keeper(MemoryStore(ids, more["clock"]), recipe, core)
        core.encoder.take_names(more["names"])
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidInput(
            f"{source} is not a model that this version can read: {reason_of(problem)}; {UPDATE}"
        ) from None
    _check_ids(core, ids, source)
    return keeper


def _check_ids(core: Core, ids: dict[str, Status], source: str) -> None:
    if not (core.open.keys() | core.lapsed.keys()) <= ids.keys():
        raise InvalidInput(f"{source} is damaged: it has open decisions without an id; restore it from a backup")
