"""One run, pure: the same arrays always give the same bits, and the learner passed in stays as it was."""

from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_integers, check_one_per_round, shown
from delaytron.errors import InvalidInput
from delaytron.learners.base import Learner
from delaytron.learners.rounds import is_begun
from delaytron.learners.rule import stack
from delaytron.learners.scoring import new_scratch
from delaytron.matrices import as_kind, as_stream, check_matrix, is_sparse
from delaytron.records import Array, Columns, Ints, RoundRing, Run, Span
from delaytron.simulation.scenarios import deliver, empty_log, empty_scenarios, max_open_rounds


def replay(learner: Learner, X: Any, y: Any, delays: Any, draws: Any) -> Run:
    """Play one run: row t of X is round t, its answer comes at the start of round t + delays[t].

    A learner that has already learned starts from what it knows; its open decisions stay open.

    Parameters
    ----------
    y : 1-D array of int
        The true label of every round; a bandit learner is told only whether its own was right.
    delays : 1-D array of int
        At least 1 each; 1 means that the answer is known before the next round.
    draws : 1-D array of float
        One number in [0, 1) per round, the run's only randomness.

    Examples
    --------
    >>> import delaytron as dt
    >>> learner = dt.Delaytron(n_classes=2, n_features=2, gamma=0.5)
    >>> run = dt.replay(learner, [[1, 0], [1, 0], [0, 1]], [1, 1, 0], delays=[1, 1, 1], draws=[0.9, 0.9, 0.1])
    >>> run.labels.tolist(), run.correct.tolist()
    ([1, 1, 0], [True, True, True])
    """
    if not isinstance(learner, Learner):
        raise InvalidInput(f"learner must be one, as in dt.Banditron(n_classes=3, n_features=2); got {shown(learner)}")
    return play_through(deepcopy(learner), X, y, delays, draws).run


class PlayedRun(NamedTuple):
    """A run, what was chosen in each of its rounds, and what the learner knows after it."""

    run: Run
    columns: Columns
    state: Any


def play_through(learner: Learner, X: Any, y: Any, delays: Any, draws: Any) -> PlayedRun:
    """Do what `replay` does, on the learner itself; whoever wants it to go on lets it take the state over."""
    if is_begun(learner):
        raise InvalidInput(
            f"this learner was interrupted in round {learner.ledger.rounds + 1}; call its decide once more first"
        )
    learner.flush()
    matrix = check_matrix(X, learner.n_features)
    if learner.ledger.rounds == 0:
        learner._reset_state(sparse=is_sparse(matrix))
    matrix = as_kind(matrix, learner.sparse)
    T = matrix.shape[0]
    labels = check_integers("y", y, T, 0, learner.n_classes - 1)
    scenarios = empty_scenarios(1, T, learner.feedback_model)
    scenarios.rows[0] = np.arange(T)
    scenarios.draws[0] = _uniform(draws, T)
    scenarios.flips[0] = learner.feedback_model.flip_mask(learner._noise.random(scenarios.flips.size))
    deliver(check_integers("delays", delays, T, 1), learner.feedback_model, scenarios, 0)
    log = empty_log(1, T, len(learner.rule.extras))
    before = (learner.ledger.rounds, learner.pending)
    states = learner._with_capacity(max_open_rounds(scenarios) if learner.rule.per_round_state else T)
    stream = as_stream(matrix, labels)
    params = stack(learner.params)
    scratch = new_scratch(learner.n_classes)
    learner.rule.play(stream, scenarios, np.zeros(1, np.int64), log, states, params, scratch, before, Span(0, T, 0))
    return _played(learner, log, labels, type(states)(*(field[0] for field in states)))


def _played(learner: Learner, log: RoundRing, y: Ints, state: Any) -> PlayedRun:
    label = log.label[0, : y.size].astype(np.int64)
    greedy = log.greedy[0, : y.size].astype(np.int64)
    columns = Columns(greedy, label, log.prob[0, : y.size].copy(), log.extra[0, : y.size].copy())
    right = learner._is_correct(label, columns.extra, y)
    return PlayedRun(Run(label, greedy, columns.prob, right, learner.weights_of(state)), columns, state)


def _uniform(draws: Any, n_rounds: int) -> Array:
    numbers = np.asarray(check_one_per_round("draws", draws, n_rounds), np.float64)
    bad = np.flatnonzero(~((numbers >= 0) & (numbers < 1)))
    if bad.size:
        raise InvalidInput(f"draws must be in [0, 1), got {numbers[bad[0]]} in round {bad[0] + 1}")
    return numbers
