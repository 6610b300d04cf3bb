"""Logs of Azure Personalizer and Vowpal Wabbit in dsjson: a JSON object on each line, read in bounded memory.

A line with a context (`c`) is an event: what was known, which actions could be taken (`c._multi`), which one was, with
which probability, and often its outcome. A line with an `EventId` and no context is an observation: an outcome that
came too late to stand with its event, or that an action which had been deferred was taken after all.
"""

from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from delaytron.errors import InvalidInput
from delaytron.logs import dsjson_fields as fields
from delaytron.logs.dsjson_fields import LogLine, UnusableError
from delaytron.logs.lines import LONGEST, read_lines

MULTI = "_multi"
SEVERAL = ("conditional contextual bandits or slates, in which an event has several slots", "one action")
CONTINUOUS = ("continuous actions", "actions from a list")
PARSED = 64  # lists of actions that are kept parsed, since most events of a log have the same ones
SMALL = 2**16  # bytes of one that is kept

Actions = tuple[dict[str, Any], ...]


class Event(NamedTuple):
    """A decision of a log.

    `label` is the place of the action that was taken among `actions`, from 0, and `prob` its probability. `probs` are
    those of all actions in this order, where the log has them. `reward` is minus the cost of the label, None where
    there is none; it was `observed`, or is what the service took for events without an outcome. An event that was
    `deferred` counts only if an observation says that its action was taken; one to be `skipped` never does. It stands
    for `weight` events of which all but one were dropped. Where it is `apprenticed`, the reward is not that of the
    outcome, but whether the service chose as the caller would have. It `has_id`, or is named by its line. `time` and
    `heard` are when it was decided and when the outcome came, as the log says it.
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
    multi: bytes  # the actions as they stand in the line: the same bytes are the same actions
    time: Any = None
    heard: Any = None


class Observation(NamedTuple):
    """What a line says of an event of another line: its reward, if it has one, or that its action was taken."""

    line: int
    id: str
    reward: float | None
    activates: bool
    heard: Any = None


class Unusable(NamedTuple):
    """A line that cannot be used: why in one word, and in several. A line about `other` things is nobody's fault."""

    line: int
    reason: str
    detail: str


Record = Event | Observation | Unusable


def read_records(path: str | Path, longest: int = LONGEST) -> Iterator[Record]:
    r"""Iterate over what the lines of a dsjson log say, plain or compressed (.gz, .bz2, .xz); blank lines say nothing.

    A line that cannot be used is `Unusable`; a log of another kind, in which an event has several actions or a
    continuous one, is refused.

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
    Observation(line=2, id='e0', reward=0.5, activates=False, heard=None)
    """
    path = Path(path)
    for number, line in read_lines(path, longest):
        if line is None:
            yield Unusable(number, "too_long", f"it has more than {longest:,} bytes")
        elif line:
            try:
                yield _record(path, number, line)
            except UnusableError as problem:
                yield Unusable(number, *problem.args)


def _record(path: Path, number: int, line: bytes) -> Record:
    if not line.startswith(b"{"):  # such as the lines about checkpoints that Vowpal Wabbit passes over, too
        raise UnusableError("other", "it is no JSON object")
    found = fields.parse(line)
    if found.c is None:
        return _observation(number, found)
    _raise_if_of_another_kind(f"{path}, line {number}", found, found.c)
    named = found.event_id or f"{_plain_name(path)}:{number}:{sha256(line).hexdigest()[:16]}"
    return _event(number, named, found, found.c)


def _raise_if_of_another_kind(place: str, found: LogLine, context: dict[str, Raw]) -> None:
    several = found.outcomes is not None or "_slots" in context
    if several or found.continuous is not None:
        kind, wanted = SEVERAL if several else CONTINUOUS
        raise InvalidInput(f"{place}: it is of {kind}; a model can begin with a log of {wanted} for each event only")


def _plain_name(path: Path) -> str:
    """Return the name of a file as part of an id."""
    return path.name.encode("ascii", "replace").decode()[-100:]


def _event(number: int, named: str, found: LogLine, raw: dict[str, Raw]) -> Event:
    multi = bytes(raw.get(MULTI, b""))
    actions = _kept_actions(multi) if len(multi) <= SMALL else _actions(multi)
    ranking = fields.ranking(found, len(actions))
    label = fields.label(found, ranking, len(actions))
    cost = found.cost if found.cost is not None else found.other_cost
    outcomes, taken = fields.heard(found.o or [])
    reward = fields.first_number(outcomes) if cost is None else 0.0 - cost
    return Event(
        number,
        named,
        bool(found.event_id),
        _context(raw),
        actions,
        label,
        fields.probability(found, ranking, label),
        fields.probabilities(found, ranking, len(actions)),
        reward,
        bool(outcomes) and reward is not None,
        bool(found.deferred) and not taken,
        bool(found.skip_learn),
        fields.weight(found),
        cost is not None and found.original_cost not in (None, cost),
        multi,
        found.time,
        fields.time_heard(found.o or []),
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
    """Return what all actions share; names that begin with `_` are no features, but for `_text`."""
    try:
        return {name: _decode(part) for name, part in raw.items() if name[:1] != "_" or name == "_text"}
    except (ValueError, RecursionError) as problem:
        raise UnusableError("damaged", f"it is not valid JSON: {problem}") from None


def _observation(number: int, found: LogLine) -> Observation:
    if not found.event_id:
        raise UnusableError("other", "it has no context and no EventId")
    outcomes, taken = fields.heard(found.observations or [])
    told = [value for value in (found.reward_value, found.v) if value is not None]
    reward = fields.first_number(told or outcomes)
    return Observation(number, found.event_id, reward, taken or found.action_taken is True, found.enqueued)
