"""Regret of runs against fixed weights, and the search for such comparators: weights of small hinge loss."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np

from delaytron.checks import check_integer, check_positive
from delaytron.datasets import Dataset, as_dataset
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.records import Array, Ints
from delaytron.simulation.results import Result
from delaytron.simulation.scenarios import draw_outcomes, draw_rows

if TYPE_CHECKING:
    from delaytron.simulation.scenarios import SimulationConfig


MOST_CONSTRAINTS = 200_000  # of the linear program; beyond, the path is faster and as good
STRENGTHS = tuple(10.0**k for k in range(-4, 3))  # C of the path
PASSES = 2000  # iterations of the solver for each C
BLOCK = 65_536  # rows whose scores are in memory at the same time
PATH_ROWS = 4000  # rows to which a path is fitted: any weights are comparators, so a sample is enough
LINEAR_PROGRAM = 4000  # constraints, and weights, up to which the program takes a second
NEAR_ZERO_LOSS = 1e-4  # mean loss that a solver may leave where there are weights without loss
SMALL = 1e-3  # makes all margins smaller than 1, so that hinge losses show them


def hinge_losses(W: Array, data: Dataset) -> Array:
    r"""Return the hinge loss of fixed weights on every row of a data set.

    .. math:: \ell_H(W; x, y) = \max\big(0,\; 1 - (Wx)_y + \max_{j \ne y} (Wx)_j\big)

    This is the loss of Crammer and Singer (2001). Raises InvalidInput if W is not a (classes, features) matrix.

    Examples
    --------
    >>> from delaytron.datasets import as_dataset
    >>> hinge_losses(np.array([[1.0, 0.0], [0.0, 1.0]]), as_dataset((np.array([[2.0, 0.0], [0.0, 0.5]]), [0, 1])))
    array([0. , 0.5])
    """
    data = as_dataset(data)
    shape = (data.n_classes, data.n_features)
    try:
        weights = np.asarray(W, np.float64)
    except (TypeError, ValueError):  # text, or rows of different lengths
        raise InvalidInput.of("W", f"numbers of the shape {shape}", W) from None
    if weights.shape != shape:
        raise InvalidInput.of("W", f"the shape {shape}", got=str(weights.shape), verb="have")
    X: Any = data.X
    losses = np.empty(data.n_rows)
    for first in range(0, data.n_rows, BLOCK):
        block = slice(first, first + BLOCK)
        scores = np.asarray(X[block] @ weights.T)
        every = np.arange(len(scores))
        own = scores[every, data.y[block]]
        scores[every, data.y[block]] = -np.inf
        losses[block] = np.maximum(0.0, 1.0 - own + scores.max(axis=1))
    return losses


def exact_comparator(data: Dataset) -> Array:
    r"""Return weights with the least total hinge loss on a small data set, by linear programming (HiGHS).

    .. math:: \min_{W, \xi \ge 0} \sum_i \xi_i \quad\text{where}\quad
        \xi_i \ge 1 - (Wx_i)_{y_i} + (Wx_i)_j \text{ for all } j \ne y_i

    Many weights may have that loss; for separable data it is 0, and then the norm means little. Raises InvalidInput if
    the data set is too large, or the solver fails.

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
        raise InvalidInput(f"the linear program takes {asked}; got {n * (K - 1):,}", "use comparator_path")
    size = K * data.n_features
    costs = np.concatenate([np.zeros(size), np.ones(n)])
    bounds = [(None, None)] * size + [(0, None)] * n
    found = linprog(costs, _constraints(data), -np.ones(n * (K - 1)), bounds=bounds, method="highs")
    if found.x is None:
        raise InvalidInput(f"the linear program has no solution: {found.message}", "scale the rows to norm 1")
    return np.asarray(found.x[:size]).reshape(K, data.n_features)


