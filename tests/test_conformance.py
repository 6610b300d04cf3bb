"""Every learner of the registry: compiled = interpreted = online to the bit, = the pseudo-code to 1e-9."""

import inspect

import numpy as np
import pytest
from hypothesis import given

import delaytron as dt
import paper
from delaytron.matrices import as_row
from streams import interpreter, make, play_compiled, play_interpreted, play_online, same_bits, stories

SETTINGS = {
    "banditron": [{"gamma": 0.3}],
    "delaytron": [{"gamma": 0.3, "eta": 0.7}],
    "adaptive_delaytron": [
        {"gamma": 0.3, "tracker": tracker, "count_self": count_self, "restart": restart}
        for tracker in ("cumulative", "instant")
        for count_self in (True, False)
        for restart in (True, False)
    ],
    "perceptron": [{}],
}
CASES = [
    pytest.param(name, setting, id=f"{name}-{i}") for name in dt.LEARNERS for i, setting in enumerate(SETTINGS[name])
]
every_learner = pytest.mark.parametrize(("name", "setting"), CASES)


@every_learner
@given(story=stories())
def test_simulator_interpreter_and_online_object_agree_to_the_bit(name, setting, story):
    learner = make(dt.LEARNERS[name], story, **setting)
    compiled = play_compiled(learner, story)
    assert same_bits(compiled, play_interpreted(learner, story))
    assert same_bits(compiled, play_online(learner, story)[0])


@every_learner
@given(story=stories())
def test_a_run_equals_the_transcribed_pseudo_code(name, setting, story):
    run = play_compiled(make(dt.LEARNERS[name], story, **setting), story)
    ours = {k: v for k, v in setting.items() if k in inspect.signature(getattr(paper, name)).parameters}
    text = getattr(paper, name)(story.dense, story.y, story.delays, story.draws, story.n_classes, **ours)
    assert np.array_equal(run.labels, text.labels)
    assert np.array_equal(run.greedy, text.greedy)
    assert np.array_equal(run.correct, text.correct)
    np.testing.assert_allclose(run.probs, text.probs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.weights, text.weights, rtol=0, atol=1e-9)


@every_learner
@given(story=stories(max_rounds=25))
def test_saving_in_the_middle_of_open_feedback_changes_no_bit(name, setting, story, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "learner.safetensors"

    def saved_and_loaded(learner, _t):
        learner.save(path)
        return dt.load(path)

    learner = make(dt.LEARNERS[name], story, **setting)
    run, last = play_online(learner, story, between=saved_and_loaded)
    assert same_bits(run, play_compiled(make(dt.LEARNERS[name], story, **setting), story))
    assert repr(last) == repr(learner)


@every_learner
@given(story=stories())
def test_rounds_without_an_answer_change_nothing(name, setting, story):
    never = story._replace(delays=np.full_like(story.delays, 10**12))
    run = play_compiled(make(dt.LEARNERS[name], never, **setting), never)
    assert not run.weights.any()
    assert not run.greedy.any()


@every_learner
@given(story=stories())
def test_predict_is_greedy_and_changes_nothing(name, setting, story):
    _, learner = play_online(make(dt.LEARNERS[name], story, **setting), story)
    learner.flush()
    before = learner.weights
    labels = learner.predict(story.X)
    rows = [as_row(x, story.X.shape[1], learner.sparse) for x in story.rows()]
    extra = np.empty(len(learner.rule.extras))
    chosen = [learner.rule.choose(learner.state, learner.params, row, 0.5, learner.scratch, extra) for row in rows]
    assert labels.tolist() == [greedy for greedy, _, _ in chosen]
    np.testing.assert_allclose(learner.scores(story.X), story.dense @ learner.weights.T, atol=1e-9)
    assert same_bits(before, learner.weights)


@every_learner
@given(story=stories(sparse=False))
def test_dense_and_sparse_rows_give_the_same_run(name, setting, story):
    from scipy.sparse import csr_array

    learner = make(dt.LEARNERS[name], story, **setting)
    dense, sparse = play_compiled(learner, story), play_compiled(learner, story._replace(X=csr_array(story.X)))
    assert np.array_equal(dense.labels, sparse.labels)
    np.testing.assert_allclose(dense.weights, sparse.weights, rtol=0, atol=1e-9)


@every_learner
@given(story=stories())
def test_the_learner_that_is_replayed_stays_as_it_was(name, setting, story):
    _, learner = play_online(make(dt.LEARNERS[name], story, **setting), story)
    before = [field.copy() for field in learner.state], learner.pending, learner.ledger.rounds
    play_compiled(learner, story)
    assert same_bits(before[0], list(learner.state))
    assert before[1:] == (learner.pending, learner.ledger.rounds)


@every_learner
@given(story=stories(max_rounds=30))
def test_a_replay_goes_on_from_what_the_learner_knows(name, setting, story):
    """Online through a story and again through it = online once, then replayed."""
    _, learner = play_online(make(dt.LEARNERS[name], story, **setting), story)
    learner.flush()
    draws = np.random.default_rng(1).random(len(story.y))
    replayed = dt.replay(learner, story.X, story.y, story.delays, draws)
    with interpreter():
        assert same_bits(replayed, dt.replay(learner, story.X, story.y, story.delays, draws))
    first, labels = learner.ledger.rounds, []
    learner._draws = iter_random(draws)
    for t, x in enumerate(story.rows()):
        for s in range(t):
            if s + story.delays[s] == t:
                correct = bool(labels[s] == story.y[s])
                told = {"label": int(story.y[s])} if learner.hears == "label" else {"correct": correct}
                learner.feedback(first + s + 1, **told)
        labels.append(learner.decide(x).label)
    assert same_bits(replayed.labels, np.array(labels))
    assert same_bits(replayed.weights, learner.weights)


class iter_random:  # noqa: N801
    """A generator that returns given numbers."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)
