"""Noisy answers, answers about sets, and Exp3: expectations by enumeration, and equality with transcriptions."""

from itertools import combinations, product
from math import comb
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from test_paper import DELAYS, DRAWS, GAMMA, LEARNERS, K, T, X, Y, close

import delaytron as dt
import paper_learners
from delaytron.kernels.explore import holds, put_best, put_ranked
from delaytron.learners.logistic import Exp3
from delaytron.learners.noisy import Dilute, Rcnbf, SetDecision, confident_errors, count_answer
from delaytron.records import Play, Row
from paper_noisy import rcine
from streams import (
    answer,
    choose,
    correct_late,
    flips_of,
    interpreter,
    learn,
    make,
    play_compiled,
    play_interpreted,
    play_online,
    same_bits,
    stories,
)

x = np.array([0.5, -2.0, 1.0])


def change(learner, play, correct):
    """What one answer does to the weights of a learner, which stays as it is."""
    before = [field.copy() for field in learner.state]
    old = learner.weights
    learn(learner, play, correct)
    new = learner.weights
    for field, value in zip(learner.state, before, strict=True):
        field[...] = value
    return new - old


def play_of(learner, u):
    """The play of a round with this draw."""
    extra = np.empty(len(learner.rule.extras))
    row = Row(None, np.zeros(learner.n_features) + x[: learner.n_features])
    return Play(1, row, *choose(learner, row, u, extra), extra)


# --- noisy answers


@pytest.mark.parametrize(("when", "delays"), [("nodelay", [1] * T), ("delays", DELAYS)])
def test_known_rates_reproduce_the_reference_run(when, delays):
    run = dt.replay(Rcnbf(K, 2, gamma=GAMMA, rho0=0.1, rho1=0.2), X, Y, delays, DRAWS)
    trace = LEARNERS[f"rcnbf(rho0=.1,rho1=.2)/{when}"]
    assert run.labels.tolist() == trace["played"]
    close(run.weights, trace["W"])


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.1, 0.2), (0.4, 0.0), (0.0, 0.6), (0.3, 0.5)])
@pytest.mark.parametrize(("n_classes", "gamma"), [(2, 0.3), (3, 1.0), (5, 0.1)])
def test_the_noisy_estimate_is_unbiased_and_has_the_second_moment_of_the_text(n_classes, gamma, rates):
    (rho0, rho1), learner = rates, Rcnbf(n_classes, 3, gamma=gamma, rho0=rates[0], rho1=rates[1])
    b = 1 - rho0 - rho1
    for y, greedy in product(range(n_classes), repeat=2):
        mean, second, of_text = np.zeros((n_classes, 3)), 0.0, 1 - 2.0 * (greedy == y)
        for label in range(n_classes):
            prob = (1 - gamma) * (label == greedy) + gamma / n_classes
            right = 1 - rho1 if label == y else rho0
            for f, chance in ((True, right), (False, 1 - right)):
                move = change(learner, Play(1, Row(None, x), greedy, label, prob, np.empty(0)), f)
                mean += prob * chance * move
                second += prob * chance * np.sum(move**2)
            v = (1 - rho1) * (1 - rho0) ** 2 + rho1 * rho0**2 if label == y else rho0 * (1 - rho0)
            of_text += v / prob / b**2
        np.testing.assert_allclose(mean, np.outer(np.eye(n_classes)[y] - np.eye(n_classes)[greedy], x), atol=1e-12)
        np.testing.assert_allclose(second, x @ x * of_text, rtol=1e-12)


@given(story=stories(), block=st.sampled_from([3, 20]), noise=st.sampled_from([(0.0, 0.0), (0.1, 0.3), (0.4, 0.2)]))
def test_estimated_rates_equal_the_transcribed_text(story, block, noise):
    setting = {"gamma": 0.3, "estimate": True, "block": block}
    learner = make(Rcnbf, story, **setting)
    run, flips = play_compiled(learner, story, noise), flips_of(story.seed, noise, len(story.y))
    text = rcine(story.dense, story.y, story.delays, story.draws, story.n_classes, 0.3, block, flips)
    assert np.array_equal(run.labels, text.labels)
    assert np.array_equal(run.greedy, text.greedy)
    np.testing.assert_allclose(run.weights, text.weights, rtol=1e-9, atol=1e-9)
    online, last = play_online(learner, story, noise=noise)
    assert same_bits(run, online)
    np.testing.assert_allclose(last.rates, text.rates[-1], rtol=0, atol=1e-12)
    assert same_bits(run, play_interpreted(make(Rcnbf, story, **setting), story, noise))


