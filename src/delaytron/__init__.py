"""Learn to choose among K labels from delayed bandit feedback: "right" or "wrong", late, out of order, or never."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from delaytron import datasets, delays, learners, theory
from delaytron._version import __version__
from delaytron.errors import (
    ConflictingDecision,
    ConflictingFeedback,
    DelaytronError,
    InvalidInput,
    JournalError,
    UnknownDecision,
)
from delaytron.learners import *  # noqa: F403 - all of its `__all__`, so that the registry is the only list of learners
from delaytron.records import Decision, Run
from delaytron.simulation.replay import replay
from delaytron.simulation.results import Result
from delaytron.simulation.simulate import simulate

if TYPE_CHECKING:
    from delaytron import logs
    from delaytron.client import AsyncClient, Client
    from delaytron.evaluation.evaluate import evaluate
    from delaytron.journal import Journal
    from delaytron.model.model import Model, load

LATER = {  # imported on first access: a simulation needs no database
    "AsyncClient": "delaytron.client",
    "Client": "delaytron.client",
    "Journal": "delaytron.journal",
    "Model": "delaytron.model.model",
    "evaluate": "delaytron.evaluation.evaluate",
    "load": "delaytron.model.model",
}
PACKAGES = ("logs",)  # imported on first access, too

__all__ = [
    "AsyncClient",
    "Client",
    "ConflictingDecision",
    "ConflictingFeedback",
    "Decision",
    "DelaytronError",
    "InvalidInput",
    "Journal",
    "JournalError",
    "Model",
    "Result",
    "Run",
    "UnknownDecision",
    "__version__",
    "datasets",
    "delays",
    "evaluate",
    "load",
    "logs",
    "replay",
    "simulate",
    "theory",
]
__all__ += learners.__all__


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return import_module(f"delaytron.{name}")
    if name not in LATER:
        raise AttributeError(f"module 'delaytron' has no attribute {name!r}")
    globals()[name] = getattr(import_module(LATER[name]), name)
    return globals()[name]
