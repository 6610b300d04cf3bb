"""One model of the service: operations of its keeper as requests want them."""

import json
from hashlib import sha256
from typing import Any

from delaytron.errors import ConflictingFeedback, InvalidInput
from delaytron.journal import FactStore
from delaytron.journal.clock import Moment
from delaytron.journal.ids import check_id
from delaytron.journal.requests import Request
from delaytron.model.answering import answer
from delaytron.model.deciding import Checked, check, decide_checked
from delaytron.model.issuing import issue, redeem
from delaytron.model.keeper import Keeper
from delaytron.model.waiting import Wait
from delaytron.service.backend import Repeatable
from delaytron.service.limits import Limits, check_features
from delaytron.service.messages import DecisionReply, DecisionRequest, FeedbackRequest, Result
from delaytron.service.problems import Gone, TooMany
from delaytron.service.rates import Rates
from delaytron.service.reading import MOST_IN_TOKEN, as_features, encode_replies, repeated
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
        checked = [self._check(one) for one in wanted]
        self._check_together(checked)
        replies = [self._decide(now, one, plan) for one, plan in zip(wanted, checked, strict=True)]
        if repeatable is not None:
            request = Request(repeatable.fingerprint, encode_replies(replies))
            self.store.requests.keep(repeatable.key, request, now)
        return replies

    def _check(self, wanted: DecisionRequest) -> Checked:
        check_features(self._limits, wanted.features)
        if self._is_stateless(wanted) and wanted.id is not None:
            raise InvalidInput("a stateless decision has the id of its token; leave out id, or stateless")
        checked = check(self.keeper, as_features(self.keeper.encoder, wanted.features), wanted.id, wanted.allowed)
        if self._is_stateless(wanted) and checked.row.values.size > MOST_IN_TOKEN:
            raise InvalidInput(f"a token holds {MOST_IN_TOKEN:,} features at most; leave some out, or stateless")
        return checked

    def _check_together(self, checked: list[Checked]) -> None:
        ids = {one.id for one in checked}
        if len(ids) < len(checked):
            raise InvalidInput("ids of a batch must all be different; one came twice")
        if len(self.keeper.core.open) + len(checked) > self._limits.open_decisions:
            raise TooMany(
                f"{self._limits.open_decisions:,} decisions wait for an answer already; answer or cancel some"
            )

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
        ticket = Ticket(self.uid, decision.id, told, now.wall, now.clock, self._expires(now))
        token = self._tokens.sign(ticket)
        return DecisionReply(decision.id, decision.label, decision.prob, decision.round, token)

    def _expires(self, now: Moment) -> int | None:
        """Return until when a token is honoured, if answers are waited for for some time only."""
        _, clock = self.keeper.core.wait or Wait()
        return None if clock is None else now.wall + clock

    def feedback(self, now: Moment, given: FeedbackRequest) -> Result:
        """Take an answer."""
        value = (given.correct, given.label, given.reward)
        if (given.id is None) == (given.token is None):
            raise InvalidInput("feedback names its decision by id or by token; give one of both")
        if given.token is not None:
            return self._redeem(now, given.token, value)
        return self._answer(now, check_id(given.id), value)

    def _answer(self, now: Moment, id: str, value: tuple[Any, Any, Any]) -> Result:
        known = self.store.status(id)
        if known is not None and known.purged:
            raise Gone(f"decision {id!r} was settled long ago and purged; its answer cannot be taken any more")
        became = answer(self.keeper, now, id, value)
        if became == "late_conflict":
            raise ConflictingFeedback(f"decision {id!r} was answered otherwise after it expired; both must agree")
        return RESULTS[became]

    def _redeem(self, now: Moment, token: str, value: tuple[Any, Any, Any]) -> Result:
        ticket = self._tokens.read(token, self.uid, now.wall)
        decided = Moment(ticket.wall, ticket.clock)
        return RESULTS[redeem(self.keeper, now, ticket.id, ticket.decided, decided, value)]
