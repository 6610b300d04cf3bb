"""The loop of the online object: the same `tick`, `apply_event` and `pick`, round by round.

Compiled code cannot be interrupted by an exception of Python. So every part of a round (`advance`, `deliver` and
`choose`) marks what it has done, and an object that was interrupted anywhere knows where to go on.
"""

from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.kernels import loop
from delaytron.kernels.averages import add_change, remember
from delaytron.kernels.linear import row_of
from delaytron.kernels.loop import REVISED, apply_event
from delaytron.records import Array, Columns, Play, Row, Stream

pick = loop.pick  # the slots
step = loop.step
revise = loop.revise
revises = loop.revises
tick = loop.tick

BEGUN, APPLIED, KIND, NOW, PLAYED, GREEDY, LABEL, PROB = range(8)  # the cells of the online object's marks
NOTHING = -1  # no clock to tick, no event, no draw


@kernel
def advance(state: Any, params: Any, now: int, outstanding: int, marks: Array) -> None:
    """Begin round `now`: tell the learner's clock how many rounds wait for an answer, this one included."""
    tick(state, params, now, outstanding)
    marks[BEGUN] = now


@kernel
def deliver(state: Any, params: Any, past: Play, right: bool, y: int, kind: int, flips: int, marks: Array) -> None:
    """Apply one event to a past round."""
    apply_event(state, params, past, right, y, kind, flips)
    marks[APPLIED] = past.round
    marks[KIND] = kind


@kernel
def deliver_reward(
    state: Any, params: Any, past: Play, reward: float, kind: int, marks: Array, average: Any, now: int
) -> None:
    """Apply a reward between 0 and 1 to a past round; `average` is as in `deliver_averaged`, or None."""
    if average is not None:
        remember(state.W, past.x.indices, average[1])
    if kind == REVISED and revises:
        revise(state, params, past, reward)
    else:
        step(state, params, past, reward)
    if average is not None:
        add_change(state.W, past.x.indices, average[1], now, average[0])
    marks[APPLIED] = past.round
    marks[KIND] = kind


@kernel
def deliver_averaged(
    state: Any,
    params: Any,
    past: Play,
    right: bool,
    y: int,
    kind: int,
    flips: int,
    marks: Array,
    average: tuple[Array, Array],
    now: int,
) -> None:
    """Apply one event to a past round, and add what it changes, first used in round `now`, to the sum of the average.

    `average` is that sum, and room for the weights before the update.
    """
    total, old = average
    remember(state.W, past.x.indices, old)
    apply_event(state, params, past, right, y, kind, flips)
    add_change(state.W, past.x.indices, old, now, total)
    marks[APPLIED] = past.round
    marks[KIND] = kind


@kernel
def choose(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play the round that `NOW` marks; return, and note, the greedy label, the played one and its probability."""
    scores, p, marks = scratch
    greedy, label, prob = pick(state, params, x, allowed, u, (scores, p), extra)
    marks[PROB] = prob
    marks[GREEDY] = greedy
    marks[LABEL] = label
    marks[PLAYED] = marks[NOW]
    return greedy, label, prob


@kernel
def play_round(
    state: Any,
    params: Any,
    outstanding: int,
    past: Play,
    event: tuple[bool, int, int, int],
    x: Row,
    allowed: Any,
    u: float,
    scratch: tuple[Array, Array, Array],
    extra: Array,
) -> tuple[int, int, float]:
    """Play the round that `NOW` marks, with one event, or a part of that: what is `NOTHING` is left out."""
    right, y, kind, flips = event
    marks = scratch[2]
    if outstanding != NOTHING:
        advance(state, params, int(marks[NOW]), outstanding, marks)
    if kind != NOTHING:
        deliver(state, params, past, right, y, kind, flips, marks)
    if u != NOTHING:
        return choose(state, params, x, allowed, u, scratch, extra)
    return NOTHING, NOTHING, 0.0


@kernel
def play_rounds(
    state: Any,
    params: Any,
    before: tuple[int, int],
    stream: Stream,
    allowed: Any,
    draws: Array,
    scratch: tuple[Array, Array, Array],
    columns: Columns,
) -> None:
    """Play a round for each row, while no answer comes; `before` counts the rounds so far, and those that wait."""
    scores, p, marks = scratch
    for i in range(draws.size):
        tick(state, params, before[0] + i + 1, before[1] + i + 1)
        x = row_of(stream.indptr, stream.indices, stream.values, i)
        columns.greedy[i], columns.label[i], columns.prob[i] = pick(
            state, params, x, allowed, draws[i], (scores, p), columns.extra[i]
        )
    marks[PLAYED] = before[0] + draws.size
