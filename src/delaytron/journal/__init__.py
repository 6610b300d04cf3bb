"""The journal: facts of a model in an SQLite file, written once and never lost. It knows no learner."""

from delaytron.journal.clock import Clock, Moment
from delaytron.journal.feedback import Journal
from delaytron.journal.ids import check_id, new_id
from delaytron.journal.records import ANSWERED, CANCELLED, EXPIRED, OPEN, Arrival, AtRisk, Fact, Snapshot, Status
from delaytron.journal.store import FactStore

__all__ = [
    "ANSWERED",
    "CANCELLED",
    "EXPIRED",
    "OPEN",
    "Arrival",
    "AtRisk",
    "Clock",
    "Fact",
    "FactStore",
    "Journal",
    "Moment",
    "Snapshot",
    "Status",
    "check_id",
    "new_id",
]
