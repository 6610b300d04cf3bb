"""Operations on a model, and the facts that a journal keeps of them.

An operation is the argument of `State.apply`; its fact is the operation together with its result. Replay applies the
operation of a fact again, and compares the results.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from delaytron.errors import JournalError
from delaytron.records import Array, Ints, Play, Row

KINDS = (
    "created",
    "decided",
    "recorded",
    "answered",
    "answered late",
    "expired",
    "released",
    "cancelled",
    "class added",
    "class retired",
)
CREATED, DECIDED, RECORDED, ANSWERED, ANSWERED_LATE, EXPIRED, RELEASED, CANCELLED, CLASS_ADDED, CLASS_RETIRED = range(
    10
)
DECISIONS = (DECIDED, RECORDED)
NOTHING_NOTED = np.empty(0)  # no extra numbers of a round

Changed: TypeAlias = tuple[str, ...]  # what happened to challengers in a round: names of `CHANGES`, mostly none


class Decide(NamedTuple):
    """Choose a label for a row, among the `allowed` ones (None: all that are not retired)."""

    id: str
    row: Row
    allowed: Ints | None = None


class Record(NamedTuple):
    """Record a decision that was made elsewhere, with its probability; its row counts as any other.

    `extra` are the numbers that the learner keeps of a round for its update; empty if they are not known.
    """

    id: str
    row: Row
    allowed: Ints | None
    label: int
    greedy: int
    prob: float
    extra: Array = NOTHING_NOTED


class Answer(NamedTuple):
    """The first answer to a decision that is open, or that expired as wrong and can still be corrected."""

    id: str
    value: float


class AnswerLate(NamedTuple):
    """The first answer to an expired decision that cannot be corrected (any more): nothing is learned from it."""

    id: str
    value: float


class Expire(NamedTuple):
    """End the wait for an open decision without an answer."""

    id: str


class Release(NamedTuple):
    """Forget the row of a decision that expired as wrong: it cannot be corrected any more."""

    id: str


class Cancel(NamedTuple):
    """End the wait for an open decision: nothing is learned from it."""

    id: str


class AddClass(NamedTuple):
    """Add a class, or make a retired one active again."""

    name: str | int


class RetireClass(NamedTuple):
    """Retire a class: it is not chosen any more."""

    name: str | int


Operation: TypeAlias = Decide | Record | Answer | AnswerLate | Expire | Release | Cancel | AddClass | RetireClass


class Decided(msgspec.Struct, array_like=True, frozen=True):
    """The body of a fact about a decision: the encoded row, the labels it was chosen from, and the result.

    `names` are new names of features with their indices, for explanations only. `changed` says what happened to
    challengers when the round was played (see `learners.learner.CHANGES`); None if that is not known yet, as on
    PostgreSQL before the learner has played it.
    """

    round: int
    indices: bytes | None
    values: bytes
    allowed: bytes | None
    greedy: int
    label: int
    prob: float
    extra: bytes
    names: tuple[tuple[int, str], ...]
    changed: Changed | None

    @property
    def row(self) -> Row:
        """The row, as learners take it."""
        indices = None if self.indices is None else np.frombuffer(self.indices, "<u4").astype(np.uint32)
        return Row(indices, np.frombuffer(self.values, "<f8").astype(np.float64))

    @property
    def allowed_labels(self) -> Ints | None:
        """The labels that could be chosen; None for all that were not retired."""
        return None if self.allowed is None else np.frombuffer(self.allowed, "<u4").astype(np.int64)


encode = msgspec.msgpack.Encoder().encode  # a number, a name, or a dict of such
decode = msgspec.msgpack.Decoder().decode
decode_decided = msgspec.msgpack.Decoder(Decided).decode


def encode_decided(
    play: Play, allowed: Ints | None, names: Iterable[tuple[int, str]] = (), changed: Changed | None = ()
) -> bytes:
    """Return the body of a fact about a decision."""
    indices = play.x.indices
    return encode(
        Decided(
            play.round,
            None if indices is None else indices.astype("<u4").tobytes(),
            play.x.values.astype("<f8").tobytes(),
            None if allowed is None else allowed.astype("<u4").tobytes(),
            play.greedy,
            play.label,
            play.prob,
            play.extra.astype("<f8").tobytes(),
            tuple(names),
            changed,
        )
    )


def kind_of(operation: Operation) -> int:
    """Return the kind of the fact of an operation."""
    return OPERATIONS.index(type(operation))


OPERATIONS: tuple[Any, ...] = (
    None,
    Decide,
    Record,
    Answer,
    AnswerLate,
    Expire,
    Release,
    Cancel,
    AddClass,
    RetireClass,
)


def body_of(
    operation: Operation, play: Play | None = None, names: Iterable[tuple[int, str]] = (), changed: Changed = ()
) -> bytes:
    """Return the body of the fact of an operation; a decision needs the round that was played, and what it changed."""
    if isinstance(operation, Decide | Record):
        if play is None:
            raise TypeError("a fact about a decision needs its round")
        return encode_decided(play, operation.allowed, names, changed)
    if isinstance(operation, Answer | AnswerLate):
        return encode(operation.value)
    return encode(operation.name) if isinstance(operation, AddClass | RetireClass) else b""


def operation_of(seq: int, kind: int, id: str | None, body: bytes) -> Operation:
    """Return the operation of a fact; raise JournalError if its kind is unknown, or it names no decision."""
    if not CREATED < kind < len(KINDS):
        raise JournalError(f"fact {seq} is of the unknown kind {kind}", "update delaytron, a newer version wrote it")
    if kind in (CLASS_ADDED, CLASS_RETIRED):
        return AddClass(decode(body)) if kind == CLASS_ADDED else RetireClass(decode(body))
    if id is None:
        raise JournalError(f"fact {seq} is damaged: it names no decision", "restore the journal from a backup")
    if kind in DECISIONS:
        stored = decode_decided(body)
        if kind == DECIDED:
            return Decide(id, stored.row, stored.allowed_labels)
        extra = np.frombuffer(stored.extra, "<f8").astype(np.float64)
        return Record(id, stored.row, stored.allowed_labels, stored.label, stored.greedy, stored.prob, extra)
    if kind in (ANSWERED, ANSWERED_LATE):
        return Answer(id, decode(body)) if kind == ANSWERED else AnswerLate(id, decode(body))
    operation: Operation = OPERATIONS[kind](id)
    return operation
