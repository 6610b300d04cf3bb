"""The rounds of the online object, in steps that can be interrupted anywhere and gone on with exactly.

An exception may come between any two lines: Ctrl-C, a timer. Compiled code cannot be interrupted, so each of its three
parts (`advance`, `deliver`, `choose`) marks what it has done; everything else can be done again without harm. A round
that was interrupted before `choose` has not been played: what it let expire waits again, and the next `decide` takes it
up where it was. After `choose` it has been played, and is filed as open.

Where at most one event waits, all three parts are one call of compiled code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import currentframe
from types import CodeType
from typing import TYPE_CHECKING, cast

import numpy as np

from delaytron.errors import DelaytronError
from delaytron.kernels.online import APPLIED, BEGUN, GREEDY, KIND, LABEL, NOTHING, NOW, PLAYED, PROB
from delaytron.learners.compiling import average_about, compile_all, compile_reward
from delaytron.learners.ledger import RoundBlock
from delaytron.learners.scoring import new_scratch
from delaytron.records import Array, Columns, Ints, Play, Row, Stream
from delaytron.rng import stream

if TYPE_CHECKING:
    from delaytron.learners.stateful import Stateful

N_MARKS = 8
NO_EVENT = (False, 0, NOTHING, 0)
ENTRIES: set[CodeType] = set()  # the code of every call that may change a learner


def start_from(learner: "Stateful", begun: int) -> None:
    """Mark that nothing is under way but, where it is named, a round whose clock has ticked."""
    marks = np.zeros(N_MARKS)
    marks[BEGUN] = begun
    use_marks(learner, marks)


def use_marks(learner: "Stateful", marks: Array) -> None:
    """Let the compiled code write to these marks."""
    scratch = (*new_scratch(learner.n_classes), marks)
    vars(learner).update(_marks=marks, _is_compiled=False, _run_reward=None, scratch=scratch)


def rewind(learner: "Stateful") -> None:
    """Let exploration and noise go on with the draws after the last decision's."""
    n_rounds = learner.ledger.rounds
    learner._draws = stream(learner.seed, "exploration")
    cast(np.random.PCG64, learner._draws.bit_generator).advance(n_rounds)
    learner._noise = stream(learner.seed, "noise")
    if learner.feedback_model.flips:
        masks = learner.feedback_model.flip_mask(learner._noise.random(n_rounds)).tolist()
        learner._flips = {number: masks[number - 1] for number in learner.ledger.plays}


def begin(learner: "Stateful", now: int) -> None:
    """End the wait that ends with this round; where several events wait, let the clock tick and apply them."""
    model = learner.feedback_model
    if model.expires:
        learner.ledger.expire(model.expiring(now), model.expiry_kind)
    learner._marks[NOW] = now
    if learner.ledger.arrived and not _is_one_event(learner):
        _tick(learner)
        apply_arrived(learner)


def _is_one_event(learner: "Stateful") -> bool:
    """Whether one event waits, of the kind that can be applied within the call that chooses."""
    if len(learner.ledger.arrived) != 1 or learner.average:
        return False
    (number,) = learner.ledger.arrived
    return not 0 < learner.ledger.answers[number - 1] < 1


def _outstanding(learner: "Stateful") -> int:
    """Return how many rounds wait for an answer in the round that begins; nothing if its clock need not tick."""
    begun = not learner.rule.keeps_clock or learner._marks[BEGUN] >= learner._marks[NOW]
    return NOTHING if begun else learner.ledger.pending + 1


def _tick(learner: "Stateful") -> None:
    """Let the clock tick, once, and do nothing else."""
    past = learner.ledger.play(next(iter(learner.ledger.plays)))
    _run(learner, _outstanding(learner), past, NO_EVENT)


def apply_arrived(learner: "Stateful") -> None:
    """Apply what arrived, in the order of the rounds."""
    for number in sorted(learner.ledger.arrived):
        past = learner.ledger.play(number)
        compile_all(learner, past.x)
        _deliver(learner, past)
        _close(learner, number)


def _deliver(learner: "Stateful", past: Play) -> None:
    answer = learner.ledger.answers[past.round - 1]
    average = average_about(learner, past)
    now = learner.ledger.rounds + 1
    fixed = (learner.state, learner.params, past)
    if 0 < answer < 1:
        kind = learner.ledger.arrived[past.round]
        compile_reward(learner)(*fixed, answer, kind, learner._marks, average, now)
    elif learner.average:
        event = _event(learner, past.round)
        learner.rule.deliver_averaged.compiled(*fixed, *event, learner._marks, average, now)
    else:
        _run(learner, NOTHING, past, _event(learner, past.round))


def _event(learner: "Stateful", number: int) -> tuple[bool, int, int, int]:
    """Return what arrived for a decision: whether it is right, the answer, the kind, and how noise would bend it."""
    answer = int(max(0, learner.ledger.answers[number - 1]))
    return answer == 1, answer, learner.ledger.arrived[number], learner._flips.get(number, 0)


