"""A logistic regression for each label: how likely its reward is, how certain that is, and how often to play it."""

from math import log, sqrt
from typing import Any

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import allowed_label, n_allowed
from delaytron.kernels.lanes import load, store
from delaytron.kernels.linear import padded, score, score_of, squared_norm, zero_weights
from delaytron.kernels.logit import WIDEST, check_ring, exponential, sigmoid
from delaytron.kernels.logit import WIDTH as CLASSES
from delaytron.kernels.standardize import CENTRE, FAR_BELOW, INVERSE, LAST, ROWS, SPARSE, ZERO, standardized
from delaytron.records import Array, Size

# The softmax assumes that exactly one label is right. Clicks, prices and graded answers break that: here every label
# has a logistic regression of its own, learned from its own answers by a Kalman filter with a diagonal covariance.
#
# .. math::
#     s_k = b_0 + \beta_k + \langle M_k, \hat z\rangle, \qquad
#     P(\text{reward of } k) = \sigma(s_k), \qquad
#     v_k = \rho \sum_j V_{kj} \hat z_j^2 + \nu_k
#
# The rows are those of `kernels.standardize`, but centred in part only and of unit length. A centred one-hot group says
# in every column what the others say as well; the diagonal V would count that evidence once for each column, and be
# certain much too soon. So a sparse row is not centred at all, and a column of dense ones the less, the closer its mean
# lies to 0 in standard deviations: of :math:`\zeta = -\mu / \sigma` it keeps :math:`\zeta^5 / (1 + \zeta^4)`.
#
# What is left of such correlations is measured: if the weights' evidence were independent, the squared product of two
# rows would be on average :math:`\sum_j \hat z_{tj}^2 \hat z_{sj}^2`; :math:`\rho` is that sum over the squared
# products seen. Rows that follow each other may resemble each other by chance of the stream, so the first row after
# each refresh is compared with 16 earlier such rows.
#
# The fields of a state that these functions use, besides those of `kernels.standardize`:
#
# =================  ====================================================================================
# `M`                the means of the weights, in the layout of `kernels.linear`
# `U`                1 - V, V being their variances: memory that no answer has touched stays zero
# `offset`           :math:`\beta`, `spread` its variances :math:`\nu`
# `belief`           the common offset b_0, its variance, the squared errors of the rewards, the least that they could
#                    be, and the two sums whose ratio is :math:`\rho`
# `row`, `q`, `v`    buffers for a row, and for the scores and variances of the labels, padded
# `sample`           16 rows to compare with, `sample_indices` and `sample_size` as in a ring of answers; `samples`
#                    counts how many were ever put in
# =================  ====================================================================================
POINTWISE = (
    "M",
    "U",
    "offset",
    "spread",
    "belief",
    "row",
    "q",
    "v",
    "sample",
    "sample_indices",
    "sample_size",
    "samples",
)
COMMON, COMMON_SPREAD, ERRORS, LEAST_ERRORS, OVERLAP, CORRELATION = range(6)  # the cells of `belief`
N_BELIEFS = 6
FIRST_SPREAD = 4.0  # of the common offset: rates of 2 % and of 98 % are two deviations from one half
SAMPLES = 16
LEAST_OVERLAP = 0.001  # lower bound of rho
LEAST_SLOPE = 1e-6  # lower bound of f (1 - f)
MODERATION = 0.3927  # pi / 8: sigmoid(s / sqrt(1 + pi v / 8)) is nearly the mean of sigmoid(N(s, v))


def no_rewards(n_runs: int, size: Size) -> tuple[Array, ...]:
    """Return the fields before any answer, in the order of `POINTWISE`."""
    K, d = size.n_classes, size.n_features
    width = min(d, WIDEST) if size.sparse else d
    belief = np.zeros((n_runs, N_BELIEFS))
    belief[:, COMMON_SPREAD] = FIRST_SPREAD
    fields: tuple[Any, ...] = (
        zero_weights(n_runs, size),
        zero_weights(n_runs, size),
        np.zeros((n_runs, K)),
        np.ones((n_runs, K)),
        belief,
        np.zeros((n_runs, d)),
        np.zeros((n_runs, padded(K))),
        np.zeros((n_runs, padded(K))),
        np.zeros((n_runs, SAMPLES, width)),
        np.zeros((n_runs, SAMPLES, width if size.sparse else 0), np.uint32),
        np.zeros((n_runs, SAMPLES), np.int64),
        np.zeros((n_runs, 1), np.int64),
    )
    return fields


# Rows.


@kernel
def place_zeros(state: Any) -> None:
    """Write what is subtracted from standardised dense rows to the row `ZERO` of their table, after a refresh."""
    if not state.seen[SPARSE]:
        table = state.features
        for j in range(state.squares.size):
            zero = standardized(-table[CENTRE, j], table[INVERSE, j])
            table[ZERO, j] = zero / (1.0 + zero * zero * zero * zero)


