"""Parameters can be read and never be changed."""

import pickle
from copy import copy, deepcopy

import numpy as np
import pytest

import delaytron as dt
from forms import ROWS, D, K, everything, forms, fresh, taught
from streams import same_bits

POOL = "pool"
ALL = [*dt.LEARNERS, "standardized", "rcnbf estimate"]


def make(form):
    return dt.Bold(fresh("delaytron"), order="fifo") if form == POOL else fresh(form)


@pytest.mark.parametrize("form", forms([*ALL, POOL]))
def test_no_parameter_can_be_assigned_or_deleted(form):
    learner = make(form)
    for t in range(5):
        learner.decide(ROWS[t])
    before, shown = everything(learner), repr(learner)
    settings = learner.settings()
    assert {"seed", "expire_after", "on_expiry", "standardize", "ties"} <= set(settings)
    for name in (*settings, "n_classes", "n_features"):
        with pytest.raises(AttributeError, match=f"{name} of a {type(learner).__name__} cannot be changed; make a new"):
            setattr(learner, name, 0.9)
        with pytest.raises(AttributeError):
            delattr(learner, name)
    assert learner.settings() == settings
    assert everything(learner) == before
    assert repr(learner) == shown


def test_the_error_says_what_to_do():
    learner = dt.Delaytron(3, 2, gamma=0.1, seed=0)
    with pytest.raises(AttributeError) as caught:
        learner.gamma = 0.9
    assert str(caught.value) == "gamma of a Delaytron cannot be changed; make a new one with gamma=0.9"
    assert learner.gamma == learner.params.gamma == 0.1


def test_a_parameter_of_another_learner_is_no_parameter_of_this():
    learner = dt.Perceptron(3, 2, seed=0)
    assert not hasattr(learner, "gamma")


@pytest.mark.parametrize("form", forms(["delaytron", "bandit_logit", "standardized", "soba full", "rcnbf estimate"]))
def test_copies_have_the_parameters_and_fix_them_too(form, tmp_path):
    learner = taught(form)
    learner.save(tmp_path / "a")
    copies = [copy(learner), deepcopy(learner), pickle.loads(pickle.dumps(learner)), dt.load(tmp_path / "a")]  # noqa: S301
    for twin in copies:
        assert twin.settings() == learner.settings()
        assert everything(twin) == everything(learner)
        with pytest.raises(AttributeError, match=r"seed of a .* cannot be changed"):
            twin.seed = 5
        with pytest.raises(AttributeError, match=r"n_classes of a .* cannot be changed"):
            twin.n_classes = K + 1
    expected = [learner.decide(x) for x in ROWS[40:]]
    assert all([twin.decide(x) for x in ROWS[40:]] == expected for twin in copies)


def test_a_subclass_of_a_user_fixes_its_own_parameters():
    class Bolder(dt.Delaytron):
        def __init__(self, n_classes, n_features, *, courage=2.0, **common):
            self.courage = courage
            super().__init__(n_classes, n_features, gamma=courage / 10, **common)

    learner = Bolder(K, D, courage=3.0, seed=0)
    assert (learner.courage, learner.gamma) == (3.0, 0.3)
    with pytest.raises(AttributeError, match="courage of a Bolder cannot be changed; make a new one with courage=1"):
        learner.courage = 1


def test_only_add_class_changes_the_number_of_classes():
    learner = taught("delaytron")
    weights = learner.weights
    learner.add_class()
    assert learner.n_classes == learner.settings()["n_classes"] == K + 1
    with pytest.raises(AttributeError, match=r"n_classes of a .* cannot be changed"):
        learner.n_classes = K
    assert same_bits(np.ascontiguousarray(learner.weights[:K]), weights)
