"""Values that look like answers or numbers and are none: one clear line, and nothing changes."""

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
