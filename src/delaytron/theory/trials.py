"""What is played to measure regret beside the bounds: the weights to compare with, and the steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_integer, check_positive
from delaytron.datasets import Dataset
from delaytron.delays import as_delay
from delaytron.errors import InvalidInput
from delaytron.records import Array, Ints
from delaytron.simulation.results import Setting
from delaytron.simulation.scenarios import checkpoints, draw_delays
from delaytron.simulation.simulate import check_rounds, check_runs
from delaytron.theory.arguments import Arguments
from delaytron.theory.comparators import fitted_weights, hinge_losses, rows_of
from delaytron.theory.quantities import Quantities, measure
from delaytron.theory.statements import STATEMENTS, Statement

NO_LOSS = 1e-9  # a round: what rounding leaves of none
LARGEST = 0.5  # loss of a round; weights of 0 lose 1
KINDS = ("best", "separating")
RESTART = {"restart": True}  # the Adaptive Delaytron that Theorems 4 and R6 are about


@dataclass(frozen=True)
class TrialTerms:
    """What is played; parameters have the names that they have in `simulate`.

    Parameters
    ----------
    eta : float, optional
        The step of Delaytron, for the bounds that hold with any; by default each bound has its own best step.
    loss_bound : float, optional
        L of the paper; without it Theorems 2 and 4 and Corollary 1 say nothing.
    comparator : {"best", "separating"}, optional
        Every bound with the weights for which their loss and the bound add up to least; or all with the smallest
        known weights without loss, so that regret is loss. Those by default for data with a certificate.
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
        """Return them with the delay as a model, or raise."""
        check_rounds(self.rounds)
        check_runs("runs", self.runs)
        check_integer("seed", self.seed, at_least=0)
        check_choice("sampling", self.sampling, ("replacement", "epochs"))
        if self.eta is not None:
            check_positive("eta", self.eta)
        if self.comparator is not None:
            check_choice("comparator", self.comparator, KINDS)
        return replace(self, gamma=check_exploration(self.gamma), delay=as_delay(self.delay))

    def delays(self, run: int = 0) -> Ints:
        """Return the delays of a run, as `simulate` draws them."""
        return draw_delays(self.delay, self.rounds, self.seed, run)


class Comparator(NamedTuple):
    """Fixed weights, how they were found, and their mean hinge loss on the rows."""

    name: str
    W: Array
    loss: float

    @property
    def norm(self) -> float:
        """||W||_F."""
        return float(np.linalg.norm(self.W))


