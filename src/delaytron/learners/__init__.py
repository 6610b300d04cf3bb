"""The learners, and their registry."""

from delaytron.learners.adaptive_delaytron import AdaptiveDelaytron
from delaytron.learners.banditron import Banditron
from delaytron.learners.base import Learner
from delaytron.learners.delaytron import Delaytron
from delaytron.learners.exact_pa import ExactPa
from delaytron.learners.gap import Gap
from delaytron.learners.hinge_delaytron import HingeDelaytron
from delaytron.learners.ova_logistic import OvaLogistic
from delaytron.learners.pab import Pab
from delaytron.learners.passive_aggressive import PassiveAggressive
from delaytron.learners.perceptron import Perceptron

LEARNERS: dict[str, type[Learner]] = {
    "banditron": Banditron,
    "delaytron": Delaytron,
    "adaptive_delaytron": AdaptiveDelaytron,
    "hinge_delaytron": HingeDelaytron,
    "pab": Pab,
    "exact_pa": ExactPa,
    "ova_logistic": OvaLogistic,
    "gap": Gap,
    "perceptron": Perceptron,
    "passive_aggressive": PassiveAggressive,
}
