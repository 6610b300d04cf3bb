"""The multinomial logit, and what "right" or "wrong" about one label says about all of them."""

from math import exp

from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import argmax
from delaytron.records import Array

LEAST_SLOPE = 1e-3  # of the loss in a score: a class with less is left alone
SMALLEST_REST = 1e-6  # of 1 - p: a "wrong" about a label that seemed certain must not count for more than all others


@kernel
def softmax(scores: Array, p: Array) -> int:
    """Write exp(score) / sum to `p`; return the class with the highest score, the lowest number among equals."""
    best = argmax(scores, p.size)
    total = 0.0
    for k in range(p.size):
        p[k] = exp(scores[k] - scores[best])
        total += p[k]
    for k in range(p.size):
        p[k] /= total
    return best


@kernel
def bandit_gradient(p: Array, label: int, reward: float, g: Array) -> float:
    """Write the gradient of -reward log p_label - (1 - reward) log(1 - p_label) to `g`; return its squared length.

    The scores are what it is the gradient in; `p` are their softmax. A reward of 1 is "right", 0 is "wrong". What is
    too small to matter is 0, so that most answers about what is known already cost nothing.
    """
    odds = p[label] / max(1.0 - p[label], SMALLEST_REST)
    share = reward - (1.0 - reward) * odds
    total = 0.0
    for k in range(p.size):
        slope = p[label] - reward if k == label else share * p[k]
        g[k] = slope if abs(slope) >= LEAST_SLOPE else 0.0
        total += g[k] * g[k]
    return total
