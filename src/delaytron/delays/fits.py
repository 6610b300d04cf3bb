"""Summaries of recorded delays: quantiles, pending rounds, and models fitted by maximum likelihood.

A delay of k means a waiting time in the cell (k - 1, k], so its probability is S(k - 1) - S(k), where S(x) is the
survival function, the probability to wait for longer than x. The best fit is unique: the log-likelihood is concave in
1 / sigma and log(median) / sigma, and in alpha and alpha * log(minimum).
"""

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.delays.models import NAMES, LogNormal, Pareto, as_delay
from delaytron.delays.traces import Trace
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.plotting import COLOURS, DASHES, save_figure
from delaytron.records import NEVER, Array, Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa


NARROW = 1e-4  # standard deviations below which the probability of a cell is its width times the density in its middle
HARMLESS = 1e-4  # loss of mean log-likelihood for which more digits are not worth reading
FLATTEST = 0.01  # exponent of a tail; the longest delays there can be would give more, 1 / log(NEVER)
TINY = 1e-300  # a minimum must be above 0
STEEPEST = 50.0  # a tail that loses this many powers of e in one step has nothing beyond it
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)  # of the quantiles
STRETCHES = 400  # of rounds, for which the pending ones are counted
POINTS = 1000  # of a curve in a figure, at most; more would only make large files


@dataclass(frozen=True)
class Fit:
    """A fitted model: its short form, its mean log-likelihood, and its Kolmogorov-Smirnov distance."""

    model: LogNormal | Pareto
    text: str
    log_likelihood: float
    distance: float

    @property
    def name(self) -> str:
        """The name of the model in its short form."""
        return NAMES[type(self.model)]

    def survival(self, delays: Array | Ints) -> Array:
        """Return the probability that a delay is longer than each of these."""
        return np.exp(log_survival(self.model, np.floor(delays)))


def fit_models(values: Ints, counts: Ints) -> tuple[Fit, ...]:
    """Return a lognormal and a Pareto fitted to distinct delays, ascending, and their counts; the likelier one first.

    If all delays are equal, nothing is fitted: the likelihoods have no maximum.

    Examples
    --------
    >>> drawn = LogNormal(50, 2).sample(100_000, np.random.default_rng(0))
    >>> best, _ = fit_models(*np.unique(drawn, return_counts=True))
    >>> best.text, round(best.log_likelihood, 2)
    ('lognormal:49.9,2', -6.02)
    """
    if values.size < 2:
        return ()
    ends = values.astype(np.float64)
    cumulative = np.cumsum(counts) / counts.sum()
    fits = []
    for model in (fit_lognormal(values, counts), fit_pareto(values, counts)):
        best = log_likelihood(model, values, counts)
        for digits in range(3, 18):  # as few as lose next to no likelihood
            words = [f"{float(f'{value:.{digits}g}'):.{max(digits, 6)}g}" for value in astuple(model)]
            if log_likelihood(type(model)(*map(float, words)), values, counts) > best - HARMLESS:
                break
        # The empirical distribution steps at the delays only, so the largest difference is just before or at one.
        pairs = ((np.concatenate([[0.0], cumulative[:-1]]), ends - 1), (cumulative, ends))
        distance = max(np.abs(1 - np.exp(log_survival(model, x)) - share).max() for share, x in pairs)
        fits.append(Fit(model, f"{NAMES[type(model)]}:{','.join(words)}", best, float(distance)))
    return tuple(sorted(fits, key=lambda fit: -fit.log_likelihood))


def log_likelihood(model: LogNormal | Pareto, values: Ints, counts: Ints) -> float:
    """Return the mean logarithm of the probabilities of recorded delays."""
    if isinstance(model, LogNormal):
        cells, _ = _normal_cells(_edges(values, np.log(model.median), model.sigma), 1.0, 0.0)
    else:
        with np.errstate(divide="ignore"):  # a waiting time of 0, and a probability of 0
            above = log_survival(model, np.asarray(values - 1.0))
            widths = np.minimum(-np.log1p(-1.0 / values), np.maximum(0.0, np.log(values / model.minimum)))
            cells = above + _log1mexp(-model.alpha * widths)
    return float(counts @ cells / counts.sum())


