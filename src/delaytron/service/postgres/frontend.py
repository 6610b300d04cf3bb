"""Front ends: decide with the state that the learner published last; write decisions and answers in groups.

A front end may change its copy of the state, which the next published one replaces. Only the inbox counts: decisions
and answers are in it, on disk, before a client gets a reply.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from logging import getLogger
from time import monotonic_ns
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from psycopg.errors import UniqueViolation

from delaytron.answers import Known, Status, read_value, reply, reply_to_cancel
from delaytron.errors import DelaytronError, InvalidInput, JournalError
from delaytron.journal.ids import check_id, issued_and_purged, issued_before, new_id
from delaytron.journal.store import StoredReply
from delaytron.learners.book import Book, Kept
from delaytron.model import facts
from delaytron.model.engine import Found, Request, check_distinct_ids, input_digest
from delaytron.model.facts import AddClass
from delaytron.model.recipe import Recipe
from delaytron.model.snapshots import decompress, unpack_state
from delaytron.model.state import State
from delaytron.records import Moment
from delaytron.service.backend import (
    Rates,
    Repeatable,
    as_features,
    check_each,
    encode_replies,
    model_reply,
    repeated,
    stats_reply,
)
from delaytron.service.messages import (
    MODEL_NAME,
    DecisionReply,
    DecisionRequest,
    ModelReply,
    Result,
    StatsReply,
)
from delaytron.service.postgres import schema
from delaytron.service.postgres.learner import Seconds
from delaytron.service.postgres.schema import Connections, columns
from delaytron.service.problems import TooMany, Unavailable, purged, unknown_model
from delaytron.service.security import Limits

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Key: TypeAlias = tuple[int, str]  # number of the model, id

MOST_TOGETHER = 256
MOST_WAITING = 10_000
GROUPS = 2  # written at a time: while one waits for the disk, the next one is sent
TRIES = 6  # more than the status of a decision can change: open, expired, released, answered
BEGINNING = Moment(0, 0)

log = getLogger("delaytron.service")


# The published state


class CountingBook(Book):
    """A Book that counts decisions and keeps none: their answers go to the learner process, not to this copy."""

    def __init__(self, rounds: int, pending: int) -> None:
        super().__init__(remembers=False)
        self.rounds = rounds
        self._pending = pending

    @property
    def pending(self) -> int:
        """The number of decisions that wait for an answer."""
        return self._pending

    def file(self, entry: Kept) -> None:
        """Count a decision."""
        self.rounds = entry.play.round
        self._pending += 1

    def uncount(self, decisions: int) -> None:
        """Reduce the count by decisions that were not written."""
        self._pending -= decisions


class Published(NamedTuple):
    """A state to decide with and its Book, the counts of the learner, and the decisions of the last minute."""

    state: State
    book: CountingBook
    stats: StatsReply
    seconds: Seconds


def read_published(body: bytes, source: str) -> Published:
    """Return a published state; raise InvalidInput if it is damaged."""
    state, _, more = unpack_state(decompress(body, source), source)
    seconds = {second: (decisions, explored) for second, decisions, explored in more["seconds"]}
    return Published(state, _counting(state, more["pending"]), msgspec.convert(more["stats"], StatsReply), seconds)


def unpublished(recipe: Recipe) -> Published:
    """Return the initial state of a model, which was not published yet."""
    state = State.new(recipe)
    return Published(state, _counting(state, 0), stats_reply(state, BEGINNING, Rates()), {})


def _counting(state: State, pending: int) -> CountingBook:
    """Give a state a Book that only counts, and random numbers of its own; return the Book."""
    learner, book = state.learner, CountingBook(state.rounds, pending)
    learner.restore(learner.sparse, learner.state, book)
    # Not by the seed of the model, by which all front ends would explore alike.
    learner._draws = np.random.default_rng()
    learner.compile()
    return book


class ModelRow(NamedTuple):
    """The constant part of a model."""

    number: int
    name: str
    recipe: Recipe


class KnownClasses(NamedTuple):
    """The names of the classes by label, and the retired labels."""

    names: list[Any]
    retired: list[int]


class Version(NamedTuple):
    """The version of a published state: the number of its last fact, and its time in ns by the database's clock."""

    seq: int
    wall: int


NO_VERSION = Version(-1, 0)


