"""dsjson, the log format of Vowpal Wabbit and Azure Personalizer: its lines as records, and a log as its lines.

A line with a context (`c`) is an event: the context, the actions that could be taken (`c._multi`), the one that was
taken, its probability, and often its outcome. A line with an `EventId` and no context is an observation: an outcome
that came too late to be written with its event, or the activation of an event whose action had been deferred.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw, Struct, field

from delaytron.checks import check_path
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.atomic import replacing
from delaytron.files.text import open_binary, packing, reading
from delaytron.logs.log import Log, check_log
from delaytron.logs.schema import DENSE, NAMED, TIMES, decode_features, kind_of

LONGEST = 2**24  # bytes of a line; longer ones are skipped
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SECOND = 10**9  # nanoseconds
TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
TEXT = "_text"
ACTIONS = "_action"  # no context has such a name
DEEPEST = 64  # levels of nested dicts and lists
MULTI = "_multi"
SEVERAL = ("conditional contextual bandits or slates, in which an event has several slots", "one action")
CONTINUOUS = ("continuous actions", "actions from a list")
PARSED = 64  # lists of actions in the cache, since most events of a log have the same ones
SMALL = 2**16  # bytes of a list in the cache
ROWS = 1000  # per batch that is written
VECTOR = "x"  # the namespace of features that have no names


def read_lines(path: Path, longest: int) -> Iterator[tuple[int, bytes | None]]:
    r"""Iterate over the lines of a file, plain or compressed, with their numbers; one that is too long is None.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.dsjson")
    ...     path.write_bytes(b'{"a": 1}\n' + 90 * b"x" + b"\n\n{}")
    ...     list(read_lines(path, longest=20))
    103
    [(1, b'{"a": 1}'), (2, None), (3, b''), (4, b'{}')]
    """
    number = 0
    with reading(path), open_binary(path) as file:
        while line := file.readline(longest + 1):
            number += 1
            whole = len(line) <= longest
            while len(line) > longest and not line.endswith(b"\n"):
                line = file.readline(longest + 1)
            plain = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            yield number, plain.strip() if whole else None


def parse_time(text: Any) -> int | None:
    """Return a time in nanoseconds since 1970; None if the text is not a time. A time without a zone is in UTC.

    Examples
    --------
    >>> parse_time("1970-01-01T00:00:01.2460001Z"), parse_time("1970-01-01 01:00:00+01:00"), parse_time("today")
    (1246000100, 0, None)
    """
    found = TIME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone or 'Z'}")
        whole = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    except (ValueError, OverflowError):  # such as a 13th month
        return None
    nanoseconds = whole * SECOND + int((fraction or "0").ljust(9, "0"))
    return nanoseconds if abs(nanoseconds) < 2**63 else None


def format_time(nanoseconds: int) -> str:
    """Return a time as dsjson has it, with seven digits after the point, or nine where it needs them.

    Examples
    --------
    >>> format_time(1246000100), format_time(1)
    ('1970-01-01T00:00:01.2460001Z', '1970-01-01T00:00:00.000000001Z')
    """
    whole, rest = divmod(nanoseconds, SECOND)
    fraction = f"{rest:09d}"
    moment = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{fraction if rest % 100 else fraction[:7]}Z"


def context_features(context: Mapping[str, Any], actions: Mapping[Any, Mapping[str, Any]] | None = None) -> Any:
    """Return a context of Vowpal Wabbit's JSON as a dict of features for a `dt.Model`.

    Parameters
    ----------
    context
        What a log has under `c`, or what a caller of Personalizer sends; `_multi` and other names that begin with `_`
        are left out, except `_text`.
    actions
        The features of each action that can be chosen, by the names of their classes, if the model was made by
        `delaytron import --action-features`. They become the feature `_action`.

    Notes
    -----
    A list of dicts becomes one dict: numbers of the same name add up, strings of the same name become a list. A list of
    strings stays. Of any other list, numbers and strings are named by their indices. Raises InvalidInput if it is
    nested too deeply, or a name has values of different types.

    Examples
    --------
    >>> context_features({"FromUrl": [{"weather": "Sunny", "_id": 7}, {"age": 31}], "x": [0.5, 2], "tags": ["a", "b"]})
    {'FromUrl': {'weather': 'Sunny', 'age': 31}, 'x': {'0': 0.5, '1': 2}, 'tags': ['a', 'b']}
    >>> context_features({"hour": 7}, actions={"small": {"price": 0.5}})
    {'hour': 7, '_action': {'small': {'price': 0.5}}}
    """
    features = _of_dict(context)
    if actions is not None:
        if not isinstance(actions, Mapping):
            raise InvalidInput.of("actions", "a dict of the features of each action", actions)
        features[ACTIONS] = {str(name): _of_dict(own) for name, own in actions.items()}
    return features


def _of_dict(given: Mapping[str, Any], depth: int = 1) -> dict[str, Any]:
    if depth > DEEPEST:
        raise InvalidInput.of(
            "features", f"at most {DEEPEST} levels of dicts and lists", got="more", verb="have", hint="flatten them"
        )
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidInput.of("features", "a dict with names that are text", given, "use str(name)")
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name[:1] != "_" or name == TEXT:
            if isinstance(value, Mapping):
                found[name] = _of_dict(value, depth + 1)
            else:
                found[name] = _of_list(value, depth + 1) if isinstance(value, list) else value
    return found


def _of_list(items: list[Any], depth: int) -> Any:
    if all(item is None or isinstance(item, str) for item in items):
        return items
    merged: dict[str, Any] = {}
    for place, item in enumerate(items):
        named = item if isinstance(item, Mapping) else {str(place): item}
        merge(merged, _of_dict(named, depth).items())
    return merged


def merge(into: dict[str, Any], more: Iterable[tuple[str, Any]]) -> None:
    """Add features to others: numbers of the same name add up, strings become a list, dicts are merged.

    Raises InvalidInput if two values of the same name are of different types.
    """
    for name, other in more:
        one = into.get(name)
        if one is None or other is None:
            into[name] = other if one is None else one
        elif isinstance(one, int | float) and isinstance(other, int | float):
            into[name] = one + other
        elif isinstance(one, dict) and isinstance(other, dict):
            into[name] = dict(one)  # a copy: it belongs to the caller
            merge(into[name], other.items())
        elif isinstance(one, str | list) and isinstance(other, str | list):
            into[name] = [
                *(one if isinstance(one, list) else [one]),
                *(other if isinstance(other, list) else [other]),
            ]
        else:
            kinds = f"as {type(one).__name__} and as {type(other).__name__}"
            raise InvalidInput(f"feature {name[:60]!r} is there twice in a list, {kinds}", "rename one of them")


class UnusableError(Exception):
    """A line that cannot be used, with the reason as one word and as a sentence."""


class Noted(Struct):
    """An outcome that was reported for an event."""

    v: Any = None
    action_taken: Any = field(name="ActionTaken", default=None)
    time: Any = field(name="EnqueuedTimeUtc", default=None)


class LogLine(Struct):
    """The fields of a line that are read; all others are ignored."""

    event_id: str | None = field(name="EventId", default=None)
    cost: float | None = field(name="_label_cost", default=None)
    other_cost: float | None = field(name="_label_Cost", default=None)
    prob: float | None = field(name="_label_probability", default=None)
    other_prob: float | None = field(name="_label_Probability", default=None)
    action: int | None = field(name="_label_Action", default=None)
    other_action: int | None = field(name="_label_action", default=None)
    index: int | None = field(name="_labelIndex", default=None)
    original_cost: float | None = field(name="_original_label_cost", default=None)
    skip_learn: bool | None = field(name="_skipLearn", default=None)
    deferred: bool | None = field(name="DeferredAction", default=None)
    action_taken: Any = field(name="ActionTaken", default=None)
    a: list[int] | None = None
    p: list[float] | None = None
    c: dict[str, Raw] | None = None
    o: list[Noted] | None = None
    v: Any = None
    pdrop: float | None = None
    reward_value: Any = field(name="RewardValue", default=None)
    observations: list[Noted] | None = field(name="Observations", default=None)
    outcomes: Any = field(name="_outcomes", default=None)
    continuous: Any = field(name="_label_ca", default=None)
    time: Any = field(name="Timestamp", default=None)
    enqueued: Any = field(name="EnqueuedTimeUtc", default=None)


_decode_line = msgspec.json.Decoder(LogLine).decode


def _ranking(line: LogLine, count: int) -> list[int] | None:
    """Return the actions in the order of `p`, from 0; None if they do not fit. Some logs count them from 0 already."""
    if line.a is None:
        return None
    first = 0 if 0 in line.a else 1
    ranked = [number - first for number in line.a]
    fits = len(set(ranked)) == len(ranked) and all(0 <= place < count for place in ranked)
    return ranked if fits else None


def _label(line: LogLine, ranked: list[int] | None, count: int) -> int:
    """Return the index of the action that was taken: that of the label, else the first that is ranked."""
    action = line.action if line.action is not None else line.other_action
    found = {place for place in (None if action is None else action - 1, line.index) if place is not None}
    if not found and ranked:
        found = {ranked[0]}
    if len(found) != 1:
        raise UnusableError("no_label", f"_label_Action must be _labelIndex + 1, got {action} and {line.index}")
    (place,) = found
    if not 0 <= place < count:
        raise UnusableError("no_label", f"_label_Action must be from 1 to {count}, got {place + 1}")
    return place


def _probability(line: LogLine, ranked: list[int] | None, place: int) -> float:
    """Return the probability of the action that was taken: that of the label, else where it is ranked."""
    prob = line.prob if line.prob is not None else line.other_prob
    if prob is None and ranked and line.p and len(line.p) == len(ranked) and place in ranked:
        prob = line.p[ranked.index(place)]
    if prob is None:
        raise UnusableError(
            "no_probability",
            "it has no _label_probability, and no p and a that fit together: "
            "log the probability with which the action was taken",
        )
    if not 0 < prob <= 1:
        raise UnusableError("no_probability", f"the probability must be above 0 and at most 1, got {prob!r}")
    return prob


def _probabilities(line: LogLine, ranked: list[int] | None, count: int) -> list[float] | None:
    """Return the probabilities in the order of the actions; None unless there is one for each."""
    if ranked is None or line.p is None or not len(line.p) == len(ranked) == count:
        return None
    return [prob for _, prob in sorted(zip(ranked, line.p, strict=True))]


def _reported(notes: list[Noted]) -> tuple[list[Any], bool]:
    """Return the outcomes that were reported, in their order, and whether one was that the action was taken."""
    return [note.v for note in notes if note.v is not None], any(note.action_taken is True for note in notes)


def _first_number(values: list[Any]) -> float | None:
    """Return the first value that is a number; None if there is none."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:  # an integer that no float can hold
                continue
    return None


