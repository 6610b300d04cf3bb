"""Standardised rows: by the rows seen so far, the same bits everywhere, saved and copied."""

import inspect
import pickle
from copy import deepcopy
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import delaytron as dt
import paper
import paper_learners
import paper_second_order
from delaytron.kernels.standardize import CENTRE, INVERSE
from delaytron.learners.arguments import as_row
from delaytron.rng import stream
from paper_learners import TRANSCRIPTIONS
from standardized import CASES, DATA, a_learner, some_learners
from streams import (
    Story,
    answer,
    choose,
    interpreter,
    play_compiled,
    play_interpreted,
    play_online,
    same_bits,
    split_noise,
    stories,
)

replaying = import_module("delaytron.simulation.replay")  # by this name the package has the function
FEEDBACK_MODELS = [{"noise": (0.2, 0.3)}, {"expire_after": 3}, {"expire_after": 3, "on_expiry": "wrong"}]


def refreshes(n_rounds):
    """The rounds at whose beginning there is a refresh: whenever the rows seen have grown by a sixteenth."""
    found, due = [], 1
    for t in range(2, n_rounds + 1):
        if t - 1 >= due:
            found.append(t)
            due = t - 1 + max(1, (t - 1) // 16)
    return found


def standardize(X, seen):
    """All rows of X, standardised by the first `seen` ones (two passes: the mean, then the variance)."""
    mean = X[:seen].mean(axis=0)
    deviation = np.sqrt(((X[:seen] - mean) ** 2).mean(axis=0))
    varies = X[:seen].min(axis=0) < X[:seen].max(axis=0)
    Z = np.clip(np.where(varies, (X - mean) / np.where(varies, deviation, 1.0), 0.0), -5, 5)
    Z = np.column_stack([Z, np.ones(len(Z))])
    return Z / np.sqrt((Z**2).sum(axis=1, keepdims=True))


def play_transcribed(name, story, setting):
    """Play the transcription of a learner on rows that change under it, in place, whenever there is a refresh."""
    transcribed = TRANSCRIPTIONS[name]
    known = {k: v for k, v in setting.items() if k in inspect.signature(transcribed).parameters}
    X = story.dense
    rows = np.zeros((X.shape[0], X.shape[1] + 1))
    rows[:, -1] = 1.0
    rounds = refreshes(len(X))

    def receive(delays, t):
        if t in rounds:
            rows[:] = standardize(X, t - 1)
        return [s for s in range(1, t) if s + int(delays[s - 1]) == t]

    with pytest.MonkeyPatch.context() as patch:
        for module in (paper, paper_learners, paper_second_order):
            patch.setattr(module, "receive", receive)
        return transcribed(rows, story.y, story.delays, story.draws, story.n_classes, **known)


TRANSCRIBED = [
    case for case in CASES if case.values[0] != "newtron"
]  # its transcription multiplies by the row of play time


@pytest.mark.parametrize(("name", "setting"), TRANSCRIBED)
@given(story=stories(general=True))
def test_a_run_equals_the_pseudo_code_on_rows_standardised_in_two_passes(name, setting, story):
    ours = play_compiled(a_learner(name, story, setting), story)
    theirs = play_transcribed(name, story, setting)
    assert np.array_equal(ours.labels, theirs.labels)
    assert np.array_equal(ours.greedy, theirs.greedy)
    np.testing.assert_allclose(ours.probs, theirs.probs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-7, atol=1e-7)


@some_learners
@given(story=stories(max_rounds=40))
def test_compiled_interpreted_online_dense_and_sparse_agree_to_the_bit(name, setting, story):
    learner = a_learner(name, story, setting)
    compiled = play_compiled(learner, story)
    other = story._replace(X=csr_array(story.X) if isinstance(story.X, np.ndarray) else story.dense)
    assert same_bits(compiled, play_interpreted(learner, story))
    assert same_bits(compiled, play_compiled(learner, other))
    assert same_bits(compiled, play_online(a_learner(name, story, setting), story)[0])
    assert same_bits(compiled, play_online(learner, other)[0])


@some_learners
@given(story=stories(max_rounds=25))
def test_saving_and_copying_in_the_middle_changes_no_bit(name, setting, story, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "learner.safetensors"

    def saved_or_copied(learner, t):
        if t % 3:
            return deepcopy(learner) if t % 3 == 1 else pickle.loads(pickle.dumps(learner))  # noqa: S301 - our own
        learner.save(path)
        again = dt.load(path)
        assert same_bits(list(again.state), list(learner.state))
        return again

    learner = a_learner(name, story, setting)
    run, last = play_online(learner, story, between=saved_or_copied)
    assert same_bits(run, play_compiled(a_learner(name, story, setting), story))
    assert repr(last) == repr(learner)
    assert "standardize=True" in repr(last)


@some_learners
@given(story=stories(max_rounds=40))
def test_predict_is_greedy_and_changes_nothing(name, setting, story):
    _, learner = play_online(a_learner(name, story, setting), story)
    learner.flush()
    before = deepcopy(learner.state)
    labels = learner.predict(story.X)
    assert same_bits(learner.scores(story.X), learner.scores(story.dense))
    assert same_bits(list(before), list(learner.state))
    rows = [as_row(x, story.X.shape[1], learner.sparse) for x in story.rows()]
    assert labels.tolist() == [choose(learner, row)[0] for row in rows]
    if learner.rule.standardizes:  # a choice alone changes nothing of how rows are standardised
        for kind in (CENTRE, INVERSE):
            assert same_bits(before.row_features[kind], learner.state.row_features[kind])


@pytest.mark.parametrize("feedback_model", FEEDBACK_MODELS, ids=str)
@pytest.mark.parametrize("name", ["ova_logistic", "newtron", "exp3"])
def test_every_simulated_run_equals_its_own_replay(name, feedback_model, monkeypatch):
    expiry, noise = split_noise(feedback_model)
    delay = dt.delays.WithMissing(dt.delays.Uniform(20), 0.1)
    result = dt.simulate(name, DATA, delay=delay, runs=2, seed=5, standardize=True, **feedback_model)
    learner = dt.LEARNERS[name](4, 5, standardize=True, seed=5, **expiry)
    for run in range(2):
        monkeypatch.setattr(replaying, "stream", partial(stream, run=run))  # the noise of this run, not of the first
        delays = delay.sample(200, stream(5, "delays", run))
        draws = stream(5, "exploration", run).random(200)
        single = dt.replay(learner, *DATA, delays, draws, noise)
        assert np.array_equal(result.mistakes[run, :, 0], np.cumsum(~single.correct)[result.rounds - 1])
        with interpreter():
            assert same_bits(single, dt.replay(learner, *DATA, delays, draws, noise))


def test_a_grid_holds_rows_as_they_are_beside_standardised_ones():
    both = dt.simulate("ova_logistic", DATA, delay=5, runs=2, gamma=[0.1, 0.3], standardize=[False, True])
    assert [entry["standardize"] for entry in both.parameters] == [False, False, True, True] * 2
    for (setting, part), choice in zip(both.groups(), (False, True, False, True), strict=True):
        alone = dt.simulate("ova_logistic", DATA, delay=5, runs=2, gamma=setting["gamma"], standardize=choice)
        assert same_bits(part.mistakes, alone.mistakes)
    assert len({part.mistakes.tobytes() for _, part in both.groups()}) == 4


def test_a_replay_continues_from_the_statistics_of_the_learner():
    X, y = DATA
    draws = stream(1, "exploration").random(200)
    learner = dt.Soba(4, 5, gamma=0.3, seed=1, standardize=True)
    for t in range(120):
        answer(learner, learner.decide(X[t]), y[t])
    rest = dt.replay(learner, X[120:], y[120:], np.ones(80, int), draws[120:])
    whole = dt.replay(dt.Soba(4, 5, gamma=0.3, seed=1, standardize=True), X, y, np.ones(200, int), draws)
    assert same_bits(rest.labels, whole.labels[120:])
    assert same_bits(rest.weights, whole.weights)


def test_statistics_are_those_of_the_rows_at_the_last_refresh():
    learner = dt.Banditron(4, 5, seed=0, standardize=True)
    X = DATA[0]
    for x in X:
        learner.decide(x)
    seen = refreshes(len(X))[-1] - 1
    assert seen < len(X)
    np.testing.assert_allclose(learner.state.row_features[CENTRE], X[:seen].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(learner.state.row_features[INVERSE], 1 / X[:seen].std(axis=0), rtol=1e-12)
    learner.feedback(1, correct=True)
    learner.flush()
    np.testing.assert_allclose(learner.scores(X), standardize(X, seen) @ learner.weights.T, atol=1e-12)
    assert learner.weights.shape == (4, 6)


# Standardised rows: indifferent to scales and shifts, in pools and files, and what is refused.


class TestScales:
    @pytest.mark.parametrize("name", ["banditron", "ova_logistic", "soba"])
    @given(story=stories(max_rounds=40), seed=st.integers(0, 2**32))
    def test_columns_multiplied_by_powers_of_two_give_the_same_bits(self, name, story, seed):
        powers = 2.0 ** np.random.default_rng(seed).integers(-60, 61, story.X.shape[1])
        scaled = story._replace(X=csr_array(story.X * powers))
        learner = a_learner(name, story, {})
        assert same_bits(play_compiled(learner, story), play_compiled(learner, scaled))

    @pytest.mark.parametrize("name", ["banditron", "ova_logistic", "soba"])
    @given(story=stories(general=True, sparse=False), seed=st.integers(0, 2**32))
    def test_columns_scaled_and_shifted_give_the_same_labels(self, name, story, seed):
        rng = np.random.default_rng(seed)
        scales = 10.0 ** rng.uniform(-6, 6, story.X.shape[1])
        moved = story._replace(X=(story.X + rng.normal(size=story.X.shape[1])) * scales)
        learner = a_learner(name, story, {"gamma": 0.3})
        ours = play_compiled(learner, story)
        theirs = play_compiled(learner, moved)
        assert np.array_equal(ours.labels, theirs.labels)
        np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-6, atol=1e-6)

    @some_learners
    def test_constant_huge_tiny_and_late_columns_break_nothing(self, name, setting):
        rng = np.random.default_rng(3)
        y = rng.integers(0, 3, 600)
        signal = np.eye(3)[y] + 0.1 * rng.normal(size=(600, 3))
        late = np.where(np.arange(600) < 300, 7.0, rng.normal(size=600))
        odd = np.column_stack([np.full(600, 0.1), np.zeros(600), 1e50 * rng.uniform(-1, 1, 600), late])
        X = np.column_stack([signal * 1e-50, odd])
        story = Story(X, y, np.ones(600, int), 3, 2)
        learner = a_learner(name, story, setting)
        run = play_compiled(learner, story)
        assert np.isfinite(run.weights).all()
        assert same_bits(run, play_compiled(learner, story._replace(X=csr_array(X))))
        if name in ("banditron", "ova_logistic", "pab", "passive_aggressive", "confidit"):
            assert (run.greedy[300:] != y[300:]).mean() < 0.1

    def test_a_column_that_never_varied_counts_as_nothing(self):
        rng = np.random.default_rng(4)
        y = rng.integers(0, 3, 200)
        X = np.eye(3)[y] + rng.normal(size=(200, 3))
        story = Story(X, y, np.ones(200, int), 3, 0)
        with_constants = story._replace(X=np.column_stack([np.full(200, 0.3), X]))
        ours = play_compiled(a_learner("pab", with_constants, {"gamma": 0.3}), with_constants)
        assert np.array_equal(ours.labels, play_compiled(a_learner("pab", story, {"gamma": 0.3}), story).labels)
        assert not ours.weights[:, 0].any()

    def test_rows_have_length_1(self):
        learner = dt.HingeDelaytron(4, 5, seed=0, standardize=True)
        for x in DATA[0]:
            learner.decide(x)
            assert np.linalg.norm(learner.state.row) == pytest.approx(1.0, rel=1e-14)
        assert learner.state.clock[1] == pytest.approx(1.0, rel=1e-14)  # R_t, the longest row so far


def test_exp3_which_ignores_the_row_does_not_change():
    raw = dt.replay(dt.Exp3(4, 5), *DATA, np.ones(200, int), np.linspace(0, 0.99, 200))
    assert same_bits(
        raw, dt.replay(dt.Exp3(4, 5, standardize=True), *DATA, np.ones(200, int), np.linspace(0, 0.99, 200))
    )


class TestPool:
    def test_every_instance_standardises_by_the_rows_that_it_played(self):
        story = Story(*DATA, np.random.default_rng(1).integers(1, 9, 200), 4, 6)
        learner = dt.Bold(dt.OvaLogistic(4, 5, gamma=0.3, seed=6, standardize=True))
        compiled = play_compiled(learner, story)
        assert same_bits(compiled, play_interpreted(learner, story))
        assert same_bits(compiled, play_online(learner, story)[0])
        assert learner.state.row_seen[:, 0].sum() == 200
        np.testing.assert_array_equal(learner.state.row_seen[:, 0], learner.state.turns)
        assert learner.predict(DATA[0]).shape == (200,)

    def test_without_delay_a_pool_is_its_base(self):
        base = dt.OvaLogistic(4, 5, gamma=0.3, seed=6, standardize=True)
        story = Story(*DATA, np.ones(200, int), 4, 6)
        assert same_bits(play_compiled(dt.Bold(base), story), play_compiled(base, story))

    def test_it_is_saved_with_its_base(self, tmp_path):
        learner = dt.Bold(dt.Banditron(4, 5, seed=6, standardize=True))
        for x in DATA[0][:9]:
            learner.decide(x)
        learner.save(tmp_path / "pool.safetensors")
        again = dt.load(tmp_path / "pool.safetensors")
        assert repr(again) == repr(learner)
        assert same_bits(list(again.state), list(learner.state))

    def test_it_belongs_to_the_base(self):
        with pytest.raises(dt.InvalidInput, match="standardize belongs to the base; as in Bold"):
            dt.Bold(dt.Banditron(4, 5), standardize=True)


REFUSED = [
    (lambda: dt.Banditron(4, 5, standardize="yes"), "standardize must be True or False"),
    (
        lambda: dt.simulate("banditron", DATA, standardize=True, regret=True),
        "scores are linear in the row, got standardizing.banditron.",
    ),
    (
        lambda: dt.simulate("banditron", DATA, standardize=[False, True], regret=True),
        "scores are linear in the row, got standardizing.banditron.",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_makes_no_sense_is_refused_in_one_line(call, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
