"""What a learner would do: probabilities and scores of rows that are not played."""

from typing import Any

from delaytron.compiler.kernel import kernel, slot
from delaytron.kernels.explore import share_ties, shares_ties
from delaytron.kernels.linear import row_of, score
from delaytron.records import Array, Row, Stream

look: Any = slot()  # (state, params, x, allowed, scores, p) -> greedy label; the policy, leaving no trace


@kernel
def peek(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Fill the probabilities with which a round would be played; return the greedy label, the first of equals."""
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