def log_survival(model: LogNormal | Pareto, x: Array) -> Array:
    """Return the logarithm of the survival function, the probability to wait for longer than x."""
    from scipy.special import log_ndtr  # noqa: PLC0415 - slow to import

    with np.errstate(divide="ignore"):  # the logarithm of 0
        if isinstance(model, LogNormal):
            return np.asarray(log_ndtr(np.log(model.median / x) / model.sigma))
        return np.minimum(0.0, model.alpha * np.log(model.minimum / x))


def fit_lognormal(values: Ints, counts: Ints) -> LogNormal:
    """Return the lognormal of maximum likelihood.

    The parameters are tau = spread / sigma and nu = (log(median) - centre) / sigma: the log-likelihood is concave in
    them.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to import

    x = np.log(values - 0.5)
    centre = np.average(x, weights=counts)
    spread = max(1e-12, np.sqrt(np.average((x - centre) ** 2, weights=counts)))  # 0 if equal up to rounding
    edges = _edges(values, centre, spread)

    def loss(point: Any) -> tuple[float, Array]:
        cells, gradient = _normal_cells(edges, *point)
        return -counts @ cells / counts.sum(), -gradient @ counts / counts.sum()

    bounds = ((1e-6, None), (None, None))
    tau, nu = minimize(loss, (1.0, 0.0), jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10}).x
    return LogNormal(float(np.exp(centre + spread * nu / tau)), float(spread / tau))


class _Edges(NamedTuple):
    """Cells on the scale of a normal: their ends, and their widths, which cancel in differences of the ends."""

    low: Array
    high: Array
    width: Array


def _edges(values: Ints, centre: float, spread: float) -> _Edges:
    with np.errstate(divide="ignore"):  # the first cell begins at 0
        low, high, width = np.log(values - 1.0), np.log(values), -np.log1p(-1.0 / values)
    return _Edges((low - centre) / spread, (high - centre) / spread, width / spread)


def _normal_cells(edges: _Edges, tau: float, nu: float) -> tuple[Array, Array]:
    """Return the logarithms of the probabilities that x lies in cells if tau * x - nu is normal, and their gradient.

    The gradient has two rows, the derivatives by tau and by nu. A cell left of 0 is mirrored: the logarithm of a small
    probability has all its digits, that of a probability near 1 has none.
    """
    from scipy.special import log_ndtr  # noqa: PLC0415 - slow to import

    low, high, width = tau * edges.low - nu, tau * edges.high - nu, tau * edges.width
    middle = high - width / 2
    with np.errstate(divide="ignore", invalid="ignore"):  # one of the two forms may overflow
        narrow = width * (1 + np.abs(middle)) < NARROW
        beyond_near, beyond_far = np.where(middle < 0, log_ndtr([high, low]), log_ndtr([-low, -high]))
        exact = beyond_near + _log1mexp(beyond_far - beyond_near)  # the difference of two tails
        cells = np.where(narrow, np.log(width) + _log_density(middle), exact)
        at_low, at_high = np.exp(_log_density(low) - cells), np.exp(_log_density(high) - cells)
        by_tau = np.where(np.isinf(low), 0.0, -edges.low * at_low) + edges.high * at_high
        gradient = np.where(narrow, [(1 - middle * (middle + nu)) / tau, middle], [by_tau, at_low - at_high])
    return cells, gradient


def _log_density(z: Array) -> Array:
    """Return the logarithm of the density of the standard normal."""
    return np.asarray(-(z**2) / 2 - np.log(2 * np.pi) / 2)


def _log1mexp(x: Array) -> Array:
    """Return log(1 - exp(x))."""
    return np.asarray(np.log(-np.expm1(x)))


def fit_pareto(values: Ints, counts: Ints) -> Pareto:
    """Return the Pareto of maximum likelihood, its minimum in the cell of the shortest delay."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - slow to import

    log_longer = np.log1p(-counts[0] / counts.sum())  # of the share of delays longer than the shortest

    def best(log_alpha: float) -> Pareto:
        """Return the model whose minimum gives the shortest delay its recorded share, or comes nearest to that."""
        alpha = np.exp(log_alpha)
        minimum = max(values[0] * np.exp(log_longer / alpha), values[0] - 1, TINY)
        return Pareto(float(minimum), float(alpha))

    bounds = np.log(FLATTEST), np.log(STEEPEST * values[-1])
    found = minimize_scalar(
        lambda log_alpha: -log_likelihood(best(log_alpha), values, counts),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-10},
    )
    return best(found.x)


