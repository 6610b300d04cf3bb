"""A `Backend` on PostgreSQL: any number of processes on any machines serve the same models."""

import asyncio
from contextlib import suppress
from logging import getLogger
from typing import Any

from delaytron.errors import DelaytronError
from delaytron.journal.ids import check_id
from delaytron.model.snapshots import digest
from delaytron.service import messages
from delaytron.service.backend import Repeatable
from delaytron.service.limits import Limits, check_batch, check_model
from delaytron.service.postgres import looking, making
from delaytron.service.postgres.answering import AnswerWriter, WrittenAnswer, read_answer
from delaytron.service.postgres.connections import Connections
from delaytron.service.postgres.deciding import FrontModel
from delaytron.service.postgres.following import FollowedModels
from delaytron.service.postgres.learning import LearnerTask
from delaytron.service.postgres.loading import load_model
from delaytron.service.postgres.redeeming import TokenWriter, read_token_answer
from delaytron.service.postgres.tables import make_tables
from delaytron.service.postgres.writing import DecisionWriter, Writing
from delaytron.service.problems import Unavailable
from delaytron.service.reading import check_named, check_same_model, recipe_of
from delaytron.service.tokens import TokenKeys

FOLLOW = 0.2  # seconds between two looks for a newer state

log = getLogger("delaytron.service")


