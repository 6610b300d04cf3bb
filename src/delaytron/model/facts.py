"""The facts of a journal: their kinds, and how they stand on disk."""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from delaytron.records import Ints, Play, Row

CREATED, DECIDED, ANSWERED, EXPIRED, CANCELLED, CLASS_ADDED, CLASS_RETIRED = range(7)
ADOPTED, ISSUED, REDEEMED, RECORDED = range(7, 11)  # decided elsewhere; a token; its answer; an answer after expiry
ISSUED_ELSEWHERE = 11  # a token of another machine
KINDS = (
    "created",
    "decided",
    "answered",
    "expired",
    "cancelled",
    "class added",
    "class retired",
    "adopted",
    "token issued",
    "token redeemed",
    "recorded late",
    "token issued elsewhere",
)
KEPT_DECISIONS = (DECIDED, ADOPTED)
DECISIONS = (*KEPT_DECISIONS, ISSUED)


class Decided(msgspec.Struct, array_like=True, frozen=True):
    """A decision: the row as it was encoded, among which labels it was made, and what came out.

    `names` are those of features that the encoder had not told before, with their indices: for explanations only.
    """

    round: int
    indices: bytes | None
    values: bytes
    allowed: bytes | None
    greedy: int
    label: int
    prob: float
    extra: bytes
    names: tuple[tuple[int, str], ...] = ()

    @property
    def row(self) -> Row:
        """The row."""
        indices = None if self.indices is None else np.frombuffer(self.indices, "<u4").astype(np.uint32)
        return Row(indices, np.frombuffer(self.values, "<f8").astype(np.float64))

    @property
    def play(self) -> Play:
        """The round, as the update needs it."""
        extra = np.frombuffer(self.extra, "<f8").astype(np.float64)
        return Play(self.round, self.row, self.greedy, self.label, self.prob, extra)

    def labels(self, every: Ints) -> Ints:
        """Return the labels among which it was made, given those of all classes that could be chosen then."""
        return every if self.allowed is None else np.frombuffer(self.allowed, "<u4").astype(np.int64)


class Redeemed(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a decision that a token told: its value, the decision, and when that was made."""

    value: float
    decided: Decided
    wall: int
    clock: int


_encode = msgspec.msgpack.Encoder().encode
_decode_decided = msgspec.msgpack.Decoder(Decided).decode
_decode_redeemed = msgspec.msgpack.Decoder(Redeemed).decode
_decode = msgspec.msgpack.Decoder().decode


def encode_decided(play: Play, allowed: Ints | None, names: Iterable[tuple[int, str]] = ()) -> bytes:
    """Return a decision as bytes; `allowed` is None if all classes could be chosen."""
    return _encode(decided(play, allowed, names))


def decided(play: Play, allowed: Ints | None, names: Iterable[tuple[int, str]] = ()) -> Decided:
    """Return a decision as a fact tells it."""
    indices = play.x.indices
    return Decided(
        play.round,
        None if indices is None else indices.astype("<u4").tobytes(),
        play.x.values.astype("<f8").tobytes(),
        None if allowed is None else allowed.astype("<u4").tobytes(),
        play.greedy,
        play.label,
        play.prob,
        play.extra.astype("<f8").tobytes(),
        tuple(names),
    )


def decode_decided(body: bytes) -> Decided:
    """Return the decision that a fact tells."""
    return _decode_decided(body)


def decode_redeemed(body: bytes) -> Redeemed:
    """Return the answer to a token that a fact tells."""
    return _decode_redeemed(body)


def encode(value: Any) -> bytes:
    """Return a plain value (a number, a name, a dict of such) as bytes."""
    return _encode(value)


def decode(body: bytes) -> Any:
    """Return the value that a fact tells."""
    return _decode(body)
