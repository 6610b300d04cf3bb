"""Every learner in each setting that selects another rule, untrained or trained, and comparisons to the bit."""

import json
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import delaytron as dt
from paper_learners import TRANSCRIPTIONS
from streams import known_rounds

K, D = 5, 4
RNG = np.random.default_rng(8)
ROWS = RNG.normal(size=(60, D))
TRUE = RNG.integers(0, K, 60)
FORMS = {
    "bandit_logit": {},
    "bandit_logit floor": {"explore_floor": 0.02},
    "bandit_logit replay": {"replay": 2},
    "banditron": {"gamma": 0.3},
    "delaytron": {"gamma": 0.3, "eta": 0.7},
    "adaptive_delaytron": {"gamma": 0.3},
    "hinge_delaytron": {"gamma": 0.3},
    "soba": {"gamma": 0.3},
    "soba full": {"gamma": 0.3, "matrix": "full"},
    "newtron": {"gamma": 0.3, "alpha": 1.0, "diameter": 0.05},
    "newtron argmax": {"gamma": 0.3, "alpha": 1.0, "diameter": 0.05, "play": "argmax"},
    "newtron full": {"gamma": 0.3, "alpha": 1.0, "diameter": 0.05, "matrix": "full"},
    "confidit": {"alpha": 0.5},
    "confidit diagonal": {"alpha": 0.5, "matrix": "diagonal"},
    "pab": {"gamma": 0.3},
    "exact_pa": {"gamma": 0.3},
    "ova_logistic": {"gamma": 0.3},
    "ova_logistic squarecb": {"explore": "squarecb"},
    "gap": {"gamma": 0.3},
    "rcnbf": {"gamma": 0.3, "rho0": 0.1, "rho1": 0.2},
    "rcnbf estimate": {"gamma": 0.3, "estimate": True, "block": 10},
    "dilute": {"gamma": 0.3, "m": 2},
    "dilute set": {"gamma": 0.3, "m": 2, "estimator": "set"},
    "exp3": {},
    "exp3 eta": {"eta": 0.1},
    "perceptron": {},
    "passive_aggressive": {"C": 0.1, "variant": "I"},
    "standardized": {"gamma": 0.3, "standardize": True},
}
FORMS = {name: TRANSCRIPTIONS[name].settings[0] for name in dt.LEARNERS} | FORMS  # learners that it does not list
CLASSES = {"standardized": "delaytron"}
PLAYS_SETS = ("dilute", "dilute set")


def forms(names=FORMS):
    """Return test parameters; the tests of one form run in one process, which then compiles it once."""
    return [pytest.param(name, id=name.replace(" ", "-"), marks=pytest.mark.xdist_group(name)) for name in names]


def fresh(form, **more):
    """Return an untrained learner."""
    name = CLASSES.get(form, form.split()[0])
    settings = {"n_classes": K, "n_features": D, "seed": 3} | FORMS[form] | more
    return dt.LEARNERS[name](**settings)


def row(t, sparse=False):
    """Return an example, with a zero where it is sparse."""
    x = np.where(np.arange(D) == t % D, 0.0, ROWS[t]) if sparse else ROWS[t]
    return csr_matrix(x) if sparse else x


def answer_to(learner, decision, y):
    """Return the arguments of `feedback` if `y` is true."""
    if learner.feedback_type == "label":
        return {"label": int(y)}
    return {"correct": int(y) in getattr(decision, "labels", (decision.label,))}


def taught(form, rounds=40, sparse=False, **more):
    """Return a learner that has learned from most of its decisions; the last two are open."""
    return teach(fresh(form, **more), rounds, sparse)


def teach(learner, rounds=40, sparse=False):
    """Play rounds, with every answer two rounds late."""
    decisions = []
    for t in range(rounds):
        if t >= 2:
            learner.feedback(decisions[t - 2].id, **answer_to(learner, decisions[t - 2], TRUE[t - 2]))
        decisions.append(learner.decide(row(t, sparse)))
    return learner


class Fixed:
    """Draws that are all the same number."""

    def __init__(self, u):
        self.u = u

    def random(self):
        return self.u


def decide_by(learner, x, u, allowed=None):
    """Return what the learner would decide if this number were drawn."""
    twin = deepcopy(learner)
    twin._draws = Fixed(u)
    return twin.decide(x, allowed)


class Choice(NamedTuple):
    """What is drawn in one round: the probability of every label that can be, and the greedy label."""

    probs: dict
    greedy: int


def choice_of(learner, x, allowed=None):
    """Go through all draws from 0 to 1, and check that every label is drawn as often as its probability says.

    The draws that give a label are one interval, which begins where that of the label before it ends: labels are
    drawn by the inverse of the cumulative distribution, in the order of the classes.
    """
    probs, end = {}, 0.0
    while end < 1.0 - 1e-12:
        decision = decide_by(learner, x, end, allowed)
        assert all(label < decision.label for label in probs)
        probs[decision.label] = decision.prob
        end += decision.prob
        last = decide_by(learner, x, min(np.nextafter(end, 0.0), np.nextafter(1.0, 0.0)), allowed)
        assert (last.label, last.prob) == (decision.label, decision.prob)
    assert end == pytest.approx(1.0, abs=1e-12)
    return Choice(probs, decision.greedy)


def state_bits(learner):
    """Return the state, to compare to the bit."""
    return [np.asarray(field).tobytes() for field in learner.state]


def everything(learner):
    """Return all that a learner is, to compare to the bit."""
    book = learner.book
    plays = [
        (*p._replace(x=None, extra=p.extra.tobytes()), p.x.values.tobytes(), str(p.x.indices))
        for p in map(book.play, sorted(book.kept))
    ]
    ended = [(number, *end[:3]) for number, end in sorted(book.ended.items())]  # the serials of a file are new
    state = [field.tobytes() for field in learner.state]
    draws = json.dumps(learner._draws.bit_generator.state)
    return state, plays, ended, known_rounds(learner), book.to_apply(), book.pending, draws, learner.sparse
