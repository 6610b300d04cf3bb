"""Runs that are played round by round: of worlds, whose labels have rewards, and of learners from outside."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from delaytron.experiments.entrants import is_outside, make_entrant
from delaytron.experiments.sources import PlayedData, kind_of, reward_table
from delaytron.experiments.spec import RunSpec, recorded_delay
from delaytron.learners import LEARNERS
from delaytron.records import Array, Ints
from delaytron.rng import stream
from delaytron.simulation.rounds import Course, Entrant, play_rewards
from delaytron.simulation.scenarios import SimulationConfig, checkpoints, draw_outcomes, draw_rows
from delaytron.simulation.simulate import Progress, labels_for


def goes_by_rounds(run: RunSpec) -> bool:
    """Whether a run is played round by round, which takes some ten microseconds a round; others run compiled."""
    return is_outside(run.learner) or kind_of(run.data) == "rewards"


def play_by_rounds(runs: Sequence[RunSpec], source: PlayedData, progress: Progress | None = None) -> tuple[Ints, Array]:
    """Return the (settings, runs, checkpoints, 2) mistakes, and the reward lost, of runs that differ in parameters.

    Run i shows the rows of run i of `simulate`, with its delays; the answers are drawn by a stream of their own, and
    the learner has a seed of its own, both the same for all learners.
    """
    first = runs[0]
    data, rewards = source.data, reward_table(source, first.data)
    delay = recorded_delay(first.delay, first.recorded)
    labelled = labels_for(delay, data, first.rounds)
    config = SimulationConfig(data.n_rows, first.rounds, delay, first.seed, first.sampling, labelled=labelled)
    stops = checkpoints(first.rounds, first.checkpoints)
    mistakes = np.zeros((len(runs), first.runs, stops.size, 2), np.int64)
    lost = np.zeros((len(runs), first.runs, stops.size))
    for number in range(first.runs):
        delays, if_wrong = draw_outcomes(config, number)
        draws = stream(config.seed, "answers", number).random(config.n_rounds)
        course = Course(draw_rows(config, number).tolist(), delays, draws, if_wrong)
        seed = int(stream(config.seed, "learner", number).integers(2**31))
        for place, run in enumerate(runs):
            learner = _make(run, data.n_classes, data.n_features, seed)
            tally = play_rewards(learner, data.X, rewards, course, stops.tolist())
            mistakes[place, number], lost[place, number] = tally
            if progress is not None:
                progress(first.rounds)
    return mistakes, lost


def _make(run: RunSpec, n_classes: int, n_features: int, seed: int) -> Entrant:
    if is_outside(run.learner):
        return make_entrant(run.learner, n_classes, n_features, seed, run.parameters)
    cls: Any = LEARNERS[run.learner]
    made: Entrant = cls(n_classes, n_features, seed=seed, **run.parameters)
    return made
