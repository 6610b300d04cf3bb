"""What DelayedClassifier plays: the rounds that the online object and the simulator play, in one piece or in many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone

import delaytron as dt
from delaytron.errors import InvalidInput
from delaytron.records import NEVER
from delaytron.rng import stream
from delaytron.simulation import replay as advancing
from delaytron.simulation.replay import draw_piece
from delaytron.sklearn import DelayedClassifier
from streams import known_rounds

pytestmark = pytest.mark.xdist_group("bandit_logit")

N, D, K = 60, 4, 3
KINDS = [  # a clock, sets of labels, answers that are labels, expiry; tests/simulation has all learners
    ("bandit_logit", {}),
    ("delaytron", {"gamma": 0.3}),
    ("dilute", {"gamma": 0.3, "m": 2}),
    ("perceptron", {}),
    ("banditron", {"gamma": 0.3, "expire_after": 5, "on_expiry": "wrong"}),
]
DELAYS = [1, 20, "fixed:7", "geometric:5+missing:0.3", [1, 30, 2, -1, 3]]


def some_rows(seed, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.7)
    return X, np.argmax(X @ rng.normal(size=(D, K)), axis=1)


def played_online(learner, X, y, delays):
    """Play the rounds with nothing but the public calls of a learner, wait for all answers; return what was played."""
    due, played = {}, []
    for i, x in enumerate(X):
        for decision, answer in due.pop(i, []):
            learner.feedback(decision, **answer)
        decision = learner.decide(x)
        played.append(decision.labels if hasattr(decision, "labels") else (decision.label,))
        answer = {"label": int(y[i])} if learner.feedback_type == "label" else {"correct": bool(y[i] in played[-1])}
        if delays[i] < NEVER:
            due.setdefault(i + int(delays[i]), []).append((decision.id, answer))
    for decision, answer in [pair for pairs in due.values() for pair in pairs]:
        learner.feedback(decision, **answer)
    learner.flush()
    return played


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("delay", DELAYS, ids=str)
@pytest.mark.parametrize(("name", "parameters"), KINDS, ids=str)
def test_fit_plays_what_the_online_object_plays(name, parameters, delay, sparse):
    X, y = some_rows(1)
    rows = csr_array(X) if sparse else X
    learner = dt.LEARNERS[name](K, D, seed=5, **parameters)
    delays = draw_piece(dt.delays.as_delay(delay), 5, 0, N)
    played = played_online(learner, [rows[[i]] for i in range(N)] if sparse else X, y, delays)
    wrong = [label not in labels for labels, label in zip(played, y, strict=True)]
    fitted = DelayedClassifier(name, delay=delay, parameters=parameters, random_state=5).fit(rows, y)
    assert fitted.error_curve_.tolist() == [sum(wrong[: i + 1]) / (i + 1) for i in range(N)]
    assert fitted.learner_.weights.tobytes() == learner.weights.tobytes()
    assert fitted.learner_.pending == learner.pending
    assert known_rounds(fitted.learner_) == known_rounds(learner)


@pytest.mark.parametrize("delay", DELAYS, ids=str)
@pytest.mark.parametrize(("name", "parameters"), KINDS, ids=str)
@settings(max_examples=6)
@given(cuts=st.lists(st.integers(1, N - 1), max_size=4), sparse=st.booleans())
def test_pieces_are_the_same_to_the_bit(name, parameters, delay, cuts, sparse):
    X, y = some_rows(2)
    rows = csr_array(X) if sparse else X
    make = DelayedClassifier(name, delay=delay, parameters=parameters, random_state=5)
    whole = clone(make).fit(rows, y)
    pieces = clone(make)
    for begin, end in zip([0, *sorted(set(cuts))], [*sorted(set(cuts)), N], strict=True):
        pieces.partial_fit(rows[begin:end], y[begin:end], classes=range(K))
    pieces.finish()
    assert pieces.learner_.weights.tobytes() == whole.learner_.weights.tobytes()
    assert pieces.decision_function(X).tobytes() == whole.decision_function(X).tobytes()
    assert pieces.error_curve_.tolist() == whole.error_curve_.tolist()


@pytest.mark.parametrize("name", ["bandit_logit", "delaytron"])
def test_the_curve_is_that_of_simulate(name):
    X, y = some_rows(3, 400)
    fitted = DelayedClassifier(name, delay=50, random_state=9).fit(X, y)
    result = dt.simulate(name, (X, y), delay=50, runs=1, seed=9)
    assert fitted.error_curve_[result.rounds - 1].tolist() == result.error_rate[0].tolist()


@pytest.mark.parametrize("name", ["bandit_logit", "delaytron", "dilute"])
def test_only_right_or_wrong_is_learned(name):
    """Where the played label is wrong, any other wrong one in the place of the true label changes nothing."""
    X, y = some_rows(4)
    delays = draw_piece(dt.delays.Uniform(6), 5, 0, N)
    played = played_online(dt.LEARNERS[name](5, D, seed=5), X, y, delays)
    wrong = np.array([label not in labels for labels, label in zip(played, y, strict=True)])
    other = np.array([max(set(range(5)) - {label, *labels}) for labels, label in zip(played, y, strict=True)])
    make = DelayedClassifier(name, delay=6, random_state=5)
    honest = clone(make).partial_fit(X, y, classes=range(5)).finish()
    misled = clone(make).partial_fit(X, np.where(wrong, other, y), classes=range(5)).finish()
    assert 0 < wrong.sum() < N
    assert honest.learner_.weights.tobytes() == misled.learner_.weights.tobytes()


def test_partial_fit_leaves_late_feedback_open():
    X, y = some_rows(5)
    classifier = DelayedClassifier("delaytron", delay="fixed:1000", random_state=0)
    classifier.partial_fit(X, y, classes=range(K))
    assert classifier.learner_.pending == N
    assert not classifier.learner_.weights.any()
    assert classifier.finish().learner_.pending == 0
    assert classifier.learner_.weights.any()
    before = classifier.learner_.weights
    assert np.array_equal(classifier.finish().learner_.weights, before)  # nothing is left to wait for


def test_lost_feedback_stays_open():
    X, y = some_rows(5)
    classifier = DelayedClassifier("delaytron", delay="fixed:3+missing:1", random_state=0).fit(X, y)
    assert classifier.learner_.pending == N
    assert not classifier.learner_.weights.any()


def test_fit_starts_again_and_partial_fit_continues():
    X, y = some_rows(6)
    classifier = DelayedClassifier("delaytron", random_state=0)
    first = classifier.fit(X, y).learner_.weights
    assert np.array_equal(classifier.fit(X, y).learner_.weights, first)
    assert classifier.partial_fit(X, y).error_curve_.size == 2 * N
    assert classifier.learner_.book.rounds == 2 * N


def test_rows_are_shuffled_only_if_asked_for():
    X, y = some_rows(7)
    order = stream(4, "rows").permutation(N)
    shuffled = DelayedClassifier("delaytron", shuffle=True, random_state=4).fit(X, y)
    by_hand = DelayedClassifier("delaytron", random_state=4).fit(X[order], y[order])
    assert shuffled.learner_.weights.tobytes() == by_hand.learner_.weights.tobytes()


@given(first=st.integers(0, 40), count=st.integers(1, 40), block=st.integers(1, 16), delay=st.sampled_from(DELAYS))
def test_delays_do_not_depend_on_pieces(first, count, block, delay):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advancing, "BLOCK", block)
        whole = draw_piece(dt.delays.as_delay(delay), 7, 0, 80)
        assert draw_piece(dt.delays.as_delay(delay), 7, first, count).tolist() == whole[first : first + count].tolist()


def test_a_trace_continues_where_it_was():
    assert draw_piece(dt.delays.Trace([4, 1, 2]), 0, 2, 4).tolist() == [2, 4, 1, 2]


def test_the_share_that_is_lost_is_that_of_the_model():
    lost = draw_piece(dt.delays.parse("fixed:2+missing:0.25"), 0, 0, 40_000)
    assert abs(np.mean(lost == NEVER) - 0.25) < 0.01
    assert set(lost.tolist()) == {2, NEVER}


def test_a_delay_model_of_the_user_is_checked():
    class Zero:
        def sample(self, n_rounds, rng):
            return np.zeros(n_rounds, np.int64)

    with pytest.raises(InvalidInput, match="must be at least 1, got 0"):
        DelayedClassifier(delay=Zero()).fit([[0.0], [1.0]], [0, 1])


def test_the_learner_is_saved_without_pickle(tmp_path):
    X, y = some_rows(8)
    classifier = DelayedClassifier(delay="fixed:10", random_state=0).partial_fit(X, y, classes=range(K))
    classifier.learner_.save(tmp_path / "learner.safetensors")
    loaded = dt.load(tmp_path / "learner.safetensors")
    assert loaded.pending == 10
    assert loaded.scores(X).tobytes() == classifier.learner_.scores(X).tobytes()