Actions = tuple[dict[str, Any], ...]


class Event(NamedTuple):
    """A decision of a log.

    `label` is the index of the action that was taken among `actions`, and `prob` its probability. `probs` are those of
    all actions, where the log has them. `reward` is minus the cost of the label, None where there is none; it was
    `observed`, or is the service's default for events without an outcome. An event that was `deferred` counts only if
    an observation activates it; one to be `skipped` never does. It represents `weight` events of which the others were
    dropped. Where it is `apprenticed`, the reward is not that of the outcome, but whether the service chose as its
    caller would have. It `has_id`, or is named by its line. `time` and `received` are when it was decided and when the
    outcome was received, as written in the log.
    """

    line: int
    id: str
    has_id: bool
    context: dict[str, Any]
    actions: Actions
    label: int
    prob: float
    probs: list[float] | None
    reward: float | None
    observed: bool
    deferred: bool
    skipped: bool
    weight: float
    apprenticed: bool
    multi: bytes  # the actions as written in the line: the same bytes are the same actions
    time: Any = None
    received: Any = None


class Observation(NamedTuple):
    """A line about an event of another line: its reward, if it has one, or that its action was taken after all."""

    line: int
    id: str
    reward: float | None
    activates: bool
    received: Any = None


class Unusable(NamedTuple):
    """A line that cannot be used, with the reason as one word and as a sentence; `other` is not an error of the log."""

    line: int
    reason: str
    detail: str


