"""What a decision can be expected to earn: a ridge regression for each label, fitted to other rounds than asked of.

For `dr` the rounds are cut into blocks that grow by a half; the model of a block has seen the blocks before it and
nothing else. So what it expects of a round is fixed before its label is drawn, even in a log whose policy learned, and
`dr` stays unbiased. For `dm`, whose first rounds would otherwise be expected without any knowledge, every fifth round
is predicted from the other four fifths.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.matrices import is_sparse
from delaytron.records import Array, Bools, Ints

if TYPE_CHECKING:
    from delaytron.matrices import Matrix

FIRST = 32  # rounds of the first block
GROWTH = 1.5
FOLDS = 5
MOST_DENSE = 1000  # features up to which the normal equations are solved
STEPS = 60  # of the iterative solver


class RidgeByLabel:
    """Expects a reward that is linear in the features, shrunk towards the mean reward; from 0 to 1.

    Dense columns are scaled to mean 0 and deviation 1, sparse ones to a largest number of 1. The penalty is the mean
    squared length of a scaled row: as if the features explained as much of a reward as chance does.
    """

    def __init__(self, X: Any, labels: Ints, rewards: Array, n_classes: int) -> None:
        self.mean = float(rewards.mean()) if rewards.size else 0.5
        self.shift, self.scale = _scaling(X)
        self.weights = np.zeros((n_classes, X.shape[1] + 1))
        penalty = max(1.0, _mean_square(self._rows(X)))
        for label in np.unique(labels):
            own = np.flatnonzero(labels == label)
            self.weights[label] = _ridge(self._rows(X[own]), rewards[own] - self.mean, penalty)

    def _rows(self, X: Any) -> Any:
        return (X - self.shift) * self.scale if self.shift is not None else X.multiply(self.scale).tocsr()

    def predict(self, X: Any) -> Array:
        """Return an (n, K) array of what to expect."""
        linear = self._rows(X) @ self.weights[:, :-1].T
        return np.asarray(np.clip(linear + self.weights[:, -1] + self.mean, 0.0, 1.0))


def _scaling(X: Any) -> tuple[Any, Array]:
    if hasattr(X, "tocsr"):
        largest = abs(X).max(axis=0).toarray().ravel() if X.shape[0] else np.zeros(X.shape[1])
        return None, 1.0 / np.where(largest > 0, largest, 1.0)
    if not X.shape[0]:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    deviation = X.std(axis=0)
    return X.mean(axis=0), 1.0 / np.where(deviation > 0, deviation, 1.0)


def _mean_square(rows: Any) -> float:
    total = rows.multiply(rows).sum() if is_sparse(rows) else np.square(rows).sum()
    return float(total / max(1, rows.shape[0]))


def _ridge(rows: Any, rewards: Array, penalty: float) -> Array:
    """Return the weights and a constant, which is shrunk as by one more round of reward 0."""
    if is_sparse(rows) or rows.shape[1] > MOST_DENSE:
        return _iterated(rows, rewards, penalty)
    wide = np.column_stack([rows, np.ones(rows.shape[0])])
    gram = wide.T @ wide
    gram[np.diag_indices_from(gram)] += np.append(np.full(rows.shape[1], penalty), 1.0)
    return np.asarray(np.linalg.solve(gram, wide.T @ rewards))


def _iterated(rows: Any, rewards: Array, penalty: float) -> Array:
    """Do the same by conjugate gradients, which need products with the rows only."""
    from scipy.sparse.linalg import LinearOperator, lsqr  # noqa: PLC0415 - slow to import

    constant = np.sqrt(penalty)  # times this, its penalty is 1

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
    """Return an (n, K) array of expected rewards, each from rounds that the estimator may use for it."""
    expected = np.empty((labels.size, n_classes))
    splits = _blocks_in_time(order) if method == "dr" else _folds(order)
    rows = _used_columns(X)
    for seen, asked in splits:
        taught = seen[arrived[seen]]
        model = RidgeByLabel(rows[taught], labels[taught], rewards[taught], n_classes)
        expected[asked] = model.predict(rows[asked])
    return expected


def _used_columns(X: Any) -> Any:
    """Return the columns of a sparse matrix that are not empty: of hashed ones, a few."""
    return X[:, np.unique(X.indices)] if is_sparse(X) and X.nnz else X


def _blocks_in_time(order: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Iterate over blocks: the rounds before it, and its own."""
    start, size = 0, float(FIRST)
    while start < order.size:
        stop = min(order.size, max(start + 1, int(size)))
        yield order[:start], order[start:stop]
        start, size = stop, size * GROWTH


def _folds(order: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Iterate over folds: the other rounds, and its own."""
    fold = np.arange(order.size) % FOLDS
    for k in range(min(FOLDS, order.size)):
        yield order[fold != k], order[fold == k]
