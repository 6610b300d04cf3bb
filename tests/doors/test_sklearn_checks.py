"""scikit-learn's own checks of DelayedClassifier: all of them, for several learners and delays."""

import os
import subprocess
import sys
from pathlib import Path

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
ALONE = """
from sklearn.utils.estimator_checks import check_estimator
from delaytron.sklearn import DelayedClassifier

results = check_estimator(DelayedClassifier(delay=10), on_skip=None, on_fail=None)
print(len(results), [(result["check_name"], result["status"]) for result in results if result["status"] != "passed"])
"""
pytestmark = pytest.mark.xdist_group("bandit_logit")


@parametrize_with_checks(CLASSIFIERS)
def test_scikit_learn_finds_nothing(estimator, check):
    check(estimator)


def test_no_check_is_skipped():
    # scikit-learn skips one of its checks unless this variable is set before SciPy is imported
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(Path(dt.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", ALONE], check=False, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    count, others = run.stdout.split(maxsplit=1)
    assert int(count) > 50
    assert others.strip() == "[]"
