"""The Gymnasium environment: accepted by its checker, and the same stream as a replay or a simulation."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

import delaytron as dt
from delaytron.rng import stream
from delaytron.simulation.scenarios import SimulationConfig, draw_delays, draw_rows
from optional import need

need("gymnasium")

import gymnasium  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from delaytron.gymnasium import ID, DelayedBanditEnv  # noqa: E402

X = np.array([[0.0, 1.0, 7.0], [1.0, 0.0, 7.0], [2.0, 2.0, 7.0], [-3.0, 0.5, 7.0]])
Y = [2, 0, 1, 0]
PLAYED = ("delaytron", "bandit_logit")
DELAYS = [
    dt.delays.Fixed(1),
    dt.delays.Uniform(40),
    dt.delays.Geometric(20),
    dt.delays.WithMissing(dt.delays.LogNormal(5.0, 1.0), 0.2),
]


@pytest.mark.parametrize("data", [(X, Y), (csr_matrix(X), Y), "digits"], ids=["dense", "sparse", "named"])
@pytest.mark.parametrize("delay", [1, dt.delays.Uniform(3)], ids=str)
def test_gymnasiums_checker_accepts_it(data, delay):
    with warnings.catch_warnings(action="error"):
        check_env(gymnasium.make(ID, data=data, delay=delay, rounds=50).unwrapped)
        check_env(DelayedBanditEnv(data, delay), skip_render_check=True)


def play(env, learner, seed):
    """Let a learner play an episode: every answer is given when it arrives."""
    row, info = env.reset(seed=seed)
    decisions, total, truncated = [], 0.0, False
    while not truncated:
        for t, reward in info["feedback"]:
            learner.feedback(decisions[t - 1].id, correct=bool(reward))
        assert info["round"] == len(decisions) + 1
        decisions.append(learner.decide(row))
        row, reward, terminated, truncated, info = env.step(decisions[-1].label)
        total += reward
        assert not terminated
    return decisions, total


@pytest.mark.parametrize("delay", DELAYS, ids=str)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in PLAYED])
def test_an_agent_plays_what_replay_and_simulate_play(name, delay):
    data, seed, rounds = dt.datasets.load("digits"), 5, 2500  # more rounds than rows: they are drawn
    settings = {} if name == "bandit_logit" else {"gamma": 0.2}
    learner = dt.LEARNERS[name](10, 64, seed=seed, **settings)
    decisions, total = play(DelayedBanditEnv(data, delay, rounds), learner, seed)
    config = SimulationConfig(data.n_rows, rounds, delay, seed, "replacement")
    rows, delays = draw_rows(config, 0), draw_delays(delay, rounds, seed)
    fresh = dt.LEARNERS[name](10, 64, seed=seed, **settings)
    run = dt.replay(fresh, data.X[rows], data.y[rows], delays, stream(seed, "exploration").random(rounds))
    assert [decision.label for decision in decisions] == run.labels.tolist()
    assert [decision.prob for decision in decisions] == run.probs.tolist()
    assert_array_equal(learner.weights, run.weights)
    assert total == run.correct[np.arange(rounds) + delays <= rounds].sum()
    result = dt.simulate(name, data, delay=delay, rounds=rounds, seed=seed, **settings)
    assert result.mistakes[0, -1, 0] == rounds - run.correct.sum()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=15), st.integers(0, 2**32 - 1))
def test_every_answer_comes_once_in_its_round_with_the_reward_of_its_action(delays, seed):
    T, rng = len(delays), np.random.default_rng(seed)
    y, actions = rng.integers(0, 3, T), rng.integers(0, 3, T)
    env = DelayedBanditEnv((rng.normal(size=(T, 2)), [*y[:-1], 2]), dt.delays.Trace(delays))
    env.reset(seed=seed)
    drawn = draw_delays(env.config.delay, T, seed)
    for now in range(2, T + 2):
        _, reward, _, truncated, info = env.step(actions[now - 2])
        due = [t for t in range(1, T + 1) if t < now and t + drawn[t - 1] == now]
        assert info["feedback"] == [(t, float(actions[t - 1] == env.data.y[t - 1])) for t in due]
        assert reward == sum(part for _, part in info["feedback"])
        assert truncated == (now == T + 1)


def shown(env, **how):
    """Return all rows of an episode, and when answers come."""
    row, info = env.reset(**how)
    rows, truncated, arrivals = [row], False, []
    while not truncated:
        row, _, _, truncated, info = env.step(0)
        rows.append(row)
        arrivals.append(tuple(t for t, _ in info["feedback"]))
    return np.array(rows), arrivals


def test_a_seed_repeats_an_episode_and_no_seed_begins_another():
    env = DelayedBanditEnv((X, Y), dt.delays.Uniform(20), rounds=60)
    first, second, third = shown(env, seed=3), shown(env), shown(env)
    assert not np.array_equal(first[0], second[0])
    assert first[1] != second[1] != third[1]
    for wanted in (first, second, third):
        rows, arrivals = shown(env, **({"seed": 3} if wanted is first else {}))
        assert_array_equal(rows, wanted[0])
        assert arrivals == wanted[1]


def test_rows_come_in_file_order_while_they_last_and_are_copies():
    env = DelayedBanditEnv((X, Y))
    rows, _ = shown(env, seed=1)
    assert_array_equal(rows, [*X, X[-1]])
    row, _ = env.reset(seed=1)
    row[:] = 99.0
    assert_array_equal(env.reset(seed=1)[0], X[0])


def test_an_invalid_action_changes_nothing():
    env = DelayedBanditEnv((X, Y))
    env.reset(seed=0)
    for action in (3, -1, 0.5, "0", None, True):
        with pytest.raises(dt.InvalidInput, match="action must be"):
            env.step(action)
    assert env.step(np.array(2))[4] == {"round": 2, "feedback": [(1, 1.0)]}


def test_steps_outside_of_an_episode_are_refused():
    env = DelayedBanditEnv((X, Y))
    with pytest.raises(dt.InvalidInput, match=r"call reset\(\) first"):
        env.step(0)
    shown(env)
    with pytest.raises(dt.InvalidInput, match=r"call reset\(\) first"):
        env.step(0)


@pytest.mark.parametrize("wrong", [{"data": "digit"}, {"delay": 0}, {"rounds": 0}, {"sampling": "all"}], ids=str)
def test_wrong_arguments_are_refused_in_one_line(wrong):
    with pytest.raises(dt.InvalidInput) as caught:
        DelayedBanditEnv(**{"data": (X, Y)} | wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("delay", ["right=fixed:3/wrong=uniform:90", "class:0=fixed:9/else=lognormal:20,1"])
def test_delays_that_depend_on_the_round_are_those_of_simulate(delay):
    data, seed, rounds = dt.datasets.load("digits"), 5, 1500
    learner = dt.Delaytron(10, 64, gamma=0.2, seed=seed)
    decisions, _ = play(DelayedBanditEnv(data, delay, rounds), learner, seed)
    result = dt.simulate("delaytron", data, delay=delay, rounds=rounds, seed=seed, gamma=0.2)
    assert result.mistakes[0, -1, 0] == sum(d.label != y for d, y in zip(decisions, data.y, strict=False))
