"""Rewards as soft targets: as if the label were right with that chance."""

from copy import deepcopy
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_rewards import answered, rewards

import delaytron as dt
import paper_logit
from delaytron.kernels.loop import EXPIRED
from delaytron.learners.ledger import LAPSED
from forms import ROWS, D, K, taught
from paper import sample


@given(reward=rewards, late=st.booleans())
def test_one_against_all_learns_from_a_soft_target(reward, late):
    learner = taught("ova_logistic", expire_after=1000, on_expiry="wrong")
    learner.decide(ROWS[50])
    past = learner.ledger.plays[41]
    w, G = learner.state.W[past.label].copy(), learner.state.G[past.label].copy()
    if late:
        learner._end_wait(41, EXPIRED, LAPSED)
        learner.flush()
    for target in [0.0, reward] if late else [reward]:
        g = (1 / (1 + exp(-(w @ past.x.values))) - target) * past.x.values
        G += g**2
        w -= 0.2 * g / np.sqrt(G)
    after = answered(learner, 41, reward=reward)
    np.testing.assert_allclose(after.state.W[past.label], w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after.state.G[past.label], G, rtol=1e-12, atol=1e-12)


def transcribed_logit(X, told, draws):
    """The default learner with the reward `told[t]` for round t, two rounds late: labels, probabilities, weights."""
    rows, logit, watch = paper_logit.Rows(D), paper_logit.Logit(K, D, 1.0), paper_logit.Watch(0)
    plays, confirmations, n, played = np.zeros(K), np.zeros(K), 0, []
    for t, x in enumerate(X, 1):
        if t > 1 and rows.is_due():
            rows.refresh(1.0)
            rows.due = min(rows.due, rows.n + max(1, t // 16))
            logit.refresh(1.0, rows.varies())
        if t > 2:
            past, (label, _) = t - 2, played[t - 3]
            watch.hear(2, told[past - 1])
            n += 1
            confirmations[label] += told[past - 1]
            logit.learn(rows.standardize(X[past - 1]), label, told[past - 1])
        P = paper_logit.inverse_gaps(logit.chances(rows.standardize(x)), n, plays, confirmations, 0.0)
        label = sample(P, draws[t - 1])
        plays[label] += 1
        rows.new.append(x)
        played.append((label, P[label]))
    assert not watch.changed
    return played, logit.W


@given(seed=st.integers(0, 2**32))
def test_the_default_learner_learns_from_a_soft_target(seed):
    rng = np.random.default_rng(seed)
    X, told = rng.normal(size=(40, D)), rng.random(40)
    learner = dt.BanditLogit(K, D, seed=seed)
    played, W = transcribed_logit(X, told, deepcopy(learner._draws).random(40))
    for t, x in enumerate(X):
        if t >= 2:
            learner.feedback(t - 1, reward=float(told[t - 2]))
        decision = learner.decide(x)
        assert decision.label == played[t][0]
        assert decision.prob == pytest.approx(played[t][1], rel=1e-9)
    np.testing.assert_allclose(learner.weights, W, rtol=1e-9, atol=1e-9)
