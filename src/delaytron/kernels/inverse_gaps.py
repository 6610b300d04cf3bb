r"""Exploration by inverse gaps: a label is tried the more, the less worse it looks and the less is known of it.

FastCB (Foster and Krishnamurthy, 2021) gives label r the probability :math:`l / (K l + \gamma (p_b - p_r))`, where b
looks best and l = 1 - p_b is how often even that would err. Here :math:`\gamma` grows with the answers, not with the
clock. It stays small for a label that is not known yet, which is then tried wherever the model is unsure. A label is
known after three confirmations, or 2 K ln K plays: as many plays at random all miss it with a chance of about
:math:`1 / K^2`, if it is right in a share 1/K of the rounds.
"""

from math import log, sqrt
from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import allowed_label, exclude_others, n_allowed
from delaytron.kernels.lanes import load, store, total, where_below, zeros
from delaytron.kernels.softmax import WIDTH
from delaytron.records import Array

SHARPEST_START = 1000.0
SHARPENING = 4.0
SHARPNESS_OF_UNKNOWN = 20.0
TRIES = 2.0  # times K ln K
CONFIRMATIONS = 3.0
LEAST_LOSS = 1e-6
NEVER = 1e300  # how well the padding of the classes is known: nobody tries it


@kernel
def sharpness(state: Any, n_classes: int) -> float:
    """Return gamma after the answers so far."""
    return max(SHARPEST_START, SHARPENING * sqrt(state.answers[0] * n_classes))


@kernel
def count_label(state: Any, label: int, plays: float, confirmations: float) -> None:
    """Count plays or confirmations of a label; it is known (1) after enough of both together, unknown (0) before."""
    state.plays[label] += plays
    state.confirmations[label] += confirmations
    if state.known[label] < 1.0:
        K = state.plays.size
        evidence = state.plays[label] / (TRIES * K * log(K)) + state.confirmations[label] / CONFIRMATIONS
        state.known[label] = 1.0 if evidence >= 1.0 else 0.0


@kernel
def weigh_gaps(state: Any, chances: Array, best: int, floor: float, allowed: Any, p: Array) -> None:
    """Turn the chances of all labels to be right, in a padded array, into the probabilities `p` to play them.

    Those that look best share what the others leave; no label has less than `floor`. A label that is not allowed is
    known so well that nobody tries it.
    """
    if allowed is None:
        weigh_known_gaps(state, state.known, chances, best, floor, allowed, p)
    else:
        state.g[:] = NEVER
        for i in range(allowed.size):
            state.g[allowed[i]] = state.known[allowed[i]]
        weigh_known_gaps(state, state.g, chances, best, floor, allowed, p)


@kernel
def weigh_known_gaps(state: Any, known: Array, chances: Array, best: int, floor: float, allowed: Any, p: Array) -> None:
    """Do it, given which labels are known."""
    K = n_allowed(allowed, p.size)
    top = chances[best]
    gamma = sharpness(state, K)
    loss = 1.0 - top + LEAST_LOSS
    others = zeros(WIDTH)
    ties = zeros(WIDTH)
    for r in range(0, chances.size, WIDTH):
        chance = load(chances, r, WIDTH)
        sharp = gamma * load(known, r, WIDTH)
        gaps = where_below(sharp, SHARPNESS_OF_UNKNOWN, SHARPNESS_OF_UNKNOWN, sharp) * (top - chance)
        probability = where_below(chance, top, loss / (K * loss + gaps), 0.0)
        others = others + probability
        ties = ties + where_below(chance, top, 0.0, 1.0)
        store(probability, chances, r)
    share = (1.0 - total(others)) / total(ties)
    exclude_others(allowed, p)
    for i in range(K):
        r = allowed_label(allowed, i)
        p[r] = floor + (1.0 - K * floor) * (chances[r] if chances[r] > 0.0 else share)
