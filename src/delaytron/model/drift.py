"""Challengers of a model: how `stats` counts them, and the line in the log when one is born, wins or is dropped."""

from datetime import UTC, datetime
from logging import getLogger
from typing import NamedTuple

from delaytron.model.facts import Changed
from delaytron.model.state import State

NS = 1e9
SAID = {
    "born": "a challenger was born in round %d: rewards fell; it learns beside the model from the answers since",
    "won": "the challenger won in round %d: it forecasts rewards better and plays; the model before it challenges now",
    "dropped": "the challenger was dropped in round %d: the model forecasts rewards better; nothing was forgotten",
}

log = getLogger("delaytron.model")


class Drift(NamedTuple):
    """Challengers, with which a learner finds out whether the world has changed; see docs/howto/monitor.md.

    Attributes
    ----------
    challenger : bool
        Whether one learns beside the model now.
    born, won, dropped : int
        How many began since the beginning, because rewards fell; took over; and were given up.
    changed_at : datetime or None
        When one of these happened last.
    """

    challenger: bool
    born: int
    won: int
    dropped: int
    changed_at: datetime | None


def drift_of(state: State) -> Drift | None:
    """Return the counts of challengers; None if the learner has none, or drift is switched off."""
    counts = state.learner.count_changes()
    if not counts:
        return None
    tally = state.tally
    born, won, dropped = tally.changes or (0, 0, 0)
    at = None if tally.changed_at is None else datetime.fromtimestamp(tally.changed_at / NS, UTC)
    return Drift(bool(state.learner.changes["challenger"]), born, won, dropped, at)


def log_changes(model: str, number: int, changed: Changed) -> None:
    """Log what happened to challengers in a round, a line each; not for replayed rounds."""
    for what in changed:
        log.warning(f"%s: {SAID[what]}", model, number)
