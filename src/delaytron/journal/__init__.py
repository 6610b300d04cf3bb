"""The journal: the facts of a model in a Store, written by one Writer. It knows no learner."""

from delaytron.journal.outside import Journal

__all__ = ["Journal"]
