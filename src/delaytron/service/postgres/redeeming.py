"""Answers to decisions that travelled in tokens: each is honoured once, by a row that can be written once."""

from typing import Any, NamedTuple

from delaytron.journal.answers import read_value, reply_to_token
from delaytron.model import facts
from delaytron.service.messages import FeedbackRequest, Result
from delaytron.service.postgres.answering import Key, Rules, fetch, settle
from delaytron.service.postgres.connections import Connections
from delaytron.service.postgres.deciding import FrontModel
from delaytron.service.postgres.groups import Groups
from delaytron.service.postgres.writing import columns

REDEEMED = """
SELECT model, id, value FROM delaytron.redeemed
JOIN unnest(%b::int[], %b::text[]) AS given (model, id) USING (model, id)
"""
REDEEM = """
WITH given AS (
    SELECT * FROM unnest(%b::int[], %b::text[], %b::float8[], %b::bytea[]) AS listed (model, id, value, body)
), redeemed AS (
    INSERT INTO delaytron.redeemed (model, id, value) SELECT model, id, value FROM given ORDER BY model, id
    ON CONFLICT DO NOTHING RETURNING model, id
)
INSERT INTO delaytron.inbox (model, kind, id, body)
SELECT model, %b::smallint, id, body FROM given JOIN redeemed USING (model, id) RETURNING model, id
"""


class TokenAnswer(NamedTuple):
    """The answer to a decision that a token told of, which was checked."""

    model: int
    id: str
    value: float
    body: bytes

    @property
    def key(self) -> Key:
        """Whose answer it is."""
        return self.model, self.id


class Redemption(NamedTuple):
    """The row of a token that is answered, and what is said when it is written."""

    value: float
    body: bytes
    says: Result


class TokenWriter:
    """Takes answers to tokens, those of several requests together."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._groups: Groups[TokenAnswer, Result] = Groups(self._take)
        self.close = self._groups.close
        self.take = self._groups.add

    async def _take(self, answers: list[TokenAnswer]) -> list[Result | Exception]:
        return await settle(answers, Rules(_redemption, self._known, _plan, self._write))

    async def _known(self, keys: list[Key]) -> dict[Key, float]:
        rows = await self._connections.run(lambda connection: fetch(connection, REDEEMED, columns(keys, 2)))
        return {(model, name): value for model, name, value in rows}

    async def _write(self, changes: dict[Key, Redemption]) -> set[Key]:
        rows = [(*key, *change[:-1]) for key, change in changes.items()]
        values = (*columns(rows, 4), facts.REDEEMED)
        written: Any = await self._connections.run(lambda connection: fetch(connection, REDEEM, values))
        return set(written)


def _redemption(answer: TokenAnswer) -> Redemption:
    return Redemption(answer.value, answer.body, "applied")


def _plan(answer: TokenAnswer, known: float | None) -> Redemption | Result:
    return _redemption(answer) if reply_to_token(answer.id, known, answer.value) == "applied" else "duplicate"


def read_token_answer(front: FrontModel, given: FeedbackRequest, now: int) -> TokenAnswer:
    """Return the answer to the decision that a token tells of, or raise; `now` is in ns."""
    ticket = front.redeem(given.token or "", now)
    value = read_value(front.core.answering, given.correct, given.label, given.reward, ticket.decided.label)
    body = facts.encode(facts.Redeemed(value, ticket.decided, ticket.wall, ticket.clock))
    return TokenAnswer(front.row.number, ticket.id, value, body)