class Issued(NamedTuple):
    """A decision to be written to the id table and to the inbox; `digest` is None if the id is a generated one."""

    id: str
    label: int
    digest: bytes | None
    body: bytes


class Made(NamedTuple):
    """The decisions of a request that are to be written, and the replies to all of its decisions."""

    issued: list[Issued]
    replies: list[DecisionReply]


class FrontModel:
    """A model in a front end: it decides, and the next published state replaces what its decisions changed."""

    def __init__(self, row: ModelRow, limits: Limits) -> None:
        self.row = row
        self._limits = limits
        self.version = NO_VERSION
        self.published: Published
        self.state: State

    def use(self, published: Published, version: Version, classes: KnownClasses) -> None:
        """Use another state; the encoder is kept, which has seen names of features, and so are newer classes."""
        if hasattr(self, "state"):
            published.state.encoder = self.state.encoder
            newest = self.state.classes
            if len(newest.names) > len(classes.names):  # some were added while the state was loaded
                classes = KnownClasses(newest.names, sorted(newest.retired))
        self.published = published
        self.state = published.state
        self.version = version
        self.update_classes(classes)

    def update_classes(self, classes: KnownClasses) -> None:
        """Use the classes of the table of models, of which the learner may have no facts yet."""
        known = self.state.classes
        for name in classes.names[len(known.names) :]:
            self.state.apply(AddClass(name), BEGINNING)
        known.retired = set(classes.retired)
        known.refresh()

    @property
    def reply(self) -> ModelReply:
        """The model as clients see it, with the counts of the learner."""
        described = model_reply(self.row.name, self.row.recipe, self.state)
        described.decisions = self.published.stats.decisions
        described.open = self.published.stats.open
        return described

    def decide(self, wanted: list[DecisionRequest], retries: Collection[str] = ()) -> Made:
        """Make all decisions of a request, or none; raise InvalidInput, TooMany, or Unavailable during a load.

        `retries` are the ids of decisions that are stored already: these may have retired classes, and do not count as
        open once more.
        """
        if self.version == NO_VERSION:
            raise Unavailable(f"the state of model {self.row.name!r} is being loaded", "try again")
        checked = check_each(wanted, lambda one: self._check(one, one.id in retries))
        check_distinct_ids([one.id for one in checked])
        self._limits.check_open(self.state.pending, sum(one.id not in retries for one in checked))
        state = self.state
        made = Made([], [])
        try:
            for id_, row, allowed, digest in checked:
                play = state.learner.play_round(row, state.classes.allowed(None) if allowed is None else allowed)
                body = facts.encode_decided(play, allowed, state.encoder.new_names())
                made.issued.append(Issued(id_, play.label, digest, body))
                made.replies.append(DecisionReply(id_, state.classes.names[play.label], play.prob, play.round))
        except BaseException:
            self.version = NO_VERSION  # a round may be incomplete: load the published state again
            raise
        return made

    def _check(self, wanted: DecisionRequest, is_retry: bool) -> Request:
        self._limits.check_features(wanted.features)
        row = self.state.encoder.encode(as_features(self.state.encoder, wanted.features))
        classes = self.state.classes
        allowed = None if wanted.allowed is None else classes.allowed(wanted.allowed, retired_too=is_retry)
        if wanted.id is None:
            return Request(new_id(), row, allowed, None)
        return Request(check_id(wanted.id), row, allowed, input_digest(row, allowed))


# The models of a database


