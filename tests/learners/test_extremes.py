"""Rows and parameters at the ends of what is allowed leave every learner finite, and what is beyond them is refused."""

from math import inf

import numpy as np
import pytest
from scipy.sparse import csr_array
from test_conformance import SETTINGS

import delaytron as dt
from delaytron.checks import LARGEST, SMALLEST
from delaytron.learners.newtron import MOST_CURVATURE
from delaytron.learners.options import own_parameters
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
    given = [defaults | setting for setting in SETTINGS[name]]
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
    assert (learner.ledger.rounds, len(learner.ledger.arrived)) == (1, 1)


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
