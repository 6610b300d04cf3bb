"""The multinomial logit, and what "right" or "wrong" about one label says about all of them.

The arrays of a state that have a number for each class are padded to whole vectors; in the padding a score is far below
all others, so that its chance is as good as 0.
"""

from delaytron.compiler.kernel import kernel
from delaytron.kernels.exponential import exponential
from delaytron.kernels.lanes import load, replace_lane, store, total, where_below, zeros
from delaytron.records import Array

WIDTH = 4  # lanes: the padded classes are a multiple of it
LEAST_SLOPE = 1e-3  # of the loss in a score: a class with less is left alone
SMALLEST_REST = 1e-6  # of 1 - p: a "wrong" about a label that seemed certain must not count for more than all others


@kernel
def softmax(scores: Array, top: float, p: Array) -> None:
    """Write exp(score) / sum to `p`; `top` is the highest score."""
    sums = zeros(WIDTH)
    for k in range(0, p.size, WIDTH):
        power = exponential(load(scores, k, WIDTH) - top)
        store(power, p, k)
        sums = sums + power
    share = 1.0 / total(sums)
    for k in range(0, p.size, WIDTH):
        store(load(p, k, WIDTH) * share, p, k)


@kernel
def bandit_gradient(p: Array, label: int, reward: float, g: Array) -> float:
    """Write the gradient of -reward log p_label - (1 - reward) log(1 - p_label) to `g`; return its squared length.

    The scores are what it is the gradient in; `p` are their softmax. A reward of 1 is "right", 0 is "wrong". What is
    too small to matter is 0, so that most answers about what is known already cost nothing.
    """
    odds = p[label] / max(1.0 - p[label], SMALLEST_REST)
    share = reward - (1.0 - reward) * odds
    sums = zeros(WIDTH)
    for k in range(0, p.size, WIDTH):
        slope = replace_lane(share * load(p, k, WIDTH), label - k, p[label] - reward)
        slope = where_below(slope * slope, LEAST_SLOPE * LEAST_SLOPE, 0.0, slope)
        store(slope, g, k)
        sums = sums + slope * slope
    return total(sums)
