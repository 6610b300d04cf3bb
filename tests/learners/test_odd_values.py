"""Values that look like answers or numbers and are none: one clear line, and nothing changes."""

import re

import numpy as np
import pandas as pd
import pytest

import delaytron as dt

TIMES = pd.to_datetime(["2026-01-01", "2026-01-02"])


@pytest.mark.parametrize("value", [pd.NA, pd.NaT, np.nan, "yes", [True, False]])
def test_what_is_neither_right_nor_wrong_is_refused(value):
    learner = dt.Delaytron(n_classes=2, n_features=1, seed=0)
    decision = learner.decide([1.0])
    with pytest.raises(dt.InvalidInput, match="correct must be True or False, got "):
        learner.feedback(decision.id, correct=value)
    assert learner.pending == 1


@pytest.mark.parametrize(
    "X",
    [
        np.array(TIMES, "datetime64[ns]"),
        np.array(TIMES, "datetime64[s]"),
        np.array([1, 2], "timedelta64[ns]"),
        TIMES,
        TIMES.tz_localize("UTC"),
        pd.DataFrame({"at": TIMES, "until": TIMES}).iloc[0],
        list(TIMES),
    ],
)
def test_times_are_no_features(X):
    learner = dt.Delaytron(n_classes=2, n_features=2, seed=0)
    with pytest.raises(dt.InvalidInput, match="X must hold numbers only, got ") as problem:
        learner.predict(X)
    assert "\n" not in str(problem.value)
    with pytest.raises(dt.InvalidInput, match="x must be 2 numbers, got ") as problem:
        learner.decide(X)
    assert "\n" not in str(problem.value)
    assert learner.pending == 0


def test_a_table_of_times_is_no_data_set():
    X = np.array([["2026-01-01"], ["2026-01-02"]], "datetime64[ns]")
    with pytest.raises(dt.InvalidInput, match="turn times into numbers, such as hours"):
        dt.simulate("delaytron", (X, [0, 1]))


@pytest.mark.parametrize("cls", [dt.BanditLogit, dt.Banditron, dt.Perceptron])
@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((2**70, 2), "n_classes must be at most 2147483647, got 1180591620717411303424"),
        ((3, 10**400), r"n_features must be at most 2147483647, got 10+\.\.\."),
        ((2**31 - 1, 2**31 - 1), "n_classes=2147483647 and n_features=2147483647 need more memory than there is"),
    ],
)
def test_a_size_that_no_memory_holds_is_refused(cls, size, message):
    with pytest.raises(dt.InvalidInput, match=message):
        cls(*size)


@pytest.mark.parametrize("path", [None, 5, b"a", ""])
def test_what_is_no_path_is_refused(path):
    for call in (dt.Banditron(3, 2).save, dt.Banditron(3, 2).export_onnx, dt.load):
        with pytest.raises(dt.InvalidInput, match=r"^path must be a str or a Path that is not empty, got "):
            call(path)


def test_ids_that_were_meant_are_named():
    learner = dt.Banditron(3, 2, seed=0)
    decision = learner.decide([1.0, 0.0])
    for given, hint in ((decision, "give its id, 1"), ("1", "ids of a learner are integers: give int(id)")):
        with pytest.raises(dt.UnknownDecision, match=re.escape(hint)):
            learner.feedback(given, correct=True)
    assert learner.feedback(decision.id, correct=True) == "accepted"


def test_a_name_is_no_data_yet_and_a_misspelt_argument_is_none_of_the_learner():
    with pytest.raises(dt.InvalidInput, match=r"got str; load it first: dt.datasets.load\('digits'\)"):
        dt.simulate("delaytron", "digits")
    with pytest.raises(dt.InvalidInput, match=r"got round; did you mean rounds\?"):
        dt.simulate("delaytron", ([[1.0, 0.0], [0.0, 1.0]], [0, 1]), round=9)
