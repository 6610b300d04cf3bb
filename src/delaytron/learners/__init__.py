"""The learners, and their registry."""

from delaytron.learners.adaptive_delaytron import AdaptiveDelaytron
from delaytron.learners.banditron import Banditron
from delaytron.learners.base import Learner
from delaytron.learners.delaytron import Delaytron
from delaytron.learners.perceptron import Perceptron

LEARNERS: dict[str, type[Learner]] = {
    "banditron": Banditron,
    "delaytron": Delaytron,
    "adaptive_delaytron": AdaptiveDelaytron,
    "perceptron": Perceptron,
}

__all__ = ["LEARNERS", "AdaptiveDelaytron", "Banditron", "Delaytron", "Learner", "Perceptron"]
