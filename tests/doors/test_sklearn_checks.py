"""scikit-learn's own checks of DelayedClassifier: all of them, for several learners and delays."""

from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import delaytron as dt
from delaytron.sklearn import DelayedClassifier

CLASSIFIERS = [
    DelayedClassifier(),
    DelayedClassifier(delay=1000),
    DelayedClassifier(delay="lognormal:20,1.5+missing:0.2", shuffle=True),
    DelayedClassifier("delaytron", delay=dt.delays.Fixed(30), parameters={"gamma": 0.25}),
    DelayedClassifier("newtron", delay=[1, 9, 4], random_state=3),
]
pytestmark = pytest.mark.xdist_group("bandit_logit")


@parametrize_with_checks(CLASSIFIERS)
def test_scikit_learn_finds_nothing(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it scikit-learn skips one of its checks
    try:
        check(estimator)
    except SkipTest as reason:
        pytest.fail(f"skipped: {reason}")
