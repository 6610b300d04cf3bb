"""What passes between a journal and those who use it."""

from typing import NamedTuple

from delaytron.journal.clock import Moment

OPEN, ANSWERED, EXPIRED, CANCELLED = 0, 1, 2, 3  # what became of a decision; stored


class Fact(NamedTuple):
    """Something that happened, in the one order in which the state of a model is made."""

    seq: int
    kind: int
    id: str | None
    now: Moment
    body: bytes


class Status(NamedTuple):
    """What is known of an id: `value` is its answer, `label` the index of the class that was played.

    Of a purged decision nothing else is left: its facts are gone, and what became of it stays. `seq` is the number of
    the fact that tells of the decision; None where nothing is on disk.
    """

    status: int
    value: float | None
    label: int | None
    purged: bool
    seq: int | None = None


class Arrival(NamedTuple):
    """An answer that another process gave; it `revises` a decision that had expired before."""

    id: str
    value: float
    now: Moment
    revises: bool


class Snapshot(NamedTuple):
    """The state of a model after the fact `seq`."""

    seq: int
    body: bytes


class AtRisk(NamedTuple):
    """What a loss of power or a crash may cost of the acknowledged: so many facts, of so many seconds, at most."""

    seconds: float
    facts: int
