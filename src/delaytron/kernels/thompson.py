r"""Thompson sampling without a random generator: the exact chance of every label that its score is the largest.

Thompson sampling draws a score for each label, :math:`N(s_k, \sigma_k^2)`, and plays the label with the largest. How
often it plays a label is an integral in one dimension, over what the largest score can be:

.. math::
    P(k) = \int G(t)\, h_k(t)\, dt, \qquad G(t) = \prod_j F_j(t), \qquad h_k = f_k / F_k

where :math:`F_k` is the distribution function of the score and :math:`f_k` its density. The labels are drawn from these
P by the one number of the round, as those of every learner are: so the logged probability is the one by which the label
was played, whatever the integral's error.
"""

from math import erfc, exp, inf, sqrt
from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import allowed_label, exclude_others, n_allowed
from delaytron.records import Array

# The integral is taken from above, cell by cell, by the rule of Gauss and Legendre with three nodes, until the largest
# score is hardly ever below. A cell is no wider than suits the narrowest score in it, so scores may differ in their
# deviations by any factor, and K equal ones need some six cells.
REACH = 4.5  # deviations above its mean at which a score begins to matter
WIDTH = 0.9  # of a cell, in deviations
REST = 1e-7  # the chance of a largest score below which the integral ends
NODE = sqrt(0.6)
MIDDLE, OUTER = 8.0 / 18.0, 5.0 / 18.0  # weights of the nodes, for a cell of width 1
ROOT_HALF = sqrt(0.5)
DENSITY = 0.3989422804014327  # 1 / sqrt(2 pi)
CERTAIN = 8.5  # deviations beyond which F is 1 to the last digit
NARROWEST = 1e-9  # lower bound of a deviation, relative to the scores: a score that is certain must have a cell, too
SMALLEST = 1e-280  # scores and deviations below it count as 0: there, numbers lose their digits
LEAST = 1e-9  # is added to every P: what is left out of an integral must not make a label impossible


@kernel
def weigh_chances(scores: Array, deviations: Array, allowed: Any, hazards: Array, p: Array) -> None:
    """Fill `p` with the chance of each allowed label that its score, normal with this deviation, is the largest.

    Raises deviations to the least that the cells allow; `hazards` is a buffer of K numbers.
    """
    K = n_allowed(allowed, p.size)
    exclude_others(allowed, p)
    size = 0.0
    for i in range(K):
        r = allowed_label(allowed, i)
        p[r] = LEAST
        size = max(size, abs(scores[r]) + deviations[r])
    top = -inf
    for i in range(K):
        r = allowed_label(allowed, i)
        deviations[r] = max(deviations[r], NARROWEST * size)
        top = max(top, scores[r] + REACH * deviations[r])
    below = 1.0 if size > SMALLEST else 0.0  # if all scores are 0 and certain, all labels are equal
    while below > REST:
        width = width_below(scores, deviations, allowed, p.size, top)
        add_node(scores, deviations, allowed, top - (0.5 - 0.5 * NODE) * width, OUTER * width, hazards, p)
        add_node(scores, deviations, allowed, top - 0.5 * width, MIDDLE * width, hazards, p)
        below = add_node(scores, deviations, allowed, top - (0.5 + 0.5 * NODE) * width, OUTER * width, hazards, p)
        top -= width
    total = 0.0
    for i in range(K):
        total += p[allowed_label(allowed, i)]
    for i in range(K):
        p[allowed_label(allowed, i)] /= total


@kernel
def width_below(scores: Array, deviations: Array, allowed: Any, n_classes: int, top: float) -> float:
    """Return how wide the cell below `top` is: it suits scores that matter, and ends where another one begins to."""
    width = inf
    for i in range(n_allowed(allowed, n_classes)):
        r = allowed_label(allowed, i)
        width = min(width, max(WIDTH * deviations[r], top - (scores[r] + REACH * deviations[r])))
    return width


@kernel
def add_node(
    scores: Array, deviations: Array, allowed: Any, t: float, weight: float, hazards: Array, p: Array
) -> float:
    """Add the part of one node of the integral to `p`; return G(t)."""
    K = n_allowed(allowed, p.size)
    below = 1.0
    for i in range(K):
        r = allowed_label(allowed, i)
        x = (t - scores[r]) / deviations[r]
        if x < CERTAIN:
            share = 0.5 * erfc(-ROOT_HALF * x)  # never 0: cells are narrow, and end before
            below *= share
            hazards[r] = DENSITY * exp(-0.5 * x * x) / (share * deviations[r])
        else:
            hazards[r] = 0.0
    for i in range(K):
        r = allowed_label(allowed, i)
        p[r] += weight * below * hazards[r]
    return below
