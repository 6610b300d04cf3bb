"""What is asked of the tables, and the rows that come back as records."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from delaytron.journal.clock import Moment
from delaytron.journal.records import Arrival, Fact, Status

STATUS = "SELECT status, value, label, purged, seq FROM ids WHERE id = ?"
ALL_IDS = "SELECT id, status, value, label, purged, seq FROM ids"
LAST_SEQ = "SELECT max(ifnull((SELECT max(seq) FROM facts), 0), ifnull((SELECT max(seq) FROM snapshots), 0))"
LAST_MOMENT = "SELECT wall, clock FROM facts ORDER BY seq DESC LIMIT 1"
ARRIVALS = "SELECT id, value, wall, clock, revises, place FROM inbox ORDER BY place"
FACTS_AFTER = "SELECT seq, kind, id, wall, clock, body FROM facts WHERE seq > ? ORDER BY seq LIMIT ?"
FACT = "SELECT seq, kind, id, wall, clock, body FROM facts WHERE seq = ?"
NEWEST_SNAPSHOT = "SELECT seq, body FROM snapshots ORDER BY seq DESC LIMIT 1"
DROP_OLD_SNAPSHOTS = "DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)"
SETTLE = "UPDATE ids SET status = ?, value = ? WHERE id = ? AND status IN (?, ?)"
PAGE = 1000  # facts that are read at once
PUT_FACT = "INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?)"
PUT_ID = "INSERT INTO ids VALUES (?, ?, NULL, ?, 0, ?)"
PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


def as_fact(row: tuple[Any, ...]) -> Fact:
    """Return a row as a fact."""
    seq, kind, name, wall, clock, body = row
    return Fact(seq, kind, name, Moment(wall, clock), body)


def facts_after(rows: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]], after: int) -> Iterator[Fact]:
    """Iterate over the facts after a number, in order; `rows` asks the tables."""
    while found := rows(FACTS_AFTER, (after, PAGE)):
        yield from map(as_fact, found)
        after = found[-1][0]


def as_status(row: tuple[Any, ...]) -> Status:
    """Return a row as what is known of an id."""
    status, value, label, purged, seq = row
    return Status(status, value, label, bool(purged), seq)


def as_arrival(row: tuple[Any, ...]) -> Arrival:
    """Return a row as an answer of another process."""
    name, value, wall, clock, revises, _ = row
    return Arrival(name, value, Moment(wall, clock), bool(revises))
