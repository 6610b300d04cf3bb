"""Measured regret beside the bounds: learners played with the steps that the bounds prescribe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.datasets import Dataset
from delaytron.records import Array
from delaytron.simulation.batches import Progress
from delaytron.simulation.results import Mean, Result, mean_of
from delaytron.simulation.simulate import simulate_settings
from delaytron.theory.regrets import regret
from delaytron.theory.statements import GATED, GREEDY, HINGE, PAPER, PLAYED, Statement
from delaytron.theory.trials import Comparator, Trial, TrialTerms, prepare

if TYPE_CHECKING:
    import pyarrow as pa

PLAYING = ("delay", "rounds", "runs", "seed", "sampling")  # words of `simulate`
DELAY_ARGUMENTS = ("missing", "delay_received", "total_delay", "outstanding", "max_outstanding")


class Measured(NamedTuple):
    """A statement, and what came out of the runs that it is about.

    Parameters
    ----------
    comparator_loss : (checkpoints,) array
        The hinge loss of the comparator so far, mean over the runs.
    bound : (checkpoints,) array
        The bound for the rounds so far with the step of the run; NaN where a corollary has another step in mind.
    values : (runs, checkpoints) array
        What is bounded: the regret against the comparator, or mistakes.
    stated : (runs, checkpoints) array, optional
        The hinge regret, for which the paper states its bounds.
    """

    statement: Statement
    comparator: Comparator
    comparator_loss: Array
    eta: float | None
    bound: Array
    values: Array
    stated: Array | None

    @property
    def at_end(self) -> Mean:
        """What is bounded, over all rounds."""
        return mean_of(self.values[:, -1])

    @property
    def stated_at_end(self) -> Mean | None:
        """The hinge regret over all rounds, where the paper speaks of it."""
        return None if self.stated is None else mean_of(self.stated[:, -1])

    @property
    def fails(self) -> bool:
        """Whether the hinge regret of these runs is above the bound that the paper states for it, with 95 %."""
        stated = self.stated_at_end
        return stated is not None and bool(stated.value - stated.margin > self.bound[-1])  # no interval: no

    def vacuous(self, n_rounds: int) -> bool:
        """Whether the bound promises no more than weights of 0 give, which lose 1 in every round."""
        return bool(self.bound[-1] + self.comparator_loss[-1] * (not self.statement.counts_mistakes) >= n_rounds)


@dataclass(frozen=True, eq=False)
class Study:
    """What came out of a trial: its results, by learner and in the order of its settings."""

    trial: Trial
    results: Mapping[str, Sequence[Result]]

    def result_of(self, statement: Statement, comparator: Comparator) -> Result:
        """Return the runs that a statement is about."""
        place = self.trial.settings[statement.learner].index(self.trial.parameters(statement, comparator))
        return self.results[statement.learner][place]

    @cached_property
    def measured(self) -> list[Measured]:
        """Every statement with its bound and what was measured."""
        return [self._measured(statement, comparator) for statement, comparator in self.trial.chosen]

    def _measured(self, statement: Statement, comparator: Comparator) -> Measured:
        result = self.result_of(statement, comparator)
        lost = regret(result, self.trial.data, comparator.W)
        played, wrong = np.moveaxis(result.mistakes.astype(np.float64), 2, 0)
        loss = (wrong - lost.mistakes).mean(axis=0)  # of the comparator
        eta = result.parameters[0]["eta"] if statement.step else None
        arguments = {**self.trial.given, "norm": comparator.norm, "comparator_loss": loss, "eta": eta}
        bound = np.array(np.broadcast_to(statement.value(arguments), loss.shape))
        if statement.step and not statement.takes("eta"):
            bound[:-1] = np.nan  # about the best step for each round, and these runs have that of the last
        values = {GATED: lost.gated, HINGE: lost.hinge, GREEDY: wrong, PLAYED: played}[statement.loss]
        stated = lost.hinge if statement.source == PAPER else None
        return Measured(statement, comparator, loss, eta, bound, values, stated)

    def document(self) -> dict[str, Any]:
        """Return all numbers as plain values."""
        trial, terms = self.trial, self.trial.terms
        arguments = {
            name: value for name, value in trial.arguments(trial.comparators[0]).items() if name in DELAY_ARGUMENTS
        }
        shared = {name: getattr(terms, name) for name in ("gamma", "rounds", "runs", "seed", "sampling", "loss_bound")}
        sizes = {"rows": trial.data.n_rows, "classes": trial.data.n_classes, "radius": trial.given["radius"]}
        return {
            "dataset": trial.data.name,
            **sizes,
            "delay": str(terms.delay),
            **shared,
            **{name: float(value) for name, value in arguments.items()},
            "comparators": [{"name": c.name, "norm": c.norm, "loss_per_round": c.loss} for c in trial.comparators],
            "bounds": [_row(one, terms.rounds) for one in self.measured],
        }

    def to_table(self) -> "pa.Table":
        """Return one line per statement and checkpoint."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        return pa.Table.from_pylist([row for one in self.measured for row in self._lines(one)])

    def _lines(self, one: Measured) -> list[dict[str, Any]]:
        shared = {"dataset": self.trial.data.name, "delay": str(self.trial.terms.delay)}
        named = {
            **shared,
            "statement": one.statement.name,
            "learner": one.statement.learner,
            "loss": one.statement.loss,
        }
        return [
            {**named, "round": t, "bound": float(one.bound[i]), **_mean("measured", mean_of(one.values[:, i]))}
            for i, t in enumerate(self.trial.rounds.tolist())
        ]

    def plot(self, path: str | Path) -> None:
        """Draw bounds and measured regret against rounds."""
        from delaytron.theory.plots import plot_studies  # noqa: PLC0415 - needs matplotlib

        plot_studies([self], path)


def _row(one: Measured, n_rounds: int) -> dict[str, Any]:
    arguments = one.statement._asdict()
    return {
        **{name: arguments[name] for name in ("name", "source", "learner", "loss", "valid_for")},
        "bound": float(one.bound[-1]),
        "vacuous": one.vacuous(n_rounds),
        **_mean("measured", one.at_end),
        **_mean("hinge", one.stated_at_end),
        "comparator": one.comparator.name,
        "norm": one.comparator.norm,
        "comparator_loss": float(one.comparator_loss[-1]),
        "eta": one.eta,
    }


def _mean(name: str, mean: Mean | None) -> dict[str, float | None]:
    if mean is None:
        return {name: None, f"{name}_margin": None}
    return {name: mean.value, f"{name}_margin": mean.known_margin}


def study(data: Dataset, terms: TrialTerms | None = None, **how: Any) -> Study:
    """Measure the regret of the learners that the bounds are about; `how` are options of `play`.

    Examples
    --------
    >>> import delaytron as dt
    >>> found = study(dt.datasets.load("synsep", n_samples=500), TrialTerms(gamma=0.2, delay=5, rounds=500, runs=2))
    >>> one = next(one for one in found.measured if one.statement.name == "Theorem R1")
    >>> bool(one.at_end.value < one.bound[-1])
    True
    """
    return play(prepare(data, terms or TrialTerms()), **how)


def play(trial: Trial, progress: Progress | None = None, n_jobs: int | None = None) -> Study:
    """Play what is planned."""
    how: dict[str, Any] = {name: getattr(trial.terms, name) for name in PLAYING}
    how |= {"progress": progress, "n_jobs": n_jobs, "regret": True}
    found = {name: simulate_settings(name, trial.data, many, **how) for name, many in trial.settings.items()}
    return Study(trial, {name: [part for _, part in result.groups()] for name, result in found.items()})
