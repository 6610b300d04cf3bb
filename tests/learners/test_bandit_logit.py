"""What only `BanditLogit` promises: raw rows, true probabilities, rewards, every label found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix

import delaytron as dt
from delaytron import theory
from delaytron.kernels.logit import LEAST_LOSS, SHARPENING, SHARPEST_START, SHARPNESS_OF_UNKNOWN, START
from paper_logit import Logit, Rows, bandit_logit
from streams import (
    Story,
    clusters,
    known_rounds,
    make,
    play_compiled,
    play_interpreted,
    play_online,
    same_bits,
    stories,
)

pytestmark = pytest.mark.xdist_group("bandit_logit")


def learner_of(n_classes=4, n_features=3, **settings):
    return dt.BanditLogit(n_classes, n_features, seed=0, **settings)


def taught(rows, labels, n_classes, **settings):
    """Return a learner that got an answer at once in every round."""
    learner = learner_of(n_classes, rows.shape[1], **settings)
    for x, y in zip(rows, labels, strict=True):
        decision = learner.decide(x)
        learner.feedback(decision.id, correct=bool(decision.label == y))
    learner.flush()
    return learner


def test_it_is_the_default():
    assert dt.DEFAULT_LEARNER == "bandit_logit"
    assert dt.LEARNERS[dt.DEFAULT_LEARNER] is dt.BanditLogit
    assert dt.BanditLogit(3, 2).settings().keys() >= {"lr", "explore_floor", "replay", "forget"}


class TestProbabilities:
    def test_before_the_first_answer_all_labels_are_equally_likely(self):
        learner = learner_of(n_classes=7)
        for _ in range(30):
            assert learner.decide([1.0, 2.0, 3.0]).prob == pytest.approx(1 / 7, rel=1e-15)

    def test_labels_with_the_same_history_are_equally_likely(self):
        learner = learner_of(n_classes=5)
        decision = learner.decide([1.0, 2.0, 3.0])
        learner.feedback(decision.id, correct=False)
        learner.decide([1.0, 2.0, 3.0])
        p = np.delete(learner.scratch[1], decision.label)
        assert np.unique(p).size == 1
        assert p[0] > learner.scratch[1][decision.label]

    @given(story=stories(), floor=st.sampled_from([0.0, 0.01, 1 / 30]))
    def test_they_sum_to_one_and_keep_the_floor(self, story, floor):
        learner = dt.BanditLogit(story.n_classes, story.X.shape[1], seed=story.seed, explore_floor=floor)
        for x, y in zip(story.rows(), story.y, strict=True):
            decision = learner.decide(x)
            learner.feedback(decision.id, correct=bool(decision.label == y))
            assert learner.scratch[1].sum() == pytest.approx(1, abs=1e-12)
            assert learner.scratch[1].min() >= floor
            assert decision.prob == learner.scratch[1][decision.label]

    def test_they_are_those_of_the_theory(self):
        X, y = clusters(400, 6, 5)
        learner = taught(X[:399], y[:399], 6)
        learner.decide(X[399])
        scores = learner.scores(X[399])[0]
        p = np.exp(scores - scores.max())
        p /= p.sum()
        gamma = max(SHARPEST_START, SHARPENING * np.sqrt(399 * 6))
        gammas = np.where(learner.state.known[:6] == 1, gamma, SHARPNESS_OF_UNKNOWN)
        expected = theory.inverse_gap_chances(1 - p + LEAST_LOSS, gammas)
        np.testing.assert_allclose(learner.scratch[1], expected, rtol=1e-9)

    @pytest.mark.parametrize("n_rounds", [20_000, pytest.param(1_000_000, marks=pytest.mark.torture)])
    def test_labels_are_played_as_often_as_they_say(self, n_rounds):
        """Chi-square: plays of every label, where it was unlikely and where it was likely."""
        X, y = clusters(1000, 5, 2)
        learner = learner_of(5, 2)
        edges = np.array([1e-3, 1e-2, 0.1, 0.5, 1.0])
        played, expected, variance = np.zeros((3, 5, 5))
        for t in range(n_rounds):
            decision = learner.decide(X[t % 1000])
            learner.feedback(decision.id, correct=bool(decision.label == y[t % 1000]))
            p = learner.scratch[1]
            cells = np.searchsorted(edges, p - 1e-12), np.arange(5)
            expected[cells] += p
            variance[cells] += p * (1 - p)
            played[cells[0][decision.label], decision.label] += 1
        enough = variance > 5
        z = (played - expected)[enough] / np.sqrt(variance[enough])
        assert enough.sum() >= 15
        assert (z**2).sum() < enough.sum() + 4 * np.sqrt(2 * enough.sum())

    def test_estimates_on_its_log_cover_the_truth(self):
        """Inverse propensities with a floor of 0.01: the value of uniform play, 95 % intervals, 150 logs."""
        X, y = clusters(2000, 4, 2)
        covered = 0
        for run in range(150):
            rows = np.random.default_rng(run).integers(2000, size=10_000)
            draws = np.random.default_rng(1000 + run).random(10_000)
            log = dt.replay(learner_of(4, 2, explore_floor=0.01), X[rows], y[rows], np.ones(10_000, int), draws)
            terms = log.correct / (4 * log.probs)
            covered += abs(terms.mean() - 0.25) <= 1.96 * terms.std() / 100
        assert 0.88 <= covered / 150 <= 0.99  # 95 % within four standard errors


class TestRewards:
    @given(rewards=st.lists(st.floats(0, 1), min_size=5, max_size=40), seed=st.integers(0, 99))
    def test_a_reward_is_a_soft_target(self, rewards, seed):
        X, _ = clusters(len(rewards), 4, 3, seed=seed)
        learner, text, rows = learner_of(), Logit(4, 3, 1.0), Rows(3)
        past_answers = []
        for x, reward in zip(X, rewards, strict=True):
            decision = learner.decide(x)
            learner.feedback(decision.id, reward=reward)
            if rows.new and rows.is_due():
                rows.refresh(1.0)
                text.refresh(1.0, rows.varies())
            for past in past_answers:
                text.learn(rows.standardize(past[0]), *past[1:])
            past_answers = [(x, decision.label, reward)]
            rows.new.append(x)
        np.testing.assert_allclose(learner.weights, text.W, rtol=1e-9, atol=1e-9)

    def test_a_reward_corrects_an_expiry(self):
        learner = learner_of(expire_after=2, on_expiry="wrong")
        first = learner.decide([1.0, 2.0, 3.0])
        for _ in range(3):
            learner.decide([0.0, 2.0, 3.0])
        before = learner.scores([[1.0, 2.0, 3.0]])[0, first.label]
        assert learner.feedback(first.id, reward=0.9) == "corrected"
        learner.flush()
        assert learner.scores([[1.0, 2.0, 3.0]])[0, first.label] > before

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("settings", [{}, {"replay": 2}, {"forget": 0.1}])
    def test_a_file_keeps_rewards_that_wait(self, tmp_path, sparse, settings):
        X, _ = clusters(50, 4, 3)
        learner = learner_of(**settings)
        for i, x in enumerate(X):
            decision = learner.decide(csr_matrix(x) if sparse else x)
            if i % 3:
                learner.feedback(decision.id, reward=i / 50)
        learner.save(tmp_path / "learner.safetensors")
        again = dt.load(tmp_path / "learner.safetensors")
        for one in (learner, again):
            one.feedback(1, reward=0.25)
            one.decide(X[0])
            one.flush()
        assert same_bits(list(learner.state), list(again.state))
        assert known_rounds(learner) == known_rounds(again)


class TestRawRows:
    @given(story=stories(), seed=st.integers(0, 99))
    def test_units_of_two_change_no_bit(self, story, seed):
        units = 2.0 ** np.random.default_rng(seed).integers(-40, 40, story.X.shape[1])
        X = story.X * units if isinstance(story.X, np.ndarray) else story.X.multiply(units).tocsr()
        scaled = story._replace(X=X)
        ours = play_compiled(dt.BanditLogit(story.n_classes, story.X.shape[1], seed=0), story)
        theirs = play_compiled(dt.BanditLogit(story.n_classes, story.X.shape[1], seed=0), scaled)
        assert same_bits(ours, theirs)

    def test_scales_and_shifts_change_no_error(self):
        X, y = clusters(3000, 5, 6)
        rng = np.random.default_rng(3)
        scale, shift = 10.0 ** rng.uniform(-6, 6, (2, 6))
        errors = [error_of(rows, y, n_rounds=30_000) for rows in (X, X * scale + shift)]
        assert errors[0].mean() == pytest.approx(errors[1].mean(), abs=0.002)

    def test_uninformative_columns_hardly_raise_the_error(self):
        X, y = clusters(3000, 5, 6)
        rng = np.random.default_rng(4)
        plain = error_of(X, y, n_rounds=30_000).mean()
        useless = {
            "constant": np.full((3000, 3), 7.3),
            "one of many": np.eye(40)[rng.integers(40, size=3000)],
            "huge": 1e40 * (1 + rng.random((3000, 1))),
            "late": np.where(np.arange(3000) < 2900, 5.0, rng.normal(size=3000))[:, None],
        }
        for name, columns in useless.items():
            error = error_of(np.hstack([X, columns]), y, n_rounds=30_000).mean()
            assert error < plain + 0.02, name

    def test_a_column_that_begins_to_vary_late_hardly_raises_the_error(self):
        X, y = clusters(60_000, 5, 6)
        late = np.where(np.arange(60_000) < 50_000, 5.0, np.random.default_rng(0).normal(5, 1, 60_000))
        draws = np.random.default_rng(1).random(60_000)
        with_it = dt.replay(learner_of(5, 7), np.column_stack([X, late]), y, np.ones(60_000, int), draws)
        without = dt.replay(learner_of(5, 6), X, y, np.ones(60_000, int), draws)
        assert np.isfinite(with_it.weights).all()
        assert (~with_it.correct[50_000:]).mean() < (~without.correct[50_000:]).mean() + 0.01

    def test_a_thousand_columns_of_noise(self):
        X, y = clusters(3000, 3, 6)
        noisy = np.hstack([X, np.random.default_rng(5).normal(size=(3000, 1000))])
        assert error_of(noisy, y, n_rounds=20_000, runs=2).mean() < 0.2


def error_of(X, y, n_rounds, runs=4):
    return dt.simulate("bandit_logit", (X, y), rounds=n_rounds, runs=runs).final_error


class TestFindingLabels:
    @pytest.mark.parametrize("delay", [1, 1000])
    def test_every_label_of_a_mixture_is_found(self, delay):
        """Fifty labels, each right in one round of fifty: all are played rightly in the last 10,000 rounds."""
        X, y = clusters(60_000, 50, 30)
        rng = np.random.default_rng(1)
        run = dt.replay(learner_of(50, 30), X, y, rng.integers(1, delay + 1, 60_000), rng.random(60_000))
        assert np.unique(run.labels[-10_000:][run.correct[-10_000:]]).size == 50
        assert (~run.correct[-10_000:]).mean() < 0.05


class TestOptions:
    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ({"lr": 0}, "lr must be"),
            ({"explore_floor": 0.3}, "explore_floor must be from 0 to 1/K = 0.25, got 0.3"),
            ({"explore_floor": -0.1}, "explore_floor must be"),
            ({"replay": -1}, "replay must be"),
            ({"replay": 1.5}, "replay must be"),
            ({"forget": 1}, "forget must be at least 0 and below 1, got 1"),
        ],
    )
    def test_a_bad_one_is_refused_in_one_line(self, setting, message):
        with pytest.raises(dt.InvalidInput, match=message):
            learner_of(**setting)

    def test_forgetting_follows_a_slow_drift(self):
        """The points around which rows are drawn rotate in 20,000 rounds."""
        rng = np.random.default_rng(0)
        y = rng.integers(5, size=40_000)
        angle = 2 * np.pi * np.arange(40_000)[:, None] / 20_000
        points = 1.2 * rng.normal(size=(2, 5, 6))
        X = np.cos(angle) * points[0, y] + np.sin(angle) * points[1, y] + 0.5 * rng.normal(size=(40_000, 6))
        draws = np.random.default_rng(1).random(40_000)
        learners = [learner_of(5, 6, forget=forget) for forget in (0.0, 0.001)]
        keeping, forgetting = (dt.replay(learner, X, y, np.ones(40_000, int), draws) for learner in learners)
        assert (~forgetting.correct).mean() < 0.75 * (~keeping.correct).mean()

    def test_replaying_answers_takes_no_draw_and_changes_the_weights(self):
        X, y = clusters(500, 4, 3)
        once, again = taught(X, y, 4), taught(X, y, 4, replay=3)
        assert again.book.rounds == once.book.rounds
        assert not np.array_equal(once.weights, again.weights)

    def test_a_long_sparse_row_is_learned_once(self):
        rng = np.random.default_rng(0)
        learner = dt.BanditLogit(3, 600, seed=0, replay=1)
        for _ in range(5):
            decision = learner.decide(csr_matrix(rng.normal(size=(1, 600))))
            learner.feedback(decision.id, correct=False)
        learner.flush()
        assert learner.state.kept[0] == 0


# It restarts when the labels change their meaning, and never otherwise.


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
class TestRestart:
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

    def test_when_a_third_of_the_answers_is_flipped(self):
        assert self.start_after(lambda right, t: 1, lambda right, rng: right ^ (rng.random() < 0.33)) == 0

    def test_when_the_answers_are_random(self):
        assert self.start_after(lambda right, t: 1, lambda right, rng: rng.random() < 0.5) == 0


def test_answers_to_rounds_before_a_restart_are_not_learned():
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
