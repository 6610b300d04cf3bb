"""Machine code for the rounds of a learner, before anything changes: compiling takes long, and can fail."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.records import Array, Play, Row

if TYPE_CHECKING:
    from delaytron.learners.stateful import Stateful


def compile_all(learner: "Stateful", row: Row) -> None:
    """Have the machine code for rows of this kind."""
    if learner._is_compiled:
        return
    rule = learner.rule
    extra = np.empty(len(rule.extras))
    fixed = (learner.state, learner.params)
    past = Play(1, row, 0, 0, 0.5, extra)
    entry = rule.play_round.ready(*fixed, 1, past, (True, 1, 0, 0), row, learner._labels, 0.5, learner.scratch, extra)
    if learner.average:
        event = (*fixed, past, True, 1, 0, 0, learner._marks)
        rule.deliver_averaged.ready(*event, average_about(learner, past), 1)
    vars(learner).update(_run_round=entry, _is_compiled=True)


def compile_reward(learner: "Stateful") -> Callable[..., Any]:
    """Have the machine code for a reward between 0 and 1; return what runs it. Some decision must be kept."""
    if learner._run_reward is None:
        past = learner.ledger.play(next(iter(learner.ledger.plays)))
        rest = (past, 0.5, 0, learner._marks, average_about(learner, past), 1)
        learner._run_reward = learner.rule.deliver_reward.ready(learner.state, learner.params, *rest)
    return learner._run_reward


def average_about(learner: "Stateful", past: Play) -> tuple[Array, Array] | None:
    """Return the sum of the average and room for the weights that an answer may move; None without an average."""
    if not learner.average:
        return None
    return learner._average.total, np.empty(learner._average.shape_about(past.x))
