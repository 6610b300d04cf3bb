"""Delays of feedback: models, recorded traces, and their summaries."""

from delaytron.delays.models import (
    Delay,
    Fixed,
    Geometric,
    LogNormal,
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
    "Delay",
    "Fixed",
    "Geometric",
    "LogNormal",
    "Pareto",
    "Trace",
    "Uniform",
    "WithMissing",
    "as_delay",
    "example",
    "parse",
]
