"""THE delay loop: deliver, tick, update, predict, open; once, for every learner and every use.

A learner fills the slots. The simulator runs `play` over many rounds and runs; the online object runs `advance`,
`learn` and `choose` round by round. Both execute the same lines.
"""

from typing import Any

from delaytron._jit import kernel, slot
from delaytron.kernels.explore import draw
from delaytron.kernels.linear import prefetch_row, row_of, score
from delaytron.records import Array, Ints, Log, Play, Row, Span, Stream, Worlds

policy: Any = slot()  # (state, params, x, scores, p) -> greedy label; fills the K probabilities p
step: Any = slot()  # (state, params, past, told): what one answer does to the state
tick: Any = slot()  # (state, params, round, outstanding): once a round, before its updates
told: Any = slot()  # (label, y) -> what the feedback tells: right or wrong, or the true label
state_of: Any = slot()  # (states, r) -> the state of run r
params_of: Any = slot()  # (params, r) -> the parameters of run r

BLOCK = 128  # rounds that one run plays before the next run does, so that runs share rows while they are cached


@kernel
def play(
    stream: Stream,
    worlds: Worlds,
    world_of: Ints,
    log: Log,
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
        for r in range(world_of.size):
            world, columns = world_at(worlds, world_of[r]), columns_at(log, r)
            play_block(stream, world, columns, state_of(states, r), params_of(params, r), scratch, before, block)


@kernel
def play_block(
    stream: Stream,
    world: Worlds,
    log: Log,
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
            look_ahead(stream, world, t + span.ahead)
        first, last = world.starts[t], world.starts[t + 1]
        tick(state, params, before[0] + t + 1, before[1] + t + 1 - last)
        for a in range(first, last):
            s = world.arrivals[a]
            x, y = example(stream, world.rows[s])
            c = s & ring
            past = Play(before[0] + s + 1, x, log.greedy[c], log.label[c], log.prob[c])
            step(state, params, past, told(past.label, y))
        x, y = example(stream, world.rows[t])
        c = t & ring
        log.greedy[c], log.label[c], log.prob[c] = choose(state, params, x, world.draws[t], scratch)
        log.mistakes[0] += log.label[c] != y
        log.mistakes[1] += log.greedy[c] != y


@kernel
def look_ahead(stream: Stream, world: Worlds, t: int) -> None:
    """Ask the memory for the rows that round `t` will read; in random order they would stall the loop."""
    if t < world.rows.size:
        prefetch_row(stream.indptr, stream.indices, stream.values, world.rows[t])
        for a in range(world.starts[t], world.starts[t + 1]):
            prefetch_row(stream.indptr, stream.indices, stream.values, world.rows[world.arrivals[a]])


@kernel
def advance(state: Any, params: Any, now: int, outstanding: int) -> None:
    """Begin round `now`: tell the learner's clock how many rounds wait for an answer, this one included."""
    tick(state, params, now, outstanding)


@kernel
def learn(state: Any, params: Any, past: Play, answer: int) -> None:
    """Apply the answer to a past round."""
    step(state, params, past, answer)


@kernel
def choose(state: Any, params: Any, x: Row, u: float, scratch: tuple[Array, Array]) -> tuple[int, int, float]:
    """Return the greedy label, the played label and its probability; the state stays as it is."""
    scores, p = scratch
    greedy = policy(state, params, x, scores, p)
    label = draw(p, u)
    return greedy, label, p[label]


@kernel
def score_all(W: Array, stream: Stream, scores: Array, out: Array) -> None:
    """Write the scores of every row of the stream to `out`."""
    for i in range(out.shape[0]):
        x = row_of(stream.indptr, stream.indices, stream.values, i)
        score(W, x.indices, x.values, scores)
        for k in range(out.shape[1]):
            out[i, k] = scores[k]


@kernel
def example(stream: Stream, i: int) -> tuple[Row, int]:
    """Return one example and its label."""
    return row_of(stream.indptr, stream.indices, stream.values, i), stream.y[i]


@kernel
def world_at(worlds: Worlds, w: int) -> Worlds:
    """Return one world."""
    return Worlds(worlds.rows[w], worlds.draws[w], worlds.starts[w], worlds.arrivals[w])


@kernel
def columns_at(log: Log, r: int) -> Log:
    """Return the columns of one run."""
    return Log(log.greedy[r], log.label[r], log.prob[r], log.mistakes[r])