@dataclass(frozen=True, eq=False)
class Trial:
    """What will be played: for each statement the weights that suit it best, and its step.

    Parameters
    ----------
    rounds : (checkpoints,) array
        Where losses will be noted.
    given : Arguments
        The arguments of the bounds at every checkpoint, but for those of a comparator. Those of the delays are means
        over the runs: with the same step in all runs the mean of their bounds is the bound of the means, or below it.
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
        """The statements about these learners, each with the weights for which it says most."""
        return [(statement, self._best_for(statement)) for statement in self.statements]

    def _best_for(self, statement: Statement) -> Comparator:
        def total(comparator: Comparator) -> float:
            return float(statement.total(statement.own(self.arguments(comparator))))

        return min(self.comparators, key=total)

    def parameters(self, statement: Statement, comparator: Comparator) -> Setting:
        """Return the parameters with which a statement is about its learner."""
        if statement.counts_mistakes:  # with any step: that of R1 is played anyway
            statement, comparator = next(pair for pair in self.chosen if pair[0].name == "Theorem R1")
        shared: Setting = {"gamma": self.terms.gamma}
        if statement.step is not None:
            return shared | {"eta": statement.eta(self.arguments(comparator))}
        return shared | (RESTART if statement.learner == "adaptive_delaytron" else {"B": comparator.norm})

    @cached_property
    def settings(self) -> dict[str, list[Setting]]:
        """The parameters that have to be played, by learner."""
        found: dict[str, list[Setting]] = {}
        for statement, comparator in self.chosen:
            settings = found.setdefault(statement.learner, [])
            setting = self.parameters(statement, comparator)
            if setting not in settings:
                settings.append(setting)
        return found

    @property
    def n_rounds(self) -> int:
        """How many rounds have to be played."""
        return self.terms.rounds * self.terms.runs * sum(map(len, self.settings.values()))


def prepare(
    data: Dataset,
    terms: TrialTerms,
    known: Sequence[Comparator] | None = None,
    statements: Sequence[Statement] = STATEMENTS,
) -> Trial:
    """Draw the delays, find comparators and choose among them: all that comes before playing.

    Parameters
    ----------
    known : list of Comparator, optional
        Those of another trial for the same rows, so that they need not be searched again.
    statements : list of Statement
        What to measure; Theorem R1 must be there where mistakes are.
    """
    terms = terms.checked()
    rows = rows_of(data, slice(terms.rounds))  # no others are shown
    chosen = _suitable(comparators(rows) if known is None else known, terms.comparator, rows)
    rounds = checkpoints(terms.rounds)
    given: Arguments = {
        **_delay_arguments(terms, rounds),
        "n_rounds": rounds,
        "n_classes": data.n_classes,
        "radius": _radius(rows),
        "gamma": terms.gamma,
        "eta": terms.eta,
        "loss_bound": terms.loss_bound,
    }
    about = [s for s in statements if s.learner and not s.no_delay and s.applies(given)]
    return Trial(rows, terms, rounds, given, chosen, about)


def _suitable(known: Sequence[Comparator], kind: str | None, data: Dataset) -> Sequence[Comparator]:
    separating = sorted((one for one in known if one.loss == 0), key=lambda one: one.norm)
    if kind is None:
        kind = "separating" if separating and data.certificate is not None else "best"
    found = separating[:1] if kind == "separating" else known
    if not found:
        lacking = "no weights without loss are known" if known else "no weights but 0 are known"
        other = "take the comparator best" if known else "give more rows"
        raise InvalidInput(f"{data.name}: {lacking}; {other}")
    return found


def _delay_arguments(terms: TrialTerms, rounds: Ints) -> Arguments:
    """Return what the delays contribute up to every checkpoint: the mean over the runs, and the largest maximum."""
    runs = [[measure(delays[:t]) for t in rounds] for delays in map(terms.delays, range(terms.runs))]
    counts = np.array(runs, float)
    means = Quantities(*np.moveaxis(counts.mean(axis=0), 1, 0))
    largest = Quantities(*np.moveaxis(counts.max(axis=0), 1, 0))
    return cast(Arguments, means._replace(max_outstanding=largest.max_outstanding)._asdict())


def comparators(data: Dataset) -> list[Comparator]:
    """Return weights that may compare well, see `fitted_weights`, each with its loss on the data.

    Weights that lose nearly as much as 0 do are left out, if others are known: bounds are small for them, and vacuous.
    """
    known = [Comparator(name, W, _mean_loss(W, data)) for name, W in fitted_weights(data)]
    distinct = {f"{c.norm:.4g} {c.loss:.4g}": c for c in reversed(known)}  # some need not be scaled
    least = min((comparator.loss for comparator in known), default=0.0)
    return [comparator for comparator in reversed(distinct.values()) if comparator.loss <= max(LARGEST, least)]


def _mean_loss(W: Array, data: Dataset) -> float:
    loss = float(hinge_losses(W, data).mean())
    return loss if loss > NO_LOSS else 0.0


def _radius(data: Dataset) -> float:
    """R, the length of the longest row."""
    X: Any = data.X
    squares = X.multiply(X).sum(axis=1) if data.sparse else np.einsum("ij,ij->i", X, X)
    return float(np.sqrt(squares.max()))