class FrontModels:
    """The models that this front end has served, and the newest published state of each."""

    def __init__(self, connections: Connections, limits: Limits) -> None:
        self._connections = connections
        self._limits = limits
        self._models: dict[str, FrontModel] = {}
        self._loading = asyncio.Lock()
        self._offset = 0

    def now(self) -> int:
        """Return the time in ns, by the clock of the database."""
        return monotonic_ns() + self._offset

    async def find(self, name: str) -> FrontModel:
        """Return a model; raise UnknownModel."""
        known = self._models.get(name)
        if known is None and re.fullmatch(MODEL_NAME, name):
            await self._follow(await self._connections.rows(schema.ONE_MODEL, name), load=True)
            known = self._models.get(name)
        if known is None:
            raise unknown_model(name, self._models)
        return known

    async def all(self) -> list[FrontModel]:
        """Return all models, by their names."""
        await self._follow(await self._connections.rows(schema.MODELS), load=True)
        return [self._models[name] for name in sorted(self._models)]

    async def refresh(self) -> None:
        """Load newer states and classes of the models in use; one whose state cannot be read keeps the last one."""
        for row in await self._connections.rows(schema.MODELS):
            try:
                await self._follow([row], load=False)
            except (InvalidInput, JournalError) as problem:
                log.warning("%s", problem)

    async def _follow(self, rows: schema.Rows, *, load: bool) -> None:
        for now, seq, names, retired, number, name, recipe in rows:
            self._offset = now - monotonic_ns()
            front = self._models.get(name)
            if front is None and load:
                front = FrontModel(ModelRow(number, name, Recipe.from_bytes(recipe)), self._limits)
            if front is None:
                continue
            if front.version.seq < seq:
                async with self._loading:
                    if front.version.seq < seq:  # else another task has loaded it meanwhile
                        await self._load(front)
            elif len(json.loads(names)) >= len(front.state.classes.names):  # else this row is the older one
                front.update_classes(KnownClasses(json.loads(names), json.loads(retired)))

    async def _load(self, front: FrontModel) -> None:
        row = front.row
        ((names, retired, seq, wall, body),) = await self._connections.rows(schema.STATE, row.number)

        def read() -> Published:
            return unpublished(row.recipe) if body is None else read_published(body, f"the state of model {row.name!r}")

        published = await asyncio.to_thread(read)
        front.use(published, Version(seq, wall), KnownClasses(json.loads(names), json.loads(retired)))
        self._models.setdefault(row.name, front)

    async def find_decisions(self, front: FrontModel, ids: Sequence[str]) -> dict[str, Found]:
        """Return decisions by their ids; those that were never issued are left out."""
        return await self._found(front, await self._connections.rows(schema.FIND, front.row.number, list(ids)))

    async def recent_decisions(self, front: FrontModel, count: int) -> dict[str, Found]:
        """Return the last decisions, the newest first."""
        return await self._found(
            front, await self._connections.rows(schema.RECENT, model=front.row.number, count=count)
        )

    async def _found(self, front: FrontModel, rows: schema.Rows) -> dict[str, Found]:
        found = {}
        highest = 0
        for id_, *columns_, body, wall in rows:
            known = schema.as_known(columns_)
            found[id_] = Found(known, None, None, None, None, None, None)
            highest = max(highest, known.label or 0)
            if body is not None:
                decided = facts.decode_decided(body)
                allowed = decided.allowed_labels
                now = Moment(wall, wall)
                found[id_] = Found(known, decided.round, decided.greedy, decided.prob, allowed, decided.row, now)
                highest = max(highest, decided.greedy, 0 if allowed is None else int(allowed.max()))
        if highest >= len(front.state.classes.names):  # another front end decided for a class that is new here
            await self.refresh()
        return found


# Groups


# Not the queue of `delaytron.journal.writer`: that one keeps a State and a synchronous Store in step, with one
# transaction at a time in a thread. A front end has no State to restore, and writes two groups at the same time, on
# asynchronous connections.


class GroupQueue(Generic[Item, Outcome]):
    """Group commit on the event loop: items that arrive while groups are written share the next transaction.

    `write` returns an outcome or an exception for each item of a group; an exception that it raises is for all of them.
    """

    def __init__(self, write: Callable[[list[Item]], Awaitable[Sequence[Outcome | Exception]]]) -> None:
        self._write = write
        self._waiting: list[tuple[Item, asyncio.Future[Outcome]]] = []
        self._writers: set[asyncio.Task[None]] = set()  # kept here, because a loop refers to its tasks weakly
        self._working = 0
        self._closed = False

    async def add(self, item: Item) -> Outcome:
        """Write an item with others; return its outcome, or raise it.

        Raises TooMany if too many wait, and Unavailable once the queue is closed.
        """
        if self._closed:
            raise Unavailable("the service is stopping", "try again")
        if len(self._waiting) >= MOST_WAITING:
            raise TooMany(f"{MOST_WAITING:,} requests wait for the database already", "try again")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._working < GROUPS:
            self._working += 1
            writer = asyncio.create_task(self._work())
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                group = self._waiting[:MOST_TOGETHER]
                del self._waiting[:MOST_TOGETHER]
                outcomes: Sequence[Outcome | Exception]
                try:
                    outcomes = await self._write([item for item, _ in group])
                except Exception as problem:
                    outcomes = [problem] * len(group)
                for (_, future), outcome in zip(group, outcomes, strict=True):
                    if future.done():  # the caller was cancelled
                        continue
                    if isinstance(outcome, Exception):
                        future.set_exception(outcome)
                    else:
                        future.set_result(outcome)
        finally:
            # In the step of the loop in which the queue was found empty. The task itself is done only some steps later,
            # and an item that is added in between would wait for a writer that has ended.
            self._working -= 1

    async def close(self) -> None:
        """Write the items that wait; further ones are refused."""
        self._closed = True
        while self._writers:
            await asyncio.gather(*self._writers)


