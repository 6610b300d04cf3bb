"""Learn to choose among K labels when the only answer is "right" or "wrong", late, out of order, or never."""

from delaytron import datasets, delays, theory
from delaytron._version import __version__
from delaytron.errors import ConflictingFeedback, DelaytronError, InvalidInput, JournalError, UnknownDecision
from delaytron.journal import Journal
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
from delaytron.model.files import load
from delaytron.model.model import Model
from delaytron.records import Decision, Run
from delaytron.simulation.replay import replay
from delaytron.simulation.results import Result
from delaytron.simulation.simulate import simulate

__all__ = [
    "DEFAULT_LEARNER",
    "LEARNERS",
    "AdaptiveDelaytron",
    "BanditLogit",
    "Banditron",
    "Bold",
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
    "load",
    "replay",
    "simulate",
    "theory",
]
