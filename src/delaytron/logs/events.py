"""Events of dsjson logs as a `Log`: which classes their actions are, and which outcome belongs to which event."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from warnings import warn

from delaytron.checks import as_class_name, check_bool, check_choice, check_number, check_path
from delaytron.errors import InvalidInput, Setting, Text, shown, spelled
from delaytron.extras import needs
from delaytron.logs.dsjson import (
    Actions,
    Event,
    Observation,
    Record,
    Unusable,
    UnusableError,
    context_features,
    parse_time,
    read_records,
)
from delaytron.logs.log import Log
from delaytron.logs.schema import CLOSE, NAMED, About, check_classes, decode_features, encode_features, log_schema

NUMBER = "number"
NAMING = ("_tag", "id", "tag", "name")  # features that may have the name of an action, the best first
MOST_CLASSES = 1000
MOST_TRIED = 32  # other features that may identify actions
MOST_SEEN = 100_000  # lists of actions that need not be looked at again
SKIPPED_ALWAYS = ("other", "not_activated", "other_class", "duplicate")  # without an error, also without `skip_bad`
ACTION_FEATURES = ("varying", "all", "none")
ROWS = 10_000  # per record batch


Name: TypeAlias = str | int


def value_at(given: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of names, also through lists of dicts; None if there is none.

    Examples
    --------
    >>> value_at({"i": [{"constant": 1}, {"id": "tea"}]}, ["i", "id"])
    'tea'
    """
    if not path:
        return given
    parts = given if isinstance(given, list) else [given]
    found = (value_at(part[path[0]], path[1:]) for part in parts if isinstance(part, Mapping) and path[0] in part)
    return next((value for value in found if value is not None), None)


def names_by(path: str, actions: Actions) -> list[Name] | None:
    """Return the names of the actions of an event, the values at a path; None unless each has one of its own.

    Examples
    --------
    >>> names_by("i.id", ({"i": {"id": "tea"}}, {"i": {"id": "coffee"}})), names_by("number", ({}, {}))
    (['tea', 'coffee'], [1, 2])
    """
    if path == NUMBER:
        return list(range(1, len(actions) + 1))
    steps = path.split(".")
    names = [name for action in actions if (name := as_class_name(value_at(action, steps))) is not None]
    return names if len(set(names)) == len(actions) else None


def paths_to_names(action: Mapping[str, Any]) -> list[str]:
    """Return the paths at which an action may have its name, at the top or in a namespace, the likeliest first.

    Examples
    --------
    >>> paths_to_names({"i": {"constant": 1, "id": "tea"}, "_tag": "tea", "price": 3})
    ['_tag', 'i.id']
    """
    named = [path for path in _paths(action) if path[-1].lower() in NAMING]
    return [".".join(path) for path in sorted(named, key=lambda path: (NAMING.index(path[-1].lower()), len(path)))]


def _paths(action: Mapping[str, Any]) -> list[list[str]]:
    """Return the paths of all features of an action, at the top and in its namespaces."""
    found = [[name] for name in action]
    for outer, inner in action.items():
        for part in inner if isinstance(inner, list) else [inner]:
            if isinstance(part, Mapping) and "." not in outer:
                found += [[outer, name] for name in part]
    return found


class Named(NamedTuple):
    """The actions of a log by one way to identify them: a hash of their features by name, and those that vary."""

    features: dict[Name, int]
    varying: set[Name]


