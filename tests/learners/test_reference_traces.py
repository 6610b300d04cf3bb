"""The worked numbers, to 1e-12: by replay, by the online object, and with the compiler switched off."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import delaytron as dt
from streams import interpreter

REFERENCE = Path(__file__).parents[1] / "reference"
DELAYTRON = json.loads((REFERENCE / "delaytron_traces.json").read_text())
LEARNERS = json.loads((REFERENCE / "learner_traces.json").read_text())

X = np.array([(1, 0), (0, 1), (1, 1), (0.5, -1), (-1, 0.5), (1, 0.25), (-0.5, 1), (0.75, -0.5)])
Y = np.array([0, 1, 1, 2, 2, 0, 1, 0])
DELAYS = np.array([1, 3, 1, 2, 2, 1, 4, 1])
DRAWS = np.array([0.05, 0.95, 0.55, 0.99, 0.10, 0.45, 0.92, 0.30])

PAPER = [
    pytest.param("delaytron/before", lambda: dt.Delaytron(3, 2, gamma=0.3, eta=0.5), id="delaytron"),
    pytest.param("adaptive/before", lambda: dt.AdaptiveDelaytron(3, 2, gamma=0.3), id="cumulative"),
    pytest.param("adaptive/before/if", lambda: dt.AdaptiveDelaytron(3, 2, gamma=0.3), id="if-not-while"),
    pytest.param(
        "adaptive/before/instant", lambda: dt.AdaptiveDelaytron(3, 2, gamma=0.3, tracker="instant"), id="instant"
    ),
]
OTHERS = [  # the name in the reference, the learner, its parameters
    ("banditron", "banditron", {"gamma": 0.3}),
    ("rcnbf(rho0=.1,rho1=.2)", "rcnbf", {"gamma": 0.3, "rho0": 0.1, "rho1": 0.2}),
    ("hinge_da(B=1,R=sqrt2)", "hinge_delaytron", {"gamma": 0.3, "B": 1.0, "R": 2**0.5}),
    ("hinge_da(B=1,R=sqrt2)", "hinge_delaytron", {"gamma": 0.3, "B": 1.0}),
    ("soba_full(a=1)", "soba", {"gamma": 0.3, "matrix": "full"}),
    ("soba_diag(a=1)", "soba", {"gamma": 0.3}),
    ("pab(C=inf)", "pab", {"gamma": 0.3}),
    ("pab_I(C=.1)", "pab", {"gamma": 0.3, "C": 0.1, "variant": "I"}),
    ("newtron_diag(alpha=10,beta=.01,D=1,argmax play)", "newtron", {"gamma": 0.3, "play": "argmax"}),
    ("confidit_full(alpha=1,eta=.1)", "confidit", {"eta": 0.1}),
    ("ova_logit(lr=.5,eps=1)", "ova_logistic", {"gamma": 0.3, "lr": 0.5}),
]


class Script:
    """Replaces the learner's stream of draws."""

    def __init__(self, draws):
        self.draws = list(draws)

    def random(self):
        return self.draws.pop(0)


def assert_close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def play_online(learner, delays):
    """Yield (decision, learner) after every round."""
    learner._draws = Script(DRAWS)
    decisions = []
    for t in range(8):
        for s in range(t):
            if s + delays[s] == t:
                learner.feedback(s + 1, correct=bool(decisions[s].label == Y[s]))
        decisions.append(learner.decide(X[t]))
        yield decisions[-1], learner


def check_replay(trace, make):
    for rounds in range(1, 9):  # a shorter run ends with the weights after that round's updates
        run = dt.replay(make(), X[:rounds], Y[:rounds], DELAYS[:rounds], DRAWS[:rounds])
        assert_close(run.weights, trace[rounds - 1]["W"])
    assert run.greedy.tolist() == [row["yhat"] for row in trace]
    assert run.labels.tolist() == [row["ytilde"] for row in trace]
    assert run.correct.tolist() == [bool(row["correct"]) for row in trace]
    assert_close(run.probs, [row["P"] for row in trace])


def check_online(trace, make):
    for row, (decision, learner) in zip(trace, play_online(make(), DELAYS), strict=True):
        assert (decision.greedy, decision.label) == (row["yhat"], row["ytilde"])
        assert_close(decision.prob, row["P"])
        assert_close(learner.weights, row["W"])
        assert_close(learner.scores(X[row["t"] - 1])[0], row["scores"])
        assert learner.pending == row["m"]
        if isinstance(learner, dt.AdaptiveDelaytron):
            assert learner.state.clock[1] == row["e"]
            assert_close(learner.state.eta, [row["eta"]])


@pytest.mark.parametrize(("name", "make"), PAPER)
@pytest.mark.parametrize("check", [check_replay, check_online])
def test_the_worked_example_of_the_paper_is_met_in_every_round(name, make, check):
    check(DELAYTRON[name], make)


@pytest.mark.parametrize(("name", "make"), PAPER)
@pytest.mark.parametrize("check", [check_replay, check_online])
def test_the_worked_example_is_met_without_the_compiler(name, make, check):
    with interpreter():
        check(DELAYTRON[name], make)


@pytest.mark.parametrize(("reference", "name", "parameters"), OTHERS)
@pytest.mark.parametrize(("case", "delays"), [("nodelay", np.ones(8, int)), ("delays", DELAYS)])
@pytest.mark.parametrize("compiler", [nullcontext, interpreter])
def test_the_other_learners_meet_their_worked_example(reference, name, parameters, case, delays, compiler):
    trace = LEARNERS[f"{reference}/{case}"]
    with compiler():
        run = dt.replay(dt.LEARNERS[name](3, 2, **parameters), X, Y, delays, DRAWS)
        decisions, learners = zip(*play_online(dt.LEARNERS[name](3, 2, **parameters), delays), strict=True)
    assert run.labels.tolist() == [decision.label for decision in decisions] == trace["played"]
    assert_close(run.weights, trace["W"])
    assert_close(learners[-1].weights, trace["W"])


def test_every_worked_example_is_met_by_a_learner():
    assert {f"{reference}/{case}" for reference, _, _ in OTHERS for case in ("nodelay", "delays")} == set(LEARNERS)


def test_numba_disable_jit_runs_the_same_lines_without_numba():
    code = (
        "import sys, delaytron as dt; from test_reference_traces import *;"
        "[check(DELAYTRON[p.values[0]], p.values[1]) for p in PAPER for check in (check_replay, check_online)];"
        "assert 'numba' not in sys.modules; print('met')"
    )
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[:2])),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "met", done.stderr