def _run(learner: "Stateful", outstanding: int, past: Play, event: tuple[bool, int, int, int]) -> None:
    """Run a part of a round in which nothing is chosen."""
    fixed = (learner.state, learner.params)
    rest = (past.x, learner._labels, float(NOTHING), learner.scratch, past.extra)
    learner._run_round(*fixed, outstanding, past, event, *rest)


def _close(learner: "Stateful", number: int) -> None:
    """Close the event that was applied last."""
    if number in learner.ledger.arrived:
        learner.ledger.close(number)
    if number not in learner.ledger.plays:
        learner._flips.pop(number, None)
    learner._marks[APPLIED] = 0


def choose(learner: "Stateful", now: int, row: Row, allowed: Ints) -> Play:
    """Play the round: let the clock tick, apply the event that waits, draw, choose and file the decision."""
    ledger = learner.ledger
    extra = np.empty(len(learner.rule.extras))
    learner._at_hand = (row, extra)
    u = learner._draws.random()
    if learner.feedback_model.flips:
        learner._flips[now] = int(learner.feedback_model.flip_mask(learner._noise.random()))
    number = next(iter(ledger.arrived), NOTHING)
    past = Play(now, row, 0, 0, 0.0, extra) if number == NOTHING else ledger.play(number)
    event = NO_EVENT if number == NOTHING else _event(learner, number)
    outstanding = _outstanding(learner)
    greedy, label, prob = learner._run_round(
        learner.state, learner.params, outstanding, past, event, row, allowed, u, learner.scratch, extra
    )
    if number != NOTHING:
        _close(learner, number)
    play = Play(now, row, greedy, label, prob, extra)
    ledger.open(play)
    return play


def choose_many(learner: "Stateful", stream: Stream, allowed: Ints) -> RoundBlock:
    """Play a round for each row, one after another, and file the decisions; nothing waits to be applied but by them."""
    n_rounds = stream.values.shape[0] if stream.indptr is None else stream.indptr.size - 1
    first = learner.ledger.rounds + 1
    extra = np.empty((n_rounds, len(learner.rule.extras)))
    labels = np.empty((2, n_rounds), np.int64)
    block = RoundBlock(
        np.arange(first, first + n_rounds), stream, Columns(labels[0], labels[1], np.empty(n_rounds), extra)
    )
    learner._at_hand = block
    before = (first - 1, learner.ledger.pending)
    draws = learner._draws.random(n_rounds)
    learner.rule.play_rounds.compiled(
        learner.state, learner.params, before, stream, allowed, draws, learner.scratch, block.columns
    )
    learner.ledger.open_block(block)
    return block


def _file_played(learner: "Stateful") -> None:
    """File the round that was played last, by its marks, or all that were played together."""
    if isinstance(learner._at_hand, RoundBlock):
        learner.ledger.open_block(learner._at_hand)
        return
    now, greedy, label = learner._marks[[PLAYED, GREEDY, LABEL]].astype(np.int64).tolist()
    row, extra = learner._at_hand
    learner.ledger.open(Play(now, row, greedy, label, float(learner._marks[PROB]), extra))


def recover(learner: "Stateful") -> None:
    """Finish or take back what an exception interrupted, if one did; may be interrupted itself."""
    if not learner._interrupted:
        return
    check_not_running(learner)
    number = int(learner._marks[APPLIED])
    if number and learner.ledger.arrived.get(number, learner._marks[KIND]) == learner._marks[KIND]:
        _close(learner, number)
    learner._marks[APPLIED] = 0
    if learner._marks[PLAYED] > learner.ledger.rounds:
        _file_played(learner)
    learner.ledger.repair()
    rewind(learner)
    learner._interrupted = False


@contextmanager
def changing(learner: "Stateful") -> Iterator[None]:
    """Let nobody else change a learner meanwhile; if this is interrupted, the next call recovers."""
    with learner._lock:
        recover(learner)
        learner._interrupted = True
        yield
        learner._interrupted = False


def check_not_running(learner: "Stateful") -> None:
    """Raise if this call comes from within another one: from a signal handler, or a finalizer.

    The lock lets a thread in that holds it already, so that it is not locked out for ever where an exception keeps it
    from letting go.
    """
    frame = currentframe()
    depth = 0
    while frame is not None:
        code = frame.f_code
        depth += code in ENTRIES and frame.f_locals.get(code.co_varnames[0]) is learner
        frame = frame.f_back
    if depth > 1:
        raise DelaytronError(
            f"this {type(learner).__name__} is in the middle of another call of the same thread; "
            "a signal handler or finalizer must leave it alone"
        )


def is_begun(learner: "Stateful") -> bool:
    """Whether the clock has ticked for a round that was interrupted before it was played."""
    return bool(learner._marks[BEGUN] > learner.ledger.rounds)