class ActionNames:
    """What identifies actions, found event by event, and whether their own features are always the same.

    Parameters
    ----------
    path
        The path of their names; None to look for it.
    wanted
        The names that count, as text; None for all.
    """

    def __init__(self, path: str | None, wanted: Iterable[str] | None) -> None:
        self.path = path
        self.wanted = None if wanted is None else frozenset(wanted)
        self.ways: dict[str, Named] = {}
        self.lost: dict[str, str] = {}  # by path, the first place where actions had no names
        self._others: dict[str, set[Name]] = {}  # other features that identify actions so far, with their values
        self._seen: set[bytes] = set()

    def see(self, actions: Actions, multi: bytes, place: str) -> bool:
        """Record the actions of an event, which the line has as `multi`; return whether they have names."""
        key = blake2b(multi, digest_size=16).digest()
        if key in self._seen:
            return True
        if not self.ways:
            paths = [*paths_to_names(actions[0]), NUMBER] if self.path is None else [self.path]
            self.ways = {path: Named({}, set()) for path in dict.fromkeys(paths)}
            if self.path is None:
                others = [path for names in _paths(actions[0]) if (path := ".".join(names)) not in self.ways]
                self._others = {path: set() for path in others if names_by(path, actions)}
        tried = list(self._others.items())[:MOST_TRIED]
        self._others = {path: known.union(names) for path, known in tried if (names := names_by(path, actions))}
        prints = [_print_of(action) for action in actions]
        nameless = []
        for way, named in self.ways.items():
            found = names_by(way, actions)
            if found is None:
                nameless.append(way)
                continue
            for name, own in zip(found, prints, strict=True):
                if (self.wanted is not None and str(name) not in self.wanted) or len(named.features) > MOST_CLASSES:
                    continue
                if named.features.setdefault(name, own) != own:
                    named.varying.add(name)
        if self.path is not None and nameless:
            return False
        for way in nameless:
            del self.ways[way]
            self.lost[way] = place
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        self._seen.add(key)
        return True

    @property
    def way(self) -> str:
        """What identifies actions: the first path at which each has a name."""
        return next(iter(self.ways), NUMBER)

    @property
    def doubts(self) -> list[Text]:
        """Warnings that numbers do not identify actions, with advice: one, or none if numbers are not the names."""
        if self.path is not None or self.way != NUMBER or NUMBER not in self.ways or not self.ways[NUMBER].varying:
            return []
        found = sorted((len(known), path) for path, known in self._others.items() if 2 <= len(known) <= MOST_CLASSES)
        advice: tuple[str | Setting, ...] = ("give every action an id of its own",)
        if found:
            advice = (Setting("action", repr(found[0][1])), " identifies them")
        problem = (
            "not every action has an id, so the n-th action is taken for class n; but the n-th action differs between "
            "events (its own features vary), and so would the class: "
        )
        return [(problem, *advice, ", or say ", Setting("action", repr(NUMBER)), " if numbers are meant")]


def _print_of(action: Mapping[str, Any]) -> int:
    """Return a hash of the features of an action."""
    try:
        return hash(json.dumps(context_features(action), sort_keys=True))
    except InvalidInput:  # such events are omitted later
        return 0


class EventTerms(NamedTuple):
    """How events become rows of a log: the options of `read_dsjson`, with `low` and `high` for `reward_scale`.

    With `logged_names`, `classes` are text, which becomes integers where the names in the log are integers. A line that
    cannot be used is omitted if its reason is among `skipped` (None: any reason), and raises otherwise, with `hint`.
    With `check_range` a reward out of range always raises, and the message has the range of the log. `check` is called
    with the id and the features of an event; it returns why the event cannot be used, or None.
    """

    action: str | None = None
    classes: tuple[Any, ...] | None = None
    low: float = 0.0
    high: float = 1.0
    default: float | None = None
    action_features: str = "varying"
    logged_names: bool = False
    skipped: tuple[str, ...] | None = None
    hint: Text = ""
    check_range: bool = False
    check: Callable[[str, dict[str, Any]], tuple[str, str] | None] | None = None


