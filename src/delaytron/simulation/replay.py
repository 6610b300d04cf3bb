"""`dt.replay`: one run from given arrays, the same bits always; and runs in pieces, on a learner that continues."""

from collections.abc import Callable
from copy import deepcopy
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from delaytron.checks import as_kind, as_stream, check_integers, check_matrix, check_one_per_round, is_sparse
from delaytron.compiler.kernel import interpreted
from delaytron.delays import Delay, Trace
from delaytron.delays.models import WithMissing
from delaytron.errors import InvalidInput
from delaytron.kernels.linear import row_of
from delaytron.learners.book import NO_LABELS, RoundBlock
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import new_scratch
from delaytron.learners.rule import stack
from delaytron.records import NEVER, Bools, Columns, Ints, Row, Run, Span
from delaytron.rng import stream
from delaytron.simulation.scenarios import (
    NO_NOISE,
    Noise,
    deliver,
    empty_log,
    empty_scenarios,
    max_open_rounds,
    noise_for,
)


def replay(learner: Learner, X: Any, y: Any, delays: Any, draws: Any, noise: Any = None) -> Run:
    """Play one run: row t of X is round t, its answer comes at the start of round t + delays[t].

    A learner that has already learned starts from what it knows; its open decisions stay open.

    Parameters
    ----------
    y : 1-D array of int
        The true label of every round; a bandit learner only learns whether its own was right.
    delays : 1-D array of int, or 2-D of two rows
        At least 1 each; 1 means that the answer is known before the next round. Of two rows, the first has the delays
        of rounds whose answer says "right", the second of those whose answer says "wrong".
    draws : 1-D array of float
        One number in [0, 1) per round, the run's only randomness but for `noise`.
    noise : (rho0, rho1), optional
        Flip answers: a "wrong" arrives as "right" at the rate rho0, a "right" as "wrong" at rho1. Which ones
        follows from the seed of the learner and the round.

    Returns
    -------
    Run
        Labels, greedy labels, probabilities, correctness, and the weights at the end.

    Raises
    ------
    InvalidInput
        If an array has another length or a value that is not allowed.

    Examples
    --------
    >>> import delaytron as dt
    >>> learner = dt.Delaytron(n_classes=2, n_features=2, gamma=0.5)
    >>> run = dt.replay(learner, [[1, 0], [1, 0], [0, 1]], [1, 1, 0], delays=[1, 1, 1], draws=[0.9, 0.9, 0.1])
    >>> run.labels.tolist(), run.correct.tolist()
    ([1, 1, 0], [True, True, True])
    """
    if not isinstance(learner, Learner):
        raise InvalidInput.of("learner", "one, as in dt.Banditron(n_classes=3, n_features=2)", learner)
    return play_through(deepcopy(learner), X, y, delays, draws, noise_for(learner, noise)).run


class PlayedRun(NamedTuple):
    """A run, the choices of its rounds, and the state of the learner after it."""

    run: Run
    columns: Columns
    state: Any


