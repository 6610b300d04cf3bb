"""What `BanditLogit` knows, and how a refresh brings it up to date."""

from collections import namedtuple
from math import sqrt
from typing import Any, NamedTuple, cast

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.kernels.centred import (
    D_OF_BIAS,
    FAR_BELOW,
    FIRST,
    LACKING,
    MEAN_SUM,
    N_CELLS,
    SUM_OF_BIAS,
    clear_shift,
    fold_shift,
    rate_of,
    refresh_constant,
    refresh_zero,
)
from delaytron.kernels.drift import N_BETS, NOW, START, count_from
from delaytron.kernels.inverse_gaps import NEVER, count_label
from delaytron.kernels.linear import padded, squared_norm, zero_weights
from delaytron.kernels.memory import FIELDS, empty_memory
from delaytron.kernels.standard import (
    COUNT,
    GROWTH,
    INVERSE,
    LAST,
    NEXT,
    ROWS,
    SPARSE,
    SUM,
    D,
    count_zeros,
    empty_features,
    is_unseen,
    none_seen,
    refresh_feature,
    set_next_refresh,
)
from delaytron.records import Array, Ints, Size

RATE = 0.7  # of a step, times lr and the size of the weights
LEAST_SIZE = 1.3  # of the weights, as far as steps are concerned
SMOOTHING = 0.1  # of the classes' own rates
SO_FAR, BEFORE = 0, 1  # the cells of the answers: those so far, and those at the last refresh


class State(NamedTuple):
    """The model (`kernels.centred`), the statistics of the rows (`kernels.standard`), and what is known of the labels.

    `power` sums up the squared gradients of every class, `rates` are its steps as of the last refresh; `answers` counts
    those so far and those at the last refresh; `p` and `g` are room for a softmax and its gradient. `shift`, `base`,
    `known`, `scores`, `p` and `g` are padded to whole vectors.
    """

    W: Array
    bias: Array
    shift: Array
    base: Array
    features: Array
    cells: Array
    z: Array
    u: Array
    power: Array
    rates: Array
    plays: Array
    confirmations: Array
    known: Array
    answers: Array
    scores: Array
    p: Array
    g: Array
    seen: Ints
    squares: Array
    clock: Array
    bets: Array


Remembering: Any = cast(Any, namedtuple)("Remembering", (*State._fields, *FIELDS), module=__name__)


def init(params: Any, size: Size) -> State:
    """W = 0, C = 0: nothing seen, nothing known."""
    n_runs = params.lr.size
    K = size.n_classes
    d = size.n_features
    cells = np.zeros((n_runs, N_CELLS))
    cells[:, D_OF_BIAS] = FIRST**-0.5
    features = empty_features(n_runs, size)
    features[(..., D) if size.sparse else (slice(None), D)] = FIRST**-0.5
    return State(
        W=zero_weights(n_runs, size),
        bias=np.zeros((n_runs, K)),
        shift=np.zeros((n_runs, padded(K))),
        base=padded_with(FAR_BELOW, n_runs, K),
        features=features,
        cells=cells,
        z=np.zeros((n_runs, d)),
        u=np.zeros((n_runs, d)),
        power=np.zeros((n_runs, K)),
        rates=np.repeat(RATE * LEAST_SIZE * params.lr[:, None], K, axis=1),
        plays=np.zeros((n_runs, K)),
        confirmations=np.zeros((n_runs, K)),
        known=padded_with(NEVER, n_runs, K),
        answers=np.zeros((n_runs, 2)),
        scores=np.zeros((n_runs, padded(K))),
        p=np.zeros((n_runs, padded(K))),
        g=np.zeros((n_runs, padded(K))),
        seen=none_seen(n_runs, size),
        squares=np.zeros((n_runs, d)),
        clock=np.zeros((n_runs, 3)),
        bets=np.zeros((n_runs, N_BETS, 3)),
    )


def padded_with(number: float, n_runs: int, n_classes: int) -> Array:
    """Return a zero for every class, and this number in the padding."""
    classes = np.full((n_runs, padded(n_classes)), number)
    classes[:, :n_classes] = 0.0
    return classes


def init_remembering(params: Any, size: Size) -> Any:
    """The same, and no answer kept."""
    return Remembering(*init(params, size), *empty_memory(params.lr.size, size))


