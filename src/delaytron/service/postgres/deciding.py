"""A model as a front end has it: a state of its own, made from what the learner published last."""

from typing import Any, NamedTuple

from delaytron.errors import InvalidInput
from delaytron.journal.ids import check_id, new_id
from delaytron.model import facts
from delaytron.model.core import Core
from delaytron.model.making import Recipe
from delaytron.records import Ints, Play, Row
from delaytron.service.limits import Limits, check_open
from delaytron.service.messages import DecisionReply, DecisionRequest, ModelReply
from delaytron.service.postgres.publishing import Published
from delaytron.service.problems import Unavailable
from delaytron.service.reading import as_features, check_distinct_ids, check_each, check_fits_token, check_request
from delaytron.service.replies import model_reply
from delaytron.service.tokens import Ticket, TokenKeys

WITH_KEYS = "start it with --token-keys"


class ModelRow(NamedTuple):
    """What never changes of a model."""

    number: int
    name: str
    uid: str
    recipe: Recipe
    stateless: bool


class KnownClasses(NamedTuple):
    """The names of the classes by label, and the labels that are retired."""

    names: list[Any]
    retired: list[int]


class Version(NamedTuple):
    """Which state was published: the number of its last fact, and when, in ns by the clock of the database."""

    seq: int
    wall: int


class InboxEntry(NamedTuple):
    """A decision, as it is written to the inbox."""

    kind: int
    id: str
    label: int
    body: bytes


class Made(NamedTuple):
    """Decisions that were made and not written yet."""

    entries: list[InboxEntry]
    replies: list[DecisionReply]


class Planned(NamedTuple):
    """What is to be decided."""

    row: Row
    id: str
    labels: Ints
    restricted: bool
    stateless: bool


class FrontModel:
    """Decides; what it decided changes its own state only, which the next published one replaces."""

    def __init__(self, row: ModelRow, limits: Limits, tokens: TokenKeys | None) -> None:
        self.row = row
        self._limits = limits
        self._tokens = tokens
        self.version = Version(-1, 0)
        self.published: Published
        self.core: Core

    def use(self, published: Published, version: Version, classes: KnownClasses) -> None:
        """Go on with another state; its encoder is kept, with what it remembers."""
        if hasattr(self, "core"):
            published.core.encoder = self.core.encoder
        self.published = published
        self.core = published.core
        self.version = version
        self.bring(classes)

    def bring(self, classes: KnownClasses) -> None:
        """Let the classes be those that everybody knows; the learner may not have heard of the last ones yet."""
        known = self.core.classes
        for name in classes.names[len(known.names) :]:
            self.core.add_class(name)
        known.retired = set(classes.retired)
        known.refresh()

    @property
    def reply(self) -> ModelReply:
        """The model as others see it."""
        reply = model_reply(self.row.name, self.row.recipe, self.core, self.row.stateless)
        reply.decisions = self.published.stats.decisions
        reply.open = self.published.stats.open
        return reply

    def decide(self, wanted: list[DecisionRequest], now: int) -> Made:
        """Make all of these decisions, or none; `now` is in ns."""
        if self.version.seq < 0:
            raise Unavailable(f"the state of model {self.row.name!r} is being made anew; try again")
        checked = check_each(wanted, self._check)
        check_distinct_ids([one.id for one in checked])
        check_open(self._limits, self.core.learner.ledger.pending, len(checked))
        try:
            made = [self._decide(one, now) for one in checked]
        except BaseException:
            self.version = Version(-1, 0)  # a round may have been interrupted: have the state made anew
            raise
        return Made([entry for entry, _ in made], [reply for _, reply in made])

    def _check(self, wanted: DecisionRequest) -> Planned:
        stateless = self.row.stateless if wanted.stateless is None else wanted.stateless
        check_request(self._limits, wanted, stateless)
        if stateless and self._tokens is None:
            raise InvalidInput(
                f"this service has no keys to sign tokens with; decide with stateless=false, or {WITH_KEYS}"
            )
        row = self.core.encoder.encode(as_features(self.core.encoder, wanted.features))
        if stateless:
            check_fits_token(row)
        labels = self.core.classes.allowed(wanted.allowed)
        name = new_id() if wanted.id is None else check_id(wanted.id)
        return Planned(row, name, labels, wanted.allowed is not None, stateless)

    def _decide(self, wanted: Planned, now: int) -> tuple[InboxEntry, DecisionReply]:
        play = self.core.learner._play_row(wanted.row, wanted.labels)
        allowed = wanted.labels if wanted.restricted else None
        kind = facts.ISSUED_ELSEWHERE if wanted.stateless else facts.ADOPTED
        body = facts.encode_decided(play, allowed, self.core.encoder.new_names())
        reply = DecisionReply(wanted.id, self.core.classes.names[play.label], play.prob, play.round)
        if wanted.stateless and self._tokens is not None:
            reply.token = self._tokens.sign(self._ticket(wanted.id, play, allowed, now))
        return InboxEntry(kind, wanted.id, play.label, body), reply

    def _ticket(self, id: str, play: Play, allowed: Ints | None, now: int) -> Ticket:
        return Ticket(self.row.uid, id, facts.decided(play, allowed), now, now, self.core.expires_at(now))

    def redeem(self, token: str, now: int) -> Ticket:
        """Return the decision that a token tells of, or raise."""
        if self._tokens is None:
            raise InvalidInput(
                f"this service has no keys to read tokens with; name the decision by its id, or {WITH_KEYS}"
            )
        return self._tokens.read(token, self.row.uid, now)
