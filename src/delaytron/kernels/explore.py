"""How a label is chosen: policies that fill the K probabilities, and the draw from them.

`allowed` has the labels among which to choose, in ascending order; None means all of them, and costs nothing.
"""

from typing import Any

from delaytron.compiler.kernel import kernel, slot
from delaytron.kernels.linear import score
from delaytron.records import Array, Row

policy: Any = slot()  # (state, params, x, allowed, scores, p) -> greedy label; fills the K probabilities p
shares_ties: Any = slot()  # whether labels of equal scores share the chance of the greedy one, True or False
note: Any = slot()  # (state, params, x, scores, p, greedy, label, extra): keep what the update will need of this moment


@kernel
def pick_one(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play one label; return the greedy label, the played one and its probability."""
    scores, p = scratch
    greedy = policy(state, params, x, allowed, scores, p)
    if shares_ties:
        share_ties(scores, greedy, allowed, p)
    label = draw(p, allowed, u)
    if shares_ties and scores[label] == scores[greedy]:
        greedy = label
    note(state, params, x, scores, p, greedy, label, extra)
    return greedy, label, p[label]


@kernel
def share_ties(scores: Array, greedy: int, allowed: Any, p: Array) -> None:
    """Let all labels with the score of the greedy one have the mean of their probabilities."""
    total = 0.0
    count = 0
    for i in range(n_allowed(allowed, p.size)):
        r = allowed_label(allowed, i)
        if scores[r] == scores[greedy]:
            total += p[r]
            count += 1
    for i in range(n_allowed(allowed, p.size)):
        r = allowed_label(allowed, i)
        if scores[r] == scores[greedy]:
            p[r] = total / count


@kernel
def note_nothing(
    state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array
) -> None:
    """Keep nothing: the row, the labels and the probability are all that most updates need."""


@kernel
def n_allowed(allowed: Any, n_classes: int) -> int:
    """Return among how many labels to choose."""
    if allowed is None:
        return n_classes
    return int(allowed.size)


@kernel
def allowed_label(allowed: Any, i: int) -> int:
    """Return the i-th label among which to choose."""
    if allowed is None:
        return i
    return int(allowed[i])


@kernel
def exclude_others(allowed: Any, p: Array) -> None:
    """Give probability 0 to the labels that are not allowed."""
    if allowed is not None:
        p[:] = 0.0


@kernel
def argmax(scores: Array, allowed: Any, n_classes: int) -> int:
    """Return the class with the highest score, the lowest number among equals."""
    best = allowed_label(allowed, 0)
    top = scores[best]
    for i in range(1, n_allowed(allowed, n_classes)):
        r = allowed_label(allowed, i)
        if scores[r] > top:
            best = r
            top = scores[r]
    return best


@kernel
def rival_of(scores: Array, allowed: Any, n_classes: int, label: int) -> int:
    """Return the class with the highest score apart from `label`, the lowest number among equals.

    There must be two classes at least.
    """
    start = 1 if label == allowed_label(allowed, 0) else 0
    best = allowed_label(allowed, start)
    for i in range(start + 1, n_allowed(allowed, n_classes)):
        r = allowed_label(allowed, i)
        if r != label and scores[r] > scores[best]:
            best = r
    return best


@kernel
def explore_greedily(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """P(r) = (1 - gamma) 1[r = greedy] + gamma / K (Algorithm 1, lines 3 and 4); return the greedy label."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, allowed, p.size)
    mix_greedily(greedy, params.gamma, allowed, p)
    return greedy


@kernel
def mix_greedily(greedy: int, gamma: float, allowed: Any, p: Array) -> None:
    """P(r) = (1 - gamma) 1[r = greedy] + gamma / K."""
    K = n_allowed(allowed, p.size)
    uniform = gamma / K
    exclude_others(allowed, p)
    for i in range(K):
        p[allowed_label(allowed, i)] = uniform
    p[greedy] = (1.0 - gamma) + uniform


@kernel
def follow_greedily(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:  # noqa: ARG001
    """Play the greedy label, always: what a learner does that is told the true label anyway."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, allowed, p.size)
    p[:] = 0.0
    p[greedy] = 1.0
    return greedy


@kernel
def draw(p: Array, allowed: Any, u: float) -> int:
    """Return the first class whose cumulative probability exceeds u (the last one if rounding leaves none)."""
    cumulative = 0.0
    K = n_allowed(allowed, p.size)
    for i in range(K):
        r = allowed_label(allowed, i)
        cumulative += p[r]
        if u < cumulative:
            return r
    return allowed_label(allowed, K - 1)