Record = Event | Observation | Unusable


def read_records(path: str | Path) -> Iterator[Record]:
    r"""Iterate over the records of a dsjson log, plain or compressed (.gz, .bz2, .xz); blank lines have none.

    A line that cannot be used is `Unusable`. Raises InvalidInput for a log of another kind, in which an event has
    several actions or a continuous one.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> line = '{"EventId": "e1", "_label_cost": -1, "_label_probability": 0.8, "_label_Action": 2, "c": {"hour": 7, '
    >>> line += '"_multi": [{"id": "tea"}, {"id": "coffee"}]}}\n{"EventId": "e0", "RewardValue": 0.5}\n'
    >>> with TemporaryDirectory() as folder:
    ...     written = Path(folder, "log.dsjson").write_text(line)
    ...     event, late = read_records(Path(folder, "log.dsjson"))
    >>> event.id, event.context, event.actions[event.label], event.prob, event.reward
    ('e1', {'hour': 7}, {'id': 'coffee'}, 0.8, 1.0)
    >>> late
    Observation(line=2, id='e0', reward=0.5, activates=False, received=None)
    """
    path = Path(path)
    for number, line in read_lines(path, LONGEST):
        if line is None:
            yield Unusable(number, "too_long", f"it has more than {LONGEST:,} bytes")
        elif line:
            try:
                yield _record(path, number, line)
            except UnusableError as problem:
                yield Unusable(number, *problem.args)


