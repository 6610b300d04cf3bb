"""How a label is chosen: policies that fill the K probabilities, and the draw from them."""

from typing import Any

from delaytron.compiler.kernel import kernel, slot
from delaytron.kernels.linear import score
from delaytron.records import Array, Row

policy: Any = slot()  # (state, params, x, scores, p) -> greedy label; fills the K probabilities p
note: Any = slot()  # (state, params, x, scores, p, greedy, label, extra): keep what the update will need of this moment


@kernel
def pick_one(
    state: Any, params: Any, x: Row, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play one label; return the greedy label, the played one and its probability."""
    scores, p = scratch
    greedy = policy(state, params, x, scores, p)
    label = draw(p, u)
    note(state, params, x, scores, p, greedy, label, extra)
    return greedy, label, p[label]


@kernel
def note_nothing(
    state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array
) -> None:
    """Keep nothing: the row, the labels and the probability are all that most updates need."""


@kernel
def argmax(scores: Array, n_classes: int) -> int:
    """Return the class with the highest score, the lowest number among equals."""
    best = 0
    top = scores[0]
    for r in range(1, n_classes):
        if scores[r] > top:
            best = r
            top = scores[r]
    return best


@kernel
def rival_of(scores: Array, n_classes: int, label: int) -> int:
    """Return the class with the highest score apart from `label`, the lowest number among equals."""
    best = 1 if label == 0 else 0
    for r in range(best + 1, n_classes):
        if r != label and scores[r] > scores[best]:
            best = r
    return best


@kernel
def explore_greedily(state: Any, params: Any, x: Row, scores: Array, p: Array) -> int:
    """P(r) = (1 - gamma) 1[r = greedy] + gamma / K (Algorithm 1, lines 3 and 4); return the greedy label."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, p.size)
    mix_greedily(greedy, params.gamma, p)
    return greedy


@kernel
def mix_greedily(greedy: int, gamma: float, p: Array) -> None:
    """P(r) = (1 - gamma) 1[r = greedy] + gamma / K."""
    uniform = gamma / p.size
    p[:] = uniform
    p[greedy] = (1.0 - gamma) + uniform


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
