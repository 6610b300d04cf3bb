"""Logs of decisions and of what came of them: one schema, in and out of the formats of other tools."""

from delaytron.logs.arrays import from_arrays
from delaytron.logs.dsjson import Event, Observation, Unusable, read_records
from delaytron.logs.dsjson_log import read_dsjson
from delaytron.logs.dsjson_writer import write_dsjson
from delaytron.logs.features import context_features
from delaytron.logs.log import Log
from delaytron.logs.open_bandit import read_open_bandit
from delaytron.logs.open_bandit_writer import to_open_bandit, write_open_bandit
from delaytron.logs.parquet import read_parquet, write_parquet

__all__ = [
    "Event",
    "Log",
    "Observation",
    "Unusable",
    "context_features",
    "from_arrays",
    "read_dsjson",
    "read_open_bandit",
    "read_parquet",
    "read_records",
    "to_open_bandit",
    "write_dsjson",
    "write_open_bandit",
    "write_parquet",
]
