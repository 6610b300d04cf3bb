"""The rounds of the online object, in steps that can be interrupted anywhere and gone on with exactly.

An exception may come between any two lines: Ctrl-C, a timer. Compiled code cannot be interrupted, so each of its three
calls (`advance`, `deliver`, `choose`) marks what it has done; everything else can be done again without harm. A round
that was interrupted before `choose` has not been played: what it let expire waits again, and the next `decide` takes it
up where it was. After `choose` it has been played, and is filed as open.
"""

from inspect import currentframe
from types import CodeType
from typing import TYPE_CHECKING, cast

import numpy as np

from delaytron.errors import DelaytronError
from delaytron.kernels.loop import APPLIED, BEGUN, GREEDY, KIND, LABEL, NOW, PLAYED, PROB
from delaytron.learners.scoring import new_scratch
from delaytron.records import Array, Play, Row
from delaytron.rng import stream

if TYPE_CHECKING:
    from delaytron.learners.base import Learner

N_MARKS = 8
ENTRIES: set[CodeType] = set()  # the code of every call that may change a learner


def start_from(learner: "Learner", begun: int) -> None:
    """Mark that nothing is under way but, where it is named, a round whose clock has ticked."""
    marks = np.zeros(N_MARKS)
    marks[BEGUN] = begun
    use_marks(learner, marks)


def use_marks(learner: "Learner", marks: Array) -> None:
    """Let the compiled code write to these marks."""
    scratch = (*new_scratch(learner.n_classes), marks)
    vars(learner).update(_marks=marks, _is_compiled=False, scratch=scratch)


def compile_all(learner: "Learner", row: Row) -> None:
    """Have the machine code for rows of this kind before anything changes: compiling takes long, and can fail."""
    if learner._is_compiled:
        return
    rule = learner.rule
    extra = np.empty(len(rule.extras))
    fixed = (learner.state, learner.params)
    if rule.keeps_clock:
        rule.advance.ready(*fixed, 1, 1, learner._marks)
    rule.choose.ready(*fixed, row, 0.5, learner.scratch, extra)
    event = (*fixed, Play(1, row, 0, 0, 0.5, extra), True, 1, 0, 0, learner._marks)
    if learner.average:
        room = np.empty(learner._average.shape_about(row))
        rule.deliver_averaged.ready(*event, (learner._average.total, room), 1)
    else:
        rule.deliver.ready(*event)
    if learner.takes_rewards:
        rule.deliver_reward.ready(*event[:3], 0.5, 0, learner._marks)
    learner._is_compiled = True


def rewind(learner: "Learner") -> None:
    """Let exploration and noise go on with the draws after the last decision's."""
    n_rounds = learner.ledger.rounds
    learner._draws = stream(learner.seed, "exploration")
    cast(np.random.PCG64, learner._draws.bit_generator).advance(n_rounds)
    learner._noise = stream(learner.seed, "noise")
    if learner.feedback_model.flips:
        masks = learner.feedback_model.flip_mask(learner._noise.random(n_rounds)).tolist()
        learner._flips = {number: masks[number - 1] for number in learner.ledger.plays}


def begin(learner: "Learner", now: int) -> None:
    """End the wait that ends with this round, and let the clock tick, once."""
    model = learner.feedback_model
    if model.expires:
        learner.ledger.expire(model.expiring(now), model.expiry_kind)
    if learner.rule.keeps_clock and learner._marks[BEGUN] < now:
        waiting = learner.ledger.pending + 1
        learner.rule.advance.compiled(learner.state, learner.params, now, waiting, learner._marks)


def apply_arrived(learner: "Learner") -> None:
    """Apply what arrived, in the order of the rounds."""
    for number in sorted(learner.ledger.arrived):
        _deliver(learner, learner.ledger.plays[number], learner.ledger.arrived[number])
        _close(learner, number)


def _deliver(learner: "Learner", past: Play, kind: int) -> None:
    answer = max(0, learner.ledger.answers[past.round - 1])
    if 0 < answer < 1:
        learner.rule.deliver_reward.compiled(learner.state, learner.params, past, answer, kind, learner._marks)
        return
    flips = learner._flips.get(past.round, 0)
    event = (learner.state, learner.params, past, answer == 1, int(answer), kind, flips, learner._marks)
    if learner.average:
        room = np.empty(learner._average.shape_about(past.x))
        now = learner.ledger.rounds + 1
        learner.rule.deliver_averaged.compiled(*event, (learner._average.total, room), now)
    else:
        learner.rule.deliver.compiled(*event)


def _close(learner: "Learner", number: int) -> None:
    """Close the event that was applied last."""
    if number in learner.ledger.arrived:
        learner.ledger.close(number)
    if number not in learner.ledger.plays:
        learner._flips.pop(number, None)
    learner._marks[APPLIED] = 0


def choose(learner: "Learner", now: int, row: Row) -> Play:
    """Play the round: draw, choose and file the decision."""
    extra = np.empty(len(learner.rule.extras))
    learner._at_hand = (row, extra)
    u = learner._draws.random()
    if learner.feedback_model.flips:
        learner._flips[now] = int(learner.feedback_model.flip_mask(learner._noise.random()))
    learner._marks[NOW] = now
    greedy, label, prob = learner.rule.choose.compiled(learner.state, learner.params, row, u, learner.scratch, extra)
    play = Play(now, row, greedy, label, prob, extra)
    learner.ledger.open(play)
    return play


def _file_played(learner: "Learner") -> None:
    """File the round that was played last, by its marks."""
    now, greedy, label = learner._marks[[PLAYED, GREEDY, LABEL]].astype(np.int64).tolist()
    row, extra = learner._at_hand
    learner.ledger.open(Play(now, row, greedy, label, float(learner._marks[PROB]), extra))


def recover(learner: "Learner") -> None:
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


def check_not_running(learner: "Learner") -> None:
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


def is_begun(learner: "Learner") -> bool:
    """Whether the clock has ticked for a round that was interrupted before it was played."""
    return bool(learner._marks[BEGUN] > learner.ledger.rounds)
