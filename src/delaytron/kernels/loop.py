"""The delay loop, once for every learner and every use: tick the clock, apply what arrived, then choose.

A learner fills the slots. The simulator runs `play` over many rounds and runs; `Learner` runs `play_round` round by
round. Both execute the same lines: `tick`, `apply_event` and `pick`. `peek` computes the probabilities of a round
without playing it.
"""

from typing import Any

from delaytron.compiler.kernel import fill, kernel, slot
from delaytron.kernels.explore import rival_of, share_ties, shares_ties
from delaytron.kernels.linear import prefetch_row, row_of, score
from delaytron.records import Array, Columns, Ints, Play, RoundRing, Rounds, Row, Scenarios, Span, Stream

pick: Any = slot()  # (state, params, x, allowed, u, scratch, extra) -> greedy label, played label, its probability
step: Any = slot()  # (state, params, past, observation): what one answer does to the state
revise: Any = slot()  # (state, params, past, reward): correct a round that was counted as wrong; 1 is right
revises: Any = slot()  # False if that is the same as a step with "right", else True
tick: Any = slot()  # (state, params, round, outstanding): once a round, before its updates
is_correct: Any = slot()  # (label, extra, y) -> whether the play is right
scale: Any = slot()  # (state, params) -> the factor that turns scores of the kernels into those of the weights
observation: Any = slot()  # (right, y) -> the feedback: right or wrong, or the true label
state_of: Any = slot()  # (states, r) -> the state of run r
params_of: Any = slot()  # (params, r) -> the parameters of run r

# Events: an answer; an expiry that counts as wrong; an answer after such an expiry; an expiry without effect.
ANSWER_EVENT, EXPIRY_EVENT, CORRECTION_EVENT, DROP_EVENT = range(4)
KIND_BITS = 3  # of an event in a scenario; the others say on which answer to the round it depends, if on any
IF_RIGHT, IF_WRONG = 4, 8
BLOCK = 128  # rounds that one run plays before the next run does, so that all runs read rows while they are cached


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
    """Play the rounds of the span for every run; all state is in the arrays, so a later call can continue.

    `before` counts the rounds that the learner played earlier, and those of them that will stay open.
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
    ring = log.label.size - 1  # a mask: the length is a power of two
    conditional = scenario.kinds.size > 0 and scenario.waiting.size == 0
    for t in range(span.start, span.stop):
        if span.ahead:
            look_ahead(stream, scenario, t + span.ahead)
        first, last = scenario.starts[t], scenario.starts[t + 1]
        if conditional:
            log.ended[0] += count_ended(stream, scenario, log, first, last)
            waiting = t + 1 - log.ended[0]
        else:
            # Without expiry each arrival closes a round: of the rounds 0..t those wait that have not arrived yet.
            waiting = scenario.waiting[t] if scenario.waiting.size else t + 1 - last
        # The order of effects, the same online: clock, answers in the order of their rounds, then the choice.
        tick(state, params, before[0] + t + 1, before[1] + waiting)
        for a in range(first, last):
            s = scenario.arrivals[a]
            x, y = example(stream, scenario.rows[s])
            c = s & ring
            past = Play(before[0] + s + 1, x, log.greedy[c], log.label[c], log.prob[c], log.extra[c])
            right = reported(scenario, s, is_correct(past.label, past.extra, y))
            kind = scenario.kinds[a] if scenario.kinds.size else ANSWER_EVENT
            if conditional:
                if not happens(kind, right):
                    continue
                kind &= KIND_BITS
            apply_event(state, params, past, right, y, kind)
        x, y = example(stream, scenario.rows[t])
        c = t & ring
        u = scenario.draws[t]
        log.greedy[c], log.label[c], log.prob[c] = pick(state, params, x, None, u, scratch, log.extra[c])
        log.mistakes[0] += not is_correct(log.label[c], log.extra[c], y)
        log.mistakes[1] += log.greedy[c] != y
        if log.losses.size:
            add_losses(scratch, scale(state, params), y, log.greedy[c] != y, log.losses)


@kernel
def reported(scenario: Scenarios, s: int, right: bool) -> bool:
    """Return whether the answer to round `s` says "right": noise may have flipped it."""
    if scenario.flips.size and scenario.flips[s] >> right & 1:
        return not right
    return right


@kernel
def happens(kind: int, right: bool) -> bool:
    """Return whether an event takes place, given what the answer to its round says."""
    return kind <= KIND_BITS or ((kind & IF_RIGHT) > 0) == right


@kernel
def count_ended(stream: Stream, scenario: Scenarios, log: RoundRing, first: int, last: int) -> int:
    """Return how many rounds wait no longer after these events; a correction is about one that already did not."""
    ring = log.label.size - 1
    count = 0
    for a in range(first, last):
        s = scenario.arrivals[a]
        right = reported(scenario, s, is_correct(log.label[s & ring], log.extra[s & ring], stream.y[scenario.rows[s]]))
        kind = scenario.kinds[a]
        if (kind & KIND_BITS) != CORRECTION_EVENT and happens(kind, right):
            count += 1
    return count


@kernel
def add_losses(scratch: tuple[Array, Array], factor: float, y: int, wrong: bool, losses: Array) -> None:
    """Add the hinge of the scores by which the round was decided."""
    scores, p = scratch
    hinge = max(0.0, 1.0 - factor * (scores[y] - scores[rival_of(scores, None, p.size, y)]))
    losses[0] += hinge
    if wrong:
        losses[1] += hinge


@kernel
def apply_event(state: Any, params: Any, past: Play, right: bool, y: int, kind: int) -> None:
    """Apply one event to the state."""
    if kind == CORRECTION_EVENT and revises:
        if right:
            revise(state, params, past, 1.0)
    # A "wrong" after an expiry that counted as wrong changes nothing: it was learned when the round expired.
    elif kind != DROP_EVENT and (right or kind != CORRECTION_EVENT):
        step(state, params, past, observation(right and kind != EXPIRY_EVENT, y))


@kernel
def look_ahead(stream: Stream, scenario: Scenarios, t: int) -> None:
    """Prefetch the rows that round `t` will read; in random order, cache misses would stall the loop."""
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
    return RoundRing(
        log.greedy[r], log.label[r], log.prob[r], log.extra[r], log.mistakes[r], log.losses[r], log.ended[r]
    )


# The loop of `Learner`: the same `tick`, `apply_event` and `pick`, round by round.
#
# No exception of Python can interrupt compiled code. So every part of a round (its tick, `deliver` and `choose`) marks
# what it has done, and after an exception no answer is applied twice and no choice is lost. The marks: the round whose
# clock has ticked, the serial of the event applied last, the round to play, and the last round that was chosen, with
# its greedy label, its label and its probability.
BEGUN, APPLIED, NOW, PLAYED, GREEDY, LABEL, PROB = range(7)
N_MARKS = 7
NOTHING = -1  # no clock to tick, no event, no draw


@kernel
def deliver(state: Any, params: Any, past: Play, event: tuple[bool, int, int, int], marks: Array) -> None:
    """Apply one event (right, label, kind, serial) to a past round, and mark its serial, that of `Book.ended`."""
    right, y, kind, serial = event
    apply_event(state, params, past, right, y, kind)
    marks[APPLIED] = serial


@kernel
def deliver_reward(state: Any, params: Any, past: Play, reward: float, kind: int, serial: int, marks: Array) -> None:
    """Apply a reward between 0 and 1 to a past round."""
    if kind == CORRECTION_EVENT and revises:
        revise(state, params, past, reward)
    else:
        step(state, params, past, reward)
    marks[APPLIED] = serial


@kernel
def choose(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play the round that `NOW` marks; return, and mark, the greedy label, the played one and its probability."""
    scores, p, marks = scratch
    greedy, label, prob = pick(state, params, x, allowed, u, (scores, p), extra)
    marks[PROB] = prob
    marks[GREEDY] = greedy
    marks[LABEL] = label
    # Last: it marks the others as complete, where the interpreter is interrupted between two lines.
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
    """Play the round that `NOW` marks, after one event; parts whose argument is `NOTHING` are left out."""
    marks = scratch[2]
    if outstanding != NOTHING:
        now = int(marks[NOW])
        tick(state, params, now, outstanding)
        marks[BEGUN] = now
    if event[2] != NOTHING:
        deliver(state, params, past, event, marks)
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
    """Play a round for each row, without answers; `before` counts the rounds so far, and those that wait."""
    scores, p, marks = scratch
    for i in range(draws.size):
        tick(state, params, before[0] + i + 1, before[1] + i + 1)
        x = row_of(stream.indptr, stream.indices, stream.values, i)
        columns.greedy[i], columns.label[i], columns.prob[i] = pick(
            state, params, x, allowed, draws[i], (scores, p), columns.extra[i]
        )
    # Only now: if the interpreter is interrupted within the block, nothing of it is filed.
    marks[PLAYED] = before[0] + draws.size


