"""Learn to choose among K labels when the only answer is "right" or "wrong", late, out of order, or never."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from delaytron import datasets, delays, theory
from delaytron._version import __version__
from delaytron.errors import ConflictingFeedback, DelaytronError, InvalidInput, JournalError, UnknownDecision
from delaytron.learners import (
    DEFAULT_LEARNER,
    LEARNERS,
    AdaptiveDelaytron,
    BanditLogit,
    Banditron,
    Bold,
    Confidit,
    Delaytron,
    Dilute,
    ExactPa,
    Exp3,
    Gap,
    HingeDelaytron,
    Learner,
    Newtron,
    OvaLogistic,
    Pab,
    PassiveAggressive,
    Perceptron,
    Rcnbf,
    Soba,
)
from delaytron.records import Decision, Run
from delaytron.simulation.replay import replay
from delaytron.simulation.results import Result
from delaytron.simulation.simulate import simulate

if TYPE_CHECKING:
    from delaytron import logs
    from delaytron.client import AsyncClient, Client
    from delaytron.evaluation.evaluate import evaluate
    from delaytron.journal import Journal
    from delaytron.model.files import load
    from delaytron.model.model import Model

LATER = {  # what is imported when it is first used: a simulation needs no database
    "AsyncClient": "delaytron.client",
    "Client": "delaytron.client",
    "Journal": "delaytron.journal",
    "Model": "delaytron.model.model",
    "evaluate": "delaytron.evaluation.evaluate",
    "load": "delaytron.model.files",
}
PACKAGES = ("logs",)  # the same

__all__ = [
    "DEFAULT_LEARNER",
    "LEARNERS",
    "AdaptiveDelaytron",
    "AsyncClient",
    "BanditLogit",
    "Banditron",
    "Bold",
    "Client",
    "Confidit",
    "ConflictingFeedback",
    "Decision",
    "Delaytron",
    "DelaytronError",
    "Dilute",
    "ExactPa",
    "Exp3",
    "Gap",
    "HingeDelaytron",
    "InvalidInput",
    "Journal",
    "JournalError",
    "Learner",
    "Model",
    "Newtron",
    "OvaLogistic",
    "Pab",
    "PassiveAggressive",
    "Perceptron",
    "Rcnbf",
    "Result",
    "Run",
    "Soba",
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


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return import_module(f"delaytron.{name}")
    if name not in LATER:
        raise AttributeError(f"module 'delaytron' has no attribute {name!r}")
    globals()[name] = getattr(import_module(LATER[name]), name)
    return globals()[name]
