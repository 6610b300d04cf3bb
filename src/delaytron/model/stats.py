"""What a model tells about itself: counts, and the decisions that wait."""

from datetime import UTC, datetime
from typing import NamedTuple

from delaytron.journal.clock import Moment
from delaytron.model.classes import Name
from delaytron.model.core import Core
from delaytron.model.keeper import Keeper
from delaytron.model.tally import ClassStats

NS = 1e9


class OpenDecision(NamedTuple):
    """A decision that waits for an answer."""

    id: str
    round: int
    label: Name
    decided_at: datetime
    seconds: float


class Stats(NamedTuple):
    """Counts since the beginning.

    `mean_reward` is over the answers so far; `waits` counts answers by how many seconds they took at most, a power of
    two; `oldest` is for how many seconds the oldest open decision has waited.
    """

    decisions: int
    open: int
    answered: int
    mean_reward: float | None
    expired: int
    cancelled: int
    late: int
    oldest: float | None
    waits: dict[float, int]
    classes: dict[Name, ClassStats]


def open_decisions(keeper: Keeper) -> list[OpenDecision]:
    """Return the decisions that wait for an answer, the oldest first."""
    now = keeper.store.now()

    def listed(core: Core) -> list[OpenDecision]:
        names = core.classes.names
        return [
            OpenDecision(
                issued,
                waiting.round,
                names[waiting.label],
                datetime.fromtimestamp(waiting.now.wall / NS, UTC),
                max(0, now.clock - waiting.now.clock) / NS,
            )
            for issued, waiting in core.open.items()
        ]

    return keeper.read(listed)


def stats_of(keeper: Keeper) -> Stats:
    """Return counts of decisions and answers."""
    now = keeper.store.now()
    return keeper.read(lambda core: counted(core, now))


def counted(core: Core, now: Moment) -> Stats:
    """Return what a model has counted by a moment."""
    tally = core.tally
    answered = sum(tally.answered)
    first = next(iter(core.open.values()), None)
    return Stats(
        core.rounds,
        len(core.open),
        answered,
        sum(tally.reward) / answered if answered else None,
        tally.expired,
        tally.cancelled,
        tally.late,
        None if first is None else max(0, now.clock - first.now.clock) / NS,
        {2**n / NS: count for n, count in enumerate(tally.waits) if count},
        {name: tally.of_class(label) for label, name in enumerate(core.classes.names)},
    )
