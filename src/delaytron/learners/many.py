"""Many rounds at once: as one after another, in one call of compiled code where that is the same."""

from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.learners import rounds
from delaytron.learners.rows import as_row
from delaytron.learners.scoring import NO_LABELS
from delaytron.matrices import as_kind, as_stream, is_sparse
from delaytron.records import Columns, Ints, Play

if TYPE_CHECKING:
    from delaytron.learners.base import Learner


def play_many(learner: "Learner", rows: Any, labels: Ints) -> list[Play] | Columns:
    """Play a round for each checked row; return the rounds, or only what was chosen in them."""
    with learner._lock:
        if rows.shape[0] < 2 or not _is_simple(learner):
            return [learner._play_row(as_row(row, learner.n_features, None), labels) for row in _each(rows)]
        first = learner._play_row(as_row(_each(rows[:1])[0], learner.n_features, None), labels)
        learner._interrupted = True
        block = rounds.choose_many(learner, as_stream(_own(as_kind(rows[1:], learner.sparse)), NO_LABELS), labels)
        learner._interrupted = False
    return _joined(first, block.columns)


def as_columns(played: list[Play] | Columns) -> Columns:
    """Return what was chosen in rounds, whatever way they were played."""
    if isinstance(played, Columns):
        return played
    greedy = np.array([play.greedy for play in played], np.int64)
    label = np.array([play.label for play in played], np.int64)
    return Columns(greedy, label, np.array([play.prob for play in played]), np.array([play.extra for play in played]))


def _is_simple(learner: "Learner") -> bool:
    """Whether nothing happens between two rounds but the ticking of the clock."""
    model = learner.feedback_model
    return not (model.expires or model.flips or learner.rule.per_round_state)


def _each(rows: Any) -> list[Any]:
    return [rows[i : i + 1] for i in range(rows.shape[0])] if is_sparse(rows) else list(rows)


def _own(rows: Any) -> Any:
    """Return rows that nobody else can change: they are kept until their answers come."""
    return rows.copy()


def _joined(first: Play, rest: Columns) -> Columns:
    return Columns(
        np.concatenate([[first.greedy], rest.greedy]),
        np.concatenate([[first.label], rest.label]),
        np.concatenate([[first.prob], rest.prob]),
        np.vstack([first.extra, rest.extra]),
    )
