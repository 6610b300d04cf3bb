"""Delays that depend on the outcome: the loop over scenarios does what a plain online loop does, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delaytron as dt
from delaytron.kernels.loop import KIND_BITS, happens
from delaytron.learners.book import Expiry, read_expiry
from delaytron.rng import stream
from delaytron.simulation.scenarios import conditional_events, deliver, empty_scenarios, max_open_rounds
from paper_learners import TRANSCRIPTIONS
from streams import NEVER, answer, by_learner, flips_of, interpreter, is_right, make, same_bits, split_noise, stories

SOME = ("adaptive_delaytron", "bandit_logit", "banditron", "dilute", "ova_logistic", "perceptron", "soba")
feedback_models = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"noise": st.sampled_from([(0.2, 0.0), (0.3, 0.4)])}),
    st.fixed_dictionaries({"expire_after": st.integers(1, 9), "on_expiry": st.sampled_from(["drop", "wrong"])}),
    st.just({"noise": (0.2, 0.3), "expire_after": 3, "on_expiry": "wrong"}),
    st.fixed_dictionaries(
        {"expire_after": st.integers(1, 4), "on_expiry": st.just("wrong"), "correct_within": st.integers(0, 9)}
    ),
)
waits = st.lists(st.one_of(st.integers(1, 12), st.just(NEVER)), min_size=60, max_size=60)


def delays_of(story, if_wrong):
    """Return the delays of answers that say "right", and of those that say "wrong"."""
    return np.stack([story.delays, np.array(if_wrong[: len(story.y)])])


def says_right(decision, y, flips):
    right = is_right(decision, y)
    return bool(right != flips[int(right)])


def play_online(learner, story, delays, noise):
    """Play through decide and feedback; each answer comes as late as what it says demands."""
    decisions, says, flips = [], [], flips_of(story.seed, noise, len(story.y))
    shuffle = np.random.default_rng(story.seed)
    for t, x in enumerate(story.rows()):
        due = [s for s in range(t) if s + delays[0 if says[s] else 1, s] == t]
        for s in shuffle.permutation(due):
            answer(learner, decisions[s], story.y[s], flips[s])
        decisions.append(learner.decide(x))
        says.append(says_right(decisions[t], story.y[t], flips[t]))
    labels, greedy, probs = (np.array([getattr(d, name) for d in decisions]) for name in ("label", "greedy", "prob"))
    correct = np.array([is_right(decision, y) for decision, y in zip(decisions, story.y, strict=True)])
    return dt.Run(labels, greedy, probs, correct, learner.weights)


def play_compiled(learner, story, delays, noise):
    return dt.replay(learner, story.X, story.y, delays, story.draws, noise)


@pytest.mark.parametrize("name", by_learner(SOME))
@given(story=stories(max_rounds=40), if_wrong=waits, feedback_model=feedback_models)
@settings(max_examples=30)
def test_simulator_interpreter_and_online_object_agree(name, story, if_wrong, feedback_model):
    if dt.LEARNERS[name].feedback_type == "label":
        feedback_model = {"expire_after": feedback_model.get("expire_after", 2)}
    expiry, noise = split_noise(feedback_model)
    setting, delays = TRANSCRIPTIONS[name].settings[0] | expiry, delays_of(story, if_wrong)
    compiled = play_compiled(make(dt.LEARNERS[name], story, **setting), story, delays, noise)
    online = play_online(make(dt.LEARNERS[name], story, **setting), story, delays, noise)
    assert same_bits(compiled, online)
    with interpreter():
        assert same_bits(compiled, play_compiled(make(dt.LEARNERS[name], story, **setting), story, delays, noise))


@pytest.mark.parametrize("order", ["lifo", "fifo"])
@given(story=stories(max_rounds=40), if_wrong=waits, feedback_model=feedback_models)
@settings(max_examples=30)
def test_a_pool_has_room_for_every_outcome(order, story, if_wrong, feedback_model):
    expiry, noise = split_noise(feedback_model)
    delays = delays_of(story, if_wrong)

    def pool():
        base = dt.AdaptiveDelaytron(story.n_classes, story.X.shape[1], gamma=0.3, seed=story.seed)
        return dt.Bold(base, order=order, **expiry)

    assert same_bits(play_compiled(pool(), story, delays, noise), play_online(pool(), story, delays, noise))


@given(story=stories(max_rounds=30))
def test_the_same_delays_for_both_outcomes_are_delays_of_no_outcome(story):
    learner = dt.AdaptiveDelaytron(story.n_classes, story.X.shape[1], gamma=0.3, expire_after=5)
    plain = dt.replay(learner, story.X, story.y, story.delays, story.draws)
    assert same_bits(plain, dt.replay(learner, story.X, story.y, [story.delays, story.delays], story.draws))


@given(
    right=st.lists(st.one_of(st.integers(1, 12), st.just(NEVER)), min_size=1, max_size=30),
    other=waits,
    wait=st.one_of(st.integers(1, 12), st.none()),
    as_wrong=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=200)
def test_the_events_that_happen_are_those_of_the_delays_that_hold(right, other, wait, as_wrong, seed):
    """Whatever the answers say: the events whose condition holds are those of the delays that they then have."""
    expiry = Expiry() if wait is None else read_expiry(wait, "wrong" if as_wrong else "drop")
    delays = np.stack([right, other[: len(right)]]).astype(np.int64)
    says = np.random.default_rng(seed).random(len(right)) < 0.5
    conditional = conditional_events(*delays, expiry)
    plain = conditional_events(*[np.where(says, *delays)] * 2, expiry)
    for t in range(len(right)):
        part = slice(conditional.starts[t], conditional.starts[t + 1])
        pairs = zip(conditional.arrivals[part], conditional.kinds[part], strict=True)
        found = [(s, kind & KIND_BITS) for s, kind in pairs if happens.interpreted(kind, bool(says[s]))]
        part = slice(plain.starts[t], plain.starts[t + 1])
        assert found == list(zip(plain.arrivals[part], plain.kinds[part], strict=True))


@given(
    right=st.lists(st.integers(1, 12), min_size=1, max_size=30),
    other=waits,
    wait=st.one_of(st.integers(1, 12), st.none()),
    as_wrong=st.booleans(),
)
def test_max_open_rounds_bounds_every_outcome(right, other, wait, as_wrong):
    expiry = Expiry() if wait is None else Expiry(wait, as_wrong=as_wrong)
    delays = np.stack([right, other[: len(right)]]).astype(np.int64)
    scenarios = empty_scenarios(1, len(right), expiry, conditional=True)
    deliver(delays[0], expiry, scenarios, 0, delays[1])
    bound = max_open_rounds(scenarios)
    for says in (np.zeros(len(right)), np.ones(len(right)), delays[0] > delays[1]):
        ones = np.where(says, *delays)
        single = empty_scenarios(1, len(right), expiry)
        deliver(ones, expiry, single, 0)
        assert bound >= max_open_rounds(single)
    if wait is not None and as_wrong:
        assert bound <= max(wait, 1)


def test_simulate_plays_what_replay_plays_with_the_delays_of_both_outcomes():
    data = dt.datasets.load("synsep", n_samples=400, seed=1)
    delay = dt.delays.ByOutcome(right=dt.delays.Uniform(5), wrong=dt.delays.LogNormal(50, 1))
    setting = {"gamma": 0.1, "expire_after": 40, "on_expiry": "wrong"}
    result = dt.simulate("delaytron", data, delay=delay, seed=9, noise=(0.1, 0.2), **setting)
    learner = dt.Delaytron(data.n_classes, data.n_features, seed=9, **setting)
    delays = [model.sample(400, stream(9, "delays")) for model in (delay.right, delay.wrong)]
    run = dt.replay(learner, data.X, data.y, delays, stream(9, "exploration").random(400), noise=(0.1, 0.2))
    assert np.count_nonzero(~run.correct) == result.mistakes[0, -1, 0]
    assert result.delay == "right=uniform:5/wrong=lognormal:50,1"


def test_runs_and_settings_are_what_they_are_alone():
    data = dt.datasets.load("synsep", n_samples=600)
    delay = "right=uniform:5/wrong=uniform:300+missing:0.2"
    together = dt.simulate("adaptive_delaytron", data, delay=delay, runs=3, gamma=[0.1, 0.3], expire_after=[50, None])
    for setting, part in together.groups():
        alone = dt.simulate("adaptive_delaytron", data, delay=delay, runs=3, n_jobs=1, **setting)
        assert np.array_equal(part.mistakes, alone.mistakes)
    assert len({part.mistakes.tobytes() for _, part in together.groups()}) == 4


def test_wrong_answers_that_come_late_cost_more_than_ones_that_come_at_once():
    data = dt.datasets.load("synsep", n_samples=4000)
    late, soon = (
        dt.simulate("bandit_logit", data, delay=f"right=1/wrong={wrong}", runs=3).final_error.mean()
        for wrong in (2000, 1)
    )
    assert late > 1.2 * soon


@pytest.mark.parametrize(
    "delays", [np.ones((3, 4), int), [[1, 1, 1, 1]], np.ones((2, 3), int), [[1, 1, 1, 1], [1, 1, 0, 1]]]
)
def test_delays_of_another_shape_get_one_clear_line(delays):
    learner = dt.Banditron(2, 2, gamma=0.5)
    with pytest.raises(dt.InvalidInput, match="delays must be") as caught:
        dt.replay(learner, np.eye(4)[:, :2], [0, 1, 0, 1], delays, [0.1] * 4)
    assert "\n" not in str(caught.value)
