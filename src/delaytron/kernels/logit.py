"""The multinomial logit: softmax and its gradients, inverse-gap weighting, a test for drift, the last answers."""

from math import exp, frexp, log, sqrt
from typing import Any

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import allowed_label, exclude_others, n_allowed
from delaytron.kernels.lanes import add_to_exponent, load, replace_lane, store, total, where_below, zeros
from delaytron.kernels.linear import score_of
from delaytron.records import Array, Ints, Rounds, Size

# The exponential of several numbers at once: a few vector instructions, and the same bits wherever it is computed.
#
# With n the integer nearest to x / ln 2 and r = x - n ln 2, exp(x) = 2^n exp(r). Since |r| < .35, thirteen terms of the
# series leave out less than 4e-18 of exp(r); n is added to the exponent of the result. The error is below two units in
# the last place.
LOWEST = -700.0  # smaller arguments are replaced by this, whose exponential is 1e-304
PER_LN2 = 1.4426950408889634
LN2 = 6.93147180369123816490e-01  # ln 2 in two parts, so that n times the first is exact
REST_OF_LN2 = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 x 2^52: adding it rounds a number to an integer, which is then in the last bits


@kernel
def exponential(x: Array) -> Array:
    """Return exp(x) in every lane; all must be at most 0."""
    x = where_below(x, LOWEST, LOWEST, x)
    integers = x * PER_LN2 + ROUND
    n = integers - ROUND
    r = (x - n * LN2) - n * REST_OF_LN2
    # 1 + r + r^2/2! + ... + r^13/13!, the terms by fours side by side: short chains of dependent instructions
    s = r * r
    q = s * s
    low = (1 / 2 + r * (1 / 6)) + s * (1 / 24 + r * (1 / 120))
    middle = (1 / 720 + r * (1 / 5040)) + s * (1 / 40320 + r * (1 / 362880))
    high = (1 / 3628800 + r * (1 / 39916800)) + s * (1 / 479001600 + r * (1 / 6227020800))
    return add_to_exponent(1.0 + (r + s * (low + q * (middle + q * high))), integers)


# The multinomial logit, and its gradient from a "right" or "wrong" about one label.
#
# The arrays of a state that have a number for each class are padded to whole vectors; scores in the padding are far
# below all others, so that their probability is 0 or negligible.
WIDTH = 4  # lanes: the padded classes are a multiple of it
LEAST_SLOPE = 1e-3  # of the loss in a score: smaller ones are set to 0
SMALLEST_REST = 1e-6  # lower bound of 1 - p: a "wrong" about a label that seemed certain must not dwarf all others


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

    It is the gradient with respect to the scores; `p` is their softmax. A reward of 1 is "right", 0 is "wrong". Small
    entries are set to 0, so that most answers that only confirm the model cost nothing.
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


@kernel
def sigmoid(z: float) -> float:
    """1 / (1 + exp(-z)), without overflow."""
    if z >= 0.0:
        return 1.0 / (1.0 + exp(-z))
    return exp(z) / (1.0 + exp(z))


@kernel
def adagrad_step(W: Array, G: Array, k: int, error: float, lr: float, indices: Any, values: Array) -> None:
    """G_k += g^2 and W_k -= lr g / sqrt(G_k), for the gradient g = error x."""
    if indices is None:
        for j in range(values.size):
            g = error * values[j]
            G[k, j] += g * g
            W[k, j] -= lr * g / sqrt(G[k, j])
    else:
        for i in range(values.size):
            g = error * values[i]
            G[indices[i], k] += g * g
            W[indices[i], k] -= lr * g / sqrt(G[indices[i], k])


@kernel
def logistic_step(W: Array, G: Array, k: int, answer: Any, lr: float, indices: Any, values: Array) -> None:
    """Take an AdaGrad step of row k on the logistic loss of an answer, or of a reward, about x."""
    f = sigmoid(score_of(W, k, indices, values))
    adagrad_step(W, G, k, f - 1.0 * answer, lr, indices, values)


