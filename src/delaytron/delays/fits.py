"""Delay models fitted to recorded delays: maximum likelihood for waiting times that are rounded up.

A delay of k stands for a waiting time in (k - 1, k], so its chance is S(k - 1) - S(k), where S(x) is the chance to
wait for longer than x. There is one best fit: likelihoods are concave in 1 / sigma and log(median) / sigma, and in
alpha and alpha * log(minimum).
"""

from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np

from delaytron.delays.models import NAMES, LogNormal, Pareto
from delaytron.records import Array, Ints

NARROW = 1e-4  # standard deviations below which the chance of a cell is its width times the density in its middle
HARMLESS = 1e-4  # loss of mean log-likelihood for which nobody wants to read more digits
FLATTEST = 0.01  # exponent of a tail; the longest delays there can be would give more, 1 / log(NEVER)
TINY = 1e-300  # a minimum must be above 0
STEEPEST = 50.0  # a tail that loses as many powers of e in one step has nothing beyond it


@dataclass(frozen=True)
class Fit:
    """A fitted model: how it is written, its mean log-likelihood, and its Kolmogorov-Smirnov distance."""

    model: LogNormal | Pareto
    text: str
    log_likelihood: float
    distance: float

    @property
    def name(self) -> str:
        """What the command line calls the model."""
        return NAMES[type(self.model)]

    def survival(self, delays: Array | Ints) -> Array:
        """Return the chance that a delay is longer than each of these."""
        return np.exp(log_survival(self.model, np.floor(delays)))


def fit_models(values: Ints, counts: Ints) -> tuple[Fit, ...]:
    """Fit a lognormal and a Pareto to distinct delays, ascending, and their counts; the likelier one comes first.

    Where all delays are equal nothing is fitted: likelihoods have no maximum then.

    Examples
    --------
    >>> drawn = LogNormal(50, 2).sample(100_000, np.random.default_rng(0))
    >>> best, _ = fit_models(*np.unique(drawn, return_counts=True))
    >>> best.text, round(best.log_likelihood, 2)
    ('lognormal:49.9,2', -6.02)
    """
    if values.size < 2:
        return ()
    fits = [_judge(fit(values, counts), values, counts) for fit in (fit_lognormal, fit_pareto)]
    return tuple(sorted(fits, key=lambda fit: -fit.log_likelihood))


def _judge(model: LogNormal | Pareto, values: Ints, counts: Ints) -> Fit:
    best = log_likelihood(model, values, counts)
    for digits in range(3, 18):
        words = [f"{float(f'{value:.{digits}g}'):.{max(digits, 6)}g}" for value in astuple(model)]
        if log_likelihood(type(model)(*map(float, words)), values, counts) > best - HARMLESS:
            break
    return Fit(model, f"{NAMES[type(model)]}:{','.join(words)}", best, _distance(model, values, counts))


def log_likelihood(model: LogNormal | Pareto, values: Ints, counts: Ints) -> float:
    """Return the mean logarithm of the chances of recorded delays."""
    if isinstance(model, LogNormal):
        cells, _ = _normal_cells(_edges(values, np.log(model.median), model.sigma), 1.0, 0.0)
    else:
        cells = _pareto_cells(values, model)
    return float(counts @ cells / counts.sum())


def log_survival(model: LogNormal | Pareto, x: Array) -> Array:
    """Return the logarithm of the chance to wait for longer than x."""
    from scipy.special import log_ndtr  # noqa: PLC0415 - slow to import

    with np.errstate(divide="ignore"):  # the logarithm of 0
        if isinstance(model, LogNormal):
            return np.asarray(log_ndtr(np.log(model.median / x) / model.sigma))
        return np.minimum(0.0, model.alpha * np.log(model.minimum / x))


def _distance(model: LogNormal | Pareto, values: Ints, counts: Ints) -> float:
    """Return the largest difference of two distribution functions, which steps alone can have."""
    upto = np.cumsum(counts) / counts.sum()
    before = np.concatenate([[0.0], upto[:-1]])
    ends = values.astype(np.float64)
    pairs = ((before, ends - 1), (upto, ends))
    return float(max(np.abs(1 - np.exp(log_survival(model, x)) - share).max() for share, x in pairs))


