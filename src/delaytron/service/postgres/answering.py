"""Answers to decisions: who changes what is known of a decision first is the one whose answer is taken."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from delaytron.errors import DelaytronError
from delaytron.journal.answers import other_late_answer, read_value, reply, reply_to_cancel
from delaytron.journal.ids import check_id
from delaytron.journal.records import ANSWERED, CANCELLED, EXPIRED, OPEN, Status
from delaytron.model import facts
from delaytron.service.messages import FeedbackRequest, Result
from delaytron.service.postgres.connections import Connection, Connections
from delaytron.service.postgres.deciding import FrontModel
from delaytron.service.postgres.groups import Groups
from delaytron.service.postgres.writing import columns
from delaytron.service.problems import Unavailable, purged

Key: TypeAlias = tuple[int, str]

TRIES = 5  # what is known of a decision changes three times at most
STATUS = """
SELECT model, id, status, value, label, purged FROM delaytron.ids
JOIN unnest(%b::int[], %b::text[]) AS given (model, id) USING (model, id)
"""
SETTLE = """
WITH given AS (
    SELECT * FROM unnest(%b::int[], %b::text[], %b::smallint[], %b::smallint[], %b::float8[], %b::smallint[],
        %b::bytea[]) AS listed (model, id, known, status, value, kind, body)
), locked AS (
    SELECT model, id FROM delaytron.ids JOIN given USING (model, id) ORDER BY model, id FOR UPDATE OF ids
), settled AS (
    UPDATE delaytron.ids SET status = given.status, value = given.value FROM locked JOIN given USING (model, id)
    WHERE ids.model = locked.model AND ids.id = locked.id
        AND ids.status = given.known AND ids.value IS NULL AND NOT ids.purged
    RETURNING ids.model, ids.id, given.kind, given.body
)
INSERT INTO delaytron.inbox (model, kind, id, body) SELECT model, kind, id, body FROM settled RETURNING model, id
"""


class WrittenAnswer(NamedTuple):
    """An answer to a decision; None instead of values wants no answer any more."""

    front: FrontModel
    id: str
    given: tuple[Any, Any, Any] | None

    @property
    def key(self) -> Key:
        """Whose answer it is."""
        return self.front.row.number, self.id


class Change(NamedTuple):
    """What is to be known of a decision, if what was known is still so; and what is said when that is written."""

    known: int
    status: int
    value: float | None
    kind: int
    body: bytes
    says: Result


CANCEL = Change(OPEN, CANCELLED, None, facts.CANCELLED, b"", "cancelled")


class AnswerWriter:
    """Takes answers, those of several requests together."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._groups: Groups[WrittenAnswer, Result] = Groups(self._take)
        self.close = self._groups.close
        self.take = self._groups.add

    async def _take(self, answers: list[WrittenAnswer]) -> list[Result | Exception]:
        return await settle(answers, Rules(_guess, self._known, _plan, self._write))

    async def _known(self, keys: list[Key]) -> dict[Key, Status]:
        rows = await self._connections.run(lambda connection: fetch(connection, STATUS, columns(keys, 2)))
        return {(model, name): Status(*known) for model, name, *known in rows}

    async def _write(self, changes: dict[Key, Change]) -> set[Key]:
        """Write what is to be known; return whose it was that nobody else had changed meanwhile."""
        rows = [(*key, *change[:-1]) for key, change in changes.items()]
        written = await self._connections.run(lambda connection: fetch(connection, SETTLE, columns(rows, 7)))
        return {(model, name) for model, name in written}


