"""The rounds of the online object, in steps that can be interrupted anywhere and gone on with exactly.

An exception may come between any two lines: Ctrl-C, a timer. Compiled code cannot be interrupted, so each of its three
calls (`advance`, `deliver`, `choose`) notes in `Progress` what it has done; everything else can be done again
without harm. A round that was interrupted before `choose` has not been played: what it let expire waits again, and the
next `decide` takes it up where it was. After `choose` it has been played, and is filed as open.
"""

from typing import TYPE_CHECKING, cast

import numpy as np

from delaytron.kernels.loop import APPLIED, BEGUN, GREEDY, KIND, LABEL, NOW, PLAYED
from delaytron.learners.scoring import new_scratch
from delaytron.records import Play, Progress, Row
from delaytron.rng import stream

if TYPE_CHECKING:
    from delaytron.learners.base import Learner

N_MARKS = 7


def start_from(learner: "Learner", begun: int) -> None:
    """Mark that nothing is under way but, where it is named, a round whose clock has ticked."""
    learner._progress = Progress(np.zeros(N_MARKS, np.int64), np.zeros(1))
    learner._progress.marks[BEGUN] = begun
    learner.scratch = (*new_scratch(learner.n_classes), learner._progress)


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
    if learner.rule.keeps_clock and learner._progress.marks[BEGUN] < now:
        waiting = learner.ledger.pending + 1
        learner.rule.advance.compiled(learner.state, learner.params, now, waiting, learner._progress)


def apply_arrived(learner: "Learner") -> None:
    """Apply what arrived, in the order of the rounds."""
    for number in sorted(learner.ledger.arrived):
        _deliver(learner, learner.ledger.plays[number], learner.ledger.arrived[number])
        close_applied(learner)


def _deliver(learner: "Learner", past: Play, kind: int) -> None:
    answer = max(0, learner.ledger.answers[past.round - 1])
    flips = learner._flips.get(past.round, 0)
    event = (learner.state, learner.params, past, answer == 1, answer, kind, flips, learner._progress)
    if learner.average:
        room = np.empty(learner._average.shape_about(past.x))
        now = learner.ledger.rounds + 1
        learner.rule.deliver_averaged.compiled(*event, (learner._average.total, room), now)
    else:
        learner.rule.deliver.compiled(*event)


def close_applied(learner: "Learner") -> None:
    """Close the event that was applied last, if it is not closed yet."""
    marks = learner._progress.marks
    number = int(marks[APPLIED])
    if number and learner.ledger.arrived.get(number) == marks[KIND]:
        learner.ledger.close(number)
    if number and number not in learner.ledger.plays:
        learner._flips.pop(number, None)
    marks[APPLIED] = 0


def choose(learner: "Learner", now: int, row: Row) -> Play:
    """Play the round: draw, choose and file the decision."""
    extra = np.empty(len(learner.rule.extras))
    learner._at_hand = (row, extra)
    u = learner._draws.random()
    if learner.feedback_model.flips:
        learner._flips[now] = int(learner.feedback_model.flip_mask(learner._noise.random()))
    learner._progress.marks[NOW] = now
    learner.rule.choose.compiled(learner.state, learner.params, row, u, learner.scratch, extra)
    return file_played(learner)


def file_played(learner: "Learner") -> Play:
    """File the round that was played last as open."""
    marks: list[int] = learner._progress.marks.tolist()
    row, extra = learner._at_hand
    play = Play(marks[PLAYED], row, marks[GREEDY], marks[LABEL], float(learner._progress.prob[0]), extra)
    learner.ledger.open(play)
    return play


def recover(learner: "Learner") -> None:
    """Finish or take back what an exception interrupted, if one did; may be interrupted itself."""
    if not learner._interrupted:
        return
    close_applied(learner)
    if learner._progress.marks[PLAYED] > learner.ledger.rounds:
        file_played(learner)
    learner.ledger.repair()
    rewind(learner)
    learner._interrupted = False


def is_begun(learner: "Learner") -> bool:
    """Whether the clock has ticked for a round that was interrupted before it was played."""
    return bool(learner._progress.marks[BEGUN] > learner.ledger.rounds)
