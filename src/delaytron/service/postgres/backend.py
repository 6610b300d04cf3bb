"""A `Backend` on PostgreSQL: any number of processes on any machines serve the same models."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from logging import getLogger
from typing import Any

from msgspec.structs import replace

from delaytron.answers import never_issued
from delaytron.errors import DelaytronError, InvalidInput, Text
from delaytron.journal.ids import check_id
from delaytron.journal.store import Fact
from delaytron.model import facts
from delaytron.model.classes import Classes
from delaytron.model.engine import Found
from delaytron.model.facts import AddClass, RetireClass
from delaytron.model.inspection import explain_row
from delaytron.model.recipe import NS
from delaytron.model.snapshots import decompress, digest
from delaytron.records import Moment
from delaytron.service import messages
from delaytron.service.backend import (
    Rates,
    Repeatable,
    check_same_model,
    class_named,
    decision_state,
    recipe_of,
    weights_reply,
)
from delaytron.service.messages import Staleness
from delaytron.service.postgres import schema
from delaytron.service.postgres.frontend import (
    AnswerWriter,
    DecisionWriter,
    FrontModel,
    FrontModels,
    KnownClasses,
    SubmittedAnswer,
)
from delaytron.service.postgres.learner import LearnerTask, load_model
from delaytron.service.postgres.schema import Connection, Connections, fetch
from delaytron.service.problems import Unavailable, nothing_left
from delaytron.service.security import Limits

REFRESH = 0.2  # seconds between two reads of the published states

log = getLogger("delaytron.service")


class PostgresBackend:
    """A front end; with `learns` also the learner, as long as no other process is.

    Parameters
    ----------
    dsn
        A connection string of PostgreSQL 14 or newer. Its role creates the schema `delaytron`, or finds it.
    learns
        Whether this process may be the learner. At least one running process should.
    """

    def __init__(
        self,
        dsn: str,
        learns: bool = True,
        limits: Limits = Limits(),  # noqa: B008 - never changed
    ) -> None:
        self._limits = limits
        self._connections = Connections(dsn)
        self._models = FrontModels(self._connections, limits)
        self._decisions = DecisionWriter(self._connections, self._models)
        self._answers = AnswerWriter(self._connections)
        self._learner = LearnerTask(self._connections.parameters) if learns else None
        self._tasks: list[asyncio.Task[None]] = []
        self._has_tables = asyncio.Event()
        # Problem and hint.
        self._unready: tuple[Text, Text] | None = ("the database has not been reached yet", "try again")

    # Start and stop

    @property
    def is_learning(self) -> bool:
        """Whether this process is the learner now."""
        return self._learner is not None and self._learner.is_learning

    async def start(self) -> None:
        """Create the tables if necessary; retry as long as PostgreSQL cannot be reached.

        Raises InvalidInput if the tables cannot be used.
        """
        with suppress(Unavailable):
            await self._refresh()
        self._tasks.append(asyncio.create_task(self._follow()))
        if self._learner is not None:
            self._tasks.append(asyncio.create_task(self._learn(self._learner)))

    async def _refresh(self) -> None:
        """Load the newest states; if that fails, `unready` says why."""
        try:
            if not self._has_tables.is_set():
                await self._connections.run(schema.make_tables)
                self._has_tables.set()
            await self._models.refresh()
        except DelaytronError as problem:
            self._unready = problem.args
            raise
        self._unready = None

    async def _follow(self) -> None:
        """Load newer states as long as the service runs."""
        while True:
            await asyncio.sleep(REFRESH)
            try:
                await self._refresh()
            except DelaytronError:  # `unready` returns it
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
        self._unready = ("the service is stopping", "try again")
        await asyncio.gather(self._decisions.close(), self._answers.close())
        if self._learner is not None:
            self._learner.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connections.close()

    def unready(self) -> Unavailable | None:
        """Return the error that requests get now; None if the backend is ready."""
        return None if self._unready is None else Unavailable(*self._unready)

    def _check_tables(self) -> None:
        if not self._has_tables.is_set() and self._unready is not None:
            raise Unavailable(*self._unready)

    async def _find(self, name: str) -> FrontModel:
        self._check_tables()
        return await self._models.find(name)

    # Models and classes

    async def create(self, wanted: messages.NewModel) -> tuple[messages.ModelReply, bool]:
        """Make a model, or find the same one; return it, and whether it is new."""
        self._check_tables()
        self._limits.check_model(wanted)
        recipe = await asyncio.to_thread(recipe_of, wanted)
        stored = recipe.as_bytes()

        async def make(connection: Connection) -> bool:
            async with connection.transaction():
                ((count,),) = await fetch(connection, schema.COUNT_MODELS)
                names = json.dumps(recipe.asked["classes"])
                rows = await fetch(connection, schema.MAKE_MODEL, wanted.name, stored, names)
                if rows:
                    self._limits.check_room(count)
                    ((wall,),) = await fetch(connection, schema.CLOCK)
                    created = Fact(1, facts.CREATED, None, Moment(wall, 0), stored)
                    await connection.execute(schema.APPEND, schema.fact_columns([(rows[0][0], created)]))
                return bool(rows)

        is_new = await self._connections.run(make)
        front = await self._find(wanted.name)
        if not is_new:
            check_same_model(front.row.recipe, wanted, recipe)
        return front.reply, is_new

    async def models(self) -> list[messages.ModelReply]:
        """Return all models, by their names."""
        self._check_tables()
        return [front.reply for front in await self._models.all()]

    async def model(self, name: str) -> messages.ModelReply:
        """Return one model."""
        return (await self._find(name)).reply

    async def add_class(self, name: str, wanted: messages.NewClass) -> messages.ModelReply:
        """Add a class, or one that was retired; other front ends know it after their next refresh."""
        front = await self._find(name)

        def change(classes: Classes) -> AddClass:
            checked = classes.check_new(wanted.name)
            if classes.add(checked):
                # Under the lock, and by the names in the table: what is committed here, the learner must be able to do.
                self._limits.check_classes(len(classes.names))
                front.state.learner.check_growth(len(classes.names))
            return AddClass(checked)

        return await self._change_classes(front, change)

    async def retire_class(self, name: str, label: Any) -> messages.ModelReply:
        """Retire a class: it is not chosen any more."""

        def change(classes: Classes) -> RetireClass:
            checked = classes.check_retirable(class_named(classes.names, label))
            classes.retire(checked)
            return RetireClass(checked)

        return await self._change_classes(await self._find(name), change)

    async def _change_classes(
        self, front: FrontModel, change: Callable[[Classes], AddClass | RetireClass]
    ) -> messages.ModelReply:
        """Change the classes in the table of models and submit the operation to the learner, in one transaction.

        The row of the model is locked meanwhile, so all front ends agree on which label a new class has, and may decide
        for it before the learner has the fact.
        """
        number = front.row.number

        async def work(connection: Connection) -> KnownClasses:
            async with connection.transaction():
                ((names, retired),) = await fetch(connection, schema.CLASSES, number)
                classes = Classes(json.loads(names), json.loads(retired))
                operation = change(classes)
                known = KnownClasses(classes.names, sorted(classes.retired))
                stored = (json.dumps(known.names), json.dumps(known.retired), number)
                await connection.execute(schema.SET_CLASSES, stored)
                submitted = (number, facts.kind_of(operation), facts.body_of(operation))
                await connection.execute(schema.SUBMIT, submitted)
                return known

        front.update_classes(await self._connections.run(work))
        return front.reply

    # Decisions and answers

    async def decide(
        self, name: str, wanted: list[messages.DecisionRequest], repeatable: Repeatable | None
    ) -> list[messages.DecisionReply]:
        """Make all of these decisions, or none; the learner is not waited for."""
        self._limits.check_batch(len(wanted))
        front = await self._find(name)
        try:
            made = front.decide(wanted)
        except DelaytronError:
            # A retry gets its reply, also if a class was retired, or the limit of open decisions reached, meanwhile.
            before = await self._decisions.repeat(front, repeatable)
            if before is not None:
                return before
            ids = []
            for one in wanted:
                with suppress(InvalidInput):
                    ids.append(check_id(one.id))
            stored = await self._models.find_decisions(front, ids)
            if not stored:
                raise
            made = front.decide(wanted, retries=stored)
        return await self._decisions.write(front, made, repeatable)

    async def feedback(self, name: str, given: list[messages.FeedbackRequest]) -> list[messages.Result | Exception]:
        """Store answers; each has its own result."""
        self._limits.check_batch(len(given))
        front = await self._find(name)
        if any(one.label is not None and one.label not in front.state.classes.names for one in given):
            await self._models.refresh()  # another front end may have added the class

        async def take(one: messages.FeedbackRequest) -> messages.Result:
            return await self._answers.write(
                SubmittedAnswer(front, check_id(one.id), (one.correct, one.label, one.reward))
            )

        return list(await asyncio.gather(*map(take, given), return_exceptions=True))  # type: ignore[arg-type]

    async def cancel(self, name: str, id: str) -> messages.Result:
        """Cancel an open decision; later feedback for it is ignored."""
        return await self._answers.write(SubmittedAnswer(await self._find(name), check_id(id), None))

    async def decision(self, name: str, id: str) -> messages.DecisionState:
        """Return a decision and its status."""
        front = await self._find(name)
        return decision_state(id, front.state.classes.names, await self._find_decision(front, id))

    async def recent(self, name: str, count: int) -> list[messages.DecisionState]:
        """Return the last decisions, the newest first."""
        front = await self._find(name)
        recent = await self._models.recent_decisions(front, count)
        return [decision_state(id_, front.state.classes.names, found) for id_, found in recent.items()]

    async def explain(self, name: str, id: str) -> messages.ExplanationReply:
        """Return why a class looks best for the features of a decision."""
        front = await self._find(name)
        found = await self._find_decision(front, id)
        if found.row is None:
            raise nothing_left(id)
        await self._learn_names(front)
        return messages.ExplanationReply(**explain_row(front.state, found.row)._asdict())

    async def _find_decision(self, front: FrontModel, id: str) -> Found:
        found = await self._models.find_decisions(front, [check_id(id)])
        if not found:
            raise never_issued(id)
        return found[id]

    # Counts, digest and weights

    async def stats(self, name: str) -> messages.StatsReply:
        """Return the counts of the published state, the rates of all front ends, and how far this one is behind."""
        front = await self._find(name)
        now = self._models.now()
        ((first, decisions),) = await self._connections.rows(
            schema.BEHIND, model=front.row.number, seq=front.version.seq
        )
        published = front.published
        second = 0.0
        rates = Rates(clock=lambda: second)
        for known, counts in sorted(published.seconds.items()):
            second = known
            rates.count(*counts)
        second = now / NS
        per_second, exploration = rates.of_last_minute()
        oldest = published.stats.oldest_seconds
        return replace(
            published.stats,
            decisions_per_second=per_second,
            exploration=exploration,
            oldest_seconds=None if oldest is None else oldest + max(0, now - front.version.wall) / NS,
            staleness=staleness(0.0 if first is None else max(0, now - first) / NS, decisions),
        )

    async def digest(self, name: str) -> messages.DigestReply:
        """Return the hash of the learner's state: of all facts, but not of the rows in the inbox."""
        front = await self._find(name)
        model = await self._connections.run(lambda connection: load_model(connection, front.row.number))
        return messages.DigestReply(await asyncio.to_thread(digest, model.state, model.recipe))

    async def weights(self, name: str) -> messages.WeightsReply:
        """Return the weights that this front end decides with."""
        front = await self._find(name)
        await self._learn_names(front)
        return weights_reply(front.state)

    async def _learn_names(self, front: FrontModel) -> None:
        """Add the names of features that other front ends saw to the encoder."""
        for (packed,) in await self._connections.rows(schema.NAMES, front.row.number):
            listed = json.loads(decompress(packed, "the table of names"))
            front.state.encoder.add_names((int(index), name) for index, names in listed.items() for name in names)


def staleness(seconds: float, decisions: int) -> Staleness:
    """Return how far a front end is behind the learner, and what that adds to the bound.

    Examples
    --------
    >>> staleness(0.0, 0).bound
    'the state is up to date: the only delay is that of the answers'
    """
    if not decisions and not seconds:
        return Staleness(0.0, 0, "the state is up to date: the only delay is that of the answers")
    bound = (
        f"the state lacks the last {seconds:.1f} s, in which {decisions:,} decisions were made: answers have an effect "
        f"up to {decisions:,} rounds later. With a constant lag of this size, the bound of theorem R1 for delaytron "
        f"(docs/explanation/theory.md) has 4 * {decisions:,} more beside 1 + K / gamma in its root"
    )
    return Staleness(round(seconds, 3), decisions, bound)
