"""The learners and their registry `LEARNERS`, which tests, docs, comparisons and files read."""

from delaytron.learners.bandit_logit import BanditLogit
from delaytron.learners.bold import Bold
from delaytron.learners.delaytron import AdaptiveDelaytron, Banditron, Delaytron, HingeDelaytron
from delaytron.learners.gated_logit import GatedLogit
from delaytron.learners.learner import Learner
from delaytron.learners.linear_bandits import LinTs, LinUcb
from delaytron.learners.logistic import Exp3, Gap, OvaLogistic
from delaytron.learners.logistic_ts import LogisticTs
from delaytron.learners.noisy import Dilute, Rcnbf
from delaytron.learners.passive_aggressive import ExactPa, Pab, PassiveAggressive, Perceptron
from delaytron.learners.second_order import Confidit, Newtron, Soba

DEFAULT_LEARNER = "bandit_logit"
LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner
    for learner in (
        BanditLogit,
        GatedLogit,
        Banditron,
        Delaytron,
        AdaptiveDelaytron,
        HingeDelaytron,
        Soba,
        Newtron,
        Confidit,
        Pab,
        ExactPa,
        OvaLogistic,
        Gap,
        Rcnbf,
        Dilute,
        Exp3,
        LinUcb,
        LinTs,
        LogisticTs,
        Perceptron,
        PassiveAggressive,
    )
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
    "GatedLogit",
    "HingeDelaytron",
    "Learner",
    "LinTs",
    "LinUcb",
    "LogisticTs",
    "Newtron",
    "OvaLogistic",
    "Pab",
    "PassiveAggressive",
    "Perceptron",
    "Rcnbf",
    "Soba",
]
