"""Logs of decisions and of what came of them, as other tools write them."""

from delaytron.logs.dsjson import Event, Observation, Unusable, read_records
from delaytron.logs.features import context_features

__all__ = ["Event", "Observation", "Unusable", "context_features", "read_records"]