look: Any = slot()  # (state, params, x, allowed, scores, p) -> greedy label; the policy without side effects


@kernel
def peek(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Fill in the probabilities with which a round would be played; return the greedy label, the first of equals."""
    greedy = int(look(state, params, x, allowed, scores, p))
    if shares_ties:
        share_ties(scores, greedy, allowed, p)
    return greedy


@kernel
def score_all(W: Array, stream: Stream, scores: Array, out: Array) -> None:
    """Write the scores of every row of the stream to `out`."""
    for i in range(out.shape[0]):
        x = row_of(stream.indptr, stream.indices, stream.values, i)
        score(W, x.indices, x.values, scores)
        for k in range(out.shape[1]):
            out[i, k] = scores[k]


@kernel
def sort_arrivals(delays: Ints, starts: Rounds, arrivals: Rounds) -> int:
    """Fill `starts` and `arrivals` (see `Scenarios`) by counting; return the longest delay that is delivered.

    Round s is delivered at the start of round s + delays[s], and never if that lies beyond the horizon. Within a
    round the answers come in ascending order of s, because they are filed in that order.
    """
    T = delays.size
    longest = 0
    starts[:] = 0
    for s in range(T):
        if s + delays[s] < T:
            starts[s + delays[s] + 1] += 1
            longest = max(longest, delays[s])
    for t in range(T):
        starts[t + 1] += starts[t]
    for s in range(T):
        if s + delays[s] < T:
            arrivals[starts[s + delays[s]]] = s
            starts[s + delays[s]] += 1
    for t in range(T, 0, -1):  # filing moved every start to where the next one begins
        starts[t] = starts[t - 1]
    starts[0] = 0
    return longest


_sort_arrivals = fill(sort_arrivals, "sort_arrivals")


def schedule(delays: Ints, starts: Rounds, arrivals: Rounds) -> int:
    """Write when each answer arrives to `starts` and `arrivals`; return the longest delay that is delivered.

    Examples
    --------
    >>> import numpy as np
    >>> starts, arrivals = np.empty(9, np.uint32), np.zeros(8, np.uint32)
    >>> schedule(np.array([1, 3, 1, 2, 2, 1, 4, 1]), starts, arrivals)
    3
    >>> [(arrivals[starts[t] : starts[t + 1]] + 1).tolist() for t in range(8)]
    [[], [1], [], [3], [2], [4], [5, 6], []]
    """
    return int(_sort_arrivals(delays, starts, arrivals))
