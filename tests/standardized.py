"""What the tests of standardised rows share: learners with settings, columns of very different scales."""

import numpy as np
import pytest

import delaytron as dt
from streams import make

SETTINGS = [  # one of each kind: what is noted, a clock, sets, matrices, feedback by the true label
    ("banditron", {"gamma": 0.3}),
    ("ova_logistic", {"gamma": 0.3}),
    ("soba", {"gamma": 0.3}),
    ("exp3", {}),
    ("dilute", {"gamma": 0.3, "m": 1}),
    ("newtron", {"gamma": 0.3, "alpha": 1.0, "diameter": 0.05}),
    ("hinge_delaytron", {"gamma": 0.3}),
    ("confidit", {"alpha": 0.5, "matrix": "diagonal"}),
    ("passive_aggressive", {}),
]
CASES = [
    pytest.param(name, setting, id=f"{name}-{i}", marks=pytest.mark.xdist_group(f"{name}-standardized"))
    for i, (name, setting) in enumerate(SETTINGS)
]
some_learners = pytest.mark.parametrize(("name", "setting"), CASES)
_rng = np.random.default_rng(0)
DATA = (_rng.normal(size=(200, 5)) * 10.0 ** np.arange(-4, 6, 2) + 3.0, _rng.integers(0, 4, 200))


def a_learner(name, story, setting):
    """Make a learner that standardises its rows."""
    return make(dt.LEARNERS[name], story, standardize=True, **setting)