def _record(path: Path, number: int, line: bytes) -> Record:
    if not line.startswith(b"{"):  # such as the lines about checkpoints that Vowpal Wabbit skips, too
        raise UnusableError("other", "it is no JSON object")
    try:
        found = _decode_line(line)
    except msgspec.ValidationError as problem:
        raise UnusableError("wrong_type", f"it has a value of a wrong type: {problem}") from None
    except (ValueError, RecursionError) as problem:
        raise UnusableError("damaged", f"it is not valid JSON: {problem}") from None
    if found.c is None:
        if not found.event_id:
            raise UnusableError("other", "it has no context and no EventId")
        outcomes, taken = _reported(found.observations or [])
        given = [value for value in (found.reward_value, found.v) if value is not None]
        activates = taken or found.action_taken is True
        return Observation(number, found.event_id, _first_number(given or outcomes), activates, found.enqueued)
    several = found.outcomes is not None or "_slots" in found.c
    if several or found.continuous is not None:
        kind, wanted = SEVERAL if several else CONTINUOUS
        raise InvalidInput(f"{path}, line {number}: it is of {kind}", f"give a log of {wanted} for each event")
    plain_name = path.name.encode("ascii", "replace").decode()[-100:]
    named = found.event_id or f"{plain_name}:{number}:{sha256(line).hexdigest()[:16]}"
    return _event(number, named, found, found.c)


def _event(number: int, named: str, found: LogLine, raw: dict[str, Raw]) -> Event:
    multi = bytes(raw.get(MULTI, b""))
    actions = _kept_actions(multi) if len(multi) <= SMALL else _actions(multi)
    ranking = _ranking(found, len(actions))
    label = _label(found, ranking, len(actions))
    cost = found.cost if found.cost is not None else found.other_cost
    outcomes, taken = _reported(found.o or [])
    reward = _first_number(outcomes) if cost is None else 0.0 - cost
    context = _context(raw)
    prob = _probability(found, ranking, label)
    if found.pdrop is not None and not 0 <= found.pdrop < 1:
        raise UnusableError("no_probability", f"pdrop must be at least 0 and below 1, got {found.pdrop!r}")
    weight = 1.0 / (1.0 - (found.pdrop or 0.0))  # events like this one were dropped with probability `pdrop`
    return Event(
        number,
        named,
        bool(found.event_id),
        context,
        actions,
        label,
        prob,
        _probabilities(found, ranking, len(actions)),
        reward,
        bool(outcomes) and reward is not None,
        bool(found.deferred) and not taken,
        bool(found.skip_learn),
        weight,
        cost is not None and found.original_cost not in (None, cost),
        multi,
        found.time,
        next((note.time for note in found.o or [] if note.v is not None), None),
    )


def _actions(multi: bytes) -> Actions:
    if not multi:
        raise UnusableError("no_actions", "it has no actions: c has no _multi")
    try:
        actions = tuple(_decode_actions(multi))
    except (ValueError, RecursionError) as problem:
        raise UnusableError("no_actions", f"its actions, _multi, are no list of objects: {problem}") from None
    if not actions:
        raise UnusableError("no_actions", "it has no actions: _multi is empty")
    return actions


_kept_actions = lru_cache(maxsize=PARSED)(_actions)
_decode_actions = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode = msgspec.json.Decoder().decode


def _context(raw: dict[str, Raw]) -> dict[str, Any]:
    """Return what all actions share; names that begin with `_` are no features, except `_text`."""
    try:
        return {name: _decode(part) for name, part in raw.items() if name[:1] != "_" or name == TEXT}
    except (ValueError, RecursionError) as problem:
        raise UnusableError("damaged", f"it is not valid JSON: {problem}") from None


_encode = msgspec.json.Encoder().encode


