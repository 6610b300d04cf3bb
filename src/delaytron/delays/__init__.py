"""Delays of feedback: models, recorded traces, and their summaries."""

from delaytron.delays.models import (
    ByClass,
    ByOutcome,
    Delay,
    Fixed,
    Geometric,
    LogNormal,
    OfRows,
    Pareto,
    Uniform,
    WithMissing,
    as_delay,
    parse,
)
from delaytron.delays.traces import Trace, example
from delaytron.records import NEVER

__all__ = [
    "NEVER",
    "ByClass",
    "ByOutcome",
    "Delay",
    "Fixed",
    "Geometric",
    "LogNormal",
    "OfRows",
    "Pareto",
    "Trace",
    "Uniform",
    "WithMissing",
    "as_delay",
    "example",
    "parse",
]