def play_through(learner: Learner, X: Any, y: Any, delays: Any, draws: Any, noise: Noise = NO_NOISE) -> PlayedRun:
    """Play as `replay` does, but on the learner itself; return the new state, which is not yet that of the learner."""
    learner.flush()
    matrix = check_matrix(X, learner.n_features)
    if learner.book.rounds == 0:
        learner._reset_state(sparse=is_sparse(matrix))
    matrix = as_kind(matrix, learner.sparse)
    T = matrix.shape[0]
    labels = check_integers("y", y, T, 0, learner.n_classes - 1)
    if_right, if_wrong = _read_delays(delays, T)
    scenarios = empty_scenarios(1, T, learner.book.expiry, noise, conditional=if_wrong is not None)
    scenarios.rows[0] = np.arange(T)
    numbers = np.asarray(check_one_per_round("draws", draws, T), np.float64)
    bad = np.flatnonzero(~((numbers >= 0) & (numbers < 1)))
    if bad.size:
        raise InvalidInput.of("draws", "in [0, 1)", got=f"{numbers[bad[0]]} in round {bad[0] + 1}")
    scenarios.draws[0] = numbers
    flips = stream(learner.seed, "noise")
    cast(np.random.PCG64, flips.bit_generator).advance(learner.book.rounds)  # a number for each round played before
    scenarios.flips[0] = noise.flip_mask(flips.random(scenarios.flips.size))
    deliver(if_right, learner.book.expiry, scenarios, 0, if_wrong)
    log = empty_log(1, T, len(learner.rule.extras))
    before = (learner.book.rounds, learner.pending)
    states = learner._with_capacity(max_open_rounds(scenarios) if learner.rule.per_round_state else T)
    rows = as_stream(matrix, labels)
    params = stack(learner.params)
    scratch = new_scratch(learner.n_classes)
    learner.rule.play(rows, scenarios, np.zeros(1, np.int64), log, states, params, scratch, before, Span(0, T, 0))
    state = type(states)(*(field[0] for field in states))
    label = log.label[0, :T].astype(np.int64)
    greedy = log.greedy[0, :T].astype(np.int64)
    columns = Columns(greedy, label, log.prob[0, :T].copy(), log.extra[0, :T].copy())
    right = learner._is_correct(label, columns.extra, labels)
    return PlayedRun(Run(label, greedy, columns.prob, right, learner.weights_of(state)), columns, state)


def _read_delays(delays: Any, n_rounds: int) -> tuple[Ints, Ints | None]:
    """Return the delays of all rounds; of two rows those of a "right" and those of a "wrong"."""
    listed = isinstance(delays, list | tuple) and len(delays) > 0 and np.ndim(delays[0]) == 1
    if not listed and getattr(delays, "ndim", 1) != 2:
        return check_integers("delays", delays, n_rounds, 1), None
    rows = list(delays)
    if len(rows) != 2:
        allowed = 'one per round, or two rows, for answers that say "right" and for those that say "wrong"'
        raise InvalidInput.of("delays", allowed, got=f"{len(rows)} rows")
    return check_integers("delays", rows[0], n_rounds, 1), check_integers("delays", rows[1], n_rounds, 1)


BLOCK = 2**16  # delays drawn from one stream, so that they do not depend on where pieces end

Coming: TypeAlias = dict[int, list[tuple[int, int]]]  # round -> the decisions and answers that come at its start

_row_of = interpreted(row_of)


def advance(learner: Learner, X: Any, y: Any, delays: Any, coming: Coming) -> Bools:
    """Play a round for each row; return in which of them the learner was right.

    The answer to a round comes at the start of the round that is its delay later. `coming` keeps those that come after
    the last row, for the next call. Several calls give the same bits as one with all rows.

    Examples
    --------
    >>> import delaytron as dt
    >>> learner, coming = dt.Delaytron(n_classes=2, n_features=1, gamma=0.5, seed=0), {}
    >>> advance(learner, [[1.0], [1.0]], [0, 0], [1, 5], coming).tolist()
    [True, True]
    >>> coming, learner.pending
    ({7: [(2, 1)]}, 1)
    """
    matrix = check_matrix(X, learner.n_features)
    labels = check_integers("y", y, matrix.shape[0], 0, learner.n_classes - 1)
    waits = check_integers("delays", delays, matrix.shape[0], 1)
    is_plain = not (learner.book.expiry.expires or learner.rule.per_round_state)
    # The compiled loop over all rounds gives the same state as single rounds, except with expiry or per-round state.
    if learner.book.rounds == 0 and is_plain:
        return _play_all(learner, matrix, labels, waits, coming)
    return _play_each(learner, matrix, labels, waits, coming)


def finish(learner: Learner, coming: Coming) -> None:
    """Deliver all answers that are still coming, in the order of their rounds; no further round is played.

    Examples
    --------
    >>> import delaytron as dt
    >>> learner, coming = dt.Delaytron(n_classes=2, n_features=1, gamma=0.5, seed=0), {}
    >>> advance(learner, [[1.0], [1.0]], [0, 0], [1, 5], coming).tolist()
    [True, True]
    >>> finish(learner, coming)
    >>> coming, learner.pending
    ({}, 0)
    """
    for number, answer in sorted(chain.from_iterable(coming.values())):
        learner.answer(number, answer)
    coming.clear()
    learner.flush()


