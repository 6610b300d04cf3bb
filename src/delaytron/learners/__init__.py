"""The learners, and their registry."""

from delaytron.learners.adaptive_delaytron import AdaptiveDelaytron
from delaytron.learners.bandit_logit import BanditLogit
from delaytron.learners.banditron import Banditron
from delaytron.learners.base import Learner
from delaytron.learners.bold import Bold
from delaytron.learners.confidit import Confidit
from delaytron.learners.delaytron import Delaytron
from delaytron.learners.dilute import Dilute
from delaytron.learners.exact_pa import ExactPa
from delaytron.learners.exp3 import Exp3
from delaytron.learners.gap import Gap
from delaytron.learners.hinge_delaytron import HingeDelaytron
from delaytron.learners.newtron import Newtron
from delaytron.learners.ova_logistic import OvaLogistic
from delaytron.learners.pab import Pab
from delaytron.learners.passive_aggressive import PassiveAggressive
from delaytron.learners.perceptron import Perceptron
from delaytron.learners.rcnbf import Rcnbf
from delaytron.learners.soba import Soba

DEFAULT_LEARNER = "bandit_logit"
LEARNERS: dict[str, type[Learner]] = {
    "bandit_logit": BanditLogit,
    "banditron": Banditron,
    "delaytron": Delaytron,
    "adaptive_delaytron": AdaptiveDelaytron,
    "hinge_delaytron": HingeDelaytron,
    "soba": Soba,
    "newtron": Newtron,
    "confidit": Confidit,
    "pab": Pab,
    "exact_pa": ExactPa,
    "ova_logistic": OvaLogistic,
    "gap": Gap,
    "rcnbf": Rcnbf,
    "dilute": Dilute,
    "exp3": Exp3,
    "perceptron": Perceptron,
    "passive_aggressive": PassiveAggressive,
}

__all__ = [
    "DEFAULT_LEARNER",
    "LEARNERS",
    "AdaptiveDelaytron",
    "BanditLogit",
    "Banditron",
    "Bold",
    "Confidit",
    "Delaytron",
    "Dilute",
    "ExactPa",
    "Exp3",
    "Gap",
    "HingeDelaytron",
    "Learner",
    "Newtron",
    "OvaLogistic",
    "Pab",
    "PassiveAggressive",
    "Perceptron",
    "Rcnbf",
    "Soba",
]
