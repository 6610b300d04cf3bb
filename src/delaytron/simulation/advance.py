"""A learner that goes on: rounds whose answers come late, piece by piece, as if all were played in a row."""

from collections.abc import Callable
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from delaytron.checks import check_integers
from delaytron.compiler.kernel import interpreted
from delaytron.delays import Delay, Trace
from delaytron.delays.models import WithMissing
from delaytron.kernels.linear import row_of
from delaytron.learners import rounds
from delaytron.learners.base import Learner
from delaytron.learners.ledger import OPEN, RoundBlock
from delaytron.learners.scoring import NO_LABELS
from delaytron.matrices import as_kind, as_stream, check_matrix
from delaytron.records import NEVER, Bools, Columns, Ints, Row
from delaytron.rng import stream
from delaytron.simulation.replay import PlayedRun, play_through

BLOCK = 2**16  # delays that are drawn together, so that they do not depend on where the pieces end

Coming: TypeAlias = dict[int, list[tuple[int, int]]]  # round -> the decisions and answers that come at its start

_row_of = interpreted(row_of)


def advance(learner: Learner, X: Any, y: Any, delays: Any, coming: Coming) -> Bools:
    """Play a round for each row; return in which of them the learner was right.

    The answer of a round comes at the start of the round that is so many later. `coming` keeps those that come after
    the last row, for the next call. Pieces one after another are the same, to the bit, as all rows at once.

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
    if learner.ledger.rounds == 0 and _is_simple(learner):
        return _play_all(learner, matrix, labels, waits, coming)
    return _play_each(learner, matrix, labels, waits, coming)


def finish(learner: Learner, coming: Coming) -> None:
    """Let all answers come that are still on their way, in the order of their rounds; no further round is played.

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
        learner._take_answer(number, answer)
    coming.clear()
    learner.flush()


def _is_simple(learner: Learner) -> bool:
    """Whether the loop over many rounds leaves all that the online object would: no average, no expiry, no pools."""
    return not (learner.average or learner.feedback_model.expires or learner.rule.per_round_state)


def _play_all(learner: Learner, matrix: Any, y: Ints, delays: Ints, coming: Coming) -> Bools:
    """Play the first rounds of a learner in one call of compiled code, and file them as the online object would."""
    played = play_through(learner, matrix, y, delays, learner._draws.random(y.size))
    numbers = np.arange(1, y.size + 1)
    answers = _answers(learner, played.run.correct, y)
    open_ = np.flatnonzero(numbers + delays > y.size)
    learner.state = played.state
    told = answers.copy()
    told[open_] = OPEN
    learner.ledger.answers.extend(told.tolist())
    learner.ledger.settled = y.size - open_.size
    if open_.size:
        learner.ledger.plays = dict.fromkeys(numbers[open_].tolist(), _block(learner, matrix, open_, played))
    rounds.rewind(learner)
    for i in open_.tolist():
        _expect(coming, i + 1, int(delays[i]), int(answers[i]))
    return played.run.correct


def _block(learner: Learner, matrix: Any, open_: Ints, played: PlayedRun) -> RoundBlock:
    rows = as_stream(as_kind(matrix[open_], learner.sparse), NO_LABELS)
    greedy, label, prob, extra = played.columns
    return RoundBlock(open_ + 1, rows, Columns(greedy[open_], label[open_], prob[open_], extra[open_]))


def _play_each(learner: Learner, matrix: Any, y: Ints, delays: Ints, coming: Coming) -> Bools:
    """Play one round after another."""
    right = np.empty(y.size, np.bool_)
    for i in range(y.size):
        now = learner.ledger.rounds + 1
        for number, answer in coming.pop(now, ()):
            learner._take_answer(number, answer)
        play = learner._play_row(_own_row(matrix, i), learner._labels)
        right[i : i + 1] = learner._is_correct(np.array([play.label]), play.extra[None], y[i : i + 1])
        _expect(coming, now, int(delays[i]), int(_answers(learner, right[i : i + 1], y[i : i + 1])[0]))
    return right


def _own_row(matrix: Any, i: int) -> Row:
    """Return a copy of a row: it is kept until its answer comes."""
    indptr, indices, values, _ = as_stream(matrix, NO_LABELS)
    row = _row_of(indptr, indices, values, i)
    return Row(None if row.indices is None else row.indices.copy(), row.values.copy())


def _answers(learner: Learner, right: Bools, y: Ints) -> Ints:
    """Return what the feedback tells the learner: 1 for right, 0 for wrong; or the true label."""
    return y if learner.feedback_type == "label" else right.astype(np.int64)


def _expect(coming: Coming, number: int, delay: int, answer: int) -> None:
    if delay < NEVER:
        coming.setdefault(number + delay, []).append((number, answer))


def draw_piece(delay: Delay, seed: int, first: int, count: int, name: str = "delays") -> Ints:
    """Return the delays of the rounds first..first + count - 1 (from 0), whatever pieces they are drawn in.

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
