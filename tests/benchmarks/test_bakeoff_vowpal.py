"""Vowpal Wabbit as an entrant of the bake-off."""

import sys
from pathlib import Path

import numpy as np
import pytest

from delaytron.simulation.rounds import Course, play_rewards
from optional import need

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from bakeoff_vowpal import MINUS_ONE, UNTOUCHED, VowpalWabbit

T = 1500


def play(options, seed=0, delay=1):
    need("vowpalwabbit")
    rng = np.random.default_rng(5)
    course = Course(rng.integers(3, size=T).tolist(), [delay] * T, rng.random(T))
    learner = VowpalWabbit(3, 3, seed, options)
    return play_rewards(learner, np.eye(3), np.eye(3), course, [T // 2, T]).mistakes[:, 0]


@pytest.mark.parametrize(
    "options",
    [UNTOUCHED, f"--squarecb --gamma_scale 1000 --adaptive --invariant {MINUS_ONE} -l 0.5", "--bag 5 --greedify"],
)
@pytest.mark.parametrize("delay", [1, 50])
def test_it_learns_from_late_answers_too(options, delay):
    half, whole = play(options, delay=delay)
    assert whole - half < 0.15 * T / 2  # at random: two of three


def test_a_seed_decides_everything():
    same, again, other = (play(UNTOUCHED, seed).tolist() for seed in (3, 3, 4))
    assert same == again
    assert same != other