@kernel
def write_row(state: Any, indices: Any, values: Array) -> float:
    """Write the row in `z` to `row`, centred in part and of unit length; return its squared length, 1 or 0."""
    row = state.row[: values.size]
    if indices is None:
        zero = state.features[ZERO]
        for j in range(values.size):
            row[j] = state.z[j] - zero[j]
    else:  # z has what the non-zeros differ by from a row of zeros
        for j in range(values.size):
            row[j] = state.z[j]
    squares = squared_norm(row)
    if squares == 0.0:
        return 0.0
    scale = 1.0 / sqrt(squares)
    for j in range(values.size):
        row[j] *= scale
    return 1.0


@kernel
def is_first(state: Any) -> bool:
    """Return whether the row counted last is the first one since a refresh."""
    return bool(state.seen[ROWS] == state.seen[LAST] + 1)


@kernel
def compare_row(state: Any, indices: Any, values: Array) -> None:
    """Compare the row in `row` with those of the sample, and put it there; skip rows with more than `WIDEST` non-zeros.

    Rows of a sample are standardised as they were when they came: the difference fades like those of the statistics.
    """
    if values.size > state.sample.shape[1]:
        return
    row = state.row[: values.size]
    for i in range(min(SAMPLES, state.samples[0])):
        other = state.sample[i, : state.sample_size[i]]
        if indices is None:
            product, overlap = products(row, other)
        else:
            product, overlap = products_of_sparse(indices, row, state.sample_indices[i, : other.size], other)
        state.belief[OVERLAP] += overlap
        state.belief[CORRELATION] += product * product
    place = state.samples[0] % SAMPLES
    state.samples[0] += 1
    state.sample_size[place] = values.size
    for j in range(values.size):
        state.sample[place, j] = row[j]
    if indices is not None:
        for j in range(values.size):
            state.sample_indices[place, j] = indices[j]


@kernel
def products(a: Array, b: Array) -> tuple[float, float]:
    """Return the product of two dense rows, and that of their squares."""
    product, overlap = 0.0, 0.0
    for j in range(a.size):
        both = a[j] * b[j]
        product += both
        overlap += both * both
    return product, overlap


@kernel
def products_of_sparse(indices: Any, a: Array, others: Any, b: Array) -> tuple[float, float]:
    """Return the same for the non-zeros of two sparse rows, whose indices ascend."""
    product, overlap = 0.0, 0.0
    i, j = 0, 0
    while i < a.size and j < b.size:
        if indices[i] == others[j]:
            both = a[i] * b[j]
            product += both
            overlap += both * both
            i += 1
            j += 1
        elif indices[i] < others[j]:
            i += 1
        else:
            j += 1
    return product, overlap


@kernel
def independence(belief: Array) -> float:
    """Return rho, the share of the evidence in the weights that is independent."""
    if belief[OVERLAP] >= belief[CORRELATION]:
        return 1.0
    return float(max(LEAST_OVERLAP, belief[OVERLAP] / belief[CORRELATION]))


# Scores and variances, and how often to play each label.
#
# Thompson sampling draws every score from its posterior and plays the label with the largest: that explores as long as
# a label may well be the best, and no longer. Here its probabilities are approximated in closed form, so that the log
# has exactly those by which labels are played: a label whose score lies g standard deviations of the difference below
# the best has a weight of :math:`\exp(-(1.5976\, g + .07056\, g^3))`. With two labels the probabilities are those of
# Thompson sampling to .00015 (Bowling et al., 2009). Far behind the best the weight is too small, by a factor of .91 at
# g = 3, .58 at 4, .17 at 5, .02 at 6; with many labels more of the others are played, as each is compared with the best
# alone. The variances are multiplied by `DOUBT` ln(3 + answers): the diagonal underrates them, and a stream that goes
# on forever has to try every label again and again.
DOUBT = 0.05
LINEAR, CUBIC = 1.5976, 0.07056


@kernel
def score_labels(state: Any, indices: Any, values: Array) -> None:
    """Write the scores of all labels for the row in `row` to `q`; the padding is far below."""
    score(state.M, indices, state.row[: values.size], state.q)
    for k in range(state.offset.size):
        state.q[k] += state.belief[COMMON] + state.offset[k]
    for k in range(state.offset.size, state.q.size):
        state.q[k] = FAR_BELOW


@kernel
def score_variances(state: Any, indices: Any, values: Array, length: float) -> None:
    """Write the variances of these scores, by which labels are compared, to `v`; `u` takes the squares of the row."""
    squares = state.u[: values.size]
    for j in range(values.size):
        squares[j] = state.row[j] * state.row[j]
    score(state.U, indices, squares, state.v)
    share = independence(state.belief)
    for k in range(state.offset.size):
        state.v[k] = share * max(0.0, length - state.v[k]) + state.spread[k]


