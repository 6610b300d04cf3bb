"""Many rounds at once: as one after another, in one call of compiled code where that is the same."""

from collections.abc import Iterator
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.learners import rounds
from delaytron.learners.open_rounds import columns_of
from delaytron.learners.rows import as_row
from delaytron.learners.scoring import NO_LABELS
from delaytron.matrices import as_kind, as_stream, is_sparse
from delaytron.records import Columns, Ints, Play, Row

if TYPE_CHECKING:
    from delaytron.learners.base import Learner

NO_ROW = Row(None, np.empty(0))


def play_many(learner: "Learner", rows: Any, labels: Ints) -> tuple[int, Columns]:
    """Play a round for each checked row; return the number of the first one, and what was chosen in all of them."""
    with learner._lock:
        if rows.shape[0] < 2 or not _is_simple(learner):
            plays = [learner._play_row(as_row(row, learner.n_features, None), labels) for row in _each(rows)]
            return plays[0].round, columns_of(plays, plays[0].extra.size)
        first = learner._play_row(as_row(_each(rows[:1])[0], learner.n_features, None), labels)
        learner._interrupted = True
        block = rounds.choose_many(learner, as_stream(_own(as_kind(rows[1:], learner.sparse)), NO_LABELS), labels)
        learner._interrupted = False
    return first.round, _joined(columns_of([first], first.extra.size), block.columns)


def as_plays(first: int, columns: Columns) -> Iterator[Play]:
    """Iterate over rounds without their rows."""
    greedy, label, prob, extra = columns
    return map(Play, count(first), repeat(NO_ROW), greedy.tolist(), label.tolist(), prob.tolist(), extra)


def _is_simple(learner: "Learner") -> bool:
    """Whether nothing happens between two rounds but the ticking of the clock."""
    model = learner.feedback_model
    return not (model.expires or model.flips or learner.rule.per_round_state)


def _each(rows: Any) -> list[Any]:
    return [rows[i : i + 1] for i in range(rows.shape[0])] if is_sparse(rows) else list(rows)


def _own(rows: Any) -> Any:
    """Return rows that nobody else can change: they are kept until their answers come."""
    return rows.copy()


def _joined(first: Columns, rest: Columns) -> Columns:
    return Columns(
        np.concatenate([first.greedy, rest.greedy]),
        np.concatenate([first.label, rest.label]),
        np.concatenate([first.prob, rest.prob]),
        np.concatenate([first.extra, rest.extra]),
    )
