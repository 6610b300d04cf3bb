"""Measured regret beside the bounds: learners played with the steps that the bounds prescribe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_integer, check_positive
from delaytron.datasets import Dataset
from delaytron.delays.dependent import as_independent
from delaytron.errors import InvalidInput
from delaytron.errors import Setting as Mention
from delaytron.extras import needs
from delaytron.records import Array, Ints
from delaytron.simulation.results import Mean, Result, Setting, mean_of
from delaytron.simulation.scenarios import SAMPLINGS, checkpoints, draw_delays
from delaytron.simulation.simulate import Progress, check_rounds, check_runs, simulate_settings
from delaytron.theory.bounds import Arguments
from delaytron.theory.quantities import Quantities, measure
from delaytron.theory.regrets import fitted_weights, hinge_losses, regret, rows_of
from delaytron.theory.statements import GATED, GREEDY, HINGE, PAPER, PLAYED, STATEMENTS, Statement

if TYPE_CHECKING:
    import pyarrow as pa


NO_LOSS = 1e-9  # mean losses below it are rounding errors
LARGEST = 0.5  # mean loss of a comparator; weights of 0 lose 1
KINDS = ("best", "separating")
RESTART = {"restart": True}  # Theorems 4 and R6 hold for Adaptive Delaytron with it


@dataclass(frozen=True)
class TrialTerms:
    """The terms of the runs; parameters have the names that they have in `simulate`.

    Parameters
    ----------
    eta : float, optional
        The step of Delaytron, for the bounds that hold with any; by default each bound has its own best step.
    loss_bound : float, optional
        L of the paper; without it Theorems 2 and 4 and Corollary 1 do not apply.
    comparator : {"best", "separating"}, optional
        "best": every bound with the weights for which the sum of their loss and the bound is least. "separating": all
        with the smallest known weights without loss, so that regret is loss; the default for data with a certificate.
    """

    gamma: float = 0.05
    delay: Any = 1000
    rounds: int = 100_000
    runs: int = 20
    seed: int = 0
    sampling: str = "replacement"
    eta: float | None = None
    loss_bound: float | None = None
    comparator: str | None = None

    def checked(self) -> "TrialTerms":
        """Return the terms with the delay as a model; raise InvalidInput if a value is not allowed."""
        check_rounds(self.rounds)
        check_runs("runs", self.runs)
        check_integer("seed", self.seed, at_least=0)
        check_choice("sampling", self.sampling, SAMPLINGS)
        if self.eta is not None:
            check_positive("eta", self.eta)
        if self.comparator is not None:
            check_choice("comparator", self.comparator, KINDS)
        return replace(self, gamma=check_exploration(self.gamma), delay=as_independent(self.delay, "a bound"))

    def delays(self, run: int = 0) -> Ints:
        """Return the delays of a run, as `simulate` draws them."""
        return draw_delays(self.delay, self.rounds, self.seed, run)


class Comparator(NamedTuple):
    """Fixed weights with the name of the method that found them, and their mean hinge loss on the rows."""

    name: str
    W: Array
    loss: float

    @property
    def norm(self) -> float:
        """||W||_F."""
        return float(np.linalg.norm(self.W))


@dataclass(frozen=True, eq=False)
class Trial:
    """The runs to play: for each statement its comparator and its step.

    Parameters
    ----------
    rounds : (checkpoints,) array
        The rounds at which losses are noted.
    given : Arguments
        The arguments of the bounds at every checkpoint, without those of a comparator. Those of the delays are means
        over the runs: with the same step in all runs the mean of their bounds is at most the bound of the means.
    """

    data: Dataset
    terms: TrialTerms
    rounds: Ints
    given: Arguments
    comparators: Sequence[Comparator]
    statements: Sequence[Statement]

    def arguments(self, comparator: Comparator) -> Arguments:
        """Return the arguments of the bounds at the last round, with a comparator and its mean loss."""
        last = {name: value[-1] if isinstance(value, np.ndarray) else value for name, value in self.given.items()}
        weights = Arguments(norm=comparator.norm, comparator_loss=comparator.loss * self.terms.rounds)
        return cast(Arguments, {**last, **weights})

    @cached_property
    def chosen(self) -> list[tuple[Statement, Comparator]]:
        """The statements about these learners, each with the weights for which its bound of the loss is least."""

        def total(statement: Statement, comparator: Comparator) -> float:
            return float(statement.total(statement.own(self.arguments(comparator))))

        return [(one, min(self.comparators, key=partial(total, one))) for one in self.statements]

    def parameters(self, statement: Statement, comparator: Comparator) -> Setting:
        """Return the parameters of the learner for which a statement holds."""
        if statement.counts_mistakes:  # holds for any step: that of R1 is played anyway
            statement, comparator = next(pair for pair in self.chosen if pair[0].name == "Theorem R1")
        shared: Setting = {"gamma": self.terms.gamma}
        if statement.step is not None:
            return shared | {"eta": statement.eta(self.arguments(comparator))}
        return shared | (RESTART if statement.learner == "adaptive_delaytron" else {"B": comparator.norm})

    @cached_property
    def settings(self) -> dict[str, list[Setting]]:
        """The settings to play, by learner."""
        found: dict[str, list[Setting]] = {}
        for statement, comparator in self.chosen:
            settings = found.setdefault(statement.learner, [])
            setting = self.parameters(statement, comparator)
            if setting not in settings:
                settings.append(setting)
        return found

    @property
    def n_rounds(self) -> int:
        """The number of rounds to play."""
        return self.terms.rounds * self.terms.runs * sum(map(len, self.settings.values()))


def prepare(
    data: Dataset,
    terms: TrialTerms,
    known: Sequence[Comparator] | None = None,
    statements: Sequence[Statement] = STATEMENTS,
) -> Trial:
    """Return a trial: delays drawn, comparators found and chosen, nothing played yet.

    Parameters
    ----------
    known : list of Comparator, optional
        Those of another trial for the same rows, so that they need not be searched again.
    statements : list of Statement
        The statements to measure; those about mistakes need Theorem R1 among them.

    Raises
    ------
    InvalidInput
        If a term is not allowed, or there are no weights to compare with.
    """
    terms = terms.checked()
    rows = rows_of(data, slice(terms.rounds))  # the runs show no others
    chosen = comparators(rows) if known is None else known
    if not chosen:
        raise InvalidInput(f"{rows.name}: no weights but 0 are known", "give more rows")
    separating = sorted((one for one in chosen if one.loss == 0), key=lambda one: one.norm)
    if terms.comparator == "separating" or (terms.comparator is None and separating and rows.certificate is not None):
        if not separating:
            hint = ("take ", Mention("comparator", "'best'"))
            raise InvalidInput(f"{rows.name}: no weights without loss are known", hint)
        chosen = separating[:1]
    rounds = checkpoints(terms.rounds)
    # Of the delays up to every checkpoint: means over the runs, and the largest maximum.
    runs = [[measure(delays[:t]) for t in rounds] for delays in map(terms.delays, range(terms.runs))]
    counts = np.array(runs, float)
    means = Quantities(*np.moveaxis(counts.mean(axis=0), 1, 0))
    largest = Quantities(*np.moveaxis(counts.max(axis=0), 1, 0))
    of_delays = cast(Arguments, means._replace(max_outstanding=largest.max_outstanding)._asdict())
    X: Any = rows.X
    squares = X.multiply(X).sum(axis=1) if rows.sparse else np.einsum("ij,ij->i", X, X)
    given: Arguments = {
        **of_delays,
        "n_rounds": rounds,
        "n_classes": data.n_classes,
        "radius": float(np.sqrt(squares.max())),  # the norm of the longest row
        "gamma": terms.gamma,
        "eta": terms.eta,
        "loss_bound": terms.loss_bound,
    }
    about = [s for s in statements if s.learner and not s.no_delay and s.applies(given)]
    return Trial(rows, terms, rounds, given, chosen, about)


def comparators(data: Dataset) -> list[Comparator]:
    """Return the weights of `fitted_weights`, each with its loss on the data.

    Weights that lose nearly as much as 0 are left out if others are known: their bounds are small, and vacuous.
    """
    known = []
    for name, W in fitted_weights(data):
        loss = float(hinge_losses(W, data).mean())
        known.append(Comparator(name, W, loss if loss > NO_LOSS else 0.0))
    distinct = {f"{c.norm:.4g} {c.loss:.4g}": c for c in reversed(known)}  # scaling may have changed nothing
    least = min((comparator.loss for comparator in known), default=0.0)
    return [comparator for comparator in reversed(distinct.values()) if comparator.loss <= max(LARGEST, least)]


class Measured(NamedTuple):
    """A statement with the values of the runs that it is about.

    Parameters
    ----------
    comparator_loss : (checkpoints,) array
        The hinge loss of the comparator so far, mean over the runs.
    bound : (checkpoints,) array
        The bound for the rounds so far with the step of the run; NaN where a corollary holds for another step.
    values : (runs, checkpoints) array
        The bounded quantity: the regret against the comparator, or mistakes.
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
        """The bounded quantity over all rounds."""
        return mean_of(self.values[:, -1])

    @property
    def stated_at_end(self) -> Mean | None:
        """The hinge regret over all rounds, where the paper states its bound for it."""
        return None if self.stated is None else mean_of(self.stated[:, -1])

    @property
    def fails(self) -> bool:
        """Whether the 95 % interval of the hinge regret is above the bound that the paper states for it."""
        stated = self.stated_at_end
        return stated is not None and bool(stated.value - stated.margin > self.bound[-1])  # False with a NaN margin

    def vacuous(self, n_rounds: int) -> bool:
        """Whether the bound is no better than that of weights of 0, which lose 1 in every round."""
        return bool(self.bound[-1] + self.comparator_loss[-1] * (not self.statement.counts_mistakes) >= n_rounds)


