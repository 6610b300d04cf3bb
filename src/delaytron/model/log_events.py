"""The second reading of a log: every event becomes a decision, and its reward the answer, in the order of the lines."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from delaytron.errors import ConflictingFeedback, InvalidInput
from delaytron.journal.clock import Moment
from delaytron.journal.records import Status
from delaytron.learners.looking import look, room_to_look
from delaytron.logs.actions import names_by
from delaytron.logs.dsjson import Event, Observation, Record
from delaytron.logs.features import context_features
from delaytron.model.adopting import Elsewhere, adopt
from delaytron.model.answering import answer
from delaytron.model.classes import Name
from delaytron.model.keeper import Keeper
from delaytron.model.log_survey import Survey, bad_id
from delaytron.model.reward_mean import RewardMean
from delaytron.records import Ints, Row

BATCH = 500  # records in one transaction
MOST_OFFERS = 64  # lists of actions that are remembered, if they are small
SMALL = 2**16  # bytes
TAKEN = ("applied", "late_corrected", "late_recorded")  # what becomes of an answer that is the first one


class Offer(NamedTuple):
    """The actions of an event: their names, their labels if they count, and the labels to choose among (None: all)."""

    names: list[Name]
    labels: list[int | None]
    allowed: Ints | None


class Counts:
    """What became of the lines of a log."""

    def __init__(self) -> None:
        self.events = 0
        self.imported = 0
        self.before = 0
        self.answered = 0
        self.expired = 0
        self.unnamed = 0
        self.apprenticed = 0
        self.dropped = 0
        self.left_out: Counter[str] = Counter()
        self.unused: Counter[str] = Counter()
        self.mean = RewardMean()


class LogEvents:
    """Takes the records of a log into a model, some hundred in one transaction.

    What is in the journal already is passed over, so that an import which was interrupted goes on when it is begun
    again. Answers whose event was not read yet wait for it.
    """

    def __init__(self, keeper: Keeper, survey: Survey) -> None:
        self.keeper = keeper
        self.survey = survey
        self.terms = survey.terms
        self.counts = Counts()
        self._last_before = keeper.store.last_seq  # the facts of imports before this one
        self._last_passed = 0  # the last of them that was found in the log
        self._labels = {name: label for label, name in enumerate(keeper.core.classes.names)}
        self._offers: dict[bytes, Offer | None] = {}
        self._room = room_to_look(keeper.core.learner)
        self._early: dict[str, float] = {}
        self._weights: dict[str, float] = {}  # of open events that stand for several

    def take(self, records: Iterable[Record], advance: Callable[[int], object]) -> Counts:
        """Take all records in."""
        waiting: list[Callable[[Moment], None]] = []
        for record in records:
            waiting.append(partial(self._take, record))
            if len(waiting) == BATCH:
                self._run(waiting, advance)
        self._run(waiting, advance)
        self.counts.unused["no_event"] += len(self._early)
        return self.counts

    def _run(self, waiting: list[Callable[[Moment], None]], advance: Callable[[int], object]) -> None:
        for outcome in self.keeper.run_all(waiting):
            if outcome is not None:
                raise outcome
        advance(len(waiting))
        waiting.clear()

    def _take(self, record: Record, now: Moment) -> None:
        if isinstance(record, Event):
            self._take_event(record, now)
        elif isinstance(record, Observation):
            self._take_observation(record, now)
        else:
            self.counts.left_out[record.reason] += 1

    def _take_event(self, event: Event, now: Moment) -> None:
        self.counts.events += 1
        problem = bad_id(event.id)
        known = None if problem else self.keeper.store.status(event.id)
        if known is not None:
            self._pass_over(event, known)
            return
        reason = problem[0] if problem else self._adopt(event, now)
        if reason is not None:
            self.counts.left_out[reason] += 1
            return
        self._count(event)
        self._answer_now(event, now)

    def _pass_over(self, event: Event, known: Status) -> None:
        """Count an event whose id is in the journal: from an import before this one, or from an earlier line.

        Decisions are in the journal in the order of the log, so an event that is not after the last one stood before.
        """
        seq = known.seq or 0
        if seq > self._last_before or 0 < seq <= self._last_passed:
            self.counts.left_out["duplicate"] += 1
            return
        self._last_passed = seq
        self.counts.before += 1
        if known.value is not None:
            self.counts.answered += 1
            self.counts.mean.add(known.value, event.weight)

    def _adopt(self, event: Event, now: Moment) -> str | None:
        """Take a decision in; return why not, if it cannot be."""
        if event.skipped or (event.deferred and event.id not in self.survey.activated):
            return "not_activated"
        offer = self._offer(event)
        if offer is None:
            return "unnamed_action"
        label = offer.labels[event.label]
        if label is None:
            return "other_class"
        try:
            row = self._row(event, offer)
        except InvalidInput:
            return "features"
        adopt(self.keeper, now, event.id, Elsewhere(row, label, event.prob, offer.allowed, self._greedy(row, offer)))
        return None

    def _greedy(self, row: Row, offer: Offer) -> int:
        """Return the label that looks best to the model, which is not asked."""
        labels = self.keeper.core.classes.allowed(None) if offer.allowed is None else offer.allowed
        return look(self.keeper.core.learner, row, labels, self._room)[0]

    def _row(self, event: Event, offer: Offer) -> Row:
        actions = None
        if self.terms.action_features:
            pairs = zip(offer.names, offer.labels, event.actions, strict=True)
            actions = {name: own for name, label, own in pairs if label is not None}
        return self.keeper.encoder.encode(context_features(event.context, actions))

    def _offer(self, event: Event) -> Offer | None:
        """Return what the actions of an event are for the model; None if they have no names."""
        if event.multi in self._offers:
            return self._offers[event.multi]
        offer = self._offer_of(event)
        if len(self._offers) >= MOST_OFFERS:
            self._offers.clear()
        if len(event.multi) <= SMALL:
            self._offers[event.multi] = offer
        return offer

    def _offer_of(self, event: Event) -> Offer | None:
        names = names_by(self.survey.way, event.actions)
        if names is None:
            return None
        labels = [self._labels.get(name) for name in names]
        every = self.keeper.core.classes.allowed(None)
        allowed = np.array(sorted(label for label in labels if label is not None), np.int64)
        return Offer(names, labels, None if np.array_equal(allowed, every) else allowed)

    def _count(self, event: Event) -> None:
        self.counts.imported += 1
        self.counts.unnamed += not event.has_id
        self.counts.apprenticed += event.apprenticed
        self.counts.dropped += event.weight != 1.0

    def _answer_now(self, event: Event, now: Moment) -> None:
        """Give the answer that stands with an event or stood before it; one that comes later has its own line."""
        early = self._early.pop(event.id, None)
        reward = early
        if event.observed or (early is None and event.id not in self.survey.answered):
            reward = self.terms.default if event.reward is None else event.reward
            if early is not None:
                self._count_unused(early == reward)
        if reward is None:
            if event.weight != 1.0:
                self._weights[event.id] = event.weight
            return
        value = self.terms.scaled(reward)
        self.keeper.answer(event.id, value, now)
        self.counts.answered += 1
        self.counts.mean.add(value, event.weight)

    def _take_observation(self, record: Observation, now: Moment) -> None:
        if record.reward is None:
            self.counts.unused["no_number"] += not record.activates
        elif record.id in self._early:
            self._count_unused(self._early[record.id] == record.reward)
        elif bad_id(record.id) is not None or self.keeper.store.status(record.id) is None:
            self._early[record.id] = record.reward
        else:
            self._answer_late(record.id, self.terms.scaled(record.reward), now)

    def _answer_late(self, id: str, value: float, now: Moment) -> None:
        given = (None, None, value) if self.keeper.core.answering.rewards else (value == 1.0, None, None)
        try:
            became = answer(self.keeper, now, id, given)
        except ConflictingFeedback:
            self._count_unused(same=False)
            return
        if became not in TAKEN:
            self._count_unused(became != "late_conflict")
            return
        self.counts.answered += 1
        self.counts.expired += became == "late_recorded"
        self.counts.mean.add(value, self._weights.pop(id, 1.0))

    def _count_unused(self, same: bool) -> None:
        """Count an answer that is not the first one."""
        self.counts.unused["again" if same else "conflicting"] += 1
