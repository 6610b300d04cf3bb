"""LinUCB, linear and logistic Thompson sampling: what they play and learn, and what they refuse."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import ndtr

import delaytron as dt
from delaytron.learners.linear_bandits import RIDGES


def played(learner, X, rewards):
    """Let a learner play each row, and return the labels; the reward of a label comes at once."""
    labels = []
    for i in range(X.shape[0]):
        decision = learner.decide(X[i : i + 1] if isinstance(X, csr_array) else X[i])
        learner.feedback(decision.id, reward=float(rewards[i, decision.label]))
        labels.append(decision.label)
    learner.flush()
    return np.array(labels)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("cls", [dt.LinUcb, dt.LinTs])
def test_the_weights_are_ridge_regressions_of_the_rewards_after_thousands_of_answers(cls, sparse):
    rng = np.random.default_rng(0)
    X, rewards = rng.normal(size=(4000, 6)), rng.random((4000, 3))
    learner = cls(3, 6, ridge=2.0, seed=0)
    labels = played(learner, csr_array(X) if sparse else X, rewards)
    for k in range(3):
        A = 2.0 * np.eye(6) + X[labels == k].T @ X[labels == k]
        np.testing.assert_allclose(learner.weights[k], np.linalg.solve(A, X[labels == k].T @ rewards[labels == k, k]))
        np.testing.assert_allclose(learner.state.B[k], np.linalg.inv(A), rtol=1e-9, atol=1e-15)


def test_lin_ucb_plays_the_best_bound_and_any_of_equal_ones():
    learner = dt.LinUcb(4, 2, alpha=1.0, seed=0)
    assert learner.probabilities([1.0, 0.0]).tolist() == [0.25] * 4
    learner.feedback(learner.decide([1.0, 0.0], allowed=[2]).id, correct=False)
    learner.flush()
    assert learner.probabilities([1.0, 0.0]) == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])  # bounds 1, 1, .71, 1
    assert learner.probabilities([0.0, 1.0]).tolist() == [0.25] * 4
    learner.feedback(learner.decide([1.0, 0.0], allowed=[1]).id, correct=True)
    learner.flush()
    assert learner.probabilities([1.0, 0.0]).tolist() == [0, 1, 0, 0]  # .5 + .71


@pytest.mark.parametrize(
    "learner", [dt.LinTs(2, 3, v=0.7, seed=4), dt.LogisticTs(2, 3, alpha=0.4, seed=4)], ids=["lin_ts", "logistic_ts"]
)
def test_of_two_labels_the_probability_is_that_of_the_difference_of_their_scores(learner):
    rng = np.random.default_rng(1)
    X, rewards = rng.normal(size=(60, 3)), rng.random((60, 2))
    played(learner, X, rewards)
    for x in rng.normal(size=(10, 3)):
        p, scores = learner.probabilities(x), learner.scores(x)[0]
        if isinstance(learner, dt.LinTs):
            variances = 0.7**2 * np.array([x @ B @ x for B in learner.state.B])
        else:
            z = np.clip((x - learner.state.features[0]) * learner.state.features[1], -5, 5) - learner.state.features[2]
            z = np.append(z / np.linalg.norm(z), 1.0)
            variances = 0.4 * np.column_stack([1 - learner.state.U, learner.state.spread]) @ z**2
        assert p[0] == pytest.approx(ndtr((scores[0] - scores[1]) / np.sqrt(variances.sum())), abs=1e-4)


@pytest.mark.parametrize("cls", [dt.LinTs, dt.LogisticTs])
def test_all_labels_are_tried_while_answers_are_out(cls):
    learner = cls(5, 2, seed=1)
    labels = [decision.label for decision in learner.decide_many(np.ones((500, 2)))]
    assert np.bincount(labels, minlength=5).min() > 60


def test_clicks_of_five_per_cent_are_told_from_ten():
    """Contexts .10/.05 of the project's benchmarks, without delay."""
    rng = np.random.default_rng(2)
    contexts, clicks = rng.integers(4, size=20_000), rng.random(20_000)
    learner = dt.LogisticTs(4, 4, seed=2)
    won = []
    for c, u in zip(contexts, clicks, strict=True):
        decision = learner.decide(np.eye(4)[c])
        learner.feedback(decision.id, correct=bool(u < (0.1 if decision.label == c else 0.05)))
        won.append(decision.label == c)
    assert np.mean(won[-5000:]) > 0.9


def test_a_sparse_row_costs_its_non_zeros_only():
    """A million features: a decision touches the few of its row."""
    learner = dt.LogisticTs(3, 2**20, seed=0)
    for t in range(20):
        row = csr_array((np.ones(3), ([0, 0, 0], [t, 1000 + t, 2**20 - 1])), shape=(1, 2**20))
        learner.feedback(learner.decide(row).id, correct=t % 2 == 0)
    learner.flush()
    assert np.count_nonzero(learner.state.U.any(axis=1)) <= 41


@pytest.mark.parametrize("cls", [dt.LinUcb, dt.LinTs])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 501}, r"n_features must be at most 500 for lin_\w+, got 501; take logistic_ts"),
        ({"n_classes": 2000, "n_features": 500}, r"n_classes must be at most 1073 for lin_\w+ with 500 features"),
        ({"ridge": 0.0}, r"ridge must be from 1e-06 to 1000000, got 0.0; 1 is the default"),
        ({"ridge": 1e7}, r"ridge must be from 1e-06 to 1000000, got 10000000.0"),
    ],
)
def test_what_takes_too_much_or_rounds_too_much_is_refused(cls, arguments, message):
    with pytest.raises(dt.InvalidInput, match=message):
        cls(**{"n_classes": 3, "n_features": 4} | arguments)


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("factor", [1e-50, 1e50])
def test_parameters_at_their_ends_leave_probabilities(ridge, factor):
    rng = np.random.default_rng(3)
    learners = (
        dt.LinUcb(3, 4, alpha=factor, ridge=ridge, seed=0),
        dt.LinTs(3, 4, v=factor, ridge=ridge, seed=0),
        dt.LogisticTs(3, 4, alpha=factor, seed=0),
    )
    for learner in learners:
        for scale in (1e-50, 1.0, 1e50):
            X = scale * np.column_stack([np.ones(15), rng.random((15, 3))])
            played(learner, X, rng.random((15, 3)))
            assert learner.probabilities(X[0]).sum() == pytest.approx(1.0)
        assert all(np.isfinite(field).all() for field in learner.state)


def test_a_new_class_is_tried_more_often_than_those_that_fail():
    for learner in (dt.LinUcb(2, 2, seed=0), dt.LinTs(2, 2, seed=0), dt.LogisticTs(2, 2, seed=0)):
        played(learner, np.ones((50, 2)), np.full((50, 2), 0.02))
        assert learner.add_class() == 2
        assert learner.probabilities([1.0, 1.0])[2] > 0.4
