"""The events of a dsjson log as rows of a `Log`: a first reading sees what there is, a second one makes the rows."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from delaytron.errors import InvalidInput
from delaytron.logs.actions import MOST_CLASSES, ActionNames, Name, names_by
from delaytron.logs.columns import decode_features
from delaytron.logs.dsjson import Event, Observation, Record, Unusable, read_records
from delaytron.logs.feature_columns import encode_features
from delaytron.logs.features import context_features
from delaytron.logs.log_checks import CLOSE
from delaytron.logs.times import parse_time


class FirstReading(NamedTuple):
    """What the first reading finds: what tells actions apart, and what other lines say of events."""

    names: ActionNames
    answers: dict[str, Observation]
    activated: set[str]


def first_reading(path: Path, action: str | None, wanted: Sequence[Any] | None) -> FirstReading:
    """Read a log to see what tells its actions apart, and which outcomes have lines of their own."""
    survey = FirstReading(ActionNames(action, None if wanted is None else map(str, wanted)), {}, set())
    for record in read_records(path):
        if isinstance(record, Event) and not record.skipped:
            survey.names.see(record.actions, record.multi, f"line {record.line}")
        elif isinstance(record, Observation):
            if record.reward is not None:
                survey.answers.setdefault(record.id, record)
            if record.activates:
                survey.activated.add(record.id)
    return survey


class EventRows:
    """The second reading: events as rows."""

    def __init__(
        self,
        path: Path,
        survey: FirstReading,
        wanted: tuple[Any, ...] | None,
        scale: tuple[float, float],
        default: float | None,
        skip_bad: bool,
    ) -> None:
        self.path = path
        self.survey = survey
        self.way = survey.names.way
        self.low, self.high = scale
        self.default = default
        self.skip_bad = skip_bad
        self.first_problem: str | None = None
        self.seen: set[str] = set()
        named = survey.names.ways.get(self.way)
        self.names = self._class_names(list(named.features) if named else [], wanted)
        self.labels = {str(name): label for label, name in enumerate(self.names)}
        self.varying = {str(name) for name in (named.varying if named else ())}
        self.kept: dict[int, dict[str, Any]] = {}

    def _class_names(self, found: list[Name], wanted: tuple[Any, ...] | None) -> tuple[Any, ...]:
        if wanted is not None:
            return wanted
        if len(found) > MOST_CLASSES:
            raise InvalidInput(
                f"{self.path} has more than {MOST_CLASSES:,} actions by {self.way}; give classes= with those that "
                "count, or action= with what else tells them apart"
            )
        if len(found) == 1:
            raise InvalidInput(f"{self.path} has one action only, {found[0]!r}; give more by classes=")
        alike = all(isinstance(name, int) for name in found)
        return tuple(found) if alike else tuple(dict.fromkeys(map(str, found)))

    def actions(self) -> tuple[Any, ...]:
        """Return what is kept of the actions, by their labels."""
        return tuple(self.kept.get(label, {}) for label in range(len(self.names)))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the events that count."""
        for record in read_records(self.path):
            try:
                row = self._row(record)
            except _Problem as problem:
                self._note(problem, record.line)
                continue
            if row is not None:
                yield row

    def _note(self, problem: Exception, line: int) -> None:
        place = f"{self.path}, line {line}: {problem}"
        if not self.skip_bad:
            raise InvalidInput(f"{place}; skip_bad=True leaves such lines out")
        self.first_problem = self.first_problem or place

    def _row(self, record: Record) -> dict[str, Any] | None:
        if isinstance(record, Unusable) and record.reason != "other":
            raise _Problem(record.detail)
        if not isinstance(record, Event) or not self._counts(record):
            return None
        names = names_by(self.way, record.actions)
        if names is None:
            raise _Problem(f"each of its actions must have a name of its own at {self.way}, not so here")
        labels = [self.labels.get(str(name)) for name in names]
        label = labels[record.label]
        if label is None:
            return None
        self.seen.add(record.id)
        allowed = [known for known in labels if known is not None]
        return {
            "id": record.id,
            "decided_at": parse_time(record.time),
            "features": self._features(record, labels),
            "allowed": None if allowed == list(range(len(self.names))) else allowed,
            "label": label,
            "prob": record.prob,
            "probabilities": self._probabilities(record, labels),
            "weight": None if record.weight == 1.0 else record.weight,
            **self._outcome(record),
        }

    def _counts(self, event: Event) -> bool:
        """Whether an event is the first with its id, and its action was taken."""
        inactive = event.skipped or (event.deferred and event.id not in self.survey.activated)
        return not inactive and event.id not in self.seen

    def _features(self, event: Event, labels: list[int | None]) -> str:
        own: dict[str, Any] = {}
        for label, given in zip(labels, event.actions, strict=True):
            if label is None:
                continue
            name = str(self.names[label])
            if name in self.varying:
                own[name] = given
                self.kept.setdefault(label, {"_tag": given["_tag"]} if "_tag" in given else {})
            else:
                self.kept.setdefault(label, given)
        try:
            text = encode_features(context_features(event.context, own or None))
            decode_features(text)
        except (InvalidInput, ValueError, RecursionError) as problem:
            raise _Problem(str(problem)) from None
        return text

    def _probabilities(self, event: Event, labels: list[int | None]) -> list[float] | None:
        """Return the probabilities of all classes, if the line has them and they fit to that of the label."""
        if event.probs is None or None in labels:
            return None
        found = [0.0] * len(self.names)
        for label, prob in zip(labels, event.probs, strict=True):
            found[label or 0] = prob
        fits = min(found) >= 0 and abs(sum(found) - 1) <= CLOSE
        return found if fits and abs(event.probs[event.label] - event.prob) <= CLOSE else None

    def _outcome(self, event: Event) -> dict[str, Any]:
        """Return the outcome that stands with an event or, if none was observed, that of a line of its own."""
        late = self.survey.answers.get(event.id)
        if event.observed or late is None:
            reward = self.default if event.reward is None else event.reward
            heard = event.heard
        else:
            reward, heard = late.reward, late.heard
        if reward is None:
            return {}
        if not self.low <= reward <= self.high:
            raise _Problem(
                f"rewards must be from {self.low:g} to {self.high:g}, got {reward!r}: reward_scale=LOW,HIGH maps "
                "those from LOW to HIGH to 0 to 1"
            )
        return {"outcome": (reward - self.low) / (self.high - self.low), "received_at": parse_time(heard)}


class _Problem(Exception):  # noqa: N818 - it ends the reading of a line, and becomes an InvalidInput
    """Why a line cannot be used."""