# Decisions


class _Writing(NamedTuple):
    """The decisions of a request, to be written."""

    model: int
    made: Made
    repeatable: Repeatable | None


class _TakenError(Exception):
    """An id or an idempotency key is in the tables already."""


class DecisionWriter:
    """Writes decisions, those of several requests together; a retry gets the stored decisions."""

    def __init__(self, connections: Connections, models: FrontModels) -> None:
        self._connections = connections
        self._models = models
        self._queue: GroupQueue[_Writing, None] = GroupQueue(self._write)
        self.close = self._queue.close

    async def write(self, front: FrontModel, made: Made, repeatable: Repeatable | None) -> list[DecisionReply]:
        """Return the replies to a request when its decisions are on disk: all of them, or none.

        The same idempotency key again returns the stored replies, the same id with the same input the stored decision.
        Raises Conflict or ConflictingDecision if the request, or the input, was another one.
        """
        # `decide` counted all of them as open, in this Book. Without a correction retries and failed requests would
        # reach the limit of open decisions, because only new facts bring another state.
        book, excess = front.published.book, len(made.issued)
        try:
            for _ in range(TRIES):
                try:
                    if made.issued or repeatable is not None:
                        await self._queue.add(_Writing(front.row.number, made, repeatable))
                except _TakenError:
                    before = await self.repeat(front, repeatable)
                    if before is not None:
                        return before
                    made = await self._without_issued(front, made)
                else:
                    excess -= len(made.issued)
                    return made.replies
            raise Unavailable("other requests write the same decisions at the same time", "try again")
        finally:
            book.uncount(excess)

    async def repeat(self, front: FrontModel, repeatable: Repeatable | None) -> list[DecisionReply] | None:
        """Return the replies that are stored under an idempotency key; None if there are none."""
        if repeatable is None:
            return None
        rows = await self._connections.rows(schema.REPLY, front.row.number, repeatable.key)
        return repeated(StoredReply(*rows[0]), repeatable) if rows else None

    async def _without_issued(self, front: FrontModel, made: Made) -> Made:
        """Return the decisions of a request that are still to be written, with the stored ones among its replies."""
        issued = {one.id: one for one in made.issued}
        stored = {}
        for id_, found in (await self._models.find_decisions(front, list(issued))).items():
            digest = issued.pop(id_).digest
            if found.prob is None or found.round is None:
                raise issued_and_purged(id_)
            if digest is None or digest != found.known.digest:
                raise issued_before(id_)
            name = front.state.classes.names[found.known.label or 0]
            stored[id_] = DecisionReply(id_, name, found.prob, found.round)
        return Made(list(issued.values()), [stored.get(one.id, one) for one in made.replies])

    async def _write(self, group: list[_Writing]) -> Sequence[Exception | None]:
        """Write all requests in one transaction; if an id or key is in the tables already, each in its own."""
        issued = [(one.model, *row) for one in group for row in one.made.issued]
        replies = [
            (one.model, *one.repeatable, encode_replies(one.made.replies))
            for one in group
            if one.repeatable is not None
        ]
        values = [*columns(replies, 4), *columns(issued, 5)]
        try:
            await self._connections.run(lambda connection: connection.execute(schema.ISSUE, values, binary=True))
        except UniqueViolation:
            if len(group) == 1:
                return [_TakenError()]
            outcomes: list[Exception | None] = []
            for one in group:
                try:
                    outcomes.extend(await self._write([one]))
                except Unavailable as problem:
                    outcomes.append(problem)
            return outcomes
        return [None] * len(group)


