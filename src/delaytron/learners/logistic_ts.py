"""LogisticTs: a logistic regression of the reward for each label, played by Thompson sampling."""

from math import sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_matrix, check_scale
from delaytron.compiler.kernel import fill, interpreted, kernel, slot
from delaytron.kernels.explore import allowed_label, argmax, n_allowed
from delaytron.kernels.linear import padded, row_of, score, score_of, zero_weights
from delaytron.kernels.logit import sigmoid
from delaytron.kernels.pointwise import LEAST_SLOPE, place_zeros, write_row
from delaytron.kernels.standardize import (
    CENTRE,
    INVERSE,
    SPARSE,
    ZERO,
    empty_features,
    is_due,
    none_seen,
    observe,
    refresh_statistics,
    standardize_row,
    standardized,
)
from delaytron.kernels.thompson import weigh_chances
from delaytron.learners.arguments import Common
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import Contributions, LinearForm, Standard, score_parts, with_own_scratch
from delaytron.learners.rule import Rule
from delaytron.records import Array, Ints, Play, Row, Size, Stream


class Params(NamedTuple):
    """The factor of the variances of the scores."""

    alpha: float


class State(NamedTuple):
    """The regressions, the statistics of the rows (`kernels.standardize`), and buffers.

    `W` and `bias` are the means of the weights of the features and of the constant, 1 - `U` and `spread` their
    variances: memory that no answer has touched stays zero. `deviations` and `hazards` are for `kernels.thompson`.
    """

    W: Array
    U: Array
    bias: Array
    spread: Array
    features: Array
    squares: Array
    seen: Ints
    z: Array
    row: Array
    u: Array
    deviations: Array
    hazards: Array


def init(params: Any, size: Size) -> State:
    """Return means of 0 and variances of 1."""
    n_runs, K, d = params.alpha.size, size.n_classes, size.n_features
    return State(
        W=zero_weights(n_runs, size),
        U=zero_weights(n_runs, size),
        bias=np.zeros((n_runs, K)),
        spread=np.ones((n_runs, K)),
        features=empty_features(n_runs, size),
        squares=np.zeros((n_runs, d)),
        seen=none_seen(n_runs, size),
        z=np.zeros((n_runs, d)),
        row=np.zeros((n_runs, d)),
        u=np.zeros((n_runs, d)),
        deviations=np.zeros((n_runs, padded(K))),
        hazards=np.zeros((n_runs, padded(K))),
    )


