"""The estimators, each a mean over rounds with the terms of its variance, and their model of rewards.

With the weight w = pi(label) / prob, the reward r and the reward m that a model expects:

    ips     mean of w r
    snips   sum of w r / sum of w
    dm      mean of the sum over labels of pi m
    dr      dm + mean of w (r - m(label))
    replay  mean of r over the rounds that were accepted: snips with weights 1 and 0

An outcome that arrived has the weight 1 / F, F its probability of having arrived (`arrivals`), others 0. The interval
is normal: value +- 1.96 sqrt(sum of squares of the terms) / n. For snips, a ratio, they are w (r - value) / mean of w.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.checks import is_sparse
from delaytron.errors import InvalidInput, Setting
from delaytron.evaluation.arrivals import ArrivalProbability
from delaytron.records import Array, Bools, Ints

if TYPE_CHECKING:
    from delaytron.checks import Matrix


# The expected reward of a decision: a ridge regression for each label, fitted to other rounds than it predicts.
#
# For `dr` the rounds are cut into blocks that grow by a half, and the model of a block is fitted to the blocks before
# it. So the prediction for a round is fixed before its label is drawn, even in a log whose policy learned, and `dr`
# stays unbiased. `dm` has no such correction, and its first blocks would be predicted from nothing: it uses five folds.
FIRST = 32  # rounds of the first block
GROWTH = 1.5
FOLDS = 5
MOST_DENSE = 1000  # features up to which the normal equations are solved
STEPS = 60  # of the iterative solver


class RidgeByLabel:
    """A ridge regression of rewards on features for each label, shrunk towards the mean reward and clipped to [0, 1].

    Dense columns are scaled to mean 0 and deviation 1, sparse ones to a largest absolute value of 1. The penalty is
    the mean squared length of a scaled row: as if the features explained as much of a reward as chance does.
    """

    def __init__(self, X: Any, labels: Ints, rewards: Array, n_classes: int) -> None:
        n_rows, n_features = X.shape
        self.mean = float(rewards.mean()) if rewards.size else 0.5
        self.shift: Array | None = None  # None for sparse columns, which are not centred
        if hasattr(X, "tocsr"):
            spread = abs(X).max(axis=0).toarray().ravel() if n_rows else np.zeros(n_features)
        else:
            self.shift = X.mean(axis=0) if n_rows else np.zeros(n_features)
            spread = X.std(axis=0) if n_rows else np.zeros(n_features)
        self.scale = 1.0 / np.where(spread > 0, spread, 1.0)
        rows = self._rows(X)
        squares = rows.multiply(rows) if is_sparse(rows) else np.square(rows)
        penalty = max(1.0, float(squares.sum() / max(1, n_rows)))
        self.weights = np.zeros((n_classes, n_features + 1))
        for label in np.unique(labels):
            own = np.flatnonzero(labels == label)
            self.weights[label] = _ridge(self._rows(X[own]), rewards[own] - self.mean, penalty)

    def _rows(self, X: Any) -> Any:
        return (X - self.shift) * self.scale if self.shift is not None else X.multiply(self.scale).tocsr()

    def predict(self, X: Any) -> Array:
        """Return an (n, K) array of expected rewards."""
        linear = self._rows(X) @ self.weights[:, :-1].T
        return np.asarray(np.clip(linear + self.weights[:, -1] + self.mean, 0.0, 1.0))


def _ridge(rows: Any, rewards: Array, penalty: float) -> Array:
    """Return the weights and, last, the constant, which has a penalty of 1."""
    if not is_sparse(rows) and rows.shape[1] <= MOST_DENSE:
        wide = np.column_stack([rows, np.ones(rows.shape[0])])
        gram = wide.T @ wide
        gram[np.diag_indices_from(gram)] += np.append(np.full(rows.shape[1], penalty), 1.0)
        return np.asarray(np.linalg.solve(gram, wide.T @ rewards))
    # LSQR needs only products with the rows. It has one penalty for all weights, so the column of the constant is
    # multiplied by sqrt(penalty): then the penalty of the constant itself is 1.
    from scipy.sparse.linalg import LinearOperator, lsqr  # noqa: PLC0415 - slow to import

    constant = np.sqrt(penalty)

    def forward(weights: Array) -> Array:
        return np.asarray(rows @ weights[:-1] + constant * weights[-1])

    def backward(errors: Array) -> Array:
        return np.append(rows.T @ errors, constant * errors.sum())

    shape = (rows.shape[0], rows.shape[1] + 1)
    operator = LinearOperator(shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    found = np.array(lsqr(operator, rewards, damp=float(np.sqrt(penalty)), iter_lim=STEPS)[0])
    found[-1] *= constant
    return found


def expected_rewards(
    method: str, X: "Matrix", labels: Ints, rewards: Array, arrived: Bools, n_classes: int, order: Ints
) -> Array:
    """Return an (n, K) array of expected rewards, each predicted from rounds that the estimator may use for it."""
    expected = np.empty((labels.size, n_classes))
    splits = _blocks_in_time(order) if method == "dr" else _folds(order)
    rows: Any = X
    if is_sparse(rows) and rows.nnz:
        rows = rows[:, np.unique(rows.indices)]  # hashed rows have 2^18 columns, nearly all of them empty
    for train, test in splits:
        fitted = train[arrived[train]]
        model = RidgeByLabel(rows[fitted], labels[fitted], rewards[fitted], n_classes)
        expected[test] = model.predict(rows[test])
    return expected


def _blocks_in_time(order: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Iterate over the blocks: the rounds before a block, and those in it."""
    start, size = 0, float(FIRST)
    while start < order.size:
        stop = min(order.size, max(start + 1, int(size)))
        yield order[:start], order[start:stop]
        start, size = stop, size * GROWTH