async def fetch(connection: Connection, sql: Any, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows that a statement finds or returns."""
    return await (await connection.execute(sql, values, binary=True)).fetchall()


class Rules(NamedTuple):
    """How answers of a kind are settled.

    `guess` returns what to write to a decision that nobody has answered yet, None if that must be known first; `find`
    what is known by now; `plan` what to write then, or what to say; `write` returns whose rows were written.
    """

    guess: Callable[[Any], Any]
    find: Callable[[list[Key]], Awaitable[dict[Key, Any]]]
    plan: Callable[[Any, Any], Any]
    write: Callable[[dict[Key, Any]], Awaitable[set[Key]]]


async def settle(answers: list[Any], rules: Rules) -> list[Result | Exception]:
    """Write all as if nobody had answered yet; then find what is known of the others, and write what follows.

    Where somebody else is quicker, that begins again.
    """
    outcomes: list[Any] = [None] * len(answers)
    await _write_first(answers, [_attempt(rules.guess, answer) for answer in answers], outcomes, rules.write)
    for _ in range(TRIES):
        todo = [i for i, outcome in enumerate(outcomes) if outcome is None]
        if not todo:
            return outcomes
        known = await rules.find(sorted({answers[i].key for i in todo}))
        plans: list[Any] = [None] * len(answers)
        for i in todo:
            planned = _attempt(rules.plan, answers[i], known.get(answers[i].key))
            if isinstance(planned, tuple):
                plans[i] = planned
            else:
                outcomes[i] = planned
        await _write_first(answers, plans, outcomes, rules.write)
    busy = Unavailable("others answer the same decision again and again; try again")
    return [busy if outcome is None else outcome for outcome in outcomes]


async def _write_first(answers: list[Any], plans: list[Any], outcomes: list[Any], write: Any) -> None:
    """Write, of several plans for the same decision, the first one; note what is said to those that were written."""
    first: dict[Key, int] = {}
    for i, plan in enumerate(plans):
        if isinstance(plan, tuple):
            first.setdefault(answers[i].key, i)
    written = await write({key: plans[i] for key, i in first.items()}) if first else ()
    for key in written:
        outcomes[first[key]] = plans[first[key]].says


def _attempt(plan: Callable[..., Any], *given: Any) -> Any:
    try:
        return plan(*given)
    except DelaytronError as problem:
        return problem


def _guess(answer: WrittenAnswer) -> Change | None:
    """Return what is to be written if the decision is open; None if what was played must be known."""
    if answer.given is None:
        return CANCEL
    if answer.given[1] is not None:
        return None
    value = read_value(answer.front.core.answering, *answer.given, None)
    return Change(OPEN, ANSWERED, value, facts.ANSWERED, facts.encode(value), "applied")


def _plan(answer: WrittenAnswer, known: Status | None) -> Change | Result:
    """Return what is to be written; or what is said, where that is nothing; or raise."""
    if known is not None and known.purged:
        raise purged(answer.id)
    if answer.given is None:
        return _plan_cancel(answer.id, known)
    answering = answer.front.core.answering
    value = read_value(answering, *answer.given, None if known is None else known.label)
    said = reply(answer.id, known, value, answering)
    if known is None or said in ("duplicate", "cancelled"):
        return "duplicate" if said == "duplicate" else "cancelled"
    if said == "expired":
        return _plan_late(answer.id, known, value)
    says: Result = "late_corrected" if known.status == EXPIRED else "applied"
    return Change(known.status, ANSWERED, value, facts.ANSWERED, facts.encode(value), says)


def _plan_late(id: str, known: Status, value: float) -> Change | Result:
    if known.value is None:
        return Change(EXPIRED, EXPIRED, value, facts.RECORDED, facts.encode(value), "late_recorded")
    if known.value == value:
        return "duplicate"
    raise other_late_answer(id)


def _plan_cancel(id: str, known: Status | None) -> Change | Result:
    return CANCEL if reply_to_cancel(id, known) == "cancelled" else "duplicate"


def read_answer(front: FrontModel, given: FeedbackRequest) -> WrittenAnswer:
    """Return an answer to a decision that is named by its id, or raise."""
    return WrittenAnswer(front, check_id(given.id), (given.correct, given.label, given.reward))
