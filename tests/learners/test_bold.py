"""BOLD: no instance sees a delay, a new one is made only while all wait, and all ways to play agree to the bit."""

import sys
from copy import deepcopy
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_files import changed
from test_online import ROWS

import delaytron as dt
from delaytron.learners import bold
from delaytron.learners.book import Expiry
from delaytron.rng import stream
from delaytron.simulation.scenarios import deliver, empty_scenarios, max_open_rounds
from forms import everything
from paper_learners import TRANSCRIPTIONS
from streams import answer, interpreter, play_compiled, play_interpreted, play_online, same_bits, split_noise, stories

CASES = [  # one of each kind: each is compiled again inside a pool, which takes seconds
    ("banditron", "lifo", {"gamma": 0.3}),
    ("adaptive_delaytron", "lifo", {"gamma": 0.3}),  # keeps a clock
    ("adaptive_delaytron", "lifo", {"gamma": 0.3, "restart": True}),
    ("hinge_delaytron", "fifo", {"gamma": 0.3}),  # notes a rival and a loss
]
every_base = pytest.mark.parametrize(
    ("name", "order", "setting"),
    [pytest.param(*c, id=f"{c[0]}-{i}", marks=pytest.mark.xdist_group(c[0])) for i, c in enumerate(CASES)],
)
replaying = import_module("delaytron.simulation.replay")  # by this name the package has the function
FEEDBACK_MODELS = [{}, {"noise": (0.2, 0.3)}, {"expire_after": 3}, {"expire_after": 3, "on_expiry": "wrong"}]
DATA = (np.random.default_rng(1).normal(size=(200, 5)), np.random.default_rng(2).integers(0, 4, 200))


def a_base(name, story, setting):
    return dt.LEARNERS[name](story.n_classes, story.X.shape[1], seed=story.seed, **setting)


def a_pool(name="banditron", order="lifo", **common):
    return dt.Bold(dt.LEARNERS[name](4, 5, seed=11), order, **common)


def assignment(delays, order):
    """Which instance plays each round: BOLD's bookkeeping, which depends on nothing but the delays."""
    free, made, instances = [], 0, []
    for t in range(len(delays)):
        free += [instances[s] for s in range(t) if s + delays[s] == t]
        if free:
            instances.append(free.pop(-1 if order == "lifo" else 0))
        else:
            instances.append(made)
            made += 1
    return np.array(instances)


def instance_weights(learner, i):
    """The weights of one instance, as a learner of the base's kind has them."""
    lone = dt.LEARNERS[learner.base.name](**learner.base.settings())
    lone._reset_state(learner.sparse)
    lone.state = type(lone.state)(*(getattr(learner.state, name)[i] for name in lone.state._fields))
    return lone.weights


@every_base
@given(story=stories())
def test_every_instance_is_answered_before_it_plays_again_and_there_are_as_many_as_rounds_open_at_once(
    name, order, setting, story
):
    players = []

    def note(learner, t):
        if t:
            players.append(int(learner.book.play(t).extra[0]))
        return learner

    _, learner = play_online(dt.Bold(a_base(name, story, setting), order), story, between=note)
    note(learner, len(story.y))
    last = {}
    for t, i in enumerate(players):
        assert i not in last or last[i] + story.delays[last[i]] <= t
        last[i] = t
    open_at = [sum(s + story.delays[s] > t for s in range(t + 1)) for t in range(len(story.y))]
    assert learner.instances == max(open_at) == len(last)
    assert players == assignment(story.delays, order).tolist()


@every_base
@given(story=stories())
def test_without_delay_it_is_its_base_to_the_bit(name, order, setting, story):
    story = story._replace(delays=np.ones_like(story.delays))
    base = a_base(name, story, setting)
    alone = play_compiled(base, story)
    assert same_bits(alone, play_compiled(dt.Bold(base, order), story))
    assert same_bits(alone, play_online(dt.Bold(base, order), story)[0])


