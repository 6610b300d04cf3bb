"""Identities between learners, and moments of the update, that follow from the definitions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from delaytron.kernels.linear import banditron_update, weight_shape
from delaytron.records import Play, Row
from streams import interpreter, learn, make, play_compiled, same_bits, stories

GRID = list(itertools.product((2, 3, 9), (0.05, 0.3, 0.49, 1.0)))


@given(story=stories())
def test_without_delay_delaytron_is_banditron(story):
    prompt = story._replace(delays=np.ones_like(story.delays))
    ours = play_compiled(make(dt.Delaytron, prompt, gamma=0.2), prompt)
    theirs = play_compiled(make(dt.Banditron, prompt, gamma=0.2), prompt)
    assert same_bits(ours, theirs)


@given(story=stories())
def test_with_delay_delaytron_of_step_one_is_banditron(story):
    ours = play_compiled(make(dt.Delaytron, story, gamma=0.2, eta=1.0), story)
    assert same_bits(ours, play_compiled(make(dt.Banditron, story, gamma=0.2), story))


@given(story=stories(), power=st.integers(-8, 8))
def test_a_constant_step_changes_no_label_and_scales_the_weights(story, power):
    one = play_compiled(make(dt.Delaytron, story, gamma=0.2), story)
    other = play_compiled(make(dt.Delaytron, story, gamma=0.2, eta=2.0**power), story)
    assert same_bits(one[:4], other[:4])
    assert same_bits(one.weights * 2.0**power, other.weights)


@given(story=stories(), order=st.randoms(use_true_random=False))
def test_the_order_of_answers_within_a_round_is_rounding_only(story, order):
    """Apply what one round delivers in another order: only the last bits of the weights may move."""
    learner = make(dt.Delaytron, story, gamma=0.2)
    decisions = [learner.decide(x) for x in story.rows()]
    plays = [learner.book.play(decision.id) for decision in decisions]
    answers = [int(decision.label == y) for decision, y in zip(decisions, story.y, strict=True)]
    shuffled = list(zip(plays, answers, strict=True))
    order.shuffle(shuffled)
    for past, answer in shuffled:
        learn(learner, past, answer)
    one_order = learner.weights
    learner.state.W[:] = 0
    for past, answer in zip(plays, answers, strict=True):
        learn(learner, past, answer)
    np.testing.assert_allclose(one_order, learner.weights, rtol=0, atol=1e-9)


@given(story=stories())
def test_feedback_beyond_the_horizon_is_never_delivered(story):
    cut = np.arange(len(story.y)) + story.delays >= len(story.y)
    later = story._replace(delays=np.where(cut, 2**62, story.delays))
    learner = make(dt.Delaytron, story, gamma=0.2)
    assert same_bits(play_compiled(learner, story), play_compiled(learner, later))


@given(story=stories())
def test_the_epoch_of_adaptive_delaytron_grows_by_at_most_one_a_round(story):
    learner = make(dt.AdaptiveDelaytron, story, gamma=0.2)
    epochs, waited = [0], 0
    for x in story.rows():
        learner.decide(x)
        waited += learner.pending
        epochs.append(int(learner.state.clock[1]))
        assert 2 ** (epochs[-1] - 1) <= waited < 2 ** epochs[-1]
    assert set(np.diff(epochs)) <= {0, 1}


def expected_update(K, gamma, greedy, y, moment):
    """Yield the terms of an expectation over the K labels that may be played: exact, without random numbers."""
    x = np.array([0.5, -2.0, 1.0])
    for label in range(K):
        prob = gamma / K + (1 - gamma) * (label == greedy)
        W = np.zeros(weight_shape(K, 3, sparse=False))
        banditron_update_interpreted(W, 1.0, Play(1, Row(None, x), greedy, label, prob, np.empty(0)), label == y)
        yield prob * moment(W / np.linalg.norm(x) if moment is squared else W)


def banditron_update_interpreted(*args):
    with interpreter():
        banditron_update(*args)


def squared(W):
    return float((W**2).sum())


@pytest.mark.parametrize(("K", "gamma"), GRID)
@pytest.mark.parametrize("y", [0, 1])
def test_the_update_is_unbiased(K, gamma, y):
    x, greedy = np.array([0.5, -2.0, 1.0]), 0
    mean = sum(expected_update(K, gamma, greedy, y, lambda W: W))
    exact = np.outer(np.eye(K)[y] - np.eye(K)[greedy], x)
    np.testing.assert_allclose(mean, exact, atol=1e-12)


@pytest.mark.parametrize(("K", "gamma"), GRID)
def test_the_second_moment_of_the_update_is_the_one_derived(K, gamma):
    top = 1 - gamma + gamma / K
    assert sum(expected_update(K, gamma, 0, 0, squared)) == pytest.approx((1 - top) / top, rel=1e-12, abs=1e-15)
    assert sum(expected_update(K, gamma, 0, 1, squared)) == pytest.approx(1 + K / gamma, rel=1e-12)


def test_a_restart_forgets_the_weights_and_the_older_feedback():
    learner = dt.AdaptiveDelaytron(2, 1, gamma=0.5, restart=True, seed=0)
    first = learner.decide([1.0])
    learner.feedback(first.id, correct=False)
    learner.decide([1.0])  # the sum of m reaches 2: an epoch begins in this round
    assert learner.state.clock[1:].tolist() == [2, 2]
    assert not learner.weights.any()
