"""Comparators: fixed weights against which regret is measured."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from delaytron.datasets import Dataset
from delaytron.errors import InvalidInput
from delaytron.records import Array

MOST_CONSTRAINTS = 200_000  # of the linear program: beyond that the path is quicker and as good
STRENGTHS = tuple(10.0**k for k in range(-4, 3))  # C of the path
PASSES = 2000  # of the solver, at each C
BLOCK = 65_536  # rows whose scores are in memory at a time


def hinge_losses(W: Array, data: Dataset) -> Array:
    r"""Return the hinge loss of fixed weights on every row of a data set.

    .. math:: \ell_H(W; x, y) = \max\big(0,\; 1 - (Wx)_y + \max_{j \ne y} (Wx)_j\big)

    Examples
    --------
    >>> from delaytron.datasets import as_dataset
    >>> hinge_losses(np.array([[1.0, 0.0], [0.0, 1.0]]), as_dataset((np.array([[2.0, 0.0], [0.0, 0.5]]), [0, 1])))
    array([0. , 0.5])
    """
    if W.shape != (data.n_classes, data.n_features):
        raise InvalidInput(f"a comparator must have the shape {(data.n_classes, data.n_features)}, got {W.shape}")
    X: Any = data.X
    blocks = [slice(first, first + BLOCK) for first in range(0, data.n_rows, BLOCK)]
    return np.concatenate([_hinge(np.asarray(X[block] @ W.T), data.y[block]) for block in blocks])


def _hinge(scores: Array, y: Any) -> Array:
    every = np.arange(len(y))
    own = scores[every, y]
    scores[every, y] = -np.inf
    return np.asarray(np.maximum(0.0, 1.0 - own + scores.max(axis=1)))


def exact_comparator(data: Dataset) -> Array:
    r"""Return weights with the least total hinge loss on a small data set, by linear programming (HiGHS).

    .. math:: \min_{W, \xi \ge 0} \sum_i \xi_i \quad\text{where}\quad
        \xi_i \ge 1 - (Wx_i)_{y_i} + (Wx_i)_j \text{ for all } j \ne y_i

    Many weights may have that loss; separable data have it at 0, and then the norm means little.

    Examples
    --------
    >>> from delaytron.datasets import as_dataset
    >>> data = as_dataset((np.array([[1.0], [1.0], [1.0]]), [0, 0, 1]))
    >>> float(hinge_losses(exact_comparator(data), data).sum())
    2.0
    """
    from scipy.optimize import linprog  # noqa: PLC0415 - slow to import

    n, K = data.n_rows, data.n_classes
    if n * (K - 1) > MOST_CONSTRAINTS:
        asked = f"at most {MOST_CONSTRAINTS:,} constraints, rows x (classes - 1)"
        raise InvalidInput(f"the linear program takes {asked}; got {n * (K - 1):,}: use comparator_path")
    size = K * data.n_features
    costs = np.concatenate([np.zeros(size), np.ones(n)])
    bounds = [(None, None)] * size + [(0, None)] * n
    found = linprog(costs, _constraints(data), -np.ones(n * (K - 1)), bounds=bounds, method="highs")
    if found.x is None:
        raise InvalidInput(f"the linear program has no solution: {found.message}")
    return np.asarray(found.x[:size]).reshape(K, data.n_features)


def _constraints(data: Dataset) -> Any:
    """Return one row for each example and other class: (Wx)_j - (Wx)_y - xi <= -1."""
    from scipy.sparse import csr_array, eye_array, hstack, vstack  # noqa: PLC0415 - slow to import

    X, K = csr_array(data.X), data.n_classes
    blocks = []
    for other in range(1, K):  # the class that is so many further on
        signs = np.zeros((data.n_rows, K))
        every = np.arange(data.n_rows)
        signs[every, (data.y + other) % K] = 1.0
        signs[every, data.y] = -1.0
        weights = [csr_array(X.multiply(signs[:, [k]])) for k in range(K)]
        blocks.append(hstack([*weights, -eye_array(data.n_rows)]))
    return vstack(blocks, format="csr")


def comparator_path(data: Dataset, strengths: Sequence[float] = STRENGTHS) -> list[Array]:
    r"""Return weights of little hinge loss, from small ones to large: a regularisation path.

    .. math:: \min_W \tfrac12 \|W\|^2 + C \sum_i \ell_H(W; x_i, y_i) \quad\text{for each } C

    Any weights are comparators; a solver that stops early gives others, not wrong ones.
    """
    return [_regularised(data, C) for C in strengths]


def _regularised(data: Dataset, C: float) -> Array:
    from warnings import catch_warnings, simplefilter  # noqa: PLC0415

    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - slow to import
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    solver = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, max_iter=PASSES, random_state=0)
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)
        solver.fit(data.X, data.y)
    W = np.zeros((data.n_classes, data.n_features))
    W[solver.classes_] = solver.coef_ if len(solver.classes_) > 2 else np.vstack([-solver.coef_, solver.coef_])
    return W


def best_comparator(candidates: Iterable[Array], value: Callable[[Array], float]) -> tuple[Array, float]:
    """Return the weights with the least value, such as loss(W) + bound(||W||): bounds hold for every W."""
    return min(((W, value(W)) for W in candidates), key=lambda pair: pair[1])
