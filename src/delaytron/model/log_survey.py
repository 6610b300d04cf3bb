"""The first reading of a log, which writes nothing: what a model for it must be, and whether it can be imported."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

from delaytron.errors import InvalidInput
from delaytron.journal.ids import check_id
from delaytron.logs.actions import MOST_CLASSES, NUMBER, ActionNames, Named
from delaytron.logs.dsjson import Event, Observation, Record, Unusable, read_records
from delaytron.logs.features import context_features
from delaytron.model.classes import Name
from delaytron.model.encoding import FeatureEncoder

HARMLESS = ("other", "not_activated", "other_class")  # a strict import leaves these out without a word, too


class LogTerms(NamedTuple):
    """How a log is taken: what tells actions apart, which classes count, and what rewards mean.

    Rewards from `low` to `high` become 0 to 1. Events that nobody answers get `default`, if there is one.
    """

    action: str | None = None
    classes: tuple[str, ...] | None = None
    low: float = 0.0
    high: float = 1.0
    default: float | None = None
    action_features: bool = False
    strict: bool = False

    def scaled(self, reward: float) -> float:
        """Return a reward from 0 to 1."""
        return (reward - self.low) / (self.high - self.low)


class Seen(NamedTuple):
    """A reward, and where it stands."""

    reward: float
    place: str


class Survey:
    """What is known of a log after the first reading.

    `answered` has the ids of events to which another line brings a reward, `activated` those of which another line says
    that their action was taken. `lowest`, `highest` and `between` are rewards: the last one neither the lowest nor the
    highest that may be.
    """

    def __init__(self, terms: LogTerms) -> None:
        self.terms = terms
        self.actions = ActionNames(terms.action, terms.classes)
        self.lines = 0
        self.events = 0
        self.answered: set[str] = set()
        self.activated: set[str] = set()
        self.lowest = Seen(inf, "")
        self.highest = Seen(-inf, "")
        self.between: Seen | None = None
        self.first_problem: str | None = None

    @property
    def way(self) -> str:
        """What tells actions apart."""
        return self.actions.way

    @property
    def named(self) -> Named:
        """The actions, by that."""
        return self.actions.ways[self.way]

    def classes(self) -> list[Name]:
        """Return the classes: those that were asked for, else all actions in the order in which they first come."""
        found: list[Name] = list(self.named.features)
        if len(found) > MOST_CLASSES:
            raise InvalidInput(
                f"the log has more than {MOST_CLASSES:,} actions by {self.way}, and a model has weights for each; "
                "give --classes with those that count, or --action with what else tells them apart"
            )
        if self.terms.classes is not None:
            by_text = {str(name): name for name in found}
            return [by_text.get(text, _unseen(text, self.way)) for text in self.terms.classes]
        if len(found) == 1:
            raise InvalidInput(f"the log has one action only, {found[0]!r}; a model needs two: give more by --classes")
        return found

    def count_reward(self, reward: float, place: str) -> None:
        """Take a reward in."""
        if reward < self.lowest.reward:
            self.lowest = Seen(reward, place)
        if reward > self.highest.reward:
            self.highest = Seen(reward, place)
        if self.between is None and self.terms.low < reward < self.terms.high:
            self.between = Seen(reward, place)


def _unseen(text: str, way: str) -> Name:
    """Return the name of a class that the log does not have."""
    return int(text) if way == NUMBER and text.isdecimal() else text


def survey_logs(paths: Sequence[Path], terms: LogTerms, encoder: FeatureEncoder) -> Survey:
    """Read logs without writing anything; raise if they cannot be imported.

    A strict survey raises at the first line that would be left out; it makes a row of every context for that.
    """
    survey = Survey(terms)
    ids: set[str] = set()
    for path, record in records_of(paths):
        survey.lines += 1
        problem = _see(survey, record, f"{path}, line {record.line}")
        if problem is None and terms.strict and isinstance(record, Event):
            problem = _strictly(record, terms, encoder, ids)
        if problem is not None:
            _note_problem(survey, problem, f"{path}, line {record.line}")
    _raise_if_useless(survey, paths)
    _raise_if_outside(survey)
    return survey


def records_of(paths: Iterable[Path]) -> Iterator[tuple[Path, Record]]:
    """Iterate over all records of several logs."""
    for path in paths:
        for record in read_records(path):
            yield path, record


def _see(survey: Survey, record: Record, place: str) -> tuple[str, str] | None:
    """Take a record in; return why it is left out, if it is."""
    if isinstance(record, Unusable):
        return record.reason, record.detail
    if isinstance(record, Observation):
        _see_observation(survey, record, place)
        return None
    return _see_event(survey, record, place)


def _see_observation(survey: Survey, record: Observation, place: str) -> None:
    if record.reward is not None:
        survey.answered.add(record.id)
        survey.count_reward(record.reward, place)
    if record.activates:
        survey.activated.add(record.id)


def _see_event(survey: Survey, event: Event, place: str) -> tuple[str, str] | None:
    survey.events += 1
    if event.skipped:
        return "not_activated", "its action was not taken"
    if not survey.actions.see(event.actions, event.multi, place):
        return "unnamed_action", f"not each of its actions has a name of its own at {survey.way}"
    if event.reward is not None:
        survey.count_reward(event.reward, place)
    return bad_id(event.id)


def bad_id(id: str) -> tuple[str, str] | None:
    """Return why an id cannot be one, if so."""
    try:
        check_id(id)
    except InvalidInput as problem:
        return "bad_id", str(problem)
    return None


def _strictly(event: Event, terms: LogTerms, encoder: FeatureEncoder, ids: set[str]) -> tuple[str, str] | None:
    if event.id in ids:
        return "duplicate", f"the id {event.id!r} stands in an earlier line"
    ids.add(event.id)
    actions = dict(enumerate(event.actions)) if terms.action_features else None
    try:
        encoder.encode(context_features(event.context, actions))
    except InvalidInput as problem:
        return "features", str(problem)
    return None


def _note_problem(survey: Survey, problem: tuple[str, str], place: str) -> None:
    reason, detail = problem
    if survey.first_problem is None:
        survey.first_problem = f"{place}: {detail}"
    if survey.terms.strict and reason not in HARMLESS:
        raise InvalidInput(f"{place}: {detail}; without --strict it is left out")


def _raise_if_useless(survey: Survey, paths: Sequence[Path]) -> None:
    if survey.actions.ways and survey.named.features:
        return
    why = f"; {survey.first_problem}" if survey.first_problem else ""
    if survey.actions.ways and survey.terms.classes is not None:
        why = f"; by {survey.way} no action is one of {', '.join(survey.terms.classes)}"
    raise InvalidInput(f"{', '.join(map(str, paths))}: there is no event that can be imported{why}")


def _raise_if_outside(survey: Survey) -> None:
    low, high = survey.terms.low, survey.terms.high
    for reward, place in (survey.lowest, survey.highest):
        if place and not low <= reward <= high:
            first, last = as_text(survey.lowest.reward), as_text(survey.highest.reward)
            wide = f"{first},{last}" if first != last else f"{as_text(min(low, reward))},{as_text(max(high, reward))}"
            raise InvalidInput(
                f"{place}: rewards must be from {as_text(low)} to {as_text(high)}, got {as_text(reward)}; the log has "
                f"{first} to {last}: --reward-scale LOW,HIGH maps them to 0 to 1, for instance --reward-scale={wide}"
            )


def as_text(number: float) -> str:
    """Return a number as a text that is read as the same number.

    Examples
    --------
    >>> as_text(5.0), as_text(-2.3333333)
    ('5', '-2.3333333')
    """
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
