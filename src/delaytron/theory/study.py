"""Measured regret beside the bounds: learners played with the steps that the bounds prescribe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from delaytron.datasets import Dataset
from delaytron.extras import needs
from delaytron.formats import versions
from delaytron.records import Array
from delaytron.simulation.batches import Progress
from delaytron.simulation.results import Mean, Result, mean_of
from delaytron.simulation.simulate import simulate_settings
from delaytron.theory.arguments import Arguments
from delaytron.theory.documents import ComparatorLine, DelaySums, MeasuredLine, StudyDocument
from delaytron.theory.regrets import regret
from delaytron.theory.statements import GATED, GREEDY, HINGE, PAPER, PLAYED, Statement
from delaytron.theory.trials import Comparator, Trial, TrialTerms, prepare

if TYPE_CHECKING:
    import pyarrow as pa


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
        arguments: Arguments = {**self.trial.given, "norm": comparator.norm, "comparator_loss": loss, "eta": eta}
        bound = np.array(np.broadcast_to(statement.value(arguments), loss.shape))
        if statement.step and not statement.takes("eta"):
            bound[:-1] = np.nan  # about the best step for each round, and these runs have that of the last
        values = {GATED: lost.gated, HINGE: lost.hinge, GREEDY: wrong, PLAYED: played}[statement.loss]
        stated = lost.hinge if statement.source == PAPER else None
        return Measured(statement, comparator, loss, eta, bound, values, stated)

    @property
    def delay(self) -> str:
        """The delays, as results name them."""
        return next(iter(self.results.values()))[0].delay

    def document(self) -> StudyDocument:
        """Return all numbers as plain values."""
        data = self.trial.data
        terms = self.trial.terms
        return {
            "dataset": data.name,
            "rows": data.n_rows,
            "classes": data.n_classes,
            "radius": float(self.trial.given["radius"]),
            "delay": self.delay,
            "gamma": terms.gamma,
            "rounds": terms.rounds,
            "runs": terms.runs,
            "seed": terms.seed,
            "sampling": terms.sampling,
            "loss_bound": terms.loss_bound,
            **_delay_sums(self.trial),
            "comparators": [_comparator_line(one) for one in self.trial.comparators],
            "bounds": [_measured_line(one, terms.rounds) for one in self.measured],
            "versions": versions(),
        }

    def to_table(self) -> "pa.Table":
        """Return one line per statement and checkpoint."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        return pa.Table.from_pylist([row for one in self.measured for row in self._lines(one)])

    def _lines(self, one: Measured) -> list[dict[str, str | int | float | None]]:
        means = [mean_of(values) for values in one.values.T]
        return [
            {
                "dataset": self.trial.data.name,
                "delay": self.delay,
                "statement": one.statement.name,
                "learner": one.statement.learner,
                "loss": one.statement.loss,
                "round": t,
                "bound": float(bound),
                "measured": mean.value,
                "measured_margin": mean.known_margin,
            }
            for t, bound, mean in zip(self.trial.rounds.tolist(), one.bound, means, strict=True)
        ]

    def plot(self, path: str | Path) -> None:
        """Draw bounds and measured regret against rounds."""
        from delaytron.theory.plots import plot_studies  # noqa: PLC0415 - needs matplotlib

        plot_studies([self], path)


def _delay_sums(trial: Trial) -> DelaySums:
    arguments = trial.arguments(trial.comparators[0])
    return {
        "missing": float(arguments["missing"]),
        "delay_received": float(arguments["delay_received"]),
        "total_delay": float(arguments["total_delay"]),
        "outstanding": float(arguments["outstanding"]),
        "max_outstanding": float(arguments["max_outstanding"]),
    }


def _comparator_line(one: Comparator) -> ComparatorLine:
    return {"comparator": one.name, "norm": one.norm, "loss_per_round": one.loss}


def _measured_line(one: Measured, n_rounds: int) -> MeasuredLine:
    stated = one.stated_at_end
    return {
        "statement": one.statement.name,
        "origin": one.statement.source,
        "learner": one.statement.learner,
        "loss": one.statement.loss,
        "valid_for": one.statement.valid_for,
        "bound": float(one.bound[-1]),
        "vacuous": one.vacuous(n_rounds),
        "measured": one.at_end.value,
        "measured_margin": one.at_end.known_margin,
        "hinge": None if stated is None else stated.value,
        "hinge_margin": None if stated is None else stated.known_margin,
        "comparator": one.comparator.name,
        "norm": one.comparator.norm,
        "comparator_loss": float(one.comparator_loss[-1]),
        "eta": one.eta,
    }


def study(
    data: Dataset, terms: TrialTerms | None = None, progress: Progress | None = None, n_jobs: int | None = None
) -> Study:
    """Measure the regret of the learners that the bounds are about; see `play`.

    Examples
    --------
    >>> import delaytron as dt
    >>> found = study(dt.datasets.load("synsep", n_samples=500), TrialTerms(gamma=0.2, delay=5, rounds=500, runs=2))
    >>> one = next(one for one in found.measured if one.statement.name == "Theorem R1")
    >>> bool(one.at_end.value < one.bound[-1])
    True
    """
    return play(prepare(data, terms or TrialTerms()), progress, n_jobs)


def play(trial: Trial, progress: Progress | None = None, n_jobs: int | None = None) -> Study:
    """Play what is planned."""
    terms = trial.terms
    results = {}
    for name, settings in trial.settings.items():
        result = simulate_settings(
            name,
            trial.data,
            settings,
            delay=terms.delay,
            rounds=terms.rounds,
            runs=terms.runs,
            seed=terms.seed,
            sampling=terms.sampling,
            n_jobs=n_jobs,
            progress=progress,
            regret=True,
        )
        results[name] = [part for _, part in result.groups()]
    return Study(trial, results)