def _constraints(data: Dataset) -> Any:
    """Return one row for each example and other class: (Wx)_j - (Wx)_y - xi <= -1."""
    from scipy.sparse import csr_array, eye_array, hstack, vstack  # noqa: PLC0415 - slow to import

    X = csr_array(data.X)
    K = data.n_classes
    blocks = []
    for other in range(1, K):  # the other class is (y + other) mod K
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

    Any weights are comparators; a solver that stops early gives others, not wrong ones. Raises InvalidInput if the rows
    are of one class only, or a C is not above 0.
    """
    data = as_dataset(data)
    if np.unique(data.y).size < 2:
        raise InvalidInput.of(
            "data", "rows of at least two classes", got="one only", hint=f"use more rows of {data.name}", verb="have"
        )
    asked = strengths if isinstance(strengths, Iterable) else [strengths]
    needs("sklearn")
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - slow to import
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    path = []
    for C in [check_positive("strengths", strength) for strength in asked]:
        solver = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, max_iter=PASSES, random_state=0)
        with catch_warnings():
            simplefilter("ignore", ConvergenceWarning)
            solver.fit(data.X, data.y)
        W = np.zeros((data.n_classes, data.n_features))
        W[solver.classes_] = solver.coef_ if len(solver.classes_) > 2 else np.vstack([-solver.coef_, solver.coef_])
        path.append(W)
    return path


def best_comparator(candidates: Iterable[Array], value: Callable[[Array], float]) -> tuple[Array, float]:
    """Return the weights with the least value, such as loss(W) + bound(||W||), and that value: bounds hold for every W.

    Raises InvalidInput if there are no candidates.
    """
    found = [(W, value(W)) for W in candidates] if isinstance(candidates, Iterable) else []
    if not found:
        hint = "comparator_path(data) returns some"
        raise InvalidInput.of("candidates", "a list of at least one matrix of weights", candidates, hint)
    return min(found, key=lambda pair: pair[1])


def fitted_weights(data: Dataset) -> Iterator[tuple[str, Array]]:
    """Iterate over comparators: the certificate, a path, and for small data the weights with the least hinge loss.

    A vector added to all rows of W changes no loss, so each W is moved to the one of least norm. Weights that separate
    the classes also come scaled to a least margin of 1.
    """
    found = {} if data.certificate is None else {"certificate": data.certificate}
    part = rows_of(data, slice(None, None, -(-data.n_rows // PATH_ROWS)))
    for C in STRENGTHS if np.unique(part.y).size > 1 else ():
        W = found[f"path, C = {C:g}"] = comparator_path(part, (C,))[0]
        if hinge_losses(W, part).mean() < NEAR_ZERO_LOSS:  # a larger C changes nothing
            break
    if max(data.n_rows * (data.n_classes - 1), data.n_classes * data.n_features) <= LINEAR_PROGRAM:
        found["linear program"] = exact_comparator(data)
    for name, W in found.items():
        if not np.ptp(W, axis=0).any():
            continue
        moved = W - W.mean(axis=0)
        yield name, moved
        least = (1 - hinge_losses(SMALL * moved, data).max()) / SMALL
        if least > 0:
            yield f"{name}, scaled", moved / least


def rows_of(data: Dataset, some: slice) -> Dataset:
    """Return some of the rows as a data set."""
    return replace(data, X=data.X[some], y=data.y[some], delays=None)


class Regret(NamedTuple):
    r"""The regret of runs against fixed weights W up to each checkpoint, in three losses: each (runs, checkpoints).

    .. math::
        \sum_t \ell_H(W_t) - \ell_H(W), \qquad \sum_t \ell_P(W_t) - \ell_H(W), \qquad
        \sum_t 1[\hat y_t \ne y_t] - \ell_H(W)

    The gated hinge :math:`\ell_P` is the hinge where the greedy label is wrong, else 0.
    """

    hinge: Array
    gated: Array
    mistakes: Array


def regret(result: Result, data: Dataset, W: Array) -> Regret:
    """Return the regret of runs against fixed weights; raise InvalidInput unless simulated with `regret=True`.

    Examples
    --------
    >>> import delaytron as dt
    >>> data = dt.datasets.load("synsep", n_samples=1000)
    >>> result = dt.simulate("delaytron", data, runs=2, gamma=0.1, regret=True)
    >>> lost = regret(result, data, data.certificate)
    >>> bool((lost.mistakes <= lost.gated).all() and (lost.gated <= lost.hinge).all())
    True
    """
    if not isinstance(result, Result):
        raise InvalidInput.of("result", "what dt.simulate(..., regret=True) returns", result)
    if result.losses is None:
        raise InvalidInput("these runs have no losses", "call simulate(..., regret=True)")
    theirs = comparator_losses(result, data, W)
    hinge = result.losses[:, :, 0]
    gated = result.losses[:, :, 1]
    return Regret(hinge - theirs, gated - theirs, result.mistakes[:, :, 1] - theirs)


def comparator_losses(result: Result, data: Dataset, W: Array) -> Array:
    """Return the sum of hinge losses of fixed weights on the rows of every run up to each checkpoint.

    The array is (runs, checkpoints). Raises InvalidInput if `simulate` did not return the result.
    """
    config = _config(result)
    per_row = hinge_losses(W, data)
    so_far = {run: np.cumsum(per_row[draw_rows(config, run)])[result.rounds - 1] for run in set(result.run.tolist())}
    return np.array([so_far[run] for run in result.run.tolist()])


def delays_of(result: Result, run: int) -> Ints:
    """Return the delays of one run, drawn again from its seed.

    Raises InvalidInput if `simulate` did not return the result, or its delays depend on outcomes.
    """
    if_right, if_wrong = draw_outcomes(_config(result), check_integer("run", run, at_least=0))
    if if_right is not if_wrong:
        raise InvalidInput(f"the delays of these runs depend on outcomes: {result.delay}", "take another delay")
    return if_right


def _config(result: Result) -> "SimulationConfig":
    if not isinstance(result, Result) or result.config is None:
        raise InvalidInput.of("result", "what dt.simulate(..., regret=True) returns", result)
    return result.config