@given(story=stories(max_rounds=25))
def test_a_saved_estimate_continues_with_the_same_bits(story, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "learner.safetensors"

    def saved_and_loaded(learner, _t):
        learner.save(path)
        return dt.load(path)

    given_, noise = {"gamma": 0.3, "estimate": True, "block": 3}, (0.2, 0.2)
    run, last = play_online(make(Rcnbf, story, **given_), story, between=saved_and_loaded, noise=noise)
    assert same_bits(run, play_compiled(make(Rcnbf, story, **given_), story, noise))
    assert last.rates == play_online(make(Rcnbf, story, **given_), story, noise=noise)[1].rates


@pytest.mark.parametrize("noise", [(0.1, 0.2), (0.3, 0.1), (0.0, 0.0)])
def test_on_separable_documents_the_estimated_rates_are_near_the_true_ones(noise):
    data = dt.datasets.load("synsep", n_samples=12_000)
    learner = Rcnbf(9, 400, gamma=0.1, estimate=True, block=6000, seed=0)
    for row, y, flips in zip(data.X.toarray(), data.y.tolist(), flips_of(0, noise, 12_000), strict=True):
        answer(learner, learner.decide(row), y, flips)
    learner.flush()
    np.testing.assert_allclose(learner.rates, noise, atol=0.03)


def test_the_first_block_trusts_every_answer_and_rates_stop_at_45_percent():
    learner = Rcnbf(2, 1, gamma=0.5, estimate=True, block=4, seed=0)
    for _ in range(4):
        assert learner.rates == (0.0, 0.0)
        learner.feedback(learner.decide([1.0]).id, correct=False)
        learner.flush()
    assert learner.rates[0] == 0.0
    assert learner.rates[1] == 0.45


def test_the_confident_part_ends_at_whole_bins_and_without_answers_the_rate_stays():
    tally = np.zeros((2, 100, 2), np.int64)
    assert confident_errors(tally, 1, 0.25) == 0.25
    for p, given_answer in [(0.99, 1), (1.0, 0), (0.985, 1), (np.nan, 1)] + [(0.5, 0)] * 11:
        count_answer(tally, 1, p, given_answer)
    assert confident_errors(tally, 1, 0.0) == pytest.approx(1 / 3)  # 3 of 15 are a fifth
    tally[0] = tally[1, ::-1, ::-1]
    assert confident_errors(tally, 0, 0.0) == pytest.approx(1 / 3)


def test_rows_of_zeros_and_of_any_length_leave_the_model_finite():
    learner = Rcnbf(3, 2, gamma=0.5, estimate=True, block=2, seed=0)
    for value in (0.0, 1e-50, 1e-40, 1e40, 1e50):
        learner.feedback(learner.decide([value, 0.0]).id, correct=True)
    learner.flush()
    assert all(np.isfinite(field).all() for field in learner.state)


# --- sets of labels


@pytest.mark.parametrize(("n_classes", "m"), [(2, 1), (5, 2), (7, 4), (9, 8), (33, 2), (34, 32)])
def test_the_sets_of_all_ranks_are_those_of_the_standard_library(n_classes, m):
    for rank, labels in enumerate(combinations(range(n_classes), m)):
        sets = np.zeros(2)
        put_ranked(rank, comb(n_classes, m), m, n_classes, sets)
        assert tuple(r for r in range(n_classes) if holds(sets, 0, r)) == labels


@pytest.mark.parametrize(("n_classes", "m"), [(56, 28), (1000, 6), (1000, 994), (200_000, 199_997)])
def test_large_sets_are_found_without_overflow(n_classes, m):
    last = comb(n_classes, m) - 1
    assert last < 2**53
    for rank, labels in ((0, range(m)), (last, range(n_classes - m, n_classes))):
        sets = np.zeros(-(-n_classes // 32))
        put_ranked(rank, last + 1, m, n_classes, sets)
        bits = np.unpackbits(sets.astype("<u4").view(np.uint8), bitorder="little")[:n_classes]
        assert np.array_equal(np.flatnonzero(bits), np.array(labels))


@given(
    scores=st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, np.inf]), min_size=2, max_size=70), part=st.floats(0, 0.999)
)
def test_the_best_labels_are_those_of_a_stable_sort(scores, part):
    n = len(scores)
    m = 1 + int(part * (n - 1))
    sets = np.zeros(2 * 3)
    put_best(np.array(scores), m, np.empty(n), sets, 3)
    expected = np.sort(np.argsort(-np.array(scores), kind="stable")[:m])
    assert [r for r in range(n) if holds(sets, 3, r)] == expected.tolist()
    assert not sets[:3].any()


