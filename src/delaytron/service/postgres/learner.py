"""The learner process: it takes the inbox, appends facts, learns from them, and publishes the state to front ends.

There is one at a time for all models of a database; if it ends, another process takes over. Verification and retention,
which need no running service, are here as well.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from logging import getLogger
from threading import RLock
from time import monotonic
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
import psycopg
from msgspec.structs import replace
from psycopg import IsolationLevel

from delaytron.answers import Status
from delaytron.errors import DelaytronError, InvalidInput, JournalError
from delaytron.journal.store import KEPT_SNAPSHOTS, REPLIES_KEPT, Fact, Snapshot
from delaytron.learners.book import Book
from delaytron.model import facts
from delaytron.model.drift import log_changes
from delaytron.model.facts import Expire, Release
from delaytron.model.recipe import NS, Recipe
from delaytron.model.snapshots import compress, digest, pack_state, read_snapshot
from delaytron.model.state import State
from delaytron.model.verify import read_age
from delaytron.records import Moment
from delaytron.service.backend import SECONDS, Rates, stats_reply
from delaytron.service.messages import StatsReply
from delaytron.service.postgres import schema
from delaytron.service.postgres.schema import Connection, Rows, connect, fetch, reading

T = TypeVar("T")
Seconds: TypeAlias = dict[int, tuple[int, int]]  # second -> decisions, and how many of them explored

PAUSE = 0.05  # seconds between two reads of the inbox
RETRY = 0.5  # seconds between two attempts to become the learner
PUBLISH = 0.5  # seconds at least between two published states of a model
SHARE = 0.25  # of the time that publishing may take
CLEAN = 60.0  # seconds between two checks of the models in whose inbox nothing arrives
STUCK = 10.0  # seconds until a model is tried again whose inbox could not be applied
MOST = 2000  # rows taken, or decisions expired, in one transaction
MOST_REPLIES = 10_000  # old idempotency keys dropped in one pass
ALIVE = 10.0  # seconds between two signs of life while a thread works
FACTS_A_SNAPSHOT = 20_000  # of a model: whoever takes over replays no more than these
SESSION = {  # a learner that hangs, or whose machine fails, loses its lock
    "statement_timeout": "60s",
    "idle_session_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}

log = getLogger("delaytron.service")


# The state of a model


class Arrived(NamedTuple):
    """A row of the inbox; `wall` is when it was written, in ns by the clock of the database."""

    place: int
    kind: int
    id: str | None
    wall: int
    body: bytes


class FoldedModel:
    """The state of a model after the fact `seq`, and the facts that are not in the table yet (`new`)."""

    def __init__(self, number: int, recipe: Recipe, snapshot: Snapshot | None = None) -> None:
        self.number = number
        self.recipe = recipe
        self.seq = self.snapshot = self.clock = 0
        if snapshot is None:
            self.state = State.new(recipe)
        else:
            self.state, _, more = read_snapshot(snapshot)
            self.seq = self.snapshot = snapshot.seq
            self.clock = int(more["clock"])
        self.new: list[Fact] = []
        self.has_new_names = True
        self._seconds: Seconds = {}

    def moment(self, wall: int) -> Moment:
        """Return a moment by the clock of the database; `Moment.clock` never goes back, even if that is set back."""
        return Moment(wall, max(self.clock, wall))

    def replay(self, stored: Iterable[Fact]) -> None:
        """Apply the facts that follow `seq`; raise JournalError if one cannot be applied, or comes out differently."""
        for fact in stored:
            self.state.replay(fact)
            self.seq = fact.seq
            self.clock = fact.now.clock
            if fact.kind == facts.RECORDED:
                decided = facts.decode_decided(fact.body)
                self.has_new_names |= bool(decided.names)
                second = fact.now.wall // NS
                decisions, explored = self._seconds.get(second, (0, 0))
                self._seconds[second] = decisions + 1, explored + (decided.label != decided.greedy)

    def fold(self, arrived: Iterable[Arrived]) -> None:
        """Turn rows of the inbox into facts, and apply them."""
        for row in arrived:
            if row.kind == facts.RECORDED:
                self._append_decision(row)
            else:
                self._append(row.kind, row.id, row.wall, row.body)

    def _append_decision(self, row: Arrived) -> None:
        """Append a decision with what its front end could not know: its round, and what happened to challengers."""
        # A front end counts only its own rounds; the true round is the order of the facts.
        decided = replace(facts.decode_decided(row.body), round=self.state.rounds + 1, changed=None)
        self._append(row.kind, row.id, row.wall, facts.encode(decided))
        changed = self.state.changed
        log_changes(f"model number {self.number}", decided.round, changed)
        self.new[-1] = self.new[-1]._replace(body=facts.encode(replace(decided, changed=changed)))

    def due(self, wall: int, most: int) -> list[Expire | Release]:
        """Return the decisions to expire and to release, some of them if they are many."""
        return list(islice(self.state.due(self.moment(wall), self.state.rounds), most))

    def expire(self, operations: Iterable[Expire | Release], wall: int) -> None:
        """Append facts of decisions that expired or were released."""
        for operation in operations:
            self._append(facts.kind_of(operation), operation.id, wall, facts.body_of(operation))

    def _append(self, kind: int, id: str | None, wall: int, body: bytes) -> None:
        # By `replay`, because it checks everything that compiled code indexes by: a row of the inbox may be damaged.
        fact = Fact(self.seq + 1, kind, id, self.moment(wall), body)
        self.replay([fact])
        self.new.append(fact)

    def seconds(self, wall: int) -> Seconds:
        """Return the decisions in each of the last seconds; counts of older ones are deleted."""
        first = wall // NS - SECONDS
        self._seconds = {second: counts for second, counts in self._seconds.items() if second >= first}
        return self._seconds

    def stats(self, wall: int) -> StatsReply:
        """Return the counts of the model."""
        return stats_reply(self.state, self.moment(wall), Rates())

    def pack(self) -> bytes:
        """Return a snapshot of the whole state, for the next learner."""
        return compress(pack_state(self.state, self.recipe, {"names": self.state.encoder.names(), "clock": self.clock}))


def pack_published(state: State, recipe: Recipe, stats: StatsReply, seconds: Seconds) -> bytes:
    """Return the part of a state that front ends need: what was learned, and how many decisions wait, but not which.

    A snapshot has all decisions that wait, and grows with them; this does not. Answers that wait to be applied when the
    next round begins are applied here, to a copy, so that front ends decide with all that is known.
    """
    learner, book = state.learner, state.book
    applied = Book(book.expiry, remembers=False)
    applied.rounds = book.rounds
    applied.arrived = book.to_apply()
    applied.kept = {number: book.kept[number] for number in applied.arrived}
    applied.ended = {number: book.ended[number] for number in applied.arrived}
    twin = learner._knowing(learner.sparse, learner.state)
    twin._lock = RLock()
    twin.restore(learner.sparse, type(learner.state)(*map(np.array, learner.state)), applied)
    twin.flush()
    applied.kept.clear()  # an expiry that was applied is kept to be corrected, by the learner only
    applied.ended.clear()
    more = {
        "pending": book.pending,
        "stats": msgspec.to_builtins(stats),
        "seconds": [[second, *counts] for second, counts in seconds.items()],
    }
    return compress(pack_state(State(twin, state.encoder, state.classes, state.tally), recipe, more))


async def in_thread(connection: Connection, function: Callable[..., T], *args: Any) -> T:
    """Return what a function returns in a thread; the connection is used meanwhile, however long that takes.

    PostgreSQL ends a session that is idle for long, so that a process that hangs loses the lock. This one works.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args))
    while not (await asyncio.wait({work}, timeout=ALIVE))[0]:
        await fetch(connection, schema.CLOCK)
    return work.result()