def write_dsjson(log: Log, path: str | Path) -> None:
    """Write a log for Vowpal Wabbit, compressed if the path ends in .gz; after an error the old file is still there.

    A reward is written as its negative, a cost. Decisions without an outcome have no cost, and are not learned from.
    Features without names are in the namespace `x`, named by their indices. A list of strings becomes a namespace with
    the strings as features. The learner, `occurred_at` and delays are not written: dsjson has no field for them.
    Raises InvalidInput if a feature has a name that begins with `_`.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> log = dt.logs.from_arrays(features=[[0.5, 0]], labels=[1], probs=[0.8], rewards=[1], n_classes=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dt.logs.write_dsjson(log, Path(folder, "log.dsjson"))
    ...     print(Path(folder, "log.dsjson").read_text()[:78])
    {"_label_cost":-1.0,"_label_probability":0.8,"_label_Action":2,"_labelIndex":1
    """
    check_log(log)
    place = check_path("path", path)
    with replacing(place) as whole, packing(whole, place) as file:
        for line in _lines(log):
            file.write(_encode(line) + b"\n")


def _lines(log: Log) -> Iterator[dict[str, Any]]:
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    kind = kind_of(log.table.schema)
    names = [str(name) for name in log.classes]
    actions = log.actions or tuple({"_tag": name, "i": {"id": name}} for name in names)
    columns = log.table.schema.names
    for batch in log.table.to_batches(max_chunksize=ROWS):
        plain = [
            batch[name].cast(pa.int64()).to_pylist() if name in TIMES else batch[name].to_pylist() for name in columns
        ]
        for values in zip(*plain, strict=True):
            row = dict(zip(columns, values, strict=True))
            context = _written_context(row["features"], kind)
            own = context.pop(ACTIONS, {})
            labels = range(len(names)) if row["allowed"] is None else row["allowed"]
            multi = [{**actions[label], **own.get(names[label], {})} for label in labels]
            yield _line(row, list(labels), {**context, "_multi": multi})


def _line(row: Mapping[str, Any], labels: list[int], context: dict[str, Any]) -> dict[str, Any]:
    place = labels.index(row["label"])
    ranked = [place]
    probs = [row["prob"]]
    if row["probabilities"] is not None:
        ranked += [other for other in range(len(labels)) if other != place]
        probs = [row["probabilities"][labels[rank]] for rank in ranked]
    line: dict[str, Any] = {} if row["outcome"] is None else {"_label_cost": 0.0 - row["outcome"]}
    line |= {"_label_probability": row["prob"], "_label_Action": place + 1, "_labelIndex": place}
    if row["outcome"] is not None:
        note = {"v": row["outcome"], "EventId": row["id"], "ActionTaken": False}
        if row["received_at"] is not None:
            note["EnqueuedTimeUtc"] = format_time(row["received_at"])
        line["o"] = [note]
    if row["decided_at"] is not None:
        line["Timestamp"] = format_time(row["decided_at"])
    line |= {"Version": "1", "EventId": row["id"], "a": [rank + 1 for rank in ranked], "c": context, "p": probs}
    if row["weight"] is not None and row["weight"] > 1:
        line["pdrop"] = 1.0 - 1.0 / row["weight"]
    return line


def _written_context(given: Any, kind: str) -> dict[str, Any]:
    """Return features as a context of dsjson; raise InvalidInput if a name cannot be written."""
    if kind == DENSE:
        return {VECTOR: {str(place): given[place] for place in np.flatnonzero(given)}}
    if kind != NAMED:
        return {VECTOR: {str(place): value for place, value in zip(given["indices"], given["values"], strict=True)}}
    features = decode_features(given)
    own = {ACTIONS: features.pop(ACTIONS)} if ACTIONS in features else {}
    for name in features:
        if name[:1] == "_" and name != TEXT:
            raise InvalidInput(
                f"feature {name[:60]!r} cannot be written to dsjson, where no name begins with _", "rename it"
            )
    return _readable(context_features(features)) | own


def _readable(features: dict[str, Any]) -> dict[str, Any]:
    """Return features as Vowpal Wabbit can read them.

    It reads no lists of strings, and crashes at a namespace whose name does not begin in ASCII: its features get names
    such as `outer.inner`, as a `dt.Model` would have them.
    """
    found: dict[str, Any] = {}
    for name, value in features.items():
        inner = value
        if isinstance(value, dict):
            inner = _readable(value)
        elif isinstance(value, list):
            inner = dict(Counter(item for item in value if item is not None))
        if isinstance(inner, dict) and not name[:1].isascii():
            merge(found, _readable({f"{name}.{key}": own for key, own in inner.items()}).items())
        else:
            merge(found, [(name, inner)])
    return found
