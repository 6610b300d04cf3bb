"""Logs of decisions and their outcomes: one schema, and conversions from and to formats of other tools."""

from delaytron.logs.dsjson import context_features, write_dsjson
from delaytron.logs.events import read_dsjson
from delaytron.logs.log import Log, from_arrays, read_parquet, write_parquet
from delaytron.logs.open_bandit import read_open_bandit, to_open_bandit

__all__ = [
    "Log",
    "context_features",
    "from_arrays",
    "read_dsjson",
    "read_open_bandit",
    "read_parquet",
    "to_open_bandit",
    "write_dsjson",
    "write_parquet",
]