def _play_all(learner: Learner, matrix: Any, y: Ints, delays: Ints, coming: Coming) -> Bools:
    """Play the first rounds of a learner in one compiled call, and file them as the online object would."""
    played = play_through(learner, matrix, y, delays, learner._draws.random(y.size))
    numbers = np.arange(1, y.size + 1)
    answers = _answers(learner, played.run.correct, y)
    open_ = np.flatnonzero(numbers + delays > y.size)
    learner.state = played.state
    settled = np.delete(numbers, open_)
    learner.book.settle_answered(settled, answers[settled - 1].astype(np.float64))
    if open_.size:
        rows = as_stream(as_kind(matrix[open_], learner.sparse), NO_LABELS)
        greedy, label, prob, extra = played.columns
        chosen = Columns(greedy[open_], label[open_], prob[open_], extra[open_])
        learner.book.kept = dict.fromkeys(numbers[open_].tolist(), RoundBlock(numbers[open_], rows, chosen))
    learner.book.rounds = y.size
    learner._rewind()
    for i in open_.tolist():
        _expect(coming, i + 1, int(delays[i]), int(answers[i]))
    return played.run.correct


def _play_each(learner: Learner, matrix: Any, y: Ints, delays: Ints, coming: Coming) -> Bools:
    """Play one round after another."""
    right = np.empty(y.size, np.bool_)
    indptr, indices, values, _ = as_stream(matrix, NO_LABELS)
    for i in range(y.size):
        now = learner.book.rounds + 1
        for number, answer in coming.pop(now, ()):
            learner.answer(number, answer)
        row = _row_of(indptr, indices, values, i)
        own = Row(None if row.indices is None else row.indices.copy(), row.values.copy())  # kept until it is answered
        play = learner.play_round(own, learner._labels)
        right[i : i + 1] = learner._is_correct(np.array([play.label]), play.extra[None], y[i : i + 1])
        _expect(coming, now, int(delays[i]), int(_answers(learner, right[i : i + 1], y[i : i + 1])[0]))
    return right


def _answers(learner: Learner, right: Bools, y: Ints) -> Ints:
    """Return the answers for a learner: 1 for right, 0 for wrong; or the true labels."""
    return y if learner.feedback_type == "label" else right.astype(np.int64)


def _expect(coming: Coming, number: int, delay: int, answer: int) -> None:
    if delay < NEVER:
        coming.setdefault(number + delay, []).append((number, answer))


def draw_piece(delay: Delay, seed: int, first: int, count: int, name: str = "delays") -> Ints:
    """Return the delays of the rounds first..first + count - 1 (from 0); they do not depend on the pieces drawn.

    Examples
    --------
    >>> from delaytron.delays import Uniform
    >>> whole = draw_piece(Uniform(9), seed=7, first=0, count=5)
    >>> bool((draw_piece(Uniform(9), seed=7, first=2, count=3) == whole[2:]).all())
    True
    """
    if isinstance(delay, Trace):
        return np.take(delay.delays, np.arange(first, first + count), mode="wrap")
    if isinstance(delay, WithMissing):
        kept = draw_piece(delay.model, seed, first, count, name)
        lost = _in_blocks(lambda rng: rng.random(BLOCK), seed, f"lost {name}", first, count) < delay.rate
        return np.where(lost, NEVER, kept)
    drawn = _in_blocks(lambda rng: delay.sample(BLOCK, rng), seed, name, first, count)
    return check_integers(f"the delays of {delay!r}", drawn, count, low=1)


def _in_blocks(draw: Callable[[np.random.Generator], Any], seed: int, name: str, first: int, count: int) -> Any:
    """Draw whole blocks, each from a stream of its own; return the numbers of some rounds."""
    begin, end = first // BLOCK, (first + count - 1) // BLOCK
    drawn = np.concatenate([draw(stream(seed, name, run=block)) for block in range(begin, end + 1)])
    return drawn[first - begin * BLOCK :][:count]