def all_plays(learner):
    """Every play of a round with its probability: the best set, then all sets as they are explored."""
    gamma, n_sets = learner.gamma, comb(learner.n_classes, learner.m)
    draws = [(1 - gamma) / 2] + [1 - gamma + gamma * (rank + 0.5) / n_sets for rank in range(n_sets)]
    return zip([1 - gamma] + [gamma / n_sets] * n_sets, [play_of(learner, u) for u in draws], strict=True)


@pytest.mark.parametrize("estimator", ["inclusion", "set"])
@pytest.mark.parametrize(("n_classes", "m"), [(k, m) for k in range(2, 7) for m in range(1, k)])
def test_the_estimate_from_sets_is_unbiased(n_classes, m, estimator):
    for gamma in (0.05, 0.4):
        learner = Dilute(n_classes, 1, gamma=gamma, m=m, estimator=estimator)
        learner.state.W[:, 0] = np.random.default_rng(n_classes).permutation(n_classes)
        for y in range(n_classes):
            mean, total = np.zeros(n_classes), 0.0
            for chance, play in all_plays(learner):
                right = bool(learner._is_correct(None, play.extra[None], np.array([y]))[0])
                moved = change(learner, play, right)[:, 0] / play.x.values[0]
                mean += chance * moved
                total += chance
            close(total, 1)
            expected = np.eye(n_classes)[y] - np.eye(n_classes)[play.greedy]
            np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-11)


def test_the_inclusion_estimate_varies_half_as_much_as_the_set_estimate():
    """The check of the text, K = 6, m = 3, gamma = .1: E|ehat|^2 is 70.8 against 146.1 while y is in the best set."""
    found = {}
    for estimator in ("inclusion", "set"):
        learner = Dilute(6, 1, gamma=0.1, m=3, estimator=estimator)
        found[estimator] = 0.0
        for chance, play in all_plays(learner):  # W = 0: the best set is {0, 1, 2}, the greedy label 0
            moved = change(learner, play, play.label == 0)[:, 0] / play.x.values[0]
            found[estimator] += chance * np.sum((moved + np.eye(6)[0]) ** 2)
    assert found == pytest.approx({"inclusion": 70.8, "set": 146.1}, abs=0.05)


def set_run(learner, story):
    """Play online; return what `replay` returns, and the sets."""
    decisions = []
    for t, row in enumerate(story.rows()):
        for s in range(t):
            if s + story.delays[s] == t:
                learner.feedback(decisions[s].id, correct=int(story.y[s]) in decisions[s].labels)
        decisions.append(learner.decide(row))
    labels, greedy, probs = (np.array([getattr(d, name) for d in decisions]) for name in ("label", "greedy", "prob"))
    right = np.array([y in d.labels for y, d in zip(story.y.tolist(), decisions, strict=True)])
    return dt.Run(labels, greedy, probs, right, learner.weights), [d.labels for d in decisions]


def rounded(*args):
    """The text's estimate without the last digits: labels with equal estimates must stay equal, or rounding plays."""
    return np.round(exact(*args), 11)


exact = paper_learners.set_estimate


