"""Vowpal Wabbit evaluates a fixed policy with `--cb K --eval`: by ips and by dr. Its costs are errors."""

import numpy as np
import pytest

import delaytron as dt
from known_logs import K, make_log

ROUNDS = 400


@pytest.fixture(scope="module")
def made():
    return make_log(11, n_rows=ROUNDS)


def losses(pyvw, log, kind, actions):
    """Return what Vowpal Wabbit adds to its loss in every round, for a policy that plays these labels."""
    vw = pyvw.Workspace(f"--cb {K} --eval --cb_type {kind} --quiet")
    sums = []
    columns = (log.labels, log.probs, log.outcomes, np.asarray(actions))
    for x, label, prob, outcome, action in zip(log.features, *(c.tolist() for c in columns), strict=True):
        features = " ".join(f"f{j}:{value!r}" for j, value in enumerate(x.tolist()))
        vw.learn(f"{action + 1} {label + 1}:{1 - outcome}:{prob!r} | {features}")
        sums.append(vw.get_sum_loss())
    vw.finish()
    return np.diff([0.0, *sums])


@pytest.fixture(scope="module")
def actions(made):
    return made.policy.argmax(axis=1)


def test_ips_is_the_same(pyvw, made, actions):
    theirs = losses(pyvw, made.log, "ips", actions).mean()
    ours = dt.evaluate(made.log, np.eye(K)[actions], "ips", quantity="error")
    assert ours.value == pytest.approx(theirs, abs=1e-6)  # theirs is in 32 bits


def test_dr_is_the_same_with_its_model_of_costs(pyvw, made, actions):
    """The loss of "always k" is its expected cost of k, and for k = label that and the weighed error: solve for it."""
    log = made.log
    rows = np.arange(ROUNDS)
    costs = np.stack([losses(pyvw, log, "dr", np.full(ROUNDS, k)) for k in range(K)], axis=1)
    own = (1 - log.outcomes) / log.probs
    costs[rows, log.labels] = (costs[rows, log.labels] - own) / (1 - 1 / log.probs)
    theirs = losses(pyvw, log, "dr", actions).mean()
    ours = dt.evaluate(log, np.eye(K)[actions], "dr", quantity="error", predictions=1 - costs)
    assert ours.value == pytest.approx(theirs, abs=1e-6)
    assert abs(theirs - losses(pyvw, log, "ips", actions).mean()) > 1e-3  # it is not the same for another reason
