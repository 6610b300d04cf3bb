"""Every learner of the registry: compiled = interpreted = online to the bit, = the pseudo-code to 1e-9."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.kernels.standardize import CENTRE, INVERSE, ZERO
from delaytron.learners.arguments import as_row
from paper_learners import TRANSCRIPTIONS
from streams import answer, choose, interpreter, make, play_compiled, play_interpreted, play_online, same_bits, stories

CASES = [
    pytest.param(name, setting, id=f"{name}-{i}", marks=pytest.mark.xdist_group(name))
    for name in dt.LEARNERS
    if name in TRANSCRIPTIONS
    for i, setting in enumerate(TRANSCRIPTIONS[name].settings)
]
every_learner = pytest.mark.parametrize(("name", "setting"), CASES)
BY_KIND = ("logistic_ts",)  # dense rows are centred in part, sparse ones are not


def test_every_learner_is_transcribed():
    assert TRANSCRIPTIONS.keys() == dt.LEARNERS.keys()


def standardized_rows(learner, X):
    """Return rows as `bandit_logit` sees them: in standard deviations, with a constant, of unit length."""
    features = learner.state.features.T if learner.sparse else learner.state.features
    Z = np.column_stack([np.clip((X - features[CENTRE]) * features[INVERSE], -5, 5), np.ones(len(X))])
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


def rows_centred_in_part(learner, X):
    """Return rows as `logistic_ts` sees them."""
    features = learner.state.features.T if learner.sparse else learner.state.features
    Z = np.clip((X - features[CENTRE]) * features[INVERSE], -5, 5) - features[ZERO]
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    return np.column_stack([Z / np.where(lengths > 0, lengths, 1), np.ones(len(X))])


SHOWN = {  # what the scores are linear in, where it is not the row itself
    "exp3": lambda learner, X: np.ones((len(X), 1)),  # it sees no context
    "bandit_logit": standardized_rows,
    "logistic_ts": rows_centred_in_part,
}


def affordable(story, setting):
    """Shorten a story in which the interpreter would go through a matrix of all pairs of weights in every round."""
    if setting.get("matrix") != "full":
        return story
    rounds = max(4, 2_000_000 // (story.n_classes * story.X.shape[1]) ** 2)
    return story._replace(X=story.X[:rounds], y=story.y[:rounds], delays=story.delays[:rounds])


@every_learner
@given(story=stories())
def test_simulator_interpreter_and_online_object_agree_to_the_bit(name, setting, story):
    story = affordable(story, setting)
    learner = make(dt.LEARNERS[name], story, **setting)
    compiled = play_compiled(learner, story)
    assert same_bits(compiled, play_interpreted(learner, story))
    assert same_bits(compiled, play_online(learner, story)[0])


def assert_same_run(ours, theirs):
    assert np.array_equal(ours.labels, theirs.labels)
    assert np.array_equal(ours.greedy, theirs.greedy)
    assert np.array_equal(ours.correct, theirs.correct)
    np.testing.assert_allclose(ours.probs, theirs.probs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-9, atol=1e-9)


def rows_of(name):
    """Return the kind of rows on which rounding does not decide between classes.

    Exact updates make scores equal on purpose, and so does standardising by two or three rows that are mostly zeros; on
    rows in general position they differ again in the next round.
    """
    return {"general": name in ("bandit_logit", "exact_pa", "logistic_ts", "newtron")}


@every_learner
@given(data=st.data())
def test_a_run_equals_the_transcribed_pseudo_code(name, setting, data):
    story = data.draw(stories(**rows_of(name)))
    transcribed = TRANSCRIPTIONS[name]
    known = {k: v for k, v in setting.items() if k in inspect.signature(transcribed).parameters}
    if name in BY_KIND:
        known["sparse"] = not isinstance(story.X, np.ndarray)
    text = transcribed(story.dense, story.y, story.delays, story.draws, story.n_classes, **known)
    assert_same_run(play_compiled(make(dt.LEARNERS[name], story, **setting), story), text)


@every_learner
@given(story=stories(max_rounds=25))
def test_saving_in_the_middle_of_open_feedback_changes_no_bit(name, setting, story, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "learner.safetensors"

    def saved_and_loaded(learner, t):
        if (t + story.seed) % 3:  # every round is one of those that save, in some examples
            return learner
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
    assert labels.tolist() == [choose(learner, row)[0] for row in rows]
    shown = SHOWN.get(name, lambda learner, X: X)(learner, story.dense)
    np.testing.assert_allclose(learner.scores(story.X), shown @ learner.weights.T, atol=1e-9)
    assert same_bits(before, learner.weights)


@pytest.mark.parametrize(("name", "setting"), [case for case in CASES if case.values[0] not in BY_KIND])
@given(data=st.data())
def test_dense_and_sparse_rows_give_the_same_run(name, setting, data):
    story = data.draw(stories(sparse=False, **rows_of(name)))
    learner = make(dt.LEARNERS[name], story, **setting)
    assert_same_run(play_compiled(learner, story), play_compiled(learner, story._replace(X=csr_array(story.X))))


@every_learner
@given(story=stories())
def test_a_replay_does_not_change_the_learner(name, setting, story):
    _, learner = play_online(make(dt.LEARNERS[name], story, **setting), story)
    before = [field.copy() for field in learner.state], learner.pending, learner.book.rounds
    play_compiled(learner, story)
    assert same_bits(before[0], list(learner.state))
    assert before[1:] == (learner.pending, learner.book.rounds)


@every_learner
@given(story=stories(max_rounds=30))
def test_a_replay_continues_from_the_state_of_the_learner(name, setting, story):
    """Online through a story and again through it = online once, then replayed."""
    story = affordable(story, setting)
    _, learner = play_online(make(dt.LEARNERS[name], story, **setting), story)
    learner.flush()
    draws = np.random.default_rng(1).random(len(story.y))
    replayed = dt.replay(learner, story.X, story.y, story.delays, draws)
    with interpreter():
        assert same_bits(replayed, dt.replay(learner, story.X, story.y, story.delays, draws))
    first, decisions = learner.book.rounds, []
    learner._draws = iter_random(draws)
    for t, x in enumerate(story.rows()):
        for s in range(t):
            if s + story.delays[s] == t:
                answer(learner, decisions[s], story.y[s])
        decisions.append(learner.decide(x))
    assert [decision.id for decision in decisions] == list(range(first + 1, first + 1 + len(decisions)))
    assert same_bits(replayed.labels, np.array([decision.label for decision in decisions]))
    assert same_bits(replayed.weights, learner.weights)


class iter_random:  # noqa: N801
    """A generator that returns given numbers."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)
