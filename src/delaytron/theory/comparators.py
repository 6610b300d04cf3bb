"""Comparators: fixed weights against which regret is measured; any weights will do, better ones make bounds smaller."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from delaytron.checks import check_positive, shown
from delaytron.datasets import Dataset, as_dataset
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.learners import PassiveAggressive
from delaytron.records import Array
from delaytron.rng import stream
from delaytron.simulation.replay import replay

MOST_CONSTRAINTS = 200_000  # of the linear program: beyond that the path is quicker and as good
STRENGTHS = tuple(10.0**k for k in range(-4, 3))  # C of the path
PASSES = 2000  # of the solver, at each C
BLOCK = 65_536  # rows whose scores are in memory at a time
PATH_ROWS = 4000  # to which a path is fitted: any weights are comparators, so a part will do
LINEAR_PROGRAM = 4000  # constraints, and weights, that take a second
NEAR_ZERO_LOSS = 1e-4  # a round: what a solver leaves of none
SMALL = 1e-3  # makes all margins smaller than 1, so that hinge losses show them
SOFTNESS = (0.1, 1.0)  # C, times the mean squared length of a row, of the learners that look for weights


def hinge_losses(W: Array, data: Dataset) -> Array:
    r"""Return the hinge loss of fixed weights on every row of a data set.

    .. math:: \ell_H(W; x, y) = \max\big(0,\; 1 - (Wx)_y + \max_{j \ne y} (Wx)_j\big)

    Examples
    --------
    >>> from delaytron.datasets import as_dataset
    >>> hinge_losses(np.array([[1.0, 0.0], [0.0, 1.0]]), as_dataset((np.array([[2.0, 0.0], [0.0, 0.5]]), [0, 1])))
    array([0. , 0.5])
    """
    data = as_dataset(data)
    weights = _checked(W, (data.n_classes, data.n_features))
    X: Any = data.X
    blocks = [slice(first, first + BLOCK) for first in range(0, data.n_rows, BLOCK)]
    return np.concatenate([_hinge(np.asarray(X[block] @ weights.T), data.y[block]) for block in blocks])


def _checked(W: Any, shape: tuple[int, int]) -> Array:
    try:
        weights = np.asarray(W, np.float64)
    except (TypeError, ValueError):  # text, or rows of different lengths
        raise InvalidInput(f"W must be numbers of the shape {shape}, got {shown(W)}") from None
    if weights.shape != shape:
        raise InvalidInput(f"W must have the shape {shape}, got {weights.shape}")
    return weights


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

    data = as_dataset(data)
    n = data.n_rows
    K = data.n_classes
    if n * (K - 1) > MOST_CONSTRAINTS:
        asked = f"at most {MOST_CONSTRAINTS:,} constraints, rows x (classes - 1)"
        raise InvalidInput(f"the linear program takes {asked}; got {n * (K - 1):,}: use comparator_path")
    size = K * data.n_features
    costs = np.concatenate([np.zeros(size), np.ones(n)])
    bounds = [(None, None)] * size + [(0, None)] * n
    found = linprog(costs, _constraints(data), -np.ones(n * (K - 1)), bounds=bounds, method="highs")
    if found.x is None:
        raise InvalidInput(f"the linear program has no solution: {found.message}; scale the rows to norm 1")
    return np.asarray(found.x[:size]).reshape(K, data.n_features)


def _constraints(data: Dataset) -> Any:
    """Return one row for each example and other class: (Wx)_j - (Wx)_y - xi <= -1."""
    from scipy.sparse import csr_array, eye_array, hstack, vstack  # noqa: PLC0415 - slow to import

    X = csr_array(data.X)
    K = data.n_classes
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
    data = as_dataset(data)
    if np.unique(data.y).size < 2:
        raise InvalidInput(f"data must have rows of at least two classes, got one only; use more rows of {data.name}")
    asked = strengths if isinstance(strengths, Iterable) else [strengths]
    return [_regularised(data, check_positive("strengths", C)) for C in asked]


def _regularised(data: Dataset, C: float) -> Array:
    from warnings import catch_warnings, simplefilter  # noqa: PLC0415

    needs("sklearn")
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
    found = [(W, value(W)) for W in candidates] if isinstance(candidates, Iterable) else []
    if not found:
        asked = "candidates must be a list of at least one matrix of weights"
        raise InvalidInput(f"{asked}, got {shown(candidates)}; comparator_path(data) makes some")
    return min(found, key=lambda pair: pair[1])


def fitted_weights(data: Dataset) -> Iterator[tuple[str, Array]]:
    """Iterate over weights that may compare well: the certificate, a path, and of small data the least hinge loss.

    A vector added to all rows of W changes no loss; so each is moved to where its norm is the least. Weights that
    separate the classes also come in the size at which the least margin is 1.
    """
    part = rows_of(data, slice(None, None, -(-data.n_rows // PATH_ROWS)))
    found = {} if data.certificate is None else {"certificate": data.certificate}
    found |= {f"path, C = {C:g}": W for C, W in _path(part)}
    if max(data.n_rows * (data.n_classes - 1), data.n_classes * data.n_features) <= LINEAR_PROGRAM:
        found["linear program"] = exact_comparator(data)
    moved = {name: W - W.mean(axis=0) for name, W in found.items() if np.ptp(W, axis=0).any()}
    return _with_scaled(moved, data)


def _path(data: Dataset) -> Iterator[tuple[float, Array]]:
    """Iterate over the regularisation path until there is no loss: beyond, nothing changes."""
    if np.unique(data.y).size > 1:
        for C in STRENGTHS:
            W = comparator_path(data, (C,))[0]
            yield C, W
            if hinge_losses(W, data).mean() < NEAR_ZERO_LOSS:
                return


def _with_scaled(found: Mapping[str, Array], data: Dataset) -> Iterator[tuple[str, Array]]:
    """Iterate over weights, and where they separate the classes, the same ones with a least margin of 1."""
    for name, W in found.items():
        yield name, W
        least = (1 - hinge_losses(SMALL * W, data).max()) / SMALL
        if least > 0:
            yield f"{name}, scaled", W / least


def rows_of(data: Dataset, some: slice) -> Dataset:
    """Return some of the rows as a data set of their own."""
    return replace(data, X=data.X[some], y=data.y[some])


def learned_weights(data: Dataset, n_rounds: int, squared_length: float, seed: int) -> list[Array]:
    """Return weights that do well on the data: the certificate, and those of learners that see all true labels.

    Parameters
    ----------
    n_rounds : int
        How many rows they learn from, drawn with replacement.
    squared_length : float
        The mean squared length of a row.
    """
    X: Any = data.X
    rows = stream(seed, "comparators").integers(data.n_rows, size=n_rounds)
    no_delay = np.ones(n_rounds, np.int64)
    unused = np.zeros(n_rounds)
    found = [] if data.certificate is None else [data.certificate]
    for softness in SOFTNESS:
        learner = PassiveAggressive(data.n_classes, data.n_features, variant="II", C=softness / squared_length, seed=0)
        found.append(replay(learner, X[rows], data.y[rows], no_delay, unused).weights)
    return found
