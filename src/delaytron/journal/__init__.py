"""The journal: facts of a model in an SQLite file, written once and never lost. It knows no learner."""

from delaytron.journal.clock import Clock, Moment
from delaytron.journal.ids import check_id, new_id

__all__ = ["Clock", "Moment", "check_id", "new_id"]