@every_base
@given(story=stories(), D=st.integers(1, 9))
def test_a_fixed_delay_makes_interleaved_runs_of_the_base(name, order, setting, story, D):
    story = story._replace(delays=np.full_like(story.delays, D))
    run, learner = play_online(dt.Bold(a_base(name, story, setting), order), story)
    assert same_bits(run, play_compiled(dt.Bold(a_base(name, story, setting), order), story))
    for i in range(min(D, len(story.y))):
        part = slice(i, None, D)
        ones = np.ones_like(story.y[part])
        lone = dt.replay(a_base(name, story, setting), story.X[part], story.y[part], ones, story.draws[part])
        assert same_bits(lone[:4], tuple(column[part] for column in run[:4]))
        assert same_bits(lone.weights, instance_weights(learner, i))


@every_base
@pytest.mark.parametrize("feedback_model", FEEDBACK_MODELS, ids=str)
@given(story=stories(max_rounds=40))
def test_simulator_interpreter_and_online_object_agree_to_the_bit(name, order, setting, feedback_model, story):
    expiry, noise = split_noise(feedback_model)
    learner = dt.Bold(a_base(name, story, setting), order, **expiry)
    compiled = play_compiled(learner, story, noise)
    assert same_bits(compiled, play_interpreted(learner, story, noise))
    assert same_bits(compiled, play_online(learner, story, noise=noise)[0])


@every_base
@given(story=stories())
def test_a_run_equals_undelayed_runs_of_the_pseudo_code_on_the_rounds_of_each_instance(name, order, setting, story):
    run, learner = play_online(dt.Bold(a_base(name, story, setting), order), story)
    instances = assignment(story.delays, order)
    text = TRANSCRIPTIONS[name]
    for i in range(instances.max() + 1):
        rounds = np.flatnonzero(instances == i)
        X, y, draws = story.dense[rounds], story.y[rounds], story.draws[rounds]
        answered = rounds[-1] + story.delays[rounds[-1]] < len(story.y)
        if answered:  # a round more, in which the last answer is applied
            X, y, draws = np.vstack([X, 0 * X[:1]]), np.append(y, 0), np.append(draws, 0.5)
        lone = text(X, y, np.ones_like(y), draws, story.n_classes, **setting)
        n = len(rounds)
        assert run.labels[rounds].tolist() == lone.labels[:n]
        assert run.greedy[rounds].tolist() == lone.greedy[:n]
        np.testing.assert_allclose(run.probs[rounds], lone.probs[:n], rtol=0, atol=1e-12)
        np.testing.assert_allclose(instance_weights(learner, i), lone.weights, rtol=0, atol=1e-9)


