"""Models in the journals of a folder, one process: the service without a server of its own for the data."""

import asyncio
from collections.abc import Callable
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import Any, TypeVar

from delaytron.errors import DelaytronError
from delaytron.journal.clock import Moment
from delaytron.journal.ids import check_id
from delaytron.model import facts
from delaytron.model.answering import cancel
from delaytron.model.explaining import explain_row
from delaytron.model.finding import find_decision
from delaytron.model.keeper import Keeper
from delaytron.model.making import Recipe
from delaytron.model.opening import open_keeper, reopen_keeper
from delaytron.model.snapshots import digest
from delaytron.service import messages
from delaytron.service.backend import Repeatable
from delaytron.service.limits import Limits, check_batch, check_classes, check_model, check_room
from delaytron.service.problems import Unavailable, nothing_left, unknown_model
from delaytron.service.reading import check_same_model, class_named, recipe_of
from delaytron.service.replies import decision_state, explanation_reply, model_reply, stats_reply, weights_reply
from delaytron.service.served import ServedModel
from delaytron.service.tokens import TokenKeys
from delaytron.service.worker import ModelWorker

ENDING = ".db"
LOOKED_AT = (4, 100)  # facts for each recent decision
T = TypeVar("T")
log = getLogger("delaytron.service")


class Embedded:
    """A `Backend` on a folder of journals; other processes may answer by `dt.Journal`, and nobody else decide."""

    def __init__(self, folder: Path, tokens: TokenKeys, limits: Limits = Limits()) -> None:  # noqa: B008 - never changed
        self._folder = folder
        self._tokens = tokens
        self._limits = limits
        self._served: dict[str, tuple[ServedModel, ModelWorker]] = {}
        self._broken: dict[str, str] = {}
        self._making = asyncio.Lock()
        self._unready: str | None = "journals are being opened; try again"

    async def start(self) -> None:
        """Open all journals of the folder; one that cannot be opened does not keep the others from it."""
        for path in sorted(self._folder.glob(f"*{ENDING}")):
            try:
                self._serve(path.stem, await asyncio.to_thread(_reopen, path))
            except DelaytronError as problem:
                self._broken[path.stem] = _unserved(path, problem)
        self._unready = None

    async def stop(self) -> None:
        """Finish what has begun, and close all journals."""
        self._unready = "the service is stopping; try again"
        await asyncio.gather(*(worker.close() for _, worker in self._served.values()))

    def unready(self) -> str | None:
        """Return why nothing can be decided now."""
        return self._unready

    def _serve(self, name: str, keeper: Keeper) -> ServedModel:
        served = ServedModel(name, keeper, self._tokens, self._limits)
        self._served[name] = served, ModelWorker(keeper, name)
        return served

    def _find(self, name: str) -> tuple[ServedModel, ModelWorker]:
        if self._unready is not None:
            raise Unavailable(self._unready)
        if name in self._broken:
            raise Unavailable(self._broken[name])
        if name not in self._served:
            raise unknown_model(name, self._served)
        return self._served[name]

    async def _run(self, name: str, operation: Callable[[ServedModel, Moment], T], *, short: bool = False) -> T:
        served, worker = self._find(name)
        return await worker.run(partial(operation, served), short=short)

    async def create(self, wanted: messages.NewModel) -> tuple[messages.ModelReply, bool]:
        """Make a model; the same one again is found."""
        check_model(self._limits, wanted)
        recipe = await asyncio.to_thread(recipe_of, wanted)
        async with self._making:
            if self._unready is not None:
                raise Unavailable(self._unready)
            if wanted.name in self._served or wanted.name in self._broken:
                there = self._find(wanted.name)[0]
                check_same_model(there.keeper.recipe, there.stateless, wanted, recipe)
                return await self.model(wanted.name), False
            check_room(self._limits, len(self._served))
            path = self._folder / f"{wanted.name}{ENDING}"
            try:
                self._serve(wanted.name, await asyncio.to_thread(_make, path, recipe, wanted.stateless))
            except DelaytronError as problem:  # all is right with what is wanted
                raise Unavailable(_unserved(path, problem)) from problem
        return await self.model(wanted.name), True

    async def models(self) -> list[messages.ModelReply]:
        """Return all models, by their names."""
        return [await self.model(name) for name in sorted(self._served)]

    async def model(self, name: str) -> messages.ModelReply:
        """Return one model."""
        return await self._run(name, lambda served, _: _described(served))

    async def decide(
        self, name: str, wanted: list[messages.DecisionRequest], repeatable: Repeatable | None
    ) -> list[messages.DecisionReply]:
        """Make all of these decisions, or none."""
        check_batch(self._limits, len(wanted))
        short = len(wanted) == 1
        return await self._run(name, lambda served, now: served.decide(now, wanted, repeatable), short=short)

    async def feedback(self, name: str, given: list[messages.FeedbackRequest]) -> list[messages.Result | Exception]:
        """Take answers; each has its own result."""
        check_batch(self._limits, len(given))
        served, worker = self._find(name)
        runs = [worker.run(partial(served.feedback, given=one), short=True) for one in given]
        return list(await asyncio.gather(*runs, return_exceptions=True))  # type: ignore[arg-type]

    async def cancel(self, name: str, id: str) -> messages.Result:
        """Want no answer to a decision any more."""

        def operation(served: ServedModel, now: Moment) -> messages.Result:
            return "cancelled" if cancel(served.keeper, now, check_id(id)) == "cancelled" else "duplicate"

        return await self._run(name, operation)

    async def decision(self, name: str, id: str) -> messages.DecisionState:
        """Return a decision, and what became of it."""
        return await self._run(name, lambda served, _: _state(served, check_id(id)))

    async def recent(self, name: str, count: int) -> list[messages.DecisionState]:
        """Return the last decisions, the newest first."""
        return await self._run(name, lambda served, _: _recent(served, count))

    async def explain(self, name: str, id: str) -> messages.ExplanationReply:
        """Return why a class looks best for the features of a decision."""

        def operation(served: ServedModel, _: Moment) -> messages.ExplanationReply:
            found = find_decision(served.keeper, check_id(id))
            if found.told is None:
                raise nothing_left(id)
            return explanation_reply(explain_row(served.keeper.core, found.told.row))

        return await self._run(name, operation)

    async def add_class(self, name: str, wanted: messages.NewClass) -> messages.ModelReply:
        """Add a class."""

        def operation(served: ServedModel, now: Moment) -> messages.ModelReply:
            check_classes(self._limits, len(served.keeper.core.classes.names) + 1)
            served.keeper.add_class(wanted.name, now)
            return _described(served)

        return await self._run(name, operation)

    async def retire_class(self, name: str, label: Any) -> messages.ModelReply:
        """Let a class not be chosen any more."""

        def operation(served: ServedModel, now: Moment) -> messages.ModelReply:
            served.keeper.retire_class(class_named(served.keeper.core.classes.names, label), now)
            return _described(served)

        return await self._run(name, operation)

    async def stats(self, name: str) -> messages.StatsReply:
        """Return counts and rates."""
        return await self._run(name, lambda served, now: stats_reply(served.keeper.core, now, served.rates))

    async def digest(self, name: str) -> messages.DigestReply:
        """Return the hash of all that a model knows."""
        return await self._run(
            name, lambda served, _: messages.DigestReply(digest(served.keeper.core, served.keeper.recipe))
        )

    async def weights(self, name: str) -> messages.WeightsReply:
        """Return the weights."""
        return await self._run(name, lambda served, _: weights_reply(served.keeper.core))


