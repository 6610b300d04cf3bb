"""The scores of many rows by the weights of a learner."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from delaytron.compiler.kernel import fill
from delaytron.kernels.linear import padded
from delaytron.kernels.looking import score_all
from delaytron.matrices import as_kind, as_stream
from delaytron.records import Array, Stream

if TYPE_CHECKING:
    from delaytron.matrices import Matrix

NO_LABELS = np.empty(0, np.int64)
SCORED = 256  # rows scored together, so that converting them takes little memory

_score_all = fill(score_all, "score_all")


def new_scratch(n_classes: int) -> tuple[Array, Array]:
    """Return room for the scores and the probabilities of one round."""
    return np.empty(padded(n_classes)), np.empty(n_classes)


def score_rows(rows: "Matrix", W: Array, n_classes: int, sparse: bool) -> Array:
    """Return the (n, K) scores of checked rows, by weights for rows of one kind."""
    return score_parts(rows, n_classes, sparse, lambda *args: _score_all(W, *args))


def score_parts(rows: "Matrix", n_classes: int, sparse: bool, score: Callable[[Stream, Array, Array], None]) -> Array:
    """Return the (n, K) scores of checked rows; `score` writes those of a part, given room for one row's."""
    out = np.empty((rows.shape[0], n_classes))
    scratch = np.empty(padded(n_classes))
    for start in range(0, rows.shape[0], SCORED):
        part = as_stream(as_kind(rows[start : start + SCORED], sparse), NO_LABELS)
        score(part, scratch, out[start : start + SCORED])
    return out
