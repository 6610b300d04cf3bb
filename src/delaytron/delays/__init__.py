"""Delay models, recorded delays, and what they are like."""

from delaytron.delays.models import (
    ALLOWED,
    MODELS,
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
from delaytron.delays.opening import example
from delaytron.delays.traces import Trace
from delaytron.records import NEVER

__all__ = [
    "ALLOWED",
    "MODELS",
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
