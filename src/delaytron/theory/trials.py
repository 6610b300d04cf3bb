"""What is played to measure regret beside the bounds: the weights to compare with, and the steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_integer, check_positive
from delaytron.datasets import Dataset
from delaytron.delays import as_delay
from delaytron.errors import InvalidInput
from delaytron.records import Array, Ints
from delaytron.simulation.scenarios import checkpoints, draw_delays
from delaytron.theory.comparators import STRENGTHS, comparator_path, exact_comparator, hinge_losses
from delaytron.theory.quantities import Quantities, measure
from delaytron.theory.statements import STATEMENTS, Statement

PATH_ROWS = 4000  # to which a path of comparators is fitted: any weights are comparators, so a part will do
LINEAR_PROGRAM = 4000  # constraints, and weights, that take a second
NO_LOSS = 1e-9  # a round: what rounding leaves of none
LARGEST = 0.5  # loss of a round; weights of 0 lose 1
NEAR_ZERO_LOSS = 1e-4  # a round: what a solver leaves of none
SMALL = 1e-3  # makes all margins smaller than 1, so that hinge losses tell them
KINDS = ("best", "separating")
RESTART = {"restart": True}  # the Adaptive Delaytron that Theorems 4 and R6 are about


@dataclass(frozen=True)
class TrialTerms:
    """What is played; the same words as those of `simulate`.

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
        for name, low in (("rounds", 1), ("runs", 1), ("seed", 0)):
            check_integer(name, getattr(self, name), at_least=low)
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
    given : mapping
        The words of the bounds at every checkpoint, but for those of a comparator. Those of the delays are means over
        the runs: with the same step in all runs the mean of their bounds is the bound of the means, or below it.
    """

    data: Dataset
    terms: TrialTerms
    rounds: Ints
    given: Mapping[str, Any]
    comparators: Sequence[Comparator]
    statements: Sequence[Statement]

    def arguments(self, comparator: Comparator) -> dict[str, Any]:
        """Return the words of the bounds at the last round, with a comparator and its mean loss."""
        last = {name: value[-1] if np.ndim(value) else value for name, value in self.given.items()}
        return last | {"norm": comparator.norm, "comparator_loss": comparator.loss * self.terms.rounds}

    @cached_property
    def chosen(self) -> list[tuple[Statement, Comparator]]:
        """The statements about these learners, each with the weights for which it says most."""
        return [(statement, self._best_for(statement)) for statement in self.statements]

    def _best_for(self, statement: Statement) -> Comparator:
        return min(
            self.comparators, key=lambda comparator: float(statement.total(statement.own(self.arguments(comparator))))
        )

    def parameters(self, statement: Statement, comparator: Comparator) -> dict[str, Any]:
        """Return the parameters with which a statement is about its learner."""
        if statement.counts_mistakes:  # with any step: that of R1 is played anyway
            statement, comparator = next(pair for pair in self.chosen if pair[0].name == "Theorem R1")
        shared: dict[str, Any] = {"gamma": self.terms.gamma}
        if statement.step is not None:
            return shared | {"eta": statement.eta(self.arguments(comparator))}
        return shared | (RESTART if statement.learner == "adaptive_delaytron" else {"B": comparator.norm})

    @cached_property
    def settings(self) -> dict[str, list[dict[str, Any]]]:
        """The parameters that have to be played, by learner."""
        found: dict[str, list[dict[str, Any]]] = {}
        for pair in self.chosen:
            mine, parameters = found.setdefault(pair[0].learner, []), self.parameters(*pair)
            mine.extend([] if parameters in mine else [parameters])
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
    """Draw the delays, look for comparators and choose: all that comes before playing.

    Parameters
    ----------
    known : list of Comparator, optional
        Those of another trial for the same rows, so that they need not be looked for again.
    statements : list of Statement
        What to measure; Theorem R1 must be there where mistakes are.
    """
    terms = terms.checked()
    rows = _rows(data, slice(terms.rounds))  # no others are shown
    chosen = _suitable(comparators(rows) if known is None else known, terms.comparator, rows)
    rounds = checkpoints(terms.rounds)
    sizes = {"n_rounds": rounds, "n_classes": data.n_classes, "radius": _radius(rows)}
    asked = {name: getattr(terms, name) for name in ("gamma", "eta", "loss_bound")}
    about = [s for s in statements if s.learner and not s.no_delay and s.applies(asked)]
    return Trial(rows, terms, rounds, {**_delay_arguments(terms, rounds), **sizes, **asked}, chosen, about)


def _suitable(known: Sequence[Comparator], kind: str | None, data: Dataset) -> Sequence[Comparator]:
    separating = sorted((one for one in known if one.loss == 0), key=lambda one: one.norm)
    if kind is None:
        kind = "separating" if separating and data.certificate is not None else "best"
    found = separating[:1] if kind == "separating" else known
    if not found:
        lacking = "weights without loss are known; try comparator best" if known else "weights but 0 are known"
        raise InvalidInput(f"of {data.name} no {lacking}")
    return found


def _delay_arguments(terms: TrialTerms, rounds: Ints) -> dict[str, Array]:
    """Return what the delays contribute up to every checkpoint: the mean over the runs, and the largest maximum."""
    runs = [[measure(delays[:t]) for t in rounds] for delays in map(terms.delays, range(terms.runs))]
    counts = np.array(runs, float)
    arguments = dict(zip(Quantities._fields, np.moveaxis(counts.mean(axis=0), 1, 0), strict=True))
    return arguments | {"max_outstanding": counts[:, :, Quantities._fields.index("max_outstanding")].max(axis=0)}


def comparators(data: Dataset) -> list[Comparator]:
    """Return weights that may compare well: the certificate, a path, and of small data the least hinge loss.

    A vector added to all rows of W changes no loss; so each is moved to where its norm is the least. Weights that
    separate the classes also come in the size at which the least margin is 1. Weights that lose nearly as much as 0 do
    are left out, if others are known: bounds are small for them, and say nothing.
    """
    part = _rows(data, slice(None, None, -(-data.n_rows // PATH_ROWS)))
    found = {} if data.certificate is None else {"certificate": data.certificate}
    found |= {f"path, C = {C:g}": W for C, W in _path(part)}
    if max(data.n_rows * (data.n_classes - 1), data.n_classes * data.n_features) <= LINEAR_PROGRAM:
        found["linear program"] = exact_comparator(data)
    moved = {name: W - W.mean(axis=0) for name, W in found.items() if np.ptp(W, axis=0).any()}
    known = [Comparator(name, W, _mean_loss(W, data)) for name, W in _with_scaled(moved, data)]
    unlike = {f"{c.norm:.4g} {c.loss:.4g}": c for c in reversed(known)}  # some need not be scaled
    least = min((comparator.loss for comparator in known), default=0.0)
    return [comparator for comparator in reversed(unlike.values()) if comparator.loss <= max(LARGEST, least)]


def _mean_loss(W: Array, data: Dataset) -> float:
    loss = float(hinge_losses(W, data).mean())
    return loss if loss > NO_LOSS else 0.0


def _path(data: Dataset) -> Iterator[tuple[float, Array]]:
    """Go along the regularisation path until there is no loss: beyond, nothing changes."""
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


def _rows(data: Dataset, some: slice) -> Dataset:
    return replace(data, X=data.X[some], y=data.y[some])


def _radius(data: Dataset) -> float:
    """R, the length of the longest row."""
    X: Any = data.X
    squares = X.multiply(X).sum(axis=1) if data.sparse else np.einsum("ij,ij->i", X, X)
    return float(np.sqrt(squares.max()))