class Reading:
    """Logs that are read twice: first for the names of the classes and the late outcomes, then for the rows.

    `omitted` counts lines without a row by the reason, `problems` has the first line of each reason, and
    `unused_outcomes` counts outcomes in lines of their own that are not the outcome of a row. `events`
    counts lines with an event; of the rows, `unnamed` counts events without an id and `apprenticed` those whose
    reward is whether the service chose as its caller. `between` is the first reward that is neither the lowest nor
    the highest of the scale, with its place.
    """

    def __init__(self, paths: Sequence[Path], terms: EventTerms) -> None:
        self.paths = paths
        self.terms = terms
        self.names = ActionNames(terms.action, None if terms.classes is None else map(str, terms.classes))
        self.between: tuple[float, str] | None = None
        self.answers: dict[str, Observation] = {}
        self.activated: set[str] = set()
        self.events = self.unnamed = self.apprenticed = 0
        self.omitted: Counter[str] = Counter()
        self.problems: dict[str, str] = {}
        self.unused_outcomes: Counter[str] = Counter()

    def records(self) -> Iterator[tuple[str, Record]]:
        """Iterate over the records of all logs, each with its place."""
        for path in self.paths:
            for record in read_records(path):
                yield f"{path}, line {record.line}", record

    def read_first(self) -> None:
        """Find what identifies actions and which outcomes have lines of their own; check the range of rewards."""
        lowest, highest = (inf, ""), (-inf, "")
        for place, record in self.records():
            if isinstance(record, Unusable):
                continue
            if isinstance(record, Observation):
                if record.activates:
                    self.activated.add(record.id)
                if record.reward is None:
                    self.unused_outcomes["no_number"] += not record.activates
                elif record.id in self.answers:
                    self.count_again(self.answers[record.id].reward == record.reward)
                else:
                    self.answers[record.id] = record
            elif record.skipped or not self.names.see(record.actions, record.multi, place):
                continue
            if record.reward is not None:
                lowest = min(lowest, (record.reward, place), key=lambda seen: seen[0])
                highest = max(highest, (record.reward, place), key=lambda seen: seen[0])
                if self.between is None and self.terms.low < record.reward < self.terms.high:
                    self.between = record.reward, place
        low, high = self.terms.low, self.terms.high
        for reward, place in (lowest, highest) if self.terms.check_range else ():
            if place and not low <= reward <= high:  # to omit its event would bias the log
                first, last = as_text(lowest[0]), as_text(highest[0])
                wide = first, last
                if first == last:
                    wide = as_text(min(low, reward)), as_text(max(high, reward))
                raise InvalidInput(
                    f"{place}: rewards must be from {as_text(low)} to {as_text(high)}, got {as_text(reward)}",
                    (
                        f"the log has {first} to {last}: ",
                        Setting("reward_scale", "LOW,HIGH"),
                        " maps them to 0 to 1, for instance ",
                        Setting("reward_scale", ",".join(wide)),
                    ),
                )

    def count_again(self, same: bool) -> None:
        """Count a further outcome of an event."""
        self.unused_outcomes["again" if same else "conflicting"] += 1

    def omit(self, reason: str, place: str, detail: Text) -> None:
        """Count a line without a row."""
        self.omitted[reason] += 1
        self.problems.setdefault(reason, f"{place}: {spelled(detail)}")

    @property
    def named(self) -> Named:
        """The names of all actions, by what identifies them."""
        return self.names.ways.get(self.names.way, Named({}, set()))


def as_text(number: float) -> str:
    """Return a number as short text that parses to the same number.

    Examples
    --------
    >>> as_text(5.0), as_text(-2.3333333)
    ('5', '-2.3333333')
    """
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e15 else repr(float(number))


def class_names(found: Reading) -> tuple[Any, ...]:
    """Return the names of the classes: those that are wanted, else all actions in order of first appearance.

    Raises InvalidInput if these are more than 1,000, or one only.
    """
    names: list[Name] = list(found.named.features)
    where, way, wanted = ", ".join(map(str, found.paths)), found.names.way, found.terms.classes
    if len(names) > MOST_CLASSES:
        raise InvalidInput(
            f"{where} has more than {MOST_CLASSES:,} actions by {way}, and a model has weights for each",
            (
                "give ",
                Setting("classes", "[...]"),
                " with those that count, or ",
                Setting("action", "..."),
                " with what else identifies them",
            ),
        )
    if wanted is not None and not found.terms.logged_names:
        return wanted
    if wanted is not None:
        logged = {str(name): name for name in names}
        names = [logged.get(text, int(text) if way == NUMBER and text.isdecimal() else text) for text in wanted]
    elif len(names) == 1:
        raise InvalidInput(
            f"{where} has one action only, {names[0]!r}, and a model needs two",
            ("give more by ", Setting("classes", "[...]")),
        )
    alike = all(isinstance(name, int) for name in names)
    return tuple(names) if alike else tuple(dict.fromkeys(map(str, names)))


