"""Stateless decisions on PostgreSQL: a token is honoured once, wherever it is brought."""

import asyncio
from time import time_ns

import msgspec
import pytest
from postgres_play import ask, check_state, decide, make, run, serving, until_learned

from delaytron.errors import ConflictingFeedback, InvalidInput, UnknownDecision
from delaytron.service import messages
from delaytron.service.postgres import passes
from delaytron.service.postgres.retention import purge_model
from delaytron.service.problems import ExpiredToken, ForeignToken, ForgedToken
from delaytron.service.tokens import Ticket, TokenKey, TokenKeys

pytestmark = pytest.mark.xdist_group("bandit_logit")

KEYS = TokenKeys([TokenKey("k", bytes(range(32)))])


async def bring(backend, token, correct, name="router"):
    (outcome,) = await backend.feedback(name, [messages.FeedbackRequest(token=token, correct=correct)])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def test_a_token_is_honoured_once_by_all(dsn):
    async def scenario(backend):
        async with serving(dsn, learns=False, tokens=KEYS) as other:
            await make(backend, stateless=True)
            replies = [await decide(front) for front in (backend, other) for _ in range(3)]
            for reply in replies[:2]:
                calls = [bring(front, reply.token, i % 2 == 0) for i in range(6) for front in (backend, other)]
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                said = [outcome if isinstance(outcome, str) else type(outcome) for outcome in outcomes]
                assert sorted(map(str, said)) == sorted(
                    map(str, ["applied"] + ["duplicate"] * 5 + [ConflictingFeedback] * 6)
                )
            with pytest.raises(UnknownDecision):
                await backend.decision("router", replies[0].id)
            await until_learned(dsn, backend)
            stats = await backend.stats("router")
            assert (stats.issued, stats.redeemed, stats.answered, stats.open) == (6, 2, 2, 0)
            assert await bring(other, replies[5].token, True) == "applied"
            await decide(other, stateless=False)
            await until_learned(dsn, backend)
            assert (await backend.stats("router")).redeemed == 3

    run(scenario, dsn, tokens=KEYS)
    check_state(dsn)
    assert ask(dsn, "SELECT count(*) FROM delaytron.ids") == [(1,)]


def test_a_token_teaches_what_a_kept_decision_teaches(dsn):
    """The same rows, labels and answers, once with tokens and once without, make the same weights."""

    async def play(backend, name, stateless):
        await make(backend, name, stateless=stateless, learner="delaytron", parameters={"gamma": 0.2})
        replies = []
        for number in range(30):
            x = [float(number % 5), 1.0 - number % 3]
            replies.append(await decide(backend, x=x, name=name, allowed=["abc"[number % 3]]))
        await until_learned(dsn)
        for number in (*range(20, 30), *range(20)):
            reply = replies[number]
            named = {"token": reply.token} if stateless else {"id": reply.id}
            answer = messages.FeedbackRequest(**named, correct=number % 2 == 0)
            assert await backend.feedback(name, [answer]) == ["applied"]
        await decide(backend, name=name, allowed=["a"])
        await until_learned(dsn, backend)
        return (await backend.weights(name)).weights

    async def scenario(backend):
        kept = await play(backend, "kept", False)
        assert kept == await play(backend, "handed-out", True)
        assert any(any(row) for row in kept)

    run(scenario, dsn, tokens=KEYS)
    check_state(dsn, "handed-out")


def test_forged_foreign_and_expired(dsn):
    async def scenario(backend):
        await make(backend, stateless=True, expire_after="1000s")
        await make(backend, "other", stateless=True)
        token = (await decide(backend)).token
        with pytest.raises(ForgedToken):
            await bring(backend, token[:-2], True)
        with pytest.raises(ForeignToken):
            await bring(backend, token, True, name="other")
        ticket = KEYS._verified(token)
        assert 999 * 10**9 < ticket.expires - time_ns() < 1001 * 10**9
        with pytest.raises(ExpiredToken):
            await bring(backend, KEYS.sign(msgspec.structs.replace(ticket, expires=ticket.wall)), True)
        assert await bring(backend, token, True) == "applied"
        with pytest.raises(InvalidInput, match="got id 'x'; leave it out, or stateless"):
            await decide(backend, "x")

    run(scenario, dsn, tokens=KEYS)


def test_a_service_without_keys_says_so(dsn):
    async def scenario(backend):
        await make(backend, stateless=True)
        with pytest.raises(InvalidInput, match="no keys to sign"):
            await decide(backend)
        with pytest.raises(InvalidInput, match="no keys to read"):
            await bring(backend, "token", True)
        assert (await decide(backend, "x", stateless=False)).token is msgspec.UNSET

    run(scenario, dsn)


def test_of_a_purged_token_its_round_is_left(dsn, monkeypatch):
    """The row of features goes; an answer that comes later is learned from all the same."""
    monkeypatch.setattr(passes, "FACTS_A_SNAPSHOT", 1)

    async def first(backend):
        await make(backend, stateless=True)
        replies = [await decide(backend) for _ in range(4)]
        await bring(backend, replies[0].token, True)
        await until_learned(dsn)
        return replies

    replies = run(first, dsn, tokens=KEYS)
    ask(dsn, "DELETE FROM delaytron.snapshots WHERE seq < (SELECT max(seq) FROM delaytron.snapshots)")
    assert purge_model(dsn, "router", "0.000001s") == 5

    async def second(backend):
        assert await bring(backend, replies[0].token, True) == "duplicate"
        assert await bring(backend, replies[2].token, True) == "applied"
        await decide(backend)
        await until_learned(dsn, backend)
        assert (await backend.stats("router")).redeemed == 2

    run(second, dsn, tokens=KEYS)
    assert check_state(dsn).after > 0


def test_a_ticket_tells_of_the_decision(dsn):
    async def scenario(backend):
        await make(backend, stateless=True)
        reply = await decide(backend, x=[3.0, 4.0], allowed=["b", "c"])
        ticket = KEYS._verified(reply.token)
        assert isinstance(ticket, Ticket)
        assert (ticket.id, ticket.expires) == (reply.id, None)
        assert "abc"[ticket.decided.label] == reply.label
        assert ticket.decided.row.values.tolist() == [3.0, 4.0]
        assert ticket.decided.prob == reply.probability
        assert abs(ticket.wall - time_ns()) < 10**9

    run(scenario, dsn, tokens=KEYS)