def _folds(order: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Iterate over the folds: the other rounds, and those in it."""
    fold = np.arange(order.size) % FOLDS
    for k in range(min(FOLDS, order.size)):
        yield order[fold != k], order[fold == k]


Z = 1.959963984540054  # the 97.5 % quantile of the normal distribution


class WeightedRounds(NamedTuple):
    """The input of the estimators, each an array with a number for each round.

    `counts` are the weights of the log itself, `weights` the importance weights of the policy. `logged` is the expected
    reward of the label of the log, `expected` that of the policy; both are 0 for estimators without a reward model.
    """

    counts: Array
    weights: Array
    outcomes: Array
    arrived: Bools
    arrival: ArrivalProbability
    logged: Array
    expected: Array

    @property
    def total(self) -> float:
        """The sum of `counts`."""
        return float(self.counts.sum())

    @property
    def known(self) -> Array:
        """The counts of outcomes that arrived, over their probability of having arrived; 0 for the others."""
        with np.errstate(divide="ignore"):
            inverse = np.where(self.arrived, 1.0 / self.arrival.probability, 0.0)
        return np.where(self.counts > 0, self.counts * inverse, 0.0)


class Estimated(NamedTuple):
    """A value, half of its 95 % interval, and the effective size."""

    value: float
    margin: float
    effective_size: float


def ips(rows: WeightedRounds) -> Estimated:
    """Inverse propensity scores."""
    return _mean(rows, np.zeros_like(rows.outcomes), rows.weights * rows.outcomes)


def dm(rows: WeightedRounds) -> Estimated:
    """The direct method: the mean of the expected rewards. The interval does not contain the error of the model."""
    return _mean(rows, rows.expected, np.zeros_like(rows.outcomes))


def dr(rows: WeightedRounds) -> Estimated:
    """Doubly robust: the expected rewards, and the weighted errors of the model."""
    return _mean(rows, rows.expected, rows.weights * (rows.outcomes - rows.logged))


def snips(rows: WeightedRounds) -> Estimated:
    """Self-normalised inverse propensity scores; raise InvalidInput if no weight is above 0."""
    weights = rows.weights * rows.known
    total = weights.sum()
    if total == 0:
        problem = "the policy would have made no decision of the log whose outcome is known"
        raise InvalidInput(problem, ("try ", Setting("method", "'dm'")))
    value = float(weights @ rows.outcomes / total)
    terms = rows.counts * rows.weights * (rows.outcomes - value)
    return Estimated(value, _margin(rows, rows.arrival.influence(terms), total), effective_size(weights))


def _mean(rows: WeightedRounds, base: Array, terms: Array) -> Estimated:
    """Return the mean of `base`, plus that of `terms` by the inverse probability of having arrived."""
    value = float((rows.counts @ base + rows.known @ terms) / rows.total)
    influence = rows.counts * (base - value) + rows.arrival.influence(rows.counts * terms)
    return Estimated(value, _margin(rows, influence, rows.total), effective_size(rows.weights * rows.known))


def _margin(rows: WeightedRounds, influence: Array, total: float) -> float:
    """Return half of the 95 % interval, from the terms of the variance; NaN for a single round."""
    n_rounds = np.count_nonzero(rows.counts)
    if n_rounds < 2:
        return float("nan")
    return float(Z * np.sqrt(influence @ influence * n_rounds / (n_rounds - 1)) / total)


def effective_size(weights: Array) -> float:
    """Return Kish's effective sample size.

    Examples
    --------
    >>> effective_size(np.array([1.0, 1.0, 0.0])), effective_size(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    squares = weights @ weights
    return float(weights.sum() ** 2 / squares) if squares > 0 else 0.0


ESTIMATORS: Mapping[str, Callable[[WeightedRounds], Estimated]] = {
    "ips": ips,
    "snips": snips,
    "dm": dm,
    "dr": dr,
    "replay": snips,
}