@dataclass(frozen=True, eq=False)
class Study:
    """The results of a trial, by learner and in the order of its settings."""

    trial: Trial
    results: Mapping[str, Sequence[Result]]

    def result_of(self, statement: Statement, comparator: Comparator) -> Result:
        """Return the runs that a statement is about."""
        place = self.trial.settings[statement.learner].index(self.trial.parameters(statement, comparator))
        return self.results[statement.learner][place]

    @cached_property
    def measured(self) -> list[Measured]:
        """Every statement with its bound and the measured values."""
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
            bound[:-1] = np.nan  # it holds for the best step for each round, and these runs have that of the last
        values = {GATED: lost.gated, HINGE: lost.hinge, GREEDY: wrong, PLAYED: played}[statement.loss]
        stated = lost.hinge if statement.source == PAPER else None
        return Measured(statement, comparator, loss, eta, bound, values, stated)

    @property
    def delay(self) -> str:
        """The delay model as text."""
        return next(iter(self.results.values()))[0].delay

    def to_table(self) -> "pa.Table":
        """Return one row per statement and checkpoint, as a pyarrow table."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        rows = [
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
            for one in self.measured
            for t, bound, mean in zip(self.trial.rounds.tolist(), one.bound, map(mean_of, one.values.T), strict=True)
        ]
        return pa.Table.from_pylist(rows)


def play(trial: Trial, progress: Progress | None = None, n_jobs: int | None = None) -> Study:
    """Play the runs of a trial; return the measured regret beside the bounds.

    Examples
    --------
    >>> import delaytron as dt
    >>> data = dt.datasets.load("synsep", n_samples=500)
    >>> found = play(prepare(data, TrialTerms(gamma=0.2, delay=5, rounds=500, runs=2)))
    >>> one = next(one for one in found.measured if one.statement.name == "Theorem R1")
    >>> bool(one.at_end.value < one.bound[-1])
    True
    """
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