# Inverse-gap weighting: explore labels with scores close to the best and with few observations.
#
# FastCB (Foster and Krishnamurthy, 2021) gives label r the probability :math:`l / (K l + \gamma (p_b - p_r))`, where b
# is the best label and l = 1 - p_b the probability that even it is wrong. Here :math:`\gamma` grows with the answers,
# not with the rounds. It stays small for a label that is not known yet, so that it is tried wherever the model is
# unsure. A label is known after three confirmations, or 2 K ln K plays: if it is right in a share 1/K of the rounds,
# that many random plays all miss it with a probability of about :math:`1 / K^2`.
SHARPEST_START = 1000.0
SHARPENING = 4.0
SHARPNESS_OF_UNKNOWN = 20.0
TRIES = 2.0  # times K ln K
CONFIRMATIONS = 3.0
LEAST_LOSS = 1e-6
NEVER = 1e300  # `known` of the padding, which makes its probability 0


@kernel
def count_label(state: Any, label: int, plays: float, confirmations: float) -> None:
    """Count plays or confirmations of a label; it is known (1) after enough of either or both, else unknown (0)."""
    state.plays[label] += plays
    state.confirmations[label] += confirmations
    if state.known[label] < 1.0:
        K = state.plays.size
        evidence = state.plays[label] / (TRIES * K * log(K)) + state.confirmations[label] / CONFIRMATIONS
        state.known[label] = 1.0 if evidence >= 1.0 else 0.0