@kernel
def weigh_posteriors(state: Any, answers: float, best: int, allowed: Any) -> None:
    """Turn the scores in `q` and the variances in `v` into the probabilities of playing the labels, in `v`.

    Entries of labels that are not allowed mean nothing.
    """
    doubt = DOUBT * log(3.0 + answers)
    top, own = state.q[best], state.v[best]
    for k in range(state.q.size):
        if k < state.offset.size:
            gap = (top - state.q[k]) / sqrt(doubt * (own + state.v[k]))
            state.v[k] = -gap * (LINEAR + CUBIC * gap * gap)
        else:
            state.v[k] = FAR_BELOW
    for k in range(0, state.v.size, CLASSES):
        store(exponential(load(state.v, k, CLASSES)), state.v, k)
    total = 0.0
    K = n_allowed(allowed, state.offset.size)
    for i in range(K):
        total += state.v[allowed_label(allowed, i)]
    for i in range(K):
        state.v[allowed_label(allowed, i)] /= total


# Answers.


@kernel
def learn_reward(state: Any, indices: Any, values: Array, label: int, reward: float, length: float) -> float:
    """Learn the reward of a label for the row in `row`; return the chance of a reward as it was forecast before.

    The step is that of a Kalman filter, with the slope of the sigmoid at the mean. Rewards that vary less than those
    that are 0 or 1 say more: their squared errors are compared with what 0 or 1 would give.
    """
    row = state.row[: values.size]
    squares = state.u[: values.size]
    for j in range(values.size):
        squares[j] = row[j] * row[j]
    belief = state.belief
    spread = float(state.spread[label])
    variance = max(0.0, length - score_of(state.U, label, indices, squares)) + spread
    value = score_of(state.M, label, indices, row) + belief[COMMON] + state.offset[label]
    forecast = sigmoid(value / sqrt(1.0 + MODERATION * variance))

    chance = sigmoid(value)
    error = reward - chance
    slope = max(chance * (1.0 - chance), LEAST_SLOPE)
    belief[ERRORS] += error * error
    belief[LEAST_ERRORS] += reward * (1.0 - reward)
    dispersion = (1.0 + belief[ERRORS]) / (1.0 + belief[ERRORS] + belief[LEAST_ERRORS])
    error /= dispersion
    slope /= dispersion
    common = float(belief[COMMON_SPREAD])
    step = error / (1.0 + slope * (variance + common))
    if indices is None:
        for j in range(values.size):
            V = 1.0 - state.U[label, j]
            state.M[label, j] += step * V * row[j]
            state.U[label, j] = 1.0 - V / (1.0 + slope * squares[j] * V)
    else:
        for j in range(values.size):
            V = 1.0 - state.U[indices[j], label]
            state.M[indices[j], label] += step * V * row[j]
            state.U[indices[j], label] = 1.0 - V / (1.0 + slope * squares[j] * V)
    state.offset[label] += step * spread
    belief[COMMON] += step * common
    state.spread[label] = spread / (1.0 + slope * spread)
    belief[COMMON_SPREAD] = common / (1.0 + slope * common)
    return forecast


@kernel
def fade_rewards(state: Any, share: float) -> None:
    """Let a share of the evidence remain, so that later answers weigh more; means stay as they are."""
    for i in range(state.U.shape[0]):
        for j in range(state.U.shape[1]):
            known = share * state.U[i, j]
            if known > 0.0:
                state.U[i, j] = known / (1.0 - state.U[i, j] + known)
    for k in range(state.spread.size):
        state.spread[k] = faded(state.spread[k], 1.0, share)
    state.belief[COMMON_SPREAD] = faded(state.belief[COMMON_SPREAD], FIRST_SPREAD, share)
    state.belief[ERRORS] *= share
    state.belief[LEAST_ERRORS] *= share


@kernel
def faded(variance: float, first: float, share: float) -> float:
    """Return the variance when a share of the evidence remains that has narrowed it since the `first`."""
    return 1.0 / (share / variance + (1.0 - share) / first)


@kernel
def forget_rewards(state: Any) -> None:
    """Forget all answers; what is known of the rows stays."""
    state.M[:] = 0.0
    state.U[:] = 0.0
    state.offset[:] = 0.0
    state.spread[:] = 1.0
    for cell in (COMMON, ERRORS, LEAST_ERRORS):
        state.belief[cell] = 0.0
    state.belief[COMMON_SPREAD] = FIRST_SPREAD


def check_samples(state: Any, size: Size) -> None:
    """Raise ValueError if compiled code could not trust the sample of a state that was read."""
    check_ring(state.samples, state.sample_size, state.sample_indices, state.sample.shape[-1], size)