@kernel
def forget_answers(state: Any, now: int) -> None:
    """Begin again, with what is known of the rows; the next refresh makes the steps large again."""
    count_from(state, now)
    state.W[:] = 0.0
    for field in (state.bias, state.shift, state.power, state.plays, state.confirmations, state.answers):
        field[:] = 0.0
    for cell in (SUM_OF_BIAS, LACKING, MEAN_SUM):
        state.cells[cell] = 0.0
    if state.seen[SPARSE]:
        state.features[:, SUM] = 0.0
    else:
        state.features[SUM] = 0.0
    state.known[: state.plays.size] = 0.0


@kernel
def refresh(state: Any, params: Any) -> None:
    """Standardise by all rows seen so far, and step by all gradients, from now on."""
    share = 1.0
    if params.forget > 0.0:
        share = (1.0 - params.forget) ** (state.answers[SO_FAR] - state.answers[BEFORE])
    state.cells[SUM_OF_BIAS] *= share
    refresh_constant(state)
    if state.seen[SPARSE]:
        n_varying = refresh_features(state, state.features, share, True)
    else:
        n_varying = refresh_features(state, state.features.T, share, False)
    clear_shift(state)
    set_next_refresh(state)
    hasten_refresh(state)
    if share < 1.0:
        fade(state, share)
    refresh_classes(state, params.lr * size_of_weights(state, n_varying))
    state.answers[BEFORE] = state.answers[SO_FAR]


@kernel
def refresh_features(state: Any, table: Any, share: float, sparse: bool) -> int:
    """Bring the table up to date, which has a row for each feature here, whatever the rows are; return how many vary.

    A feature that begins to vary takes steps as the others do: else it would take huge ones until the next refresh.
    """
    rows = float(state.seen[ROWS])
    new = float(state.seen[ROWS] - state.seen[LAST])
    known = state.cells[MEAN_SUM]
    state.cells[MEAN_SUM] = 0.0
    n_varying = 0
    for j in range(state.squares.size):
        feature = table[j]
        if sparse and is_unseen(feature, state.squares[j]):
            continue
        if sparse:
            fold_shift(state, feature, state.W[j])
            count_zeros(feature, new - feature[COUNT])
        varied = feature[INVERSE] > 0.0
        refresh_feature(feature, state.squares, j, rows, new)
        state.squares[j] *= kept_rows(rows, share) / rows
        if feature[INVERSE] > 0.0:
            feature[SUM] = share * (feature[SUM] if varied else feature[SUM] + known)
            state.cells[MEAN_SUM] += feature[SUM]
            n_varying += 1
        feature[D] = rate_of(feature[SUM], state.bias.size)
        if sparse:
            refresh_zero(state, feature, state.W[j])
    state.cells[MEAN_SUM] /= max(1, n_varying)
    return n_varying


@kernel
def hasten_refresh(state: Any) -> None:
    """After a new start rates must follow the answers as soon as at first, however many rows were seen before."""
    rounds = int(state.clock[NOW] - state.clock[START])
    state.seen[NEXT] = min(state.seen[NEXT], state.seen[ROWS] + max(1, rounds // GROWTH))


@kernel
def kept_rows(rows: float, share: float) -> int:
    """Return how many rows remain: the nearest, as a few would never become more if the share were rounded down."""
    return max(1, int(share * rows + 0.5))


@kernel
def fade(state: Any, share: float) -> None:
    """Let only this share of all counts remain, so that what comes now counts for more."""
    rows = kept_rows(float(state.seen[ROWS]), share)
    state.seen[NEXT] += rows - state.seen[ROWS]
    state.seen[ROWS] = rows
    state.seen[LAST] = rows
    state.answers[SO_FAR] *= share
    for field in (state.power, state.plays, state.confirmations):
        for i in range(field.size):
            field[i] *= share
    for k in range(state.plays.size):
        state.known[k] = 0.0
        count_label(state, k, 0.0, 0.0)


@kernel
def size_of_weights(state: Any, n_varying: int) -> float:
    """Return the root mean square of the weights: where large ones are needed, steps must be as large to get there."""
    total = 0.0
    for i in range(state.W.shape[0]):
        if not (state.seen[SPARSE] and state.squares[i] == 0.0):  # a feature that never varied has no weights
            total += squared_norm(state.W[i])
    return max(LEAST_SIZE, sqrt(total / (max(1, n_varying) * state.power.size)))


@kernel
def refresh_classes(state: Any, rate: float) -> None:
    """A class that moved less than the others takes larger steps."""
    mean = 0.0
    for k in range(state.power.size):
        mean += state.power[k] / state.power.size
    for k in range(state.power.size):
        state.rates[k] = RATE * rate * sqrt((SMOOTHING + mean) / (SMOOTHING + state.power[k]))