class Pending(NamedTuple):
    """Pending rounds: their mean number, the highest, and the highest in each stretch of rounds."""

    mean: float
    highest: int
    stretches: Ints


@dataclass(frozen=True, eq=False)
class DelaySummary:
    """A summary of recorded delays.

    Parameters
    ----------
    never, late : float
        Shares of the rounds whose feedback never comes, and of those whose feedback comes after the last round.
    delays, counts : ndarray of int64
        The distinct delays that come, ascending, and how often each does.
    quantiles : dict
        The smallest delay that is not exceeded by each of the `SHARES` of those that come.
    waits : dict
        The same for seconds from event to outcome, where the trace knows them.
    pending, coming : Pending
        The rounds pending in each round, itself included, and those of them whose feedback does come.
    fits : tuple of Fit
        Models for the delays that come, the likelier one first; none if all delays are equal.
    """

    name: str
    n_rounds: int
    never: float
    late: float
    delays: Ints
    counts: Ints
    mean: float | None
    quantiles: dict[float, int]
    waits: dict[float, float]
    pending: Pending
    coming: Pending
    fits: tuple[Fit, ...]

    @property
    def models(self) -> list[str]:
        """Models to paste into `--delay`, the likelier one first, with the share that never comes."""
        missing = f"+missing:{self.never:.3g}" if self.never else ""
        if self.delays.size == 1:
            return [f"fixed:{self.delays[0]}{missing}"]
        return [fit.text + missing for fit in self.fits]

    def to_table(self) -> "pa.Table":
        """Return a row per distinct delay: how often it occurs, what share is longer, and that share by the fits."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        fitted = {fit.name: fit.survival(self.delays) for fit in self.fits}
        return pa.table({"delay": self.delays, "rounds": self.counts, "longer": self.longer, **fitted})

    @property
    def longer(self) -> Array:
        """What share of the delays that come is longer than each of the distinct ones."""
        return np.asarray(1 - np.cumsum(self.counts) / max(1, self.counts.sum()))

    def plot(self, path: str | Path) -> None:
        """Save a figure: the share of delays longer than k, recorded and fitted, and the pending rounds over time."""
        needs("matplotlib")
        from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        self._draw_survival(left)
        self._draw_pending(right)
        for panel in (left, right):
            panel.grid(visible=True, which="major", alpha=0.3)
            panel.legend(fontsize=8, frameon=False)
        late = f", {self.late:.1%} after the last" if self.late else ""
        figure.suptitle(f"{self.name}: {self.n_rounds:,} rounds, {self.never:.1%} never answered{late}")
        save_figure(figure, path)

    def _draw_survival(self, panel: Any) -> None:
        longest = max(2, self.quantiles.get(1.0, 2))
        lowest = 0.5 / max(1, self.counts.sum())  # a log axis has no place for 0, the share beyond the longest delay
        delays = np.concatenate([[1.0], self.delays])
        shares = np.concatenate([[1.0], np.maximum(self.longer, lowest)])
        # Only points that a reader can distinguish on a log axis.
        kept = np.unique(np.searchsorted(delays, np.geomspace(1, delays[-1], POINTS), side="right") - 1)
        panel.plot(
            delays[kept], shares[kept], color=COLOURS[-1], linewidth=1.8, drawstyle="steps-post", label="recorded"
        )
        grid = np.unique(np.geomspace(1, longest, POINTS).round())
        for fit, colour, dash in zip(self.fits, COLOURS, DASHES[1:], strict=False):
            label = f"{fit.text}  (KS {fit.distance:.3f})"
            panel.plot(grid, fit.survival(grid), color=colour, linestyle=dash, linewidth=1.6, label=label)
        panel.set(xscale="log", yscale="log", ylim=(lowest, 1.5), xlim=(1, 1.15 * longest))
        panel.set(
            xlabel="k, in rounds",
            ylabel="share of delays longer than k",
            title=f"the {1 - self.never:.1%} of delays that come",
        )

    def _draw_pending(self, panel: Any) -> None:
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - slow to import

        kinds = [("all pending rounds", self.pending, COLOURS[0], "-")]
        if self.never:
            kinds.append(("those whose answer comes", self.coming, COLOURS[1], "--"))
        for label, pending, colour, dash in kinds:
            rounds = np.linspace(1, self.n_rounds, len(pending.stretches))
            text = f"{label}: mean {pending.mean:,.0f}, highest {pending.highest:,}"
            panel.plot(rounds, pending.stretches, color=colour, linestyle=dash, linewidth=1.4, label=text)
        panel.set(xlabel="round", title="pending rounds")
        panel.set_ylim(0, 1.25 * self.pending.highest)  # space for the legend
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(7, integer=True))
            axis.set_major_formatter("{x:,.0f}")


def summarize(delays: Any, name: str = "delays") -> DelaySummary:
    """Return the summary of a trace, or of integers that are recorded delays (-1 for never); `name` is for figures.

    Raises InvalidInput if the delays are a model.

    Examples
    --------
    >>> summary = summarize([2, 1, -1, 5, 1])
    >>> summary.never, summary.late, summary.quantiles[0.5], summary.pending.stretches.tolist()
    (0.2, 0.4, 1, [1, 2, 1, 2, 3])
    """
    trace = as_delay(delays)
    if not isinstance(trace, Trace):
        raise InvalidInput(f"recorded delays must be a trace or integers, got {trace!r}", "draw some by its sample()")
    recorded, n_rounds = trace.delays, len(trace.delays)
    comes = recorded < NEVER
    values, counts = np.unique(recorded[comes], return_counts=True)
    late = comes & (np.arange(n_rounds) + recorded >= n_rounds)
    return DelaySummary(
        name,
        n_rounds,
        never=float((~comes).mean()),
        late=float(late.mean()),
        delays=values,
        counts=counts,
        mean=float(recorded[comes].mean()) if values.size else None,
        quantiles=_quantiles(recorded[comes]),
        waits=_quantiles(trace.waits[comes]) if trace.waits is not None else {},
        pending=count_pending(recorded, np.ones(n_rounds, np.bool_)),
        coming=count_pending(recorded, comes),
        fits=fit_models(values, counts),
    )


def _quantiles(values: Any) -> dict[float, Any]:
    if not values.size:
        return {}
    return dict(zip(SHARES, np.quantile(values, SHARES, method="inverted_cdf").tolist(), strict=True))


def count_pending(delays: Ints, opened: Bools) -> Pending:
    """Return how many of the rounds `opened` so far are pending in each round, itself included, after its arrivals.

    Examples
    --------
    >>> count_pending(np.array([2, 1, 3, 1]), np.array([True, True, False, True]))
    Pending(mean=1.0, highest=2, stretches=array([1, 2, 0, 1]))
    """
    n_rounds = len(delays)
    due = np.arange(n_rounds) + delays
    answered = np.bincount(due[opened & (due < n_rounds)], minlength=n_rounds)
    waiting: Ints = np.cumsum(opened) - np.cumsum(answered)
    starts = np.unique(np.linspace(0, n_rounds, STRETCHES, endpoint=False, dtype=np.int64))
    return Pending(float(waiting.mean()), int(waiting.max()), np.maximum.reduceat(waiting, starts))