@kernel
def weigh_gaps(state: Any, chances: Array, best: int, floor: float, allowed: Any, p: Array) -> None:
    """Turn the probabilities of the labels to be right (padded) into the probabilities `p` of playing them.

    The best labels share what the others leave; no label gets less than `floor`. A label that is not allowed is treated
    like the padding.
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
    """Do the same, given which labels are known."""
    K = n_allowed(allowed, p.size)
    top = chances[best]
    gamma = max(SHARPEST_START, SHARPENING * sqrt(state.answers[0] * K))
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


# A test for drift by betting: are answers right half as often as they were?
#
# Let q be the share of the answers so far that were right. A bet that it has halved multiplies its wealth by 1/2 with
# every "right" and by (1 - q/2) / (1 - q) with every "wrong"; a reward counts in proportion. As long as answers are
# right as often as before, the bet is fair: the probability that a wealth of 1 ever becomes n is at most 1/n. As in
# Page's test a wealth below 1 is reset to 1, so that a late change is noticed as soon as an early one.
#
# "Right" may come sooner than "wrong", or later. So answers are compared with answers of about the same delay: there is
# a bet for delays of 1, one for 2 to 3, one for 4 to 7 and so on.
#
# The fields of a state that these functions use: `clock` has the present round, the first round that counts, and the
# largest wealth since then; `bets` has a row for each class of delays: how many answers, how many right, and the
# wealth.
NOW, START, RICHEST = range(3)
COUNT, RIGHT, WEALTH = range(3)
N_BETS = 48
PROOF = 1e16  # the wealth that proves a change
LEAST_ANSWERS = 100.0  # before a bet begins
MOST_RIGHT = 0.9  # upper bound of q: beyond it, a few "wrong" in a row would prove a change


@kernel
def has_changed(state: Any, now: int) -> bool:
    """Begin round `now`; return whether the answers so far prove a change."""
    state.clock[NOW] = now
    return bool(state.clock[RICHEST] > PROOF)


@kernel
def count_answer(state: Any, played: int, reward: float) -> bool:
    """Count the answer to a round, and bet; return False if the round was played before the first one that counts."""
    if played < state.clock[START]:
        return False
    _, delay_class = frexp(state.clock[NOW] - played)
    bet = state.bets[min(delay_class, N_BETS - 1)]
    if bet[COUNT] >= LEAST_ANSWERS:
        bet[WEALTH] = max(1.0, bet[WEALTH]) * gain(bet[RIGHT], bet[COUNT], reward)
        state.clock[RICHEST] = max(state.clock[RICHEST], bet[WEALTH])
    bet[COUNT] += 1.0
    bet[RIGHT] += reward
    return True


@kernel
def gain(right: float, count: float, reward: float) -> float:
    """Return the factor by which an answer multiplies the wealth; `right` of `count` answers before it were right."""
    if reward == 1.0:
        return 0.5
    q = min(MOST_RIGHT, right / count)
    return 0.5 * reward + (1.0 - reward) * (1.0 - 0.5 * q) / (1.0 - q)


@kernel
def count_from(state: Any, now: int) -> None:
    """Forget all answers, and count from this round on."""
    state.bets[:] = 0.0
    state.clock[START] = now
    state.clock[RICHEST] = 0.0


# A ring buffer of the last answers, to learn from them again: rows, labels and rewards.
#
# The fields of a state that these functions use: `kept` (how many answers were ever kept), the rows (`kept_indices` is
# empty for dense ones), the labels and the rewards.
FIELDS = ("kept", "kept_size", "kept_indices", "kept_values", "kept_label", "kept_reward")
CAPACITY = 1000  # answers
WIDEST = 512  # non-zeros: a sparse row with more is not kept
LARGEST_RING = 2**20  # numbers: of wider dense rows fewer are kept, but at least
FEWEST = 16


def empty_memory(n_runs: int, size: Size) -> tuple[Ints, Ints, Rounds, Array, Ints, Array]:
    """Return the fields of an empty ring, in the order of `FIELDS`."""
    width = min(size.n_features, WIDEST) if size.sparse else size.n_features
    capacity = min(CAPACITY, max(FEWEST, LARGEST_RING // width))
    return (
        np.zeros((n_runs, 1), np.int64),
        np.zeros((n_runs, capacity), np.int64),
        np.zeros((n_runs, capacity, width if size.sparse else 0), np.uint32),
        np.zeros((n_runs, capacity, width)),
        np.zeros((n_runs, capacity), np.int64),
        np.zeros((n_runs, capacity)),
    )


@kernel
def keep(state: Any, indices: Any, values: Array, label: int, reward: float) -> None:
    """Keep one answer, overwriting the oldest; skip rows with more than `WIDEST` non-zeros."""
    if values.size > state.kept_values.shape[1]:
        return
    place = state.kept[0] % state.kept_label.size
    state.kept[0] += 1
    state.kept_size[place] = values.size
    state.kept_label[place] = label
    state.kept_reward[place] = reward
    for i in range(values.size):
        state.kept_values[place, i] = values[i]
    if indices is not None:
        for i in range(values.size):
            state.kept_indices[place, i] = indices[i]


@kernel
def forget_all(state: Any) -> None:
    """Empty the ring."""
    state.kept[0] = 0


@kernel
def place_of(state: Any, i: int, times: int) -> int:
    """Return the position of the i-th of `times` answers to learn from again; their ages are evenly spaced."""
    capacity = state.kept_label.size
    filled = min(state.kept[0], capacity)
    return int((state.kept[0] - 1 - i * filled // times) % capacity)


@kernel
def middle_of(state: Any, i: int, times: int) -> int:
    """Return the position of the i-th of `times` answers in the middle of as many equal parts of the ring."""
    capacity = state.kept_label.size
    filled = min(state.kept[0], capacity)
    return int((state.kept[0] - 1 - (2 * i + 1) * filled // (2 * times)) % capacity)


def check_ring(count: Ints, sizes: Ints, indices: Rounds, width: int, size: Size) -> None:
    """Raise ValueError if compiled code could not trust a ring of rows that was read."""
    if count.min(initial=0) < 0:
        raise ValueError("a ring of rows has a negative count")
    if sizes.min(initial=0) < 0 or sizes.max(initial=0) > width:
        raise ValueError(f"a kept row has a length outside 0..{width}")
    if indices.max(initial=0) >= size.n_features:
        raise ValueError(f"a kept row has a feature that is not below {size.n_features}")


def check_memory(state: Any, size: Size) -> None:
    """Raise ValueError if compiled code could not trust the ring of answers of a state that was read."""
    check_ring(state.kept, state.kept_size, state.kept_indices, state.kept_values.shape[-1], size)
    labels = state.kept_label
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= size.n_classes:
        raise ValueError(f"a kept answer has a label that is not below {size.n_classes}")
