"""What recorded delays are like: quantiles, what never comes, how many rounds wait, and which models fit."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.delays.fits import Fit, fit_models
from delaytron.delays.models import as_delay
from delaytron.delays.traces import Trace
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.records import NEVER, Array, Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
STRETCHES = 400  # of rounds, for which the pending ones are counted


class Pending(NamedTuple):
    """How many rounds wait for an answer: the mean, the most, and the most in each stretch of rounds."""

    mean: float
    highest: int
    stretches: Ints


@dataclass(frozen=True, eq=False)
class DelaySummary:
    """What recorded delays are like.

    Parameters
    ----------
    never, late : float
        Shares of the rounds whose feedback never comes, and comes only after the last round.
    delays, counts : ndarray of int64
        The distinct delays that come, ascending, and how often each does.
    quantiles : dict
        The smallest delay that is not exceeded by each of the `SHARES` of those that come.
    waits : dict
        The same for seconds from event to outcome, where the trace knows them.
    pending, coming : Pending
        All rounds that wait in each round, itself included, and those of them whose feedback does come.
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
        """Return a line per distinct delay: how often it occurs, what share is longer, and what the fits say."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        fitted = {fit.name: fit.survival(self.delays) for fit in self.fits}
        return pa.table({"delay": self.delays, "rounds": self.counts, "longer": self.longer, **fitted})

    @property
    def longer(self) -> Array:
        """What share of the delays that come is longer than each of the distinct ones."""
        return np.asarray(1 - np.cumsum(self.counts) / max(1, self.counts.sum()))

    def plot(self, path: str | Path) -> None:
        """Save a figure: how many delays are longer than k, with the fits, and how many rounds wait."""
        from delaytron.delays.plots import plot_delays  # noqa: PLC0415 - needs matplotlib

        plot_delays(self, path)


def summarize(delays: Any, name: str = "delays") -> DelaySummary:
    """Summarize a trace, or integers that are recorded delays (-1 for never); `name` is for figures.

    Examples
    --------
    >>> summary = summarize([2, 1, -1, 5, 1])
    >>> summary.never, summary.late, summary.quantiles[0.5], summary.pending.stretches.tolist()
    (0.2, 0.4, 1, [1, 2, 1, 2, 3])
    """
    trace = as_delay(delays)
    if not isinstance(trace, Trace):
        raise InvalidInput(f"recorded delays must be a trace or integers, got {trace!r}")
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
    """Count the rounds that were opened so far, this one included, and wait for an answer after those of the round.

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