class PostgresBackend:
    """A front end; where it `learns`, also the learner as long as no other process is.

    Parameters
    ----------
    dsn
        A connection string of PostgreSQL 14 or newer. Its role makes the schema `delaytron`, or finds it.
    learns
        Whether this process may be the learner. One that may should be running.
    tokens
        The keys of stateless decisions, the same for all front ends.
    """

    def __init__(
        self,
        dsn: str,
        learns: bool = True,
        tokens: TokenKeys | None = None,
        limits: Limits = Limits(),  # noqa: B008 - never changed
    ) -> None:
        self._limits = limits
        self._connections = Connections(dsn)
        self._models = FollowedModels(self._connections, limits, tokens)
        self._decisions = DecisionWriter(self._connections)
        self._answers = AnswerWriter(self._connections)
        self._tokens = TokenWriter(self._connections)
        self._learner = LearnerTask(self._connections.parameters) if learns else None
        self._tasks: list[asyncio.Task[None]] = []
        self._has_tables = asyncio.Event()
        self._unready: str | None = "the tables are not there yet; try again"

    @property
    def is_learning(self) -> bool:
        """Whether this process is the learner now."""
        return self._learner is not None and self._learner.is_learning

    async def start(self) -> None:
        """Make the tables, if need be; where PostgreSQL cannot be reached, go on trying."""
        with suppress(Unavailable):
            await self._look()
        self._tasks.append(asyncio.create_task(self._follow()))
        if self._learner is not None:
            self._tasks.append(asyncio.create_task(self._learn(self._learner)))

    async def _look(self) -> None:
        """Have the newest states; say why not, if that cannot be."""
        try:
            if not self._has_tables.is_set():
                await self._connections.run(make_tables)
                self._has_tables.set()
            await self._models.refresh()
        except DelaytronError as problem:
            self._unready = str(problem)
            raise
        self._unready = None

    async def _follow(self) -> None:
        """Look again and again, as long as the service runs."""
        while True:
            await asyncio.sleep(FOLLOW)
            try:
                await self._look()
            except DelaytronError:  # it is told by `unready`
                continue
            except Exception:
                log.exception("a published state could not be read")

    async def _learn(self, learner: LearnerTask) -> None:
        await self._has_tables.wait()
        await learner.run()

    async def stop(self) -> None:
        """Finish what has begun, and close everything."""
        for task in self._tasks if not self._has_tables.is_set() else self._tasks[:1]:  # the learner ends by itself
            task.cancel()
        self._unready = "the service is stopping; try again"
        await asyncio.gather(self._decisions.close(), self._answers.close(), self._tokens.close())
        if self._learner is not None:
            self._learner.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connections.close()

    def unready(self) -> str | None:
        """Return why nothing can be decided now."""
        return self._unready

    def _check_tables(self) -> None:
        if not self._has_tables.is_set() and self._unready is not None:
            raise Unavailable(self._unready)

    async def _find(self, name: str) -> FrontModel:
        self._check_tables()
        return await self._models.find(name)

    async def create(self, wanted: messages.NewModel) -> tuple[messages.ModelReply, bool]:
        """Make a model; the same one again is found."""
        self._check_tables()
        check_model(self._limits, wanted)
        recipe = await asyncio.to_thread(recipe_of, wanted)
        is_new = await making.make_model(self._connections, self._limits, wanted, recipe)
        front = await self._find(wanted.name)
        if not is_new:
            check_same_model(front.row.recipe, front.row.stateless, wanted, recipe)
        return front.reply, is_new

    async def models(self) -> list[messages.ModelReply]:
        """Return all models, by their names."""
        self._check_tables()
        return [front.reply for front in await self._models.all()]

    async def model(self, name: str) -> messages.ModelReply:
        """Return one model."""
        return (await self._find(name)).reply

    async def decide(
        self, name: str, wanted: list[messages.DecisionRequest], repeatable: Repeatable | None
    ) -> list[messages.DecisionReply]:
        """Make all of these decisions, or none; the learner is not waited for."""
        check_batch(self._limits, len(wanted))
        front = await self._find(name)
        try:
            made = front.decide(wanted, self._models.now())
        except DelaytronError:
            before = await self._decisions.repeat(front.row.number, repeatable)  # then it was right
            if before is None:
                raise
            return before
        return await self._decisions.write(Writing(front.row.number, made, repeatable))

    async def feedback(self, name: str, given: list[messages.FeedbackRequest]) -> list[messages.Result | Exception]:
        """Take answers; each has its own result."""
        check_batch(self._limits, len(given))
        front = await self._find(name)
        return list(await asyncio.gather(*(self._answer(front, one) for one in given), return_exceptions=True))  # type: ignore[arg-type]

    async def _answer(self, front: FrontModel, given: messages.FeedbackRequest) -> messages.Result:
        check_named(given)
        if given.token is not None:
            return await self._tokens.take(read_token_answer(front, given, self._models.now()))
        return await self._answers.take(read_answer(front, given))

    async def cancel(self, name: str, id: str) -> messages.Result:
        """Want no answer to a decision any more."""
        return await self._answers.take(WrittenAnswer(await self._find(name), check_id(id), None))

    async def decision(self, name: str, id: str) -> messages.DecisionState:
        """Return a decision, and what became of it."""
        return await looking.find_state(self._connections, await self._find(name), check_id(id))

    async def recent(self, name: str, count: int) -> list[messages.DecisionState]:
        """Return the last decisions, the newest first."""
        return await looking.recent_states(self._connections, await self._find(name), count)

    async def explain(self, name: str, id: str) -> messages.ExplanationReply:
        """Return why a class looks best for the features of a decision."""
        return await looking.explain_decision(self._connections, await self._find(name), check_id(id))

    async def add_class(self, name: str, wanted: messages.NewClass) -> messages.ModelReply:
        """Add a class; all front ends know it within a moment."""
        front = await self._find(name)
        await making.add_class(self._connections, self._limits, front, wanted.name)
        return front.reply

    async def retire_class(self, name: str, label: Any) -> messages.ModelReply:
        """Let a class not be chosen any more."""
        front = await self._find(name)
        await making.retire_class(self._connections, front, label)
        return front.reply

    async def stats(self, name: str) -> messages.StatsReply:
        """Return counts and rates, and how far this front end is behind."""
        return await looking.stats_of(self._connections, await self._find(name), self._models.now())

    async def digest(self, name: str) -> messages.DigestReply:
        """Return the hash of all that the learner knows; what is still in the inbox it does not."""
        front = await self._find(name)
        model = await self._connections.run(lambda connection: load_model(connection, front.row.number))
        return messages.DigestReply(await asyncio.to_thread(digest, model.core, model.recipe))

    async def weights(self, name: str) -> messages.WeightsReply:
        """Return the weights that this front end decides with."""
        return await looking.weights_of(self._connections, await self._find(name))
