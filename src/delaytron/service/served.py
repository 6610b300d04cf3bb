"""One model of the service: operations of its keeper as requests want them."""

import json
from hashlib import sha256
from typing import Any

from delaytron.journal import FactStore
from delaytron.journal.answers import other_late_answer
from delaytron.journal.clock import Moment
from delaytron.journal.ids import check_id
from delaytron.journal.requests import Request
from delaytron.model.answering import answer
from delaytron.model.deciding import Checked, check, decide_checked
from delaytron.model.issuing import issue, redeem
from delaytron.model.keeper import Keeper
from delaytron.service.backend import Repeatable
from delaytron.service.limits import Limits, check_open
from delaytron.service.messages import DecisionReply, DecisionRequest, FeedbackRequest, Result
from delaytron.service.problems import purged
from delaytron.service.rates import Rates
from delaytron.service.reading import (
    as_features,
    check_distinct_ids,
    check_each,
    check_fits_token,
    check_named,
    check_request,
    encode_replies,
    repeated,
)
from delaytron.service.tokens import Ticket, TokenKeys

RESULTS: dict[str, Result] = {
    "applied": "applied",
    "duplicate": "duplicate",
    "cancelled": "cancelled",
    "late_corrected": "late_corrected",
    "late_recorded": "late_recorded",
    "late_duplicate": "duplicate",
}


class ServedModel:
    """A model by its name; its methods are operations, run by its worker within a batch."""

    def __init__(self, name: str, keeper: Keeper, tokens: TokenKeys, limits: Limits) -> None:
        self.name = name
        self.keeper = keeper
        self.rates = Rates()
        self._tokens = tokens
        self._limits = limits
        config = self.store.config
        self.uid = sha256(config).hexdigest()[:32]
        self.stateless = bool(json.loads(config).get("stateless", False))

    @property
    def store(self) -> FactStore:
        """The journal."""
        store = self.keeper.store
        assert isinstance(store, FactStore)  # noqa: S101 - a service keeps everything
        return store

    def decide(self, now: Moment, wanted: list[DecisionRequest], repeatable: Repeatable | None) -> list[DecisionReply]:
        """Make all decisions of a request, or none; a request that came before gets the same again."""
        if repeatable is not None and (before := self.store.requests.find(repeatable.key)) is not None:
            return repeated(before, repeatable)
        checked = check_each(wanted, self._check)
        check_distinct_ids([one.id for one in checked])
        check_open(self._limits, len(self.keeper.core.open), len(checked))
        replies = [self._decide(now, one, plan) for one, plan in zip(wanted, checked, strict=True)]
        if repeatable is not None:
            request = Request(repeatable.fingerprint, encode_replies(replies))
            self.store.requests.keep(repeatable.key, request, now)
        return replies

    def _check(self, wanted: DecisionRequest) -> Checked:
        stateless = self._is_stateless(wanted)
        check_request(self._limits, wanted, stateless)
        checked = check(self.keeper, as_features(self.keeper.encoder, wanted.features), wanted.id, wanted.allowed)
        if stateless:
            check_fits_token(checked.row)
        return checked

    def _is_stateless(self, wanted: DecisionRequest) -> bool:
        return self.stateless if wanted.stateless is None else wanted.stateless

    def _decide(self, now: Moment, wanted: DecisionRequest, checked: Checked) -> DecisionReply:
        if self._is_stateless(wanted):
            return self._issue(now, checked)
        decision = decide_checked(self.keeper, now, checked)
        self.rates.count(1, decision.label != decision.greedy)
        return DecisionReply(decision.id, decision.label, decision.prob, decision.round)

    def _issue(self, now: Moment, checked: Checked) -> DecisionReply:
        decision, told, _ = issue(self.keeper, now, checked)
        self.rates.count(1, decision.label != decision.greedy)
        ticket = Ticket(self.uid, decision.id, told, *now, self.keeper.core.expires_at(now.wall))
        token = self._tokens.sign(ticket)
        return DecisionReply(decision.id, decision.label, decision.prob, decision.round, token)

    def feedback(self, now: Moment, given: FeedbackRequest) -> Result:
        """Take an answer."""
        value = (given.correct, given.label, given.reward)
        check_named(given)
        if given.token is not None:
            return self._redeem(now, given.token, value)
        return self._answer(now, check_id(given.id), value)

    def _answer(self, now: Moment, id: str, value: tuple[Any, Any, Any]) -> Result:
        known = self.store.status(id)
        if known is not None and known.purged:
            raise purged(id)
        became = answer(self.keeper, now, id, value)
        if became == "late_conflict":
            raise other_late_answer(id)
        return RESULTS[became]

    def _redeem(self, now: Moment, token: str, value: tuple[Any, Any, Any]) -> Result:
        ticket = self._tokens.read(token, self.uid, now.wall)
        decided = Moment(ticket.wall, ticket.clock)
        return RESULTS[redeem(self.keeper, now, ticket.id, ticket.decided, decided, value)]
