"""The multinomial logit, and what "right" or "wrong" about one label says about all of them."""

from delaytron.compiler.kernel import kernel
from delaytron.kernels.exponential import exponentials
from delaytron.records import Array

LEAST_SLOPE = 1e-3  # of the loss in a score: a class with less is left alone
SMALLEST_REST = 1e-6  # of 1 - p: a "wrong" about a label that seemed certain must not count for more than all others


@kernel
def softmax(scores: Array, best: int, p: Array, room: Array) -> None:
    """Write exp(score) / sum to `p`; `best` has the highest score."""
    for k in range(p.size):
        p[k] = scores[k] - scores[best]
    exponentials(p, room)
    share = 1.0 / total(p)
    for k in range(p.size):
        p[k] *= share


@kernel
def total(p: Array) -> float:
    """Return the sum of all numbers, the even ones and the odd ones side by side."""
    even, odd = 0.0, 0.0
    for k in range(0, p.size - 1, 2):
        even += p[k]
        odd += p[k + 1]
    return even + (odd + p[p.size - 1] if p.size % 2 else odd)


@kernel
def bandit_gradient(p: Array, label: int, reward: float, g: Array) -> float:
    """Write the gradient of -reward log p_label - (1 - reward) log(1 - p_label) to `g`; return its squared length.

    The scores are what it is the gradient in; `p` are their softmax. A reward of 1 is "right", 0 is "wrong". What is
    too small to matter is 0, so that most answers about what is known already cost nothing.
    """
    odds = p[label] / max(1.0 - p[label], SMALLEST_REST)
    share = reward - (1.0 - reward) * odds
    power = 0.0
    for k in range(p.size):
        slope = p[label] - reward if k == label else share * p[k]
        g[k] = slope if abs(slope) >= LEAST_SLOPE else 0.0
        power += g[k] * g[k]
    return power
