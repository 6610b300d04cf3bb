"""The online object: late, repeated, conflicting, unknown and malformed input."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

import delaytron as dt
from delaytron.simulation.simulate import simulate
from forms import everything
from streams import answer, same_bits

ROWS = np.random.default_rng(3).normal(size=(40, 5))


def trained(cls=dt.Delaytron, rows=ROWS, **settings):
    """Return a learner with some decisions open, some answered and some queued."""
    learner = cls(4, 5, seed=11, **settings)
    decisions = [learner.decide(row) for row in rows]
    for decision in decisions[::3]:
        answer(learner, decision, decision.id % 4)
    learner.decide(rows[0])
    answer(learner, decisions[1], 0)
    return learner


def broken_row(indices):
    row = csr_array(([1.0], [0], [0, 1]), shape=(1, 5))
    row.indices = np.array(indices, np.int32)
    return row


def test_a_row_with_unsorted_or_doubled_indices_is_put_in_order():
    row = csr_array(([3.0, 1.0, 2.0], [4, 0, 4], [0, 3]), shape=(1, 5))
    learner, plain = dt.Banditron(4, 5, seed=0), dt.Banditron(4, 5, seed=0)
    for one, x in ((learner, row), (plain, [1.0, 0, 0, 0, 5.0])):
        one.feedback(one.decide(x).id, correct=False)
        one.flush()
    assert same_bits(learner.weights, plain.weights)
    assert row.indices.tolist() == [4, 0, 4]


BAD_ROWS = [
    ([1.0, np.nan, 0, 0, 0], "x must be finite, got nan at position 1"),
    ([1.0, 0, 0, 0, -np.inf], "x must be finite, got -inf at position 4"),
    ([1.0, 2.0], r"x must be 1-D with 5 numbers, got shape \(2,\)"),
    (np.ones((1, 5)), r"x must be 1-D with 5 numbers, got shape \(1, 5\)"),
    (["a", 1, 2, 3, 4], "x must be 5 numbers"),
    (None, "x must be"),
    (["1", "2", "3", "4", "5"], "x must be 5 numbers"),
    (np.full(5, 1j), "x must be 5 numbers"),
    ([10**400, 0, 0, 0, 0], "x must be 5 numbers"),
    (csr_array(np.ones((2, 5))), "x must be one row, got 2"),
    (csr_array(np.ones((1, 4))), "X must have 5 features, got 4"),
    (csr_array([[np.inf, 0, 0, 0, 0]]), "X must be finite, got inf"),
    (csr_array(([1.0], [9], [0, 1]), shape=(1, 10))[:, :6], "X must have 5 features, got 6"),
    (broken_row([7]), "X must be a valid CSR matrix"),
    (broken_row([-1]), "X must be a valid CSR matrix"),
]


@pytest.mark.parametrize(("x", "message"), BAD_ROWS)
def test_a_bad_row_is_refused_and_changes_nothing(x, message):
    learner = trained()
    before = everything(learner)
    with pytest.raises(dt.InvalidInput, match=message):
        learner.decide(x)
    assert everything(learner) == before


BAD_FEEDBACK = [
    ((99, True), {}, dt.UnknownDecision, "decision 99 was never issued; known are 1 to 41"),
    ((0, True), {}, dt.UnknownDecision, "decision 0 was never issued"),
    (("one", True), {}, dt.UnknownDecision, "decision 'one' was never issued"),
    ((1.5, True), {}, dt.UnknownDecision, "decision 1.5 was never issued"),
    ((None, True), {}, dt.UnknownDecision, "decision None was never issued"),
    ((1.0, True), {}, dt.UnknownDecision, "decision 1.0 was never issued"),
    ((True, True), {}, dt.UnknownDecision, "decision True was never issued"),
    ((3, "yes"), {}, dt.InvalidInput, "correct must be True or False, got 'yes'"),
    ((3, 2), {}, dt.InvalidInput, "correct must be True or False, got 2"),
    (
        (3,),
        {},
        dt.InvalidInput,
        r"Delaytron was given .*; use feedback\(id, correct=...\) or feedback\(id, reward=...\)",
    ),
    (
        (3,),
        {"label": 1},
        dt.InvalidInput,
        r"Delaytron was given .*; use feedback\(id, correct=...\) or feedback\(id, reward=...\)",
    ),
    ((3, True), {"label": 1}, dt.InvalidInput, "was given correct=True, label=1; use "),
]


@pytest.mark.parametrize(("args", "kwargs", "error", "message"), BAD_FEEDBACK)
def test_bad_feedback_is_refused_and_changes_nothing(args, kwargs, error, message):
    learner = trained()
    before = everything(learner)
    with pytest.raises(error, match=message):
        learner.feedback(*args, **kwargs)
    assert everything(learner) == before


@pytest.mark.parametrize("x", [[1e50, 0, 0, 0, 1.0], csr_array([[1e50, 0, 0, 0, 1.0]])])
def test_large_numbers_are_finite_too(x):
    learner = dt.Banditron(4, 5, seed=0)
    learner.feedback(learner.decide(x).id, correct=False)
    learner.flush()
    assert learner.weights.min() == -1e50


def test_spare_room_behind_a_sparse_row_is_not_read():
    row = csr_array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    row.indptr[1] = 2
    learner = dt.Banditron(4, 5, seed=0)
    learner.feedback(learner.decide(row).id, correct=False)
    learner.flush()
    assert learner.weights.min(axis=0).tolist() == [-1.0, -2.0, 0.0, 0.0, 0.0]


def test_threads_may_score_at_the_same_time():
    learner, X = dt.Banditron(200, 5, seed=0), np.random.default_rng(0).normal(size=(3000, 5))
    for row in X[:50]:
        learner.feedback(learner.decide(row).id, correct=True)
    expected = learner.scores(X)
    with ThreadPoolExecutor(2) as pool:
        assert all(same_bits(scores, expected) for scores in pool.map(learner.scores, [X] * 20))


READS = {"weights": lambda learner: learner.weights, "scores": lambda learner: learner.scores(ROWS)}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("cls", dt.LEARNERS.values())
def test_reading_waits_while_another_thread_changes_the_learner(cls, read):
    learner = trained(cls)
    expected = read(learner)
    with ThreadPoolExecutor(1) as pool:
        with learner._lock:  # as every change holds it
            found = pool.submit(read, learner)
            with pytest.raises(TimeoutError):
                found.result(timeout=0.05)
        assert same_bits(found.result(), expected)


def test_an_interrupted_update_keeps_the_answer(monkeypatch):
    learner = dt.Banditron(3, 2, seed=0)
    decision = learner.decide([1.0, 0.0])
    learner.feedback(decision.id, correct=False)
    before = everything(learner)
    with monkeypatch.context() as patch:
        patch.setattr(learner, "_run_round", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.flush()
    assert everything(learner) == before
    learner.flush()
    assert learner.weights[decision.greedy].tolist() == [-1.0, 0.0]


def interrupted(*_):
    """Replaces compiled code; raises KeyboardInterrupt."""
    raise KeyboardInterrupt


def test_the_same_answer_twice_is_a_duplicate_and_changes_nothing():
    learner = dt.Delaytron(3, 2, seed=0)
    decision = learner.decide([1.0, 0.0])
    assert learner.feedback(decision.id, correct=False) == "accepted"
    before = everything(learner)
    assert learner.feedback(decision.id, correct=False) == "duplicate"
    assert everything(learner) == before
    learner.flush()
    before = everything(learner)
    assert learner.feedback(decision.id, correct=False) == "duplicate"
    assert everything(learner) == before


@pytest.mark.parametrize("flushed", [False, True])
def test_another_answer_is_a_conflict_and_changes_nothing(flushed):
    learner = dt.Delaytron(3, 2, seed=0)
    decision = learner.decide([1.0, 0.0])
    learner.feedback(decision.id, correct=True)
    if flushed:
        learner.flush()
    before = everything(learner)
    with pytest.raises(
        dt.ConflictingFeedback, match="decision 1 was answered 'correct', now 'wrong' came; a second answer must agree"
    ):
        learner.feedback(decision.id, correct=False)
    assert everything(learner) == before


def test_pending_counts_the_decisions_that_wait_for_an_answer():
    learner = dt.Delaytron(3, 2, seed=0)
    ids = [learner.decide([1.0, t]).id for t in range(5)]
    assert (ids, learner.pending) == ([1, 2, 3, 4, 5], 5)
    learner.feedback(ids[3], correct=True)
    assert learner.pending == 4
    learner.flush()
    assert learner.pending == 4


def test_feedback_is_applied_at_the_start_of_the_next_round_or_by_flush():
    learner = dt.Banditron(3, 2, seed=0)
    decision = learner.decide([1.0, 0.0])
    learner.feedback(decision.id, correct=False)
    assert not learner.weights.any()
    learner.flush()
    assert learner.weights[decision.greedy].tolist() == [-1.0, 0.0]


def test_an_explicit_flush_is_not_a_round_for_the_clock():
    plain, flushed = (dt.AdaptiveDelaytron(3, 5, gamma=0.3, seed=5) for _ in range(2))
    for t, row in enumerate(ROWS):
        for learner in (plain, flushed):
            learner.decide(row)
            if t % 3 == 2:
                learner.feedback(t - 1, correct=True)
        flushed.flush()
        flushed.flush()
        assert plain.state.clock.tolist() == flushed.state.clock.tolist()
    assert plain.state.clock[1] > 4


def test_a_perceptron_takes_the_true_label():
    learner = dt.Perceptron(3, 2, seed=0)
    decision = learner.decide([1.0, 0.5])
    assert (decision.label, decision.prob) == (0, 1.0)
    with pytest.raises(dt.InvalidInput, match=r"Perceptron was given .*; use feedback\(id, label=...\)"):
        learner.feedback(decision.id, correct=True)
    with pytest.raises(dt.InvalidInput, match=r"label must be in 0..2, got 3"):
        learner.feedback(decision.id, label=3)
    assert learner.feedback(decision.id, label=2) == "accepted"
    with pytest.raises(dt.ConflictingFeedback):
        learner.feedback(decision.id, label=1)
    learner.flush()
    assert learner.weights.tolist() == [[-1.0, -0.5], [0.0, 0.0], [1.0, 0.5]]


def test_the_caller_may_reuse_the_array_it_passed():
    learner, row = dt.Banditron(3, 2, seed=0), np.array([1.0, 0.0])
    decision = learner.decide(row)
    row[:] = 7.0
    learner.feedback(decision.id, correct=False)
    learner.flush()
    assert learner.weights[decision.greedy].tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("first", [lambda x: x, csr_matrix])
def test_rows_of_the_other_kind_are_converted(first):
    """The first row decides; a stream that mixes lists, arrays and CSR rows learns the same."""
    mixed, plain = dt.Delaytron(4, 5, seed=2, gamma=0.3), dt.Delaytron(4, 5, seed=2, gamma=0.3)
    for t, row in enumerate(ROWS):
        kinds = (csr_matrix(row), row.tolist(), csr_array([row]), row)
        given = first(row) if t == 0 else kinds[t % 4]
        a, b = mixed.decide(given), plain.decide(row)
        assert a[:4] == b[:4]
        mixed.feedback(a.id, correct=t % 2 == 0)
        plain.feedback(b.id, correct=t % 2 == 0)
    np.testing.assert_allclose(mixed.weights, plain.weights, atol=1e-9)
    np.testing.assert_allclose(mixed.scores(csr_array(ROWS)), plain.scores(ROWS.tolist()), atol=1e-9)


def test_the_online_object_repeats_the_first_run_of_a_simulation():
    y = np.random.default_rng(0).integers(0, 4, len(ROWS))
    result = simulate("delaytron", (ROWS, y), delay=dt.delays.Fixed(1), seed=9, gamma=0.4)
    learner = dt.Delaytron(4, 5, seed=9, gamma=0.4)
    wrong = 0
    for row, label in zip(ROWS, y, strict=True):
        decision = learner.decide(row)
        wrong += decision.label != label
        learner.feedback(decision.id, correct=decision.label == label)
    assert result.mistakes[0, -1, 0] == wrong


BAD_SETTINGS = [
    ({"gamma": 0}, r"gamma must be in \(0, 1\], got 0"),
    ({"gamma": 1.3}, r"gamma must be in \(0, 1\], got 1.3"),
    ({"gamma": float("nan")}, "gamma must be a finite number, got nan"),
    ({"gamma": "big"}, "gamma must be a finite number, got 'big'"),
    ({"eta": 0.0}, "eta must be above 0, got 0.0"),
    ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ({"n_classes": 1}, "n_classes must be an integer of at least 2, got 1"),
    ({"n_features": 0}, "n_features must be an integer of at least 1, got 0"),
    ({"n_features": 2.5}, "n_features must be an integer of at least 1, got 2.5"),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
def test_a_constructor_says_what_is_allowed(settings, message):
    with pytest.raises(dt.InvalidInput, match=message):
        dt.Delaytron(**{"n_classes": 3, "n_features": 2} | settings)


def test_adaptive_delaytron_checks_its_words():
    with pytest.raises(dt.InvalidInput, match="tracker must be one of cumulative, instant, got 'other'"):
        dt.AdaptiveDelaytron(3, 2, tracker="other")
    with pytest.raises(dt.InvalidInput, match="restart must be True or False, got 'no'"):
        dt.AdaptiveDelaytron(3, 2, restart="no")


def test_errors_are_the_standard_kinds_too():
    assert issubclass(dt.InvalidInput, ValueError)
    assert issubclass(dt.UnknownDecision, KeyError)
    assert all(issubclass(e, dt.DelaytronError) for e in (dt.InvalidInput, dt.UnknownDecision, dt.ConflictingFeedback))


def test_two_learners_without_a_seed_explore_differently():
    one, two = dt.Delaytron(2, 1, gamma=1.0), dt.Delaytron(2, 1, gamma=1.0)
    assert [one.decide([1.0]).label for _ in range(64)] != [two.decide([1.0]).label for _ in range(64)]


def test_weights_are_a_copy():
    learner = trained()
    learner.weights[:] = 7.0
    assert not (learner.weights == 7.0).any()


@pytest.mark.parametrize("X", [ROWS[:, :3], np.full((2, 5), np.nan), [["a"] * 5], np.zeros((0, 5))])
def test_predict_refuses_what_decide_refuses(X):
    with pytest.raises(dt.InvalidInput):
        trained().predict(X)


def test_a_learner_prints_how_to_make_it():
    learner = dt.AdaptiveDelaytron(3, 2, gamma=0.25, seed=4)
    assert same_bits(eval(repr(learner), {"AdaptiveDelaytron": dt.AdaptiveDelaytron}).weights, learner.weights)
    assert "gamma=0.25" in repr(learner)
