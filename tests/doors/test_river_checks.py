"""River's own checks of DelayedClassifier, for several learners."""

import pytest

from optional import need

need("river")
from river import checks  # noqa: E402 - after the module is skipped where it is missing

from delaytron.river import DelayedClassifier  # noqa: E402

pytestmark = pytest.mark.xdist_group("bandit_logit")

IMAGES = ["brickface", "cement", "foliage", "grass", "path", "sky", "window"]
CLASSIFIERS = [
    DelayedClassifier(bits=8),
    DelayedClassifier("delaytron", {"gamma": 0.2}, bits=8),
    DelayedClassifier("newtron", {"matrix": "diagonal"}, classes=[True, False, *IMAGES], bits=8),
    DelayedClassifier("perceptron", bits=8),
]
CASES = [
    pytest.param(model, check, id=f"{model.learner}-{number}-{check.__name__}")
    for model in CLASSIFIERS
    for number, check in enumerate(checks.yield_checks(model))
]


@pytest.mark.parametrize(("model", "check"), CASES)
def test_river_finds_nothing(model, check):
    assert check.__name__ not in model._unit_test_skips()
    check(model.clone())


def test_river_checks_it_as_a_whole():
    checks.check_estimator(DelayedClassifier(bits=6))
