"""Rows and parameters at the ends of what is allowed leave every learner finite, and what is beyond them is refused."""

import re
from math import inf

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.checks import LARGEST, SMALLEST
from delaytron.learners.arguments import own_parameters
from delaytron.learners.second_order import MOST_CURVATURE
from paper_learners import TRANSCRIPTIONS
from streams import by_learner

CURVATURES = (SMALLEST, MOST_CURVATURE)
ENDS = (SMALLEST, 1.0, LARGEST)
SCALES = {
    "beta": CURVATURES,
    "diameter": CURVATURES,
    "gamma": (SMALLEST, 1.0),
    "C": (*ENDS, inf),
    **dict.fromkeys(("eta", "a", "lr", "c", "B"), ENDS),
}


def extreme_rows(seed, count):
    """Rows whose largest number is at one end or in the middle, whose numbers are of all sizes."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 4)) * 10.0 ** rng.uniform(-60, 0, (count, 4))
    return rows / np.abs(rows).max(axis=1, keepdims=True) * rng.choice(ENDS, (count, 1))


def is_finite(learner):
    return all(np.isfinite(field).all() for field in learner.state)


def answer(learner, decision, right):
    if learner.feedback_type == "label":
        return {"label": decision.label if right else (decision.label + 1) % learner.n_classes}
    return {"correct": right}


def extreme_settings(setting):
    """Yield a setting with each of its factors at each end."""
    yield setting
    for name in SCALES.keys() & setting.keys():
        for value in SCALES[name]:
            yield setting | {name: value}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", by_learner(dt.LEARNERS))
def test_extreme_rows_leave_the_state_finite(name, sparse, tmp_path):
    defaults = {key: value for key, value in own_parameters(dt.LEARNERS[name]).items() if key in SCALES}
    given = [defaults | setting for setting in TRANSCRIPTIONS[name].settings]
    for place, setting in enumerate(s for one in given for s in extreme_settings(one)):
        learner = dt.LEARNERS[name](3, 4, seed=place, **setting)
        rng = np.random.default_rng(place)
        for row in extreme_rows(place, 40):
            decision = learner.decide(csr_array(row[None]) if sparse else row)
            learner.feedback(decision.id, **answer(learner, decision, bool(rng.random() < 0.5)))
        learner.flush()
        assert is_finite(learner), setting
        learner.save(tmp_path / "model")
        assert np.isfinite(learner.scores(extreme_rows(place, 5))).all()


@pytest.mark.parametrize("size", [1e-160, 9e-51, 2e50, 1e150])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_beyond_the_ends_is_refused_and_changes_nothing(size, sparse):
    learner = dt.PassiveAggressive(3, 2, seed=0)
    learner.feedback(learner.decide(csr_array([[1.0, 0.0]]) if sparse else [1.0, 0.0]).id, label=2)
    row = np.array([size, 0.0])
    with pytest.raises(
        dt.InvalidInput, match=r"x must have a largest number of 0 or from 1e-50 to 1e\+50, got .*scale it"
    ):
        learner.decide(csr_array(row[None]) if sparse else row)
    with pytest.raises(dt.InvalidInput, match=r"every row of X must have .* in row 1; scale the features"):
        dt.datasets.as_dataset((csr_array([[1.0, 0.0], row]) if sparse else [[1.0, 0.0], row], [0, 1]))
    assert (learner.book.rounds, len(learner.book.arrived)) == (1, 1)


def test_small_numbers_beside_large_ones_and_rows_of_zeros_are_fine():
    learner = dt.Pab(3, 3, seed=0)
    for row in ([1.0, 1e-300, 5e-324], [0.0, 0.0, 0.0]):
        learner.feedback(learner.decide(row).id, correct=False)
    learner.flush()
    assert is_finite(learner)


@pytest.mark.parametrize(("cls", "name"), [(dt.Delaytron, "gamma"), (dt.Delaytron, "eta"), (dt.OvaLogistic, "lr")])
def test_a_parameter_that_could_leave_the_floats_is_refused(cls, name):
    with pytest.raises(dt.InvalidInput, match=rf"{name} must be .*1e-50.*got 1e-310"):
        cls(3, 2, **{name: 1e-310})


def test_the_first_draw_there_can_be_leaves_the_weights_finite():
    """A draw of 0 plays label 0 with the smallest probability there is."""
    learner = dt.Delaytron(2, 1, gamma=SMALLEST)
    run = dt.replay(learner, [[LARGEST]] * 3, [1, 0, 0], [1, 1, 1], [0.9, 0.0, 0.0])
    assert np.isfinite(run.weights).all()


def test_predict_is_greedy_where_the_step_rounds_a_lead_away():
    """Theta has a lead of one rounding step; eta times theta has none."""
    learner = dt.HingeDelaytron(3, 1, gamma=1.0, seed=0)
    decision = learner.decide([1.0])
    learner.state.W[:, 0] = [1.0, np.nextafter(1.0, 2.0), 0.5]
    assert learner.predict([[1.0]]).tolist() == [1]
    assert decision.greedy == 0
    assert learner.decide([1.0]).greedy == 1


# Values that look like answers or numbers and are none: one clear line, and nothing changes.


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
        ((2**31 - 1, 10), "n_classes=2147483647 and n_features=10 need more memory than there is"),
        ((2**31 - 1, 2**31 - 1), "n_classes=2147483647 and n_features=2147483647 need more memory than there is"),
        ((2**20, 2**31 - 1), "n_classes=1048576 and n_features=2147483647 need more memory than there is"),
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