# Answers


class SubmittedAnswer(NamedTuple):
    """An answer to a decision: correct, label, reward; None instead of them is a cancellation."""

    front: FrontModel
    id: str
    given: tuple[Any, Any, Any] | None

    @property
    def key(self) -> Key:
        """The row of the id table."""
        return self.front.row.number, self.id


class Change(NamedTuple):
    """A compare-and-set of a row of the id table, the fact that comes with it, and the reply once it is written.

    The row is changed if its status is `known` and its `correctable` this one, and it has no value.
    """

    known: Status
    correctable: bool
    status: Status
    value: float | None
    kind: int
    body: bytes
    reply: Result


CANCEL = Change(Status.OPEN, False, Status.CANCELLED, None, facts.CANCELLED, b"", "cancelled")


class AnswerWriter:
    """Writes answers and cancellations, those of several requests together."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._queue: GroupQueue[SubmittedAnswer, Result] = GroupQueue(self._settle)
        self.close = self._queue.close
        self.write = self._queue.add

    async def _settle(self, answers: list[SubmittedAnswer]) -> Sequence[Result | Exception]:
        """Write all as if each were the first answer to an open decision; then read the rows where it was not.

        Where another front end or the learner changes a row between read and write, it is read once more.
        """
        outcomes: list[Result | Exception | None] = [None] * len(answers)
        known: dict[Key, Known] | None = None
        for _ in range(TRIES):
            changes: dict[Key, tuple[int, Change]] = {}
            for i, answer in enumerate(answers):
                if outcomes[i] is None:
                    plan = _guess(answer) if known is None else _plan(answer, known.get(answer.key))
                    if isinstance(plan, Change):
                        changes.setdefault(answer.key, (i, plan))
                    else:
                        outcomes[i] = plan
            if changes:
                rows = [(*key, *change[:-1]) for key, (_, change) in changes.items()]
                for model, id_ in await self._connections.rows(schema.SETTLE, *columns(rows, 8)):
                    i, change = changes[model, id_]
                    outcomes[i] = change.reply
            left = {answers[i].key for i, outcome in enumerate(outcomes) if outcome is None}
            if not left:
                break
            found = await self._connections.rows(schema.STATUS, *columns(sorted(left), 2))
            known = {(model, id_): schema.as_known(row) for model, id_, *row in found}
        busy = Unavailable("other requests change the same decision at the same time", "try again")
        return [busy if outcome is None else outcome for outcome in outcomes]


def _guess(answer: SubmittedAnswer) -> Change | None:
    """Return the change if the decision is open; None if its row must be read first."""
    if answer.given is None:
        return CANCEL
    if answer.given[1] is not None:  # a label is right or wrong by the class that was played
        return None
    try:
        value = read_value(answer.front.state.answering, *answer.given, None)
    except InvalidInput:  # read the row first: Gone, if the decision was purged, comes before this error
        return None
    return Change(Status.OPEN, False, Status.ANSWERED, value, facts.ANSWERED, facts.encode(value), "accepted")


def _plan(answer: SubmittedAnswer, known: Known | None) -> Change | Result | Exception:
    """Return the change of the row of a decision; or the reply, or the error, if the row does not change."""
    try:
        if answer.given is None:
            return CANCEL if reply_to_cancel(answer.id, known) == "cancelled" else "duplicate"
        if known is not None and known.purged:
            return purged(answer.id)
        answering = answer.front.state.answering
        value = read_value(answering, *answer.given, None if known is None else known.label)
        result: Any = reply(answer.id, known, value, answering)
    except DelaytronError as problem:
        return problem
    except IndexError:  # the stored answer is a class that another front end has added since the last refresh
        return Unavailable(f"the classes of model {answer.front.row.name!r} are being loaded", "try again")
    body = facts.encode(value)
    if result == "accepted":
        return Change(Status.OPEN, False, Status.ANSWERED, value, facts.ANSWERED, body, result)
    if result == "corrected":
        return Change(Status.EXPIRED, True, Status.ANSWERED, value, facts.ANSWERED, body, result)
    if result == "late":
        return Change(Status.EXPIRED, False, Status.EXPIRED, value, facts.ANSWERED_LATE, body, result)
    return result  # type: ignore[no-any-return]
