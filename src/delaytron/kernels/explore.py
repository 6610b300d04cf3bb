"""How a label is chosen: policies that fill the K probabilities, and the draw from them."""

from typing import Any

from delaytron._jit import kernel
from delaytron.kernels.linear import score
from delaytron.records import Array, Row


@kernel
def argmax(scores: Array, n_classes: int) -> int:
    """Return the class with the highest score, the lowest number among equals."""
    best, top = 0, scores[0]
    for r in range(1, n_classes):
        if scores[r] > top:
            best, top = r, scores[r]
    return best


@kernel
def explore_greedily(state: Any, params: Any, x: Row, scores: Array, p: Array) -> int:
    """P(r) = (1 - gamma) 1[r = greedy] + gamma / K (Algorithm 1, lines 3 and 4); return the greedy label."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, p.size)
    uniform = params.gamma / p.size
    p[:] = uniform
    p[greedy] = (1.0 - params.gamma) + uniform
    return greedy


@kernel
def follow_greedily(state: Any, params: Any, x: Row, scores: Array, p: Array) -> int:  # noqa: ARG001
    """Play the greedy label, always: what a learner does that is told the true label anyway."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, p.size)
    p[:] = 0.0
    p[greedy] = 1.0
    return greedy


@kernel
def draw(p: Array, u: float) -> int:
    """Return the first class whose cumulative probability exceeds u (the last one if rounding leaves none)."""
    cumulative = 0.0
    for r in range(p.size):
        cumulative += p[r]
        if u < cumulative:
            return r
    return p.size - 1
