"""The answer of an evaluation: a value, its interval, and how much of the log stands behind it."""

from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from delaytron.extras import needs

if TYPE_CHECKING:
    import pyarrow as pa

Z = 1.959963984540054  # of a normal number, 95 % are within so many deviations


class EvaluationWarning(UserWarning):
    """An estimate that should not be trusted as it is, and why."""


class EvaluationRow(TypedDict):
    """A policy with its estimate, as plain values."""

    policy: str
    method: str
    quantity: str
    value: float
    low: float | None
    high: float | None
    effective_size: float
    n_rounds: int
    n_outcomes: int
    warnings: list[str]


@dataclass(frozen=True)
class Evaluation:
    """What a policy would have earned on a log.

    Parameters
    ----------
    value, low, high : float
        The estimate and the ends of its 95 % interval.
    effective_size : float
        How many decisions of the policy's own would tell as much: (sum of weights)^2 / (sum of squared weights).
    quantity : str
        What is estimated: the mean "reward" of a decision, or the mean "error", 1 - reward.
    n_rounds, n_outcomes : int
        The decisions that count, and those of them whose outcome is known.
    warnings : tuple of str
        Why the numbers should not be trusted as they are; empty if nothing was found.
    """

    policy: str
    method: str
    quantity: str
    value: float
    low: float
    high: float
    effective_size: float
    n_rounds: int
    n_outcomes: int
    warnings: tuple[str, ...] = ()

    def row(self) -> EvaluationRow:
        """Return the evaluation as plain values; the ends of an interval that there is not are None."""
        return {
            "policy": self.policy,
            "method": self.method,
            "quantity": self.quantity,
            "value": self.value,
            "low": None if isnan(self.low) else self.low,
            "high": None if isnan(self.high) else self.high,
            "effective_size": self.effective_size,
            "n_rounds": self.n_rounds,
            "n_outcomes": self.n_outcomes,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class Evaluations:
    """Several policies on one log."""

    log: str
    entries: tuple[Evaluation, ...]

    def to_table(self) -> "pa.Table":
        """Return one row per policy, as a pyarrow table."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        return pa.Table.from_pylist([{**entry.row(), "warnings": "; ".join(entry.warnings)} for entry in self.entries])

    def plot(self, path: str | Path) -> None:
        """Save the values with their intervals as a figure."""
        from delaytron.evaluation.plots import plot_evaluations  # noqa: PLC0415 - needs matplotlib

        plot_evaluations(self, path)