def fit_lognormal(values: Ints, counts: Ints) -> LogNormal:
    """Return the lognormal under which delays are likeliest."""
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to import

    x = np.log(values - 0.5)
    centre = np.average(x, weights=counts)
    spread = max(1e-12, np.sqrt(np.average((x - centre) ** 2, weights=counts)))  # 0 where floats see no difference
    edges = _edges(values, centre, spread)

    def loss(point: Any) -> tuple[float, Array]:
        cells, slopes = _normal_cells(edges, *point)
        return -counts @ cells / counts.sum(), -slopes @ counts / counts.sum()

    bounds = ((1e-6, None), (None, None))
    tau, nu = minimize(loss, (1.0, 0.0), jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10}).x
    return LogNormal(float(np.exp(centre + spread * nu / tau)), float(spread / tau))


class _Edges(NamedTuple):
    """Cells on the scale of a normal: their ends, and their widths, which differences of ends would not tell."""

    low: Array
    high: Array
    width: Array


def _edges(values: Ints, centre: float, spread: float) -> _Edges:
    with np.errstate(divide="ignore"):  # the first cell begins at 0
        low, high, width = np.log(values - 1.0), np.log(values), -np.log1p(-1.0 / values)
    return _Edges((low - centre) / spread, (high - centre) / spread, width / spread)


def _normal_cells(edges: _Edges, tau: float, nu: float) -> tuple[Array, Array]:
    """Return the logarithms of the chances that x lies in cells if tau * x - nu is normal, and their slopes.

    The slopes are those in tau and in nu. A cell left of the middle is seen in a mirror: logarithms tell small
    chances from 0, but not large ones from 1.
    """
    from scipy.special import log_ndtr  # noqa: PLC0415 - slow to import

    low, high, width = tau * edges.low - nu, tau * edges.high - nu, tau * edges.width
    middle = high - width / 2
    with np.errstate(divide="ignore", invalid="ignore"):  # of the two forms, one may make no sense
        narrow = width * (1 + np.abs(middle)) < NARROW
        beyond_near, beyond_far = np.where(middle < 0, log_ndtr([high, low]), log_ndtr([-low, -high]))
        exact = beyond_near + _log_of_loss(beyond_far - beyond_near)
        cells = np.where(narrow, np.log(width) + _log_density(middle), exact)
        at_low, at_high = np.exp(_log_density(low) - cells), np.exp(_log_density(high) - cells)
        by_tau = np.where(np.isinf(low), 0.0, -edges.low * at_low) + edges.high * at_high
        slopes = np.where(narrow, [(1 - middle * (middle + nu)) / tau, middle], [by_tau, at_low - at_high])
    return cells, slopes


def _log_density(z: Array) -> Array:
    return np.asarray(-(z**2) / 2 - np.log(2 * np.pi) / 2)


def _log_of_loss(log_share: Array) -> Array:
    """Return log(1 - share)."""
    return np.asarray(np.log(-np.expm1(log_share)))


def fit_pareto(values: Ints, counts: Ints) -> Pareto:
    """Return the Pareto under which delays are likeliest, its minimum in the cell of the shortest delay."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - slow to import

    longer = np.log1p(-counts[0] / counts.sum())  # than the shortest; as a logarithm

    def best(log_alpha: float) -> Pareto:
        """With the minimum that gives the shortest delay its share or, if that is another cell's, comes nearest."""
        alpha = np.exp(log_alpha)
        minimum = max(values[0] * np.exp(longer / alpha), values[0] - 1, TINY)
        return Pareto(float(minimum), float(alpha))

    bounds = np.log(FLATTEST), np.log(STEEPEST * values[-1])
    found = minimize_scalar(
        lambda log_alpha: -log_likelihood(best(log_alpha), values, counts),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-10},
    )
    return best(found.x)


def _pareto_cells(values: Ints, model: Pareto) -> Array:
    """Return the logarithms of the chances of delays."""
    with np.errstate(divide="ignore"):  # a waiting time of 0, and a chance of 0
        above = log_survival(model, np.asarray(values - 1.0))
        widths = np.minimum(-np.log1p(-1.0 / values), np.maximum(0.0, np.log(values / model.minimum)))
        return above + _log_of_loss(-model.alpha * widths)