@pytest.mark.parametrize("estimator", ["inclusion", "set"])
@given(data=st.data())
def test_sets_of_several_labels_equal_the_transcribed_text(estimator, data):
    story = data.draw(stories())
    story = story._replace(n_classes=min(story.n_classes, 12), y=story.y % min(story.n_classes, 12))
    m = data.draw(st.integers(1, min(4, story.n_classes - 1)) | st.just(story.n_classes - 1))
    with patch.object(paper_learners, "set_estimate", rounded):
        args = (story.dense, story.y, story.delays, story.draws, story.n_classes)
        text = paper_learners.dilute(*args, gamma=0.3, m=m, estimator=estimator)
    run = play_compiled(make(Dilute, story, gamma=0.3, m=m, estimator=estimator), story)
    assert np.array_equal(run.labels, text.labels)
    assert np.array_equal(run.greedy, text.greedy)
    assert np.array_equal(run.correct, text.correct)
    np.testing.assert_allclose(run.probs, text.probs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.weights, text.weights, rtol=1e-8, atol=1e-8)


@given(data=st.data())
def test_sets_are_played_alike_by_simulator_interpreter_and_online_object(data):
    story = data.draw(stories())
    setting = {
        "gamma": 0.3,
        "m": data.draw(st.sampled_from([1, story.n_classes // 2, story.n_classes - 1])),
        "estimator": data.draw(st.sampled_from(["inclusion", "set"])),
    }
    run = play_compiled(make(Dilute, story, **setting), story)
    assert same_bits(run, play_interpreted(make(Dilute, story, **setting), story))
    online, sets = set_run(make(Dilute, story, **setting), story)
    assert same_bits(run, online)
    assert all(
        len(labels) == setting["m"] and labels[0] == label for labels, label in zip(sets, run.labels, strict=True)
    )
    with interpreter():
        assert set_run(make(Dilute, story, **setting), story)[1] == sets


def test_sets_of_many_labels_take_more_than_one_number():
    learner = Dilute(70, 2, m=3, gamma=0.9, seed=1)
    decisions = [learner.decide([1.0, 0.5]) for _ in range(50)]
    assert max(max(d.labels) for d in decisions) > 63
    assert all(len(d.labels) == 3 for d in decisions)
    assert learner.state.W.shape == (70, 2)


def test_a_decision_has_its_set_and_its_feedback_is_about_the_set(tmp_path):
    learner = Dilute(5, 2, m=3, gamma=0.3, seed=4)
    decision = learner.decide([1.0, 0.0])
    assert isinstance(decision, SetDecision)
    assert (decision.id, decision.round, decision.label) == (1, 1, decision.labels[0])
    learner.save(tmp_path / "learner")
    again = dt.load(tmp_path / "learner")
    for one in (learner, again):
        assert one.feedback(decision.id, correct=True) == "accepted"
        assert one.feedback(decision.id, correct=True) == "duplicate"
    assert learner.decide([0.0, 1.0]) == again.decide([0.0, 1.0])
    assert same_bits(learner.weights, again.weights)
    assert learner.weights.any()


def test_any_numbers_for_the_sets_in_a_file_are_loaded_and_learned_from_without_a_crash(tmp_path):
    learner = Dilute(5, 2, m=3, gamma=0.3, seed=4)
    decision = learner.decide([1.0, 0.0])
    for bad in (-1.0, 0.5, 2.0**32, -(2.0**63), 1e300):
        learner.book.play(decision.id).extra[:] = bad
        learner.save(tmp_path / "learner")
        again = dt.load(tmp_path / "learner")
        again.feedback(decision.id, correct=True)
        again.flush()
        assert again.weights.shape == (5, 2)


def test_the_simulator_counts_a_set_as_wrong_when_the_true_label_is_not_in_it():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(300, 4)), rng.integers(0, 6, 300)
    some, most = (dt.simulate(Dilute, data, gamma=0.1, m=m, n_jobs=1).mistakes[0, -1] for m in (1, 5))
    assert some[0] > 150 > most[0]
    assert most[1] > 150  # the greedy label is still one of six


BAD = [
    (Dilute, {"m": 0}, "m must be an integer of at least 1, got 0"),
    (Dilute, {"m": 4}, "m must be below n_classes = 4, got 4; play fewer labels"),
    (Dilute, {"m": 2.0}, "m must be an integer of at least 1, got 2.0"),
    (Dilute, {"estimator": "sets"}, "estimator must be one of inclusion, set, got 'sets'; did you mean set?"),
    (Dilute, {"gamma": 0}, r"gamma must be in (0, 1], got 0"),
    (Exp3, {"eta": 0.0}, "eta must be above 0, got 0.0"),
    (Rcnbf, {"rho0": 0.5, "rho1": 0.5}, "rho0 and rho1 must be at least 0 with a sum below 1"),
    (Rcnbf, {"rho0": -0.1}, "rho0 and rho1 must be at least 0 with a sum below 1"),
    (Rcnbf, {"rho1": "much"}, "rho1 must be a finite number, got 'much'"),
    (Rcnbf, {"estimate": True, "rho0": 0.1}, "estimate=True estimates the rates itself; leave out rho0 and rho1"),
    (Rcnbf, {"estimate": "yes"}, "estimate must be True or False, got 'yes'"),
    (Rcnbf, {"estimate": True, "block": 0}, "block must be an integer of at least 1, got 0"),
]


@pytest.mark.parametrize(("cls", "setting", "message"), BAD)
def test_wrong_settings_are_refused_in_one_line(cls, setting, message):
    with pytest.raises(dt.InvalidInput) as problem:
        cls(4, 2, **setting)
    assert str(problem.value).startswith(message)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(("n_classes", "m"), [(57, 28), (58, 29), (1000, 7), (10**7, 5 * 10**6)])
def test_more_sets_than_can_be_drawn_are_refused(n_classes, m):
    with pytest.raises(dt.InvalidInput, match=r"2\^53 or more sets of m = \d+, too many to draw from"):
        Dilute(n_classes, 2, m=m)


# --- Exp3


def test_the_loss_estimate_of_exp3_is_unbiased():
    learner = Exp3(5, 3, eta=0.3)
    learner.state.L[:] = [0.0, 3.0, 1.5, 0.2, 7.0]
    plays = {play.label: play for play in (play_of(learner, u) for u in np.linspace(0, 1, 5000, endpoint=False))}
    assert sorted(plays) == list(range(5))
    close(sum(play.prob for play in plays.values()), 1)
    for y in range(5):
        mean = sum(play.prob * change(learner, play, label == y)[:, 0] for label, play in plays.items())
        close(mean, np.eye(5)[y] - 1)  # weights are losses with a minus


def test_exp3_shows_its_losses_for_any_row_and_checks_the_rows():
    learner = Exp3(3, 2, eta=0.1, seed=0)
    learner.feedback(learner.decide([1.0, 0.0]).id, correct=False)
    learner.flush()
    assert learner.weights.shape == (3, 1)
    assert learner.scores(csr_array(np.ones((4, 2)))).tolist() == [learner.weights[:, 0].tolist()] * 4
    assert learner.predict([5.0, 1.0]).tolist() == [int(np.argmax(learner.weights))]
    with pytest.raises(dt.InvalidInput, match="X must have 2 features, got 3"):
        learner.scores([[1.0, 2.0, 3.0]])


# --- answers that come after their round counted as wrong

REVISED = [
    Rcnbf(4, 3, gamma=0.3, rho0=0.1, rho1=0.2),
    Rcnbf(4, 3, gamma=0.3, estimate=True),
    Dilute(4, 3, gamma=0.3, m=2),
    Dilute(4, 3, gamma=0.3, m=3, estimator="set"),
    Exp3(4, 3, eta=0.1),
]


@pytest.mark.parametrize("learner", REVISED, ids=lambda learner: f"{learner.name}")
def test_a_wrong_that_is_revised_is_a_right(learner):
    for u in (0.1, 0.5, 0.95):
        play = play_of(learner, u)
        expected = learner.weights + change(learner, play, True)
        learn(learner, play, False)
        correct_late(learner, play)
        close(learner.weights, expected)


def test_exp3_revises_nothing_of_an_earlier_epoch():
    learner = Exp3(3, 1, expire_after=1, on_expiry="wrong", seed=0)
    for _ in range(7):
        learner.decide([1.0])
    before = learner.weights
    learner.feedback(1, correct=True)
    learner.flush()
    assert same_bits(learner.weights, before)
