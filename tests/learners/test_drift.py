"""What `BanditLogit` does when the labels change their meaning, and that it does nothing of the kind otherwise."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.kernels.drift import START
from paper_logit import bandit_logit
from streams import Story, clusters, make, play_compiled, play_interpreted, play_online, same_bits

pytestmark = pytest.mark.xdist_group("bandit_logit")

SPREAD = 3
SETTINGS = [{}, {"replay": 2}, {"forget": 0.001}]


def changing(n_rounds, sparse=False, longest=1, n_classes=4):
    """Return a story in which the labels mean something else from the middle on."""
    X, y = clusters(n_rounds, n_classes, 5, SPREAD)
    y[n_rounds // 2 :] = (y[n_rounds // 2 :] + 1) % n_classes
    delays = np.random.default_rng(1).integers(1, longest + 1, n_rounds)
    return Story(csr_array(X) if sparse else X, y, delays, n_classes, 0)


def starts_again(run, story):
    """Whether all labels are as likely as at the start, after the change."""
    return np.isclose(run.probs[len(story.y) // 2 :], 1 / story.n_classes, rtol=1e-12, atol=0).any()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("longest", [1, 30])
@pytest.mark.parametrize("setting", SETTINGS)
class TestANewStart:
    def test_is_that_of_the_transcription(self, setting, longest, sparse):
        story = changing(1000, sparse, longest)
        text = bandit_logit(story.dense, story.y, story.delays, story.draws, 4, **setting)
        ours = play_compiled(make(dt.BanditLogit, story, **setting), story)
        assert starts_again(ours, story)
        assert np.array_equal(ours.labels, text.labels)
        np.testing.assert_allclose(ours.probs, text.probs, rtol=0, atol=1e-9)
        np.testing.assert_allclose(ours.weights, text.weights, rtol=1e-7, atol=1e-7)

    def test_is_the_same_to_the_bit_however_it_is_played(self, setting, longest, sparse):
        story = changing(1000, sparse, longest)
        learner = make(dt.BanditLogit, story, **setting)
        compiled = play_compiled(learner, story)
        assert starts_again(compiled, story)
        assert same_bits(compiled, play_interpreted(learner, story))
        assert same_bits(compiled, play_online(learner, story)[0])


@pytest.mark.parametrize("longest", [1, 1000])
def test_it_recovers_sooner_than_one_vs_all(longest):
    """Labels change at half time: until errors are as rare as 1.2 times before, in windows of 500 rounds."""
    story = changing(40_000, longest=longest, n_classes=8)
    ours = rounds_to_recover(dt.BanditLogit, story)
    assert ours < 8000
    assert ours < rounds_to_recover(dt.OvaLogistic, story, standardize=True)


def rounds_to_recover(cls, story, **settings):
    wrong = ~play_compiled(make(cls, story, **settings), story).correct
    half = len(wrong) // 2
    before = wrong[half - 5000 : half].mean()
    sums = np.cumsum(wrong[half:])
    recovered = np.flatnonzero((sums[500:] - sums[:-500]) / 500 <= 1.2 * before)
    return recovered[0] + 500 if recovered.size else np.inf


class TestNoFalseAlarm:
    def start_after(self, delay_of, right_of=lambda right, rng: right, n_rounds=20_000, **settings):
        """Play online; `delay_of(right, t)` says when the answer comes. Return the first round that counts."""
        X, y = clusters(n_rounds, 5, 4, SPREAD)
        rng = np.random.default_rng(2)
        learner = dt.BanditLogit(5, 4, seed=0, **settings)
        due = {}
        for t in range(n_rounds):
            for number, right in due.pop(t, []):
                learner.feedback(number, correct=right)
            decision = learner.decide(X[t])
            right = right_of(bool(decision.label == y[t]), rng)
            due.setdefault(t + delay_of(right, t), []).append((decision.id, right))
        return learner.state.clock[START]

    def test_when_wrong_comes_much_later_than_right(self):
        assert self.start_after(lambda right, t: 1 if right else 3000) == 0

    def test_when_right_comes_much_later_than_wrong(self):
        assert self.start_after(lambda right, t: 3000 if right else 1) == 0

    def test_when_answers_come_in_batches(self):
        assert self.start_after(lambda right, t: 2000 - t % 2000) == 0

    def test_when_no_answer_means_wrong(self):
        never = 10**9
        settings = {"expire_after": 1000, "on_expiry": "wrong"}
        assert self.start_after(lambda right, t: 5 if right else never, **settings) == 0

    def test_when_a_third_of_the_answers_are_lies(self):
        assert self.start_after(lambda right, t: 1, lambda right, rng: right ^ (rng.random() < 0.33)) == 0

    def test_when_the_answers_tell_nothing(self):
        assert self.start_after(lambda right, t: 1, lambda right, rng: rng.random() < 0.5) == 0


def test_answers_to_rounds_before_the_new_start_are_not_learned():
    X, y = clusters(2000, 4, 3, SPREAD)
    learner = dt.BanditLogit(4, 3, seed=0)
    waiting = learner.decide(X[0]).id
    for t in range(1, 2000):
        decision = learner.decide(X[t])
        learner.feedback(decision.id, correct=bool(decision.label == y[t]) and t < 1500)
        if learner.state.clock[START] > 0:
            break
    assert 1500 < t < 1600
    learner.flush()
    before = learner.weights
    assert learner.feedback(waiting, correct=True) == "accepted"
    learner.flush()
    assert same_bits(before, learner.weights)