@every_base
@pytest.mark.parametrize("feedback_model", FEEDBACK_MODELS, ids=str)
@given(story=stories(max_rounds=25))
def test_saving_in_the_middle_changes_no_bit(name, order, setting, feedback_model, story, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "learner.safetensors"

    def saved_and_loaded(learner, t):
        if (t + story.seed) % 3:  # every round is one of those that save, in some examples
            return learner
        learner.save(path)
        again = dt.load(path)
        assert everything(again) == everything(learner)
        return again

    expiry, noise = split_noise(feedback_model)
    run, last = play_online(
        dt.Bold(a_base(name, story, setting), order, **expiry), story, between=saved_and_loaded, noise=noise
    )
    learner = dt.Bold(a_base(name, story, setting), order, **expiry)
    assert same_bits(run, play_compiled(learner, story, noise))
    assert repr(last) == repr(learner)
    assert type(last.base) is type(learner.base)


def test_a_loaded_pool_predicts_and_is_copied(tmp_path):
    learner = a_pool()
    learner.decide(ROWS[0])
    learner.save(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    assert same_bits(again.probabilities(ROWS[1]), learner.probabilities(ROWS[1]))
    assert everything(deepcopy(again)) == everything(learner)
    assert repr(dt.Bold(again.base)) == repr(dt.Bold(learner.base))


@every_base
@given(story=stories(max_rounds=30))
def test_a_replay_continues_from_the_state_of_the_pool_and_does_not_change_it(name, order, setting, story):
    _, learner = play_online(dt.Bold(a_base(name, story, setting), order), story)
    learner.flush()
    before = everything(learner)
    draws = stream(story.seed, "exploration").random(2 * len(story.y))[len(story.y) :]
    replayed = dt.replay(learner, story.X, story.y, story.delays, draws)
    with interpreter():
        assert same_bits(replayed, dt.replay(learner, story.X, story.y, story.delays, draws))
    assert everything(learner) == before
    assert same_bits(replayed, play_online(learner, story)[0])


@pytest.mark.parametrize("order", ["lifo", "fifo"])
def test_predict_is_what_the_instance_that_plays_next_would_choose(order):
    learner = a_pool(order=order)
    decisions = [learner.decide(row) for row in ROWS[:6]]
    for decision in decisions[1:5]:
        answer(learner, decision, decision.id % 4)
    learner.flush()
    before, weights, labels = everything(learner), learner.weights, learner.predict(ROWS)
    assert np.allclose(learner.scores(ROWS), ROWS @ weights.T)
    assert everything(learner) == before
    assert same_bits(weights, instance_weights(learner, 4 if order == "lifo" else 1))
    assert weights.any()
    assert learner.decide(ROWS[9]).greedy == labels[9]


def test_while_all_instances_wait_the_one_that_played_most_predicts():
    learner = a_pool()
    assert not learner.weights.any()
    first = learner.decide(ROWS[0])
    learner.decide(ROWS[1])
    learner.feedback(first.id, correct=False)
    learner.decide(ROWS[2])  # by the first instance again
    assert learner.instances == 2
    assert same_bits(learner.weights, instance_weights(learner, 0))
    assert learner.weights.any()


def test_an_expired_round_sets_its_instance_free_only_where_it_counts_as_wrong():
    dropping, as_wrong = a_pool(expire_after=2), a_pool(expire_after=2, on_expiry="wrong")
    for row in ROWS:
        dropping.decide(row)
        as_wrong.decide(row)
    assert (dropping.instances, dropping.pending) == (len(ROWS), 2)
    assert (as_wrong.instances, as_wrong.pending) == (2, 2)


def test_a_late_right_corrects_the_instance_that_played():
    learner = a_pool(expire_after=2, on_expiry="wrong")
    decisions = [learner.decide(row) for row in ROWS[:4]]  # round 3 is played by the instance of round 1, and so on
    wrong = [np.array(learner.state.W[i]) for i in (0, 1)]
    assert learner.feedback(decisions[1].id, correct=True) == "corrected"
    learner.flush()
    wrong[1][decisions[1].label] += ROWS[1] / decisions[1].prob
    np.testing.assert_allclose(learner.state.W[:2], wrong, rtol=1e-12)
    assert learner.instances == 2


@given(delays=st.lists(st.integers(1, 12), min_size=1, max_size=40), wait=st.integers(1, 12), as_wrong=st.booleans())
def test_max_open_rounds_is_the_most_rounds_that_wait_at_once(delays, wait, as_wrong):
    for expiry in (Expiry(), Expiry(wait, as_wrong=as_wrong)):
        scenarios = empty_scenarios(1, len(delays), expiry)
        deliver(np.array(delays), expiry, scenarios, 0)
        ends = [s + d if d <= expiry.rounds else s + wait if as_wrong else 10**9 for s, d in enumerate(delays)]
        open_at = [sum(end > t for end in ends[: t + 1]) for t in range(len(delays))]
        assert max_open_rounds(scenarios) == max(open_at)


@pytest.mark.parametrize("feedback_model", FEEDBACK_MODELS, ids=str)
def test_every_simulated_run_equals_its_own_replay(feedback_model, monkeypatch):
    expiry, noise = split_noise(feedback_model)
    delay = dt.delays.WithMissing(dt.delays.Uniform(20), 0.1)
    learner = dt.Bold(dt.Banditron(4, 5, gamma=0.1, seed=5), **expiry)
    result = dt.simulate(learner, DATA, delay=delay, runs=3, seed=5, n_jobs=2, noise=noise)
    assert result.learner == "bold(banditron)"
    for run in range(3):
        monkeypatch.setattr(replaying, "stream", partial(stream, run=run))  # the noise of this run, not of the first
        delays, draws = delay.sample(200, stream(5, "delays", run)), stream(5, "exploration", run).random(200)
        single = dt.replay(learner, *DATA, delays, draws, noise)
        assert np.array_equal(result.mistakes[run, :, 0], np.cumsum(~single.correct)[result.rounds - 1])


def test_on_synsep_the_pool_pays_for_the_delay_and_still_learns():
    data = dt.datasets.load("synsep", n_samples=20_000)
    base = dt.Banditron(data.n_classes, data.n_features, gamma=0.05)
    late, soon = (dt.simulate(dt.Bold(base), data, delay=D, runs=2).final_error.mean() for D in (10, 1))
    assert soon == dt.simulate(base, data, delay=1, runs=2).final_error.mean()
    assert soon < late < 0.6


def test_a_pool_of_learners_that_play_sets_returns_the_sets():
    base, draws = dt.Dilute(4, 5, gamma=0.3, m=2), stream(0, "exploration").random(200)
    once = [dt.replay(learner, *DATA, np.ones(200, int), draws) for learner in (base, dt.Bold(base))]
    assert same_bits(*once)
    late = dt.replay(dt.Bold(base), *DATA, np.full(200, 3), draws)
    with interpreter():
        assert same_bits(late, dt.replay(dt.Bold(base), *DATA, np.full(200, 3), draws))
    assert dt.Bold(base).decide(ROWS[0]) == base.decide(ROWS[0])
    assert len(dt.Bold(dt.Dilute(4, 5, m=3, seed=0)).decide(ROWS[0]).labels) == 3


def played():
    base = dt.Banditron(4, 5)
    base.decide(ROWS[0])
    return base


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dt.Bold(9), r"base must be a learner that is no pool, got 9; as in Bold\(Banditron\(9, 400\)\)"),
        (lambda: dt.Bold(dt.Banditron), "base must be a learner that is no pool"),
        (lambda: dt.Bold(a_pool()), "base must be a learner that is no pool"),
        (lambda: dt.Bold(played()), "base must be new, this Banditron has played 1 rounds; make a new one"),
        (lambda: dt.Bold(dt.Banditron(4, 5, expire_after=3)), r"expire_after belongs to the pool; as in Bold\(base, "),
        (lambda: a_pool(order="random"), "order must be one of lifo, fifo, got 'random'"),
        (
            lambda: a_pool("perceptron", expire_after=3, on_expiry="wrong"),
            r"bold\(perceptron\) learns from the true label, .*; leave out on_expiry='wrong'",
        ),
        (
            lambda: dt.simulate(a_pool("perceptron"), DATA, noise=(0.1, 0.1)),
            r"bold\(perceptron\) learns from the true label; leave out noise",
        ),
        (lambda: dt.simulate(dt.Bold, DATA), "base must be a learner that is no pool"),
        (lambda: dt.simulate(a_pool(), DATA, gamma=0.1), "a learner given as a pattern must have the data's"),
    ],
)
def test_bad_input_gets_one_clear_line(make, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_feedback_type_seed_and_repr_follow_the_base():
    assert (a_pool("perceptron").feedback_type, a_pool("perceptron").name) == ("label", "bold(perceptron)")
    assert a_pool().seed == a_pool().base.seed == 11
    assert a_pool(seed=3).seed == 3
    shown = "Bold(base=Banditron(n_classes=4, n_features=5, gamma=0.015625, seed=11), order='lifo', seed=11)"
    assert repr(a_pool()) == shown
    Own = type("Own", (dt.Banditron,), {})
    with pytest.raises(dt.InvalidInput, match=r"only learners of dt\.LEARNERS can be saved, got Own; add it"):
        dt.Bold(Own(4, 5)).save("nowhere")


def test_a_pool_that_would_take_too_much_memory_is_refused_in_one_line(monkeypatch):
    learner = a_pool()
    monkeypatch.setattr(bold, "MOST_BYTES", 10 * learner.state.W[0].nbytes)
    message = "the pool would take .* for .* instances of banditron, .* at most .*; use shorter delays"
    delays, draws = np.full(200, 11), np.full(200, 0.5)
    for play in (
        lambda: dt.simulate(learner, DATA, delay=dt.delays.Fixed(11)),
        lambda: dt.replay(learner, *DATA, delays, draws),
        lambda: [learner.decide(row) for row in ROWS],
    ):
        with pytest.raises(dt.InvalidInput, match=message) as caught:
            play()
        assert "\n" not in str(caught.value)
    assert learner.book.rounds == learner.pending == learner.instances == 10
    learner.feedback(3, correct=True)  # an answer frees an instance
    assert learner.decide(ROWS[0]).id == 11
    dt.replay(a_pool(), *DATA, delays - 1, draws)


HARMS = {
    "state.pool": [[0, 2, 99], [9, 2, 5], [0, 6, 5], [-1, 2, 5], [0, -1, 5], [0, 3, 5]],
    "state.free": [[0, 7], [0, 0], [-1, 0], [2, 0]],
    "state.turns": [[1, 1, 1, 1, 9, 0, 0, 0], [1, 1]],
    "open.extra": [[[9, 1]] * 3, [[0.5, 1]] * 3, [[1, 1]] * 3, [[-1, 1]] * 3],
}


@pytest.mark.parametrize(("name", "values"), [(name, values) for name in HARMS for values in HARMS[name]])
def test_a_damaged_pool_cannot_reach_the_compiled_loop(name, values, tmp_path):
    learner = a_pool()
    decisions = [learner.decide(row) for row in ROWS[:5]]
    for s in (0, 3):
        answer(learner, decisions[s], 1)
    learner.flush()
    learner.save(tmp_path / "a")
    assert everything(dt.load(tmp_path / "a")) == everything(learner)
    fields = learner.state._asdict() | {"open.extra": np.zeros((3, 2))}
    like = fields[name.removeprefix("state.")]
    harmed = np.array(like)
    if name == "state.turns":
        harmed = np.array(values, like.dtype)
    else:
        harmed[: len(values)] = values
    changed(**{name: harmed})(tmp_path / "a")
    with pytest.raises(dt.InvalidInput, match=r"is inconsistent|below 0") as caught:
        dt.load(tmp_path / "a")
    assert "\n" not in str(caught.value)


@every_base
def test_no_slot_of_the_base_is_left_for_the_pool_to_fill(name, order, setting):
    rule = bold.pooled(dt.LEARNERS[name](4, 5, **setting).rule, order)
    assert not any(part.has_slots for part in (rule.pick, rule.step, rule.revise, rule.is_correct))
    assert rule is bold.pooled(dt.LEARNERS[name](4, 5, **setting).rule, order)
    assert getattr(sys.modules[rule.state.__module__], rule.state.__name__) is rule.state


def test_a_pool_that_cannot_grow_refuses_before_anything_changes(monkeypatch):
    learner = a_pool(expire_after=2)
    learner.decide(ROWS[0])
    learner.decide(ROWS[1])
    monkeypatch.setattr(bold, "MOST_BYTES", learner._state_bytes(learner.sparse))
    before = everything(learner)
    with pytest.raises(dt.InvalidInput, match="the pool would take"):
        learner.decide(ROWS[2])
    assert everything(learner) == before
    assert learner.feedback(1, correct=True) == "accepted"