async def load_model(connection: Connection, number: int) -> FoldedModel:
    """Return the state of a model after its last fact: the newest snapshot, and the facts after it replayed."""
    ((recipe,),) = await fetch(connection, schema.RECIPE, number)
    rows = await fetch(connection, schema.NEWEST_SNAPSHOT, number)
    snapshot = Snapshot(*rows[0]) if rows else None
    model = await in_thread(connection, FoldedModel, number, Recipe.from_bytes(recipe), snapshot)
    await in_thread(connection, model.state.learner.compile)
    while rows := await fetch(connection, schema.FACTS_AFTER, number, model.seq, schema.PAGE):
        await in_thread(connection, model.replay, map(schema.as_fact, rows))
    return model


# The process


class LearnerTask:
    """Learns whenever no other process does.

    The advisory lock belongs to the connection by which everything is written: a process that lost the lock has lost
    the connection as well, and can write nothing.
    """

    def __init__(self, parameters: dict[str, Any]) -> None:
        self._parameters = parameters
        self._stopping = asyncio.Event()
        self.is_learning = False

    async def run(self) -> None:
        """Try to become the learner, and learn, until it is stopped."""
        while not self._stopping.is_set():
            try:
                async with await connect(self._parameters, SESSION) as connection:
                    await self._use(connection)
            except schema.DATABASE_ERRORS as problem:
                log.warning("the learner starts again: %s", schema.database_error(problem))
            except DelaytronError as problem:
                log.warning("the learner starts again: %s", problem)
            except Exception:  # such as no more threads; this task is awaited only at the end
                log.exception("the learner starts again")
            finally:
                self.is_learning = False
            await self._pause(RETRY)

    def stop(self) -> None:
        """End after the present pass."""
        self._stopping.set()

    async def _use(self, connection: Connection) -> None:
        while not self._stopping.is_set():
            ((is_ours,),) = await fetch(connection, schema.TAKE_LOCK, schema.LOCKS, schema.LEARNING)
            if is_ours:
                log.info("this process is the learner now")
                self.is_learning = True
                passes = Passes(connection)
                while not self._stopping.is_set():
                    if not await passes.run():
                        await self._pause(PAUSE)
                await passes.finish()
            await self._pause(RETRY)

    async def _pause(self, seconds: float) -> None:
        """Wait, unless it is stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


class _StuckError(Exception):
    """The inbox of a model cannot be applied."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Publication:
    """The published state and the snapshot of a model, and when the next state may be published."""

    def __init__(self, snapshot: int) -> None:
        self.snapshot = snapshot
        self.seq = -1
        self.due = 0.0


