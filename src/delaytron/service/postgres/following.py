"""The models of a front end: found by their names, and brought up to date whenever the learner publishes a state."""

import asyncio
import json
import re
from logging import getLogger
from time import monotonic_ns
from typing import Any

from delaytron.errors import InvalidInput, JournalError
from delaytron.model.making import Recipe
from delaytron.service.limits import Limits
from delaytron.service.messages import MODEL_NAME
from delaytron.service.postgres.connections import Connections
from delaytron.service.postgres.deciding import FrontModel, KnownClasses, ModelRow, Version
from delaytron.service.postgres.publishing import Published, read_published, unpublished
from delaytron.service.problems import unknown_model
from delaytron.service.tokens import TokenKeys

MODELS = """
SELECT delaytron.now(), coalesce(seq, 1), classes, retired, number, name, uid, recipe, stateless
FROM delaytron.models LEFT JOIN delaytron.published ON model = number
"""
ONE_MODEL = MODELS + "WHERE name = %s"
STATE = """
SELECT classes, retired, coalesce(seq, 1), coalesce(published.wall, models.wall), body
FROM delaytron.models LEFT JOIN delaytron.published ON model = number WHERE number = %s
"""

log = getLogger("delaytron.service")


class FollowedModels:
    """Those of a database, as far as they were asked for."""

    def __init__(self, connections: Connections, limits: Limits, tokens: TokenKeys | None) -> None:
        self._connections = connections
        self._limits = limits
        self._tokens = tokens
        self._models: dict[str, FrontModel] = {}
        self._loading = asyncio.Lock()
        self._offset = 0

    def now(self) -> int:
        """Return the time in ns, by the clock of the database."""
        return monotonic_ns() + self._offset

    async def find(self, name: str) -> FrontModel:
        """Return a model, or raise."""
        known = self._models.get(name)
        if known is None and re.fullmatch(MODEL_NAME, name):
            await self._follow(await self._connections.rows(ONE_MODEL, (name,)), load=True)
            known = self._models.get(name)
        if known is None:
            raise unknown_model(name, self._models)
        return known

    async def all(self) -> list[FrontModel]:
        """Return all models, by their names."""
        await self._follow(await self._connections.rows(MODELS), load=True)
        return [self._models[name] for name in sorted(self._models)]

    async def refresh(self) -> None:
        """Bring those up to date that are used here."""
        for row in await self._connections.rows(MODELS):
            await self._follow_used(row)

    async def _follow(self, rows: list[tuple[Any, ...]], *, load: bool) -> None:
        for now, seq, names, retired, *known in rows:
            self._offset = now - monotonic_ns()
            number, name, uid, recipe, stateless = known
            front = self._models.get(name)
            if front is None and load:
                front = FrontModel(
                    ModelRow(number, name, uid, Recipe.from_bytes(recipe), stateless), self._limits, self._tokens
                )
            if front is not None:
                await self._bring_up_to_date(front, seq, KnownClasses(json.loads(names), json.loads(retired)))

    async def _follow_used(self, row: tuple[Any, ...]) -> None:
        """Bring a model up to date; if its state cannot be read, go on with the one before."""
        try:
            await self._follow([row], load=False)
        except (InvalidInput, JournalError) as problem:
            log.warning("%s", problem)

    async def _bring_up_to_date(self, front: FrontModel, seq: int, classes: KnownClasses) -> None:
        if front.version.seq < seq:
            async with self._loading:
                await self._load(front, seq)
        elif len(classes.names) >= len(front.core.classes.names):  # else it has heard of a newer one meanwhile
            front.bring(classes)

    async def _load(self, front: FrontModel, seq: int) -> None:
        """Have the newest state of a model, unless another task has got it just now."""
        if front.version.seq >= seq:
            return
        ((names, retired, seq, wall, body),) = await self._connections.rows(STATE, (front.row.number,))
        published = await asyncio.to_thread(_read, front.row, body)
        front.use(published, Version(seq, wall), KnownClasses(json.loads(names), json.loads(retired)))
        self._models.setdefault(front.row.name, front)


def _read(row: ModelRow, body: bytes | None) -> Published:
    return unpublished(row.recipe) if body is None else read_published(body, f"the state of model {row.name!r}")