def _unserved(path: Path, problem: DelaytronError) -> str:
    """Log what is wrong with a journal; return it for clients, to whom it is nothing where it is on this machine."""
    log.warning("%s", problem)
    said = str(problem).partition(";")[0]
    for folder in (path.resolve().parent, path.absolute().parent):
        said = said.replace(f"{folder}/", "").replace(str(folder), "of the service")
    said = said.replace(str(path), path.name)
    mend = f"put {path.name} right in the folder of the service, and start it again"
    return f"model {path.stem!r} cannot be served: {said}; {mend}"


def _reopen(path: Path) -> Keeper:
    keeper = reopen_keeper(path, "full")
    keeper.warm_up()
    return keeper


def _make(path: Path, recipe: Recipe, stateless: bool) -> Keeper:
    keeper = open_keeper(recipe, path, "full", {"stateless": stateless})
    keeper.warm_up()
    return keeper


def _described(served: ServedModel) -> messages.ModelReply:
    return model_reply(served.name, served.keeper.recipe, served.keeper.core, served.stateless)


def _state(served: ServedModel, id: str) -> messages.DecisionState:
    found = find_decision(served.keeper, id)
    return decision_state(id, served.keeper.core.classes.names, *found)


def _recent(served: ServedModel, count: int) -> list[messages.DecisionState]:
    """Return the decisions among the last facts; after many answers in a row one looks further back, up to a limit."""
    last = served.store.last_seq
    for reach in LOOKED_AT:
        after = max(0, last - reach * count)
        recent = [fact for fact in served.store.facts(after) if fact.kind in facts.KEPT_DECISIONS]
        if after == 0 or len(recent) >= count:
            break
    return [_state(served, fact.id) for fact in reversed(recent[-count:]) if fact.id is not None]
