"""Policies of `dt.evaluate` by name, and errors about invalid policies and logs."""

import numpy as np
import pytest
from typer.testing import CliRunner

import delaytron as dt
from delaytron.cli import app
from known_logs import make_log


@pytest.fixture(scope="module")
def log():
    return make_log(3, n_rows=300).log


@pytest.mark.parametrize("policy", ["gap:gamma=0.3", ("gap", {"gamma": 0.3})])
def test_parameters_may_be_part_of_the_name(log, policy):
    asked = dt.evaluate(log, policy, "snips")
    assert asked == dt.evaluate(log, "gap", "snips", gamma=0.3)
    assert asked.value != dt.evaluate(log, "gap", "snips").value
    assert asked.policy == "gap:gamma=0.3"


@pytest.mark.parametrize("policy", ["gap:gama=0.3", "gap:seed=3", "gap:method=ips", ("gap", {"gama": 0.3})])
def test_an_unknown_parameter_is_named(log, policy):
    with pytest.raises(dt.InvalidInput, match=r"a parameter of gap must be one of gamma, .*, got "):
        dt.evaluate(log, policy)


@pytest.mark.parametrize("policy", ["uniform", ("logged", {}), np.ones((300, 3)) / 3])
def test_parameters_are_for_learners(log, policy):
    with pytest.raises(dt.InvalidInput, match="parameters are for a learner that is given by its name, got gamma"):
        dt.evaluate(log, policy, gamma=0.1)


@pytest.mark.parametrize("text", ["gap:", "gap:gamma", "gap:gamma=0.1,eta"])
def test_a_parameter_without_a_value_is_refused(log, text):
    with pytest.raises(dt.InvalidInput, match="must be NAME:PARAMETER=VALUE"):
        dt.evaluate(log, text)


def test_the_command_never_shows_a_traceback(log, tmp_path):
    log.write_parquet(tmp_path / "log.parquet")
    found = CliRunner().invoke(app, ["evaluate", str(tmp_path / "log.parquet"), "--policy", "gap:seed=3"])
    assert found.exit_code == 2
    assert found.output.startswith("delaytron: a parameter of gap must be one of gamma")


@pytest.mark.parametrize("wrong", ["log.parquet", None, {"label": [0]}, np.zeros((3, 2))])
def test_other_objects_than_logs_are_refused(wrong):
    with pytest.raises(
        dt.InvalidInput, match=r"log must be a dt\.logs\.Log, got .*; read one by dt\.logs\.read_parquet"
    ):
        dt.evaluate(wrong, "uniform")


def test_a_learner_of_vectors_cannot_read_names():
    log = dt.logs.from_arrays(
        features=[{"a": 1.0, "b": 2.0}] * 8, labels=[0, 1] * 4, probs=[0.5] * 8, rewards=[1, 0] * 4, n_classes=2
    )
    with pytest.raises(dt.InvalidInput, match="features have names, and this learner takes rows of 4 numbers; make"):
        dt.evaluate(log, dt.Banditron(2, 4, gamma=0.1, seed=0))


def test_waits_are_times_and_need_times(log):
    with pytest.raises(dt.InvalidInput, match=r"wait must be a timedelta, or a text such as .*, got '2 weeks'"):
        dt.evaluate(log, "uniform", missing=0, wait="2 weeks")
    given = {"features": log.features, "labels": log.labels, "probs": log.probs, "rewards": log.outcomes}
    timeless = dt.logs.from_arrays(**given, n_classes=log.n_classes)
    with pytest.raises(dt.InvalidInput, match="needs a log with times, decided_at; leave it out"):
        dt.evaluate(timeless, "uniform", missing=0, wait="7d")


def test_a_model_of_other_classes_is_refused(log):
    model = dt.Model(["tea", "water"], features=2, seed=0)
    with pytest.raises(
        dt.InvalidInput, match="the model has the classes 'tea', 'water', and row 0 of the log allows 0, 1"
    ):
        dt.evaluate(log, model)


def test_predictions_must_be_numbers(log):
    with pytest.raises(dt.InvalidInput, match=r"predictions must be numbers of shape \(300, 3\), got str"):
        dt.evaluate(log, "uniform", predictions="many")