class Passes:
    """The states of all models in use, for the lifetime of the connection that has the lock."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._models: dict[int, FoldedModel] = {}
        self._publications: dict[int, _Publication] = {}
        self._stuck: dict[int, float] = {}
        self._clean = 0.0
        self._drop = 0.0

    async def run(self) -> bool:
        """Learn from the inbox and publish; return whether there may be more rows in the inbox."""
        self._stuck = {number: until for number, until in self._stuck.items() if until > monotonic()}
        for (number,) in await self._rows(schema.WAITING, list(self._stuck), MOST):
            await self._load(number)
        if monotonic() >= self._clean:
            await self._clean_up()
        taken = 0
        try:
            taken = await self._fold()
        except _StuckError as problem:
            self._postpone(problem.number)
            # The transaction of all models was rolled back: their states are loaded again, without this one.
            self._models.clear()
        for number in list(self._models):
            try:
                await self._publish(number)
            except schema.DATABASE_ERRORS:
                raise
            except Exception:  # the other models must go on
                self._postpone(number)
                del self._models[number]
        if monotonic() >= self._drop:
            dropped = await self._connection.execute(schema.DROP_REPLIES, (REPLIES_KEPT, MOST_REPLIES))
            self._drop = monotonic() + (0.0 if dropped.rowcount == MOST_REPLIES else CLEAN)
        return taken == MOST

    async def finish(self) -> None:
        """Publish and store all states, so that the next learner need not replay facts."""
        for number in list(self._models):
            await self._publish(number, at_once=True)

    async def _load(self, number: int) -> None:
        if number in self._models or number in self._stuck:
            return
        try:
            model = await load_model(self._connection, number)
        except schema.DATABASE_ERRORS:
            raise
        except Exception:  # a damaged fact, or a learner that this version has not; the other models must go on
            self._postpone(number)
        else:
            self._models[number] = model
            self._publications[number] = _Publication(model.snapshot)

    def _postpone(self, number: int) -> None:
        log.exception("model number %d cannot be learned; it is tried again in %g s", number, STUCK)
        self._stuck[number] = monotonic() + STUCK

    async def _clean_up(self) -> None:
        """Load models in which decisions expire, and those that were not published."""
        self._clean = monotonic() + CLEAN
        for number, recipe in await self._rows(schema.RECIPES):
            if Recipe.from_bytes(recipe).asked["expire_after"] is not None:
                await self._load(number)
        for (number,) in await self._rows(schema.UNPUBLISHED):
            await self._load(number)

    async def _fold(self) -> int:
        """Turn the inbox into facts in one transaction, all of it or nothing; return the number of rows taken.

        Rows leave the inbox in the transaction that appends their facts. So it matters neither in which order they were
        committed, nor where this transaction is interrupted.
        """
        async with self._connection.transaction():
            taken = await self._rows(schema.TAKE, list(self._models), MOST)
            ((wall,),) = await self._rows(schema.CLOCK)
            arrived: dict[int, list[Arrived]] = defaultdict(list)
            for number, *row in sorted(taken, key=lambda row: row[1]):
                arrived[number].append(Arrived(*row))
            for number, rows in arrived.items():
                try:
                    await in_thread(self._connection, self._models[number].fold, rows)
                except Exception as problem:
                    raise _StuckError(number) from problem
            for model in self._models.values():
                try:
                    await self._expire_due(model, wall)
                except schema.DATABASE_ERRORS:
                    raise
                except Exception as problem:
                    raise _StuckError(model.number) from problem
            new = [(model.number, fact) for model in self._models.values() for fact in model.new]
            if new:
                await self._connection.execute(schema.APPEND, schema.fact_columns(new))
        for model in self._models.values():
            model.new.clear()
        return len(taken)

    async def _expire_due(self, model: FoldedModel, wall: int) -> None:
        """Expire and release what is due: the Book says what is due, the id table decides.

        A row that a front end has locked is about to be answered: it is skipped, so that the learner never waits.
        """
        due = model.due(wall, MOST)
        corrects = model.state.book.expiry.corrects
        # (operation, the status and `correctable` that the row must have, `correctable` afterwards)
        kinds: tuple[tuple[type, Status, bool, bool], ...] = (
            (Expire, Status.OPEN, False, corrects),
            (Release, Status.EXPIRED, corrects, False),
        )
        for kind, *expected, correctable in kinds:
            operations = [operation for operation in due if isinstance(operation, kind)]
            if operations:
                ids = [operation.id for operation in operations]
                rows = await self._rows(schema.EXPIRE, model.number, ids, *expected, correctable)
                expired = {id_ for (id_,) in rows}
                model.expire([operation for operation in operations if operation.id in expired], wall)

    async def _publish(self, number: int, *, at_once: bool = False) -> None:
        """Publish the newest state to front ends if it is time, and store a snapshot after many facts."""
        model = self._models[number]
        known = self._publications[number]
        if model.seq > known.seq and (at_once or monotonic() >= known.due):
            started = monotonic()
            ((wall,),) = await self._rows(schema.CLOCK)
            content = (model.state, model.recipe, model.stats(wall), model.seconds(wall))
            body = await in_thread(self._connection, pack_published, *content)
            names = None
            if model.has_new_names:  # front ends need them for explanations
                encoder = model.state.encoder
                names = await in_thread(self._connection, lambda: compress(json.dumps(encoder.names()).encode()))
            await self._connection.execute(schema.PUBLISH, (model.number, model.seq, wall, body, names))
            model.has_new_names = False
            known.seq = model.seq
            known.due = monotonic() + max(PUBLISH, (monotonic() - started) / SHARE)
        if model.seq - known.snapshot >= (1 if at_once else FACTS_A_SNAPSHOT):
            body = await in_thread(self._connection, model.pack)
            async with self._connection.transaction():
                await self._connection.execute(schema.PUT_SNAPSHOT, (number, model.seq, body))
                await self._connection.execute(schema.DROP_SNAPSHOTS, (number, number, KEPT_SNAPSHOTS))
            known.snapshot = model.seq

    async def _rows(self, sql: Any, *values: Any) -> Rows:
        return await fetch(self._connection, sql, *values)


# Verification and retention


class Verified(NamedTuple):
    """Digests of a model: `state` by the newest snapshot and the facts after it, `replayed` by the facts alone.

    `after` is the fact after which the replay began: 0, unless facts were purged. `waiting` rows are in the inbox.
    """

    state: str
    replayed: str
    facts: int
    after: int
    waiting: int


def verify_model(dsn: str, name: str) -> Verified:
    """Return the digests `state` and `replayed` of a model, which must be equal; both are read in one transaction.

    Raises
    ------
    JournalError
        If a fact is missing or damaged, or cannot be replayed, or PostgreSQL cannot be reached.
    InvalidInput
        If there is no such model.
    """
    with reading(dsn) as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        number, recipe = _find_model(connection, name)
        snapshots = [Snapshot(*row) for row in connection.execute(schema.SNAPSHOTS, (number,)).fetchall()]
        begin = _complete(connection, number, [None, *snapshots])
        digests = []
        for snapshot in (snapshots[-1] if snapshots else None, begin):
            model = FoldedModel(number, recipe, snapshot)
            model.replay(_facts(connection, number, model.seq))
            digests.append(digest(model.state, recipe))
        ((waiting,),) = connection.execute(schema.COUNT_INBOX, (number,)).fetchall()
        after = 0 if begin is None else begin.seq
        return Verified(digests[0], digests[1], model.seq - after, after, waiting)


def purge_model(dsn: str, name: str, older_than: str) -> int:
    """Delete the facts of decisions that were settled longer ago than a time such as "30d"; return how many facts.

    Only facts that all stored snapshots contain are deleted. Every id keeps its row: an answer to it is refused as
    gone, never as unknown. The service may run at the same time. Raises InvalidInput if there is no such model.
    """
    age = read_age(older_than)
    with reading(dsn) as connection:
        values = {"model": _find_model(connection, name)[0], "age": age}
        connection.execute(schema.PURGEABLE, values)
        connection.execute(schema.MARK_PURGED, values)
        return connection.execute(schema.DROP_FACTS, values).rowcount


def _find_model(connection: psycopg.Connection[Any], name: str) -> tuple[int, Recipe]:
    rows = connection.execute(schema.NUMBER, (name,)).fetchall()
    if not rows:
        raise InvalidInput(
            f"there is no model {name!r} in this database", "check its name", parameter="name", value=name
        )
    return rows[0][0], Recipe.from_bytes(rows[0][1])


def _complete(connection: psycopg.Connection[Any], number: int, snapshots: list[Snapshot | None]) -> Snapshot | None:
    """Return the first snapshot after which no fact was purged; None is the beginning."""
    for snapshot in snapshots:
        after = 0 if snapshot is None else snapshot.seq
        ((count, last),) = connection.execute(schema.COUNT_FACTS, (number, after)).fetchall()
        if count == max(0, last - after):
            return snapshot
    raise JournalError("facts are missing that are in no snapshot", "restore the database from a backup")


def _facts(connection: psycopg.Connection[Any], number: int, after: int) -> Iterator[Fact]:
    while rows := connection.execute(schema.FACTS_AFTER, (number, after, schema.PAGE)).fetchall():
        yield from map(schema.as_fact, rows)
        after = rows[-1][0]