@kernel
def tick(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
    """Refresh means and deviations when the rows have grown by a sixteenth."""
    if is_due(state):
        if state.seen[SPARSE]:
            refresh_statistics(state, state.features, True)
            for j in range(state.squares.size):
                state.features[j, ZERO] = standardized(-state.features[j, CENTRE], state.features[j, INVERSE])
        else:
            refresh_statistics(state, state.features.T, False)
            place_zeros(state)


@kernel
def write_squares(state: Any, values: Array) -> None:
    """Write the squares of the row in `row` to `u`."""
    for j in range(values.size):
        state.u[j] = state.row[j] * state.row[j]


@kernel
def score_labels(state: Any, indices: Any, values: Array, scores: Array) -> None:
    """Write the mean scores of all labels for the row in `row`."""
    score(state.W, indices, state.row[: values.size], scores)
    for k in range(state.bias.size):
        scores[k] += state.bias[k]


see: Any = slot()  # (state, indices, values): standardise a row; `observe` also counts it


@kernel
def policy(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Play each label as often as its score, drawn from the posterior, is the largest; return that of the best mean."""
    indices, values = x.indices, x.values
    see(state, indices, values)
    length = write_row(state, indices, values)
    score_labels(state, indices, values, scores)
    write_squares(state, values)
    score(state.U, indices, state.u[: values.size], state.deviations)
    for i in range(n_allowed(allowed, p.size)):
        r = allowed_label(allowed, i)
        variance = max(0.0, length - state.deviations[r]) + state.spread[r]
        state.deviations[r] = sqrt(params.alpha * variance)
    weigh_chances(scores, state.deviations, allowed, state.hazards, p)
    return argmax(scores, allowed, p.size)


@kernel
def learn(state: Any, indices: Any, values: Array, k: int, reward: float) -> None:
    """Take a step of the Kalman filter with a diagonal covariance, and the sigmoid's slope at the present mean."""
    standardize_row(state, indices, values)
    length = write_row(state, indices, values)
    write_squares(state, values)
    row, squares = state.row[: values.size], state.u[: values.size]
    spread = state.spread[k]
    variance = max(0.0, length - score_of(state.U, k, indices, squares)) + spread
    chance = sigmoid(score_of(state.W, k, indices, row) + state.bias[k])
    slope = max(chance * (1.0 - chance), LEAST_SLOPE)
    move = (reward - chance) / (1.0 + slope * variance)
    if indices is None:
        for j in range(values.size):
            V = 1.0 - state.U[k, j]
            state.W[k, j] += move * V * row[j]
            state.U[k, j] = 1.0 - V / (1.0 + slope * squares[j] * V)
    else:
        for j in range(values.size):
            V = 1.0 - state.U[indices[j], k]
            state.W[indices[j], k] += move * V * row[j]
            state.U[indices[j], k] = 1.0 - V / (1.0 + slope * squares[j] * V)
    state.bias[k] += move * spread
    state.spread[k] = spread / (1.0 + slope * spread)


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:  # noqa: ARG001
    """Learn from an answer (right, wrong, or a reward between)."""
    learn(state, past.x.indices, past.x.values, past.label, 1.0 * answer)


@kernel
def score_stream(state: Any, stream: Stream, scores: Array, out: Array) -> None:
    """Write the mean scores of every row of the stream to `out`."""
    for i in range(out.shape[0]):
        x = row_of(stream.indptr, stream.indices, stream.values, i)
        standardize_row(state, x.indices, x.values)
        write_row(state, x.indices, x.values)
        score_labels(state, x.indices, x.values, scores)
        for k in range(out.shape[1]):
            out[i, k] = scores[k]


_score_stream = fill(score_stream, "logistic_ts.score_stream")
_standardize_row = interpreted(standardize_row)
_write_row = interpreted(write_row)


class LogisticTs(Learner):
    r"""Logistic Thompson sampling, disjoint, on rows that it standardises itself.

    .. math::
        P(k) = \Pr\big(k = \arg\max_j \theta_j\big), \qquad
        \theta_j \sim N\Big(\langle w_j, \hat z\rangle,\ \alpha \sum_i V_{ij} \hat z_i^2\Big)

    where :math:`\hat z` is the standardised row, of unit length, with a constant 1 behind it. The chance of a reward is
    modelled as :math:`\sigma(\langle w_j, \hat z\rangle)`; w and V are the means and variances of a Kalman filter with
    a diagonal covariance. P is computed, not sampled (`kernels.thompson`), so it is what the decision logs. Answers are
    learned with what is known when they come; a "right" after an expiry as "wrong" is applied as one more answer.

    `weights` are the means for standardised features, the constant last: (K, d + 1).

    Parameters
    ----------
    alpha : float
        The factor of the variances, above 0: the smaller, the less it explores.

    Examples
    --------
    >>> learner = LogisticTs(n_classes=4, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 250.0])
    >>> decision.prob    # all labels have the same posterior
    0.25
    >>> learner.feedback(decision.id, reward=0.7)
    'accepted'
    """

    name = "logistic_ts"
    takes_rewards = True
    rule = Rule(
        name,
        Params,
        fill(policy, see=observe),
        step,
        State,
        init,
        tick,
        look=fill(policy, see=standardize_row),
        scratch=("z", "row", "u", "deviations", "hazards"),
        ties="shares",
        standardizable=False,
        corrects_exactly=False,
    )
    grid = {"alpha": (0.1, 0.5)}

    def __init__(self, n_classes: int, n_features: int, *, alpha: float = 0.5, **common: Unpack[Common]) -> None:
        self.alpha = check_scale("alpha", alpha)
        super().__init__(n_classes, n_features, Params(self.alpha), common)

    def scores(self, X: Any) -> Array:
        """Return the mean scores of every row, as an (n, K) array; raise InvalidInput for other rows."""
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        with self._lock:
            state = with_own_scratch(self)
            return score_parts(rows, self.n_classes, self.sparse, lambda *args: _score_stream(state, *args))

    def _contributions(self, row: Row) -> Contributions:
        state = with_own_scratch(self)
        _standardize_row(state, row.indices, row.values)
        _write_row(state, row.indices, row.values)
        W = state.W if row.indices is None else state.W[row.indices, : self.n_classes].T
        return Contributions(state.bias.copy(), np.ascontiguousarray(W * state.row[: row.values.size]))

    def _linear_form(self) -> LinearForm:
        W = self.weights_of(self.state)
        table = self.state.features.T if self.sparse else self.state.features
        centre, inverse, zero = (table[column].copy() for column in (CENTRE, INVERSE, ZERO))
        return LinearForm(W[:, :-1], np.zeros(len(W)), Standard(centre, inverse, zero, 0.0), offset=W[:, -1])

    @property
    def weights(self) -> Array:
        """The means of the weights of the features and, last, of the constant, as a (K, d + 1) matrix, a copy."""
        with self._lock:
            return self.weights_of(self.state)

    def weights_of(self, state: Any) -> Array:
        """Return the means of a state."""
        return np.column_stack([self._matrix(state.W), state.bias])