class EventRows:
    """The second reading: events as rows of a log with these classes.

    `delays` has for each row the number of rows between it and its outcome, None where it has none.

    Parameters
    ----------
    found
        The first reading, with the terms; it counts the lines.
    classes
        The names of the classes.
    """

    def __init__(self, found: Reading, classes: tuple[Any, ...]) -> None:
        self.found = found
        self.terms = found.terms
        self.classes = classes
        self.delays: list[int | None] = []
        self._coming = set(found.answers)  # events whose outcome is in a later line
        self._waiting: dict[str, int] = {}  # rows whose outcome has such a line
        self.seen: set[str] = set()
        self.labels = {str(name): label for label, name in enumerate(classes)}
        self.varying = {str(name) for name in found.named.varying}
        self.kept: dict[int, dict[str, Any]] = {}

    def actions(self) -> tuple[Any, ...]:
        """Return the features of the actions that are the same in all events, by their labels."""
        return tuple(self.kept.get(label, {}) for label in range(len(self.classes)))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the events that count; raise InvalidInput at a line that must not be omitted."""
        for place, record in self.found.records():
            try:
                row = self._row(record)
            except UnusableError as problem:
                reason, detail = problem.args
                self.found.omit(reason, place, detail)
                if self.terms.skipped is not None and reason not in self.terms.skipped:
                    raise InvalidInput(detail, self.terms.hint).at(place) from None
                continue
            if row is not None:
                yield row
        self.found.unused_outcomes["no_event"] += len(self.found.answers.keys() - self.seen)

    def _row(self, record: Record) -> dict[str, Any] | None:
        if isinstance(record, Unusable):
            raise UnusableError(record.reason, record.detail)
        if isinstance(record, Observation):
            # The first line with the outcome of an event fixes its delay; later ones are not used.
            if record.reward is not None and record.id in self._coming:
                self._coming.remove(record.id)
                waiting = self._waiting.pop(record.id, None)
                if waiting is not None:
                    self.delays[waiting] = len(self.delays) - waiting - 1
            return None
        self.found.events += 1
        labels = self._labels(record)
        label = labels[record.label]
        if label is None:
            raise UnusableError("other_class", "its action is not among the classes")
        allowed = [known for known in labels if known is not None]
        row = {
            "id": record.id,
            "decided_at": parse_time(record.time),
            "features": self._features(record, labels),
            "allowed": None if allowed == list(range(len(self.classes))) else allowed,
            "label": label,
            "prob": record.prob,
            "probabilities": self._probabilities(record, labels),
            "weight": None if record.weight == 1.0 else record.weight,
            **self._outcome(record),
        }
        self.seen.add(record.id)
        if record.id in self._coming and not record.observed:
            self._waiting[record.id] = len(self.delays)
        self.delays.append(0 if "outcome" in row else None)
        self.found.unnamed += not record.has_id
        self.found.apprenticed += record.apprenticed
        return row

    def _labels(self, event: Event) -> list[int | None]:
        """Return the labels of the actions, None for those that are not among the classes.

        Raises UnusableError unless the event is the first one with its id, and its action was taken.
        """
        if event.id in self.seen:
            raise UnusableError("duplicate", f"an earlier line has the id {event.id!r}")
        if event.skipped or (event.deferred and event.id not in self.found.activated):
            raise UnusableError("not_activated", "its action was not taken")
        way = self.found.names.way
        names = names_by(way, event.actions)
        labels = [self.labels.get(str(name)) for name in names or ()]
        known = [label for label in labels if label is not None]
        if names is None or len(set(known)) < len(known):  # 17 and "17" are the same class
            raise UnusableError(
                "unnamed_action", f"each of its actions must have a name of its own at {way}, not so here"
            )
        return labels

    def _features(self, event: Event, labels: list[int | None]) -> str:
        varying: dict[str, Any] = {}
        offered: dict[str, Any] = {}
        for label, given in zip(labels, event.actions, strict=True):
            if label is None:
                continue
            name = str(self.classes[label])
            offered[name] = given
            if name in self.varying:
                varying[name] = given
                given = {"_tag": given["_tag"]} if "_tag" in given else {}  # noqa: PLW2901 - what all events share
            self.kept.setdefault(label, given)
        own = {"all": offered, "varying": varying or None, "none": None}[self.terms.action_features]
        try:
            features = context_features(event.context, own)
            text = encode_features(features)
            decode_features(text)
        except (InvalidInput, ValueError, RecursionError) as problem:
            raise UnusableError("features", str(problem)) from None
        why_not = None if self.terms.check is None else self.terms.check(event.id, features)
        if why_not is not None:
            raise UnusableError(*why_not)
        return text

    def _probabilities(self, event: Event, labels: list[int | None]) -> list[float] | None:
        """Return the probabilities of all classes, if the line has them and they agree with that of the label."""
        if event.probs is None or None in labels:
            return None
        found = [0.0] * len(self.classes)
        for label, prob in zip(labels, event.probs, strict=True):
            found[label or 0] = prob
        fits = min(found) >= 0 and abs(sum(found) - 1) <= CLOSE
        return found if fits and abs(event.probs[event.label] - event.prob) <= CLOSE else None

    def _outcome(self, event: Event) -> dict[str, Any]:
        """Return the outcome in the line of an event or, if none was observed, that in a line of its own."""
        late = self.found.answers.get(event.id)
        reward, received = event.reward, event.received
        if late is not None and event.observed:
            self.found.count_again(late.reward == reward)
        elif late is not None:
            reward, received = late.reward, late.received
        elif reward is None:
            reward = self.terms.default
        if reward is None:
            return {}
        low, high = self.terms.low, self.terms.high
        if not low <= reward <= high:
            raise UnusableError(
                "reward",
                (
                    f"rewards must be from {low:g} to {high:g}, got {reward!r}: ",
                    Setting("reward_scale", "LOW,HIGH"),
                    " maps those from LOW to HIGH to 0 to 1",
                ),
            )
        return {"outcome": (reward - low) / (high - low), "received_at": parse_time(received)}


def read_dsjson(
    path: str | Path | Sequence[str | Path],
    *,
    action: str | None = None,
    classes: Sequence[Any] | None = None,
    reward_scale: tuple[float, float] = (0.0, 1.0),
    default_reward: float | None = None,
    action_features: str = "varying",
    skip_bad: bool = False,
) -> Log:
    """Read logs of Vowpal Wabbit or Personalizer in dsjson, plain or compressed (.gz, .bz2, .xz).

    Parameters
    ----------
    path
        A file, or a list of files with the oldest first; each is read twice.
    action
        What identifies actions: a path to their names such as `_tag` or `i.id`, or `number` for their numbers. By
        default the first that each action has; there is a warning if these are numbers, and the n-th action is not
        the same in all events.
    classes
        The names of the classes in their order; events in which another action was taken are left out. By default all
        actions, in order of first appearance.
    reward_scale
        The lowest and the highest reward, which become 0 and 1. A reward is minus the cost of the label.
    default_reward
        The reward of events without an outcome; by default they have none.
    action_features : {"varying", "all", "none"}
        Which own features of actions are among the features of an event, under `_action`: those of the actions whose
        features are not the same in all events, those of all actions that it offered, or none.
    skip_bad
        Leave out lines that cannot be used, instead of raising at the first.

    Notes
    -----
    Events whose action was not taken after all, lines about other things and later lines with the same id are left out.
    The features of actions that are always the same are in `Log.actions`. Raises InvalidInput, with the line, if one
    cannot be used, and if there is no event.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> log = dt.logs.from_arrays(features=[{"hour": 7}, {"hour": 9}], labels=[0, 1], probs=[0.9, 0.5],
    ...                           rewards=[1, 0], classes=["tea", "coffee"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dt.logs.write_dsjson(log, Path(folder, "log.dsjson"))
    ...     again = dt.logs.read_dsjson(Path(folder, "log.dsjson"))
    >>> again.features == log.features, again.classes, again.outcomes.tolist()
    (True, ('tea', 'coffee'), [1.0, 0.0])
    """
    given = list(path) if isinstance(path, Iterable) and not isinstance(path, str) else [path]
    files = [check_path("path", one) for one in given]
    if not files:
        raise InvalidInput.of("path", "a file or a list of files", got="an empty list")
    if action is not None and not isinstance(action, str):
        raise InvalidInput.of("action", "the path of a feature, such as 'i.id', or 'number'", action)
    check_bool("skip_bad", skip_bad)
    check_choice("action_features", action_features, ACTION_FEATURES)
    wanted = None if classes is None else check_classes(list(classes) if isinstance(classes, Sequence) else classes)
    low, high = check_scale(reward_scale, default_reward)
    skipped = None if skip_bad else SKIPPED_ALWAYS
    hint = (Setting("skip_bad", "True"), " leaves such lines out")
    terms = EventTerms(action, wanted, low, high, default_reward, action_features, skipped=skipped, hint=hint)
    log, found = read_with_counts(files, terms)
    for doubt in found.names.doubts:
        warn(f"{', '.join(map(str, files))}: {spelled(doubt)}", stacklevel=2)
    return log


def read_with_counts(files: Sequence[Path], terms: EventTerms) -> tuple[Log, Reading]:
    """Read logs as `read_dsjson` does; return also the counts of lines that were used, and why others were not."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    for file in files:
        if file.exists() and not file.is_file():
            raise InvalidInput(
                f"cannot read {str(file)!r}: a log is read twice, so it must be a file, no folder or pipe",
                "write it to a file first",
            )
    found = Reading(files, terms)
    found.read_first()
    names = class_names(found)
    reader = EventRows(found, names)
    schema = log_schema(NAMED, About(names))
    batches, rows = [], reader.rows()
    while piece := list(islice(rows, ROWS)):
        batches.append(pa.RecordBatch.from_pylist(piece, schema))
    if not batches:
        why = next((f" ({first})" for reason, first in found.problems.items() if reason != "other"), "")
        if terms.classes is not None and found.names.ways and not found.named.features:
            why = f" (by {found.names.way} no action is one of {', '.join(map(str, terms.classes))})"
        raise InvalidInput(
            f"{', '.join(map(str, files))}: there must be at least one event that can be read, got none{why}",
            "give a log of events in dsjson",
        )
    about = About(names, actions=reader.actions())
    table = pa.Table.from_batches(batches, schema)
    delay = schema.get_field_index("delay")
    table = table.set_column(delay, schema.field(delay), pa.array(reader.delays, pa.int64()))
    if table["decided_at"].null_count:  # a log has times in all rows or in none
        place = schema.get_field_index("decided_at")
        table = table.set_column(place, schema.field(place), pa.nulls(table.num_rows, schema.field(place).type))
    return Log(table.cast(log_schema(NAMED, about))), found


def check_scale(scale: tuple[float, float], default: float | None) -> tuple[float, float]:
    """Return the rewards that become 0 and 1; raise InvalidInput unless low < high and `default` is between them."""
    try:
        low, high = (check_number("reward_scale", bound) for bound in scale)
        got = f"{as_text(low)},{as_text(high)}"
    except (TypeError, ValueError):
        low, high, got = 0.0, 0.0, shown(scale)
    if not low < high:
        raise InvalidInput.of("reward_scale", "two numbers, the lower one first", got=got)
    if default is not None and not low <= check_number("default_reward", default) <= high:
        raise InvalidInput.of("default_reward", f"from {as_text(low)} to {as_text(high)}", got=f"{as_text(default)}")
    return low, high
