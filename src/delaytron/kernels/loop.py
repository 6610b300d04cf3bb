"""THE delay loop: deliver, tick, update, predict, open; once, for every learner and every use.

A learner fills the slots. The simulator runs `play` over many rounds and runs; the online object runs `play_round` of
`kernels.online` round by round. Both execute the same lines: `tick`, `apply_event` and `pick`.
"""

from typing import Any

from delaytron.compiler.kernel import kernel, slot
from delaytron.kernels.explore import rival_of
from delaytron.kernels.linear import prefetch_row, row_of
from delaytron.records import Array, Ints, Play, RoundRing, Row, Scenarios, Span, Stream

pick: Any = slot()  # (state, params, x, allowed, u, scratch, extra) -> greedy label, played label, its probability
step: Any = slot()  # (state, params, past, observation): what one answer does to the state
revise: Any = slot()  # (state, params, past, reward): what was counted as wrong has this reward, 1 if it is right
revises: Any = slot()  # whether that is more than a step with "right", True or False
tick: Any = slot()  # (state, params, round, outstanding): once a round, before its updates
is_correct: Any = slot()  # (label, extra, y) -> whether what was played is right
scale: Any = slot()  # (state, params) -> by what the scores are multiplied to be those of the weights
observation: Any = slot()  # (right, y) -> what the feedback tells: right or wrong, or the true label
state_of: Any = slot()  # (states, r) -> the state of run r
params_of: Any = slot()  # (params, r) -> the parameters of run r

ANSWERED, EXPIRED, REVISED, DROPPED = 0, 1, 2, 3  # an answer; none came: wrong; the answer after that; none came
BLOCK = 128  # rounds that one run plays before the next run does, so that runs share rows while they are cached


@kernel
def play(
    stream: Stream,
    scenarios: Scenarios,
    scenario_of: Ints,
    log: RoundRing,
    states: Any,
    params: Any,
    scratch: tuple[Array, Array],
    before: tuple[int, int],
    span: Span,
) -> None:
    """Play the rounds of the span for every run; what lasts is in the arrays, so it can go on later.

    `before` counts the rounds that the learner played earlier and those of them that will stay open.
    """
    for first in range(span.start, span.stop, BLOCK):
        block = Span(first, min(first + BLOCK, span.stop), span.ahead)
        for r in range(scenario_of.size):
            scenario = scenario_at(scenarios, scenario_of[r])
            columns = columns_at(log, r)
            play_block(stream, scenario, columns, state_of(states, r), params_of(params, r), scratch, before, block)


@kernel
def play_block(
    stream: Stream,
    scenario: Scenarios,
    log: RoundRing,
    state: Any,
    params: Any,
    scratch: tuple[Array, Array],
    before: tuple[int, int],
    span: Span,
) -> None:
    """Play a few rounds of one run."""
    ring = log.label.size - 1
    for t in range(span.start, span.stop):
        if span.ahead:
            look_ahead(stream, scenario, t + span.ahead)
        first, last = scenario.starts[t], scenario.starts[t + 1]
        waiting = scenario.waiting[t] if scenario.waiting.size else t + 1 - last
        tick(state, params, before[0] + t + 1, before[1] + waiting)
        for a in range(first, last):
            s = scenario.arrivals[a]
            x, y = example(stream, scenario.rows[s])
            c = s & ring
            past = Play(before[0] + s + 1, x, log.greedy[c], log.label[c], log.prob[c], log.extra[c])
            right = is_correct(past.label, past.extra, y)
            kind = scenario.kinds[a] if scenario.kinds.size else ANSWERED
            flips = scenario.flips[s] if scenario.flips.size else 0
            apply_event(state, params, past, right, y, kind, flips)
        x, y = example(stream, scenario.rows[t])
        c = t & ring
        u = scenario.draws[t]
        log.greedy[c], log.label[c], log.prob[c] = pick(state, params, x, None, u, scratch, log.extra[c])
        log.mistakes[0] += not is_correct(log.label[c], log.extra[c], y)
        log.mistakes[1] += log.greedy[c] != y
        if log.losses.size:
            add_losses(scratch, scale(state, params), y, log.greedy[c] != y, log.losses)


@kernel
def add_losses(scratch: tuple[Array, Array], factor: float, y: int, wrong: bool, losses: Array) -> None:
    """Add the hinge of the scores by which the round was decided."""
    scores, p = scratch
    hinge = max(0.0, 1.0 - factor * (scores[y] - scores[rival_of(scores, None, p.size, y)]))
    losses[0] += hinge
    if wrong:
        losses[1] += hinge


@kernel
def apply_event(state: Any, params: Any, past: Play, right: bool, y: int, kind: int, flips: int) -> None:
    """Let the learner know of one event; `flips` has bit 0 set if a "wrong" is turned round, bit 1 if a "right" is."""
    if flips >> right & 1:
        right = not right
    if kind == REVISED and revises:
        if right:
            revise(state, params, past, 1.0)
    elif kind != DROPPED and (right or kind != REVISED):
        step(state, params, past, observation(right and kind != EXPIRED, y))


@kernel
def look_ahead(stream: Stream, scenario: Scenarios, t: int) -> None:
    """Ask the memory for the rows that round `t` will read; in random order they would stall the loop."""
    if t < scenario.rows.size:
        prefetch_row(stream.indptr, stream.indices, stream.values, scenario.rows[t])
        for a in range(scenario.starts[t], scenario.starts[t + 1]):
            prefetch_row(stream.indptr, stream.indices, stream.values, scenario.rows[scenario.arrivals[a]])


@kernel
def example(stream: Stream, i: int) -> tuple[Row, int]:
    """Return one example and its label."""
    return row_of(stream.indptr, stream.indices, stream.values, i), stream.y[i]


@kernel
def scenario_at(scenarios: Scenarios, w: int) -> Scenarios:
    """Return one scenario."""
    return Scenarios(
        scenarios.rows[w],
        scenarios.draws[w],
        scenarios.starts[w],
        scenarios.arrivals[w],
        scenarios.kinds[w],
        scenarios.flips[w],
        scenarios.waiting[w],
    )


@kernel
def columns_at(log: RoundRing, r: int) -> RoundRing:
    """Return the columns of one run."""
    return RoundRing(log.greedy[r], log.label[r], log.prob[r], log.extra[r], log.mistakes[r], log.losses[r])
