"""Studies: measured regret beside the bounds of the theory, as jobs of an experiment."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from math import isfinite

import msgspec

from delaytron._version import __version__
from delaytron.datasets import Dataset, is_drawn, load
from delaytron.delays import as_delay
from delaytron.experiments.spec import delays_digest, recorded_delay
from delaytron.simulation.results import Mean
from delaytron.simulation.simulate import Progress
from delaytron.theory.statements import STATEMENTS
from delaytron.theory.study import Comparator, Measured, TrialTerms, play, prepare

FORMAT = "delaytron-theory-1"  # changes if the same content would give other numbers
DATASETS_SHOWN = ("synsep", "digits")  # those without a download
SHOWN = ("Theorem 1", "Theorem 3", "Theorem R1", "Corollary R2", "Corollary R3", "Theorem R4")
MOST_ROUNDS = 20_000  # so that a study takes seconds
MEASURED = tuple(statement for statement in STATEMENTS if statement.name in SHOWN)

Number = float | str  # JSON has neither infinity nor NaN: they are text


class TheorySpec(msgspec.Struct, frozen=True, kw_only=True):
    """The learners that the bounds are about, played on one data set at one delay.

    Parameters
    ----------
    recorded : str
        The SHA-256 of recorded delays: the file that `delay` names may change.
    """

    dataset: str
    delay: str
    rounds: int
    gamma: float = 0.05
    runs: int = 5
    seed: int = 0
    recorded: str = ""

    @property
    def content(self) -> str:
        """Canonical JSON of all fields, with the format and the version."""
        values = msgspec.structs.asdict(self) | {"format": FORMAT, "version": __version__, "statements": SHOWN}
        return msgspec.json.encode(values, order="sorted").decode()

    @property
    def key(self) -> str:
        """The name of its file."""
        return sha256(self.content.encode()).hexdigest()[:32]

    @property
    def n_rounds(self) -> int:
        """The number of rounds of all runs; statements without a step are about the runs of another statement."""
        return self.rounds * self.runs * sum(statement.step is not None for statement in MEASURED)


class TheoryRow(msgspec.Struct, frozen=True):
    """A statement at the last round: its bound, what was measured, and the comparator W.

    Parameters
    ----------
    measured, stated : pair of numbers
        Mean and margin of what is bounded, and of the hinge regret where the paper speaks of it.
    norm, loss : number
        Of W; the loss is the mean of a round.
    """

    statement: str
    learner: str
    bounded: str
    bound: Number
    measured: tuple[Number, Number]
    stated: tuple[Number, Number] | None
    norm: Number
    loss: Number


def theory_specs(datasets: Iterable[str], delays: Sequence[int | str], rounds: int) -> list[TheorySpec]:
    """Return the studies of a report, on those of the data sets that need no download.

    Examples
    --------
    >>> [(spec.dataset, spec.delay, spec.rounds) for spec in theory_specs(["usps", "digits"], [1, 100], 10**6)]
    [('digits', '1', 20000), ('digits', '100', 20000)]
    """
    return [
        TheorySpec(
            dataset=name,
            delay=str(delay),
            rounds=min(rounds, MOST_ROUNDS),
            recorded=delays_digest(as_delay(str(delay))),
        )
        for name in dict.fromkeys(datasets)
        if name in DATASETS_SHOWN
        for delay in delays
    ]


def play_theory(spec: TheorySpec, n_jobs: int | None = 1, progress: Progress | None = None) -> tuple[TheoryRow, ...]:
    """Play the learners with the steps that the bounds prescribe; return what was measured."""
    delay = recorded_delay(spec.delay, spec.recorded)
    terms = TrialTerms(gamma=spec.gamma, delay=delay, rounds=spec.rounds, runs=spec.runs, seed=spec.seed)
    known = _known_comparators(spec.dataset, spec.rounds)
    trial = prepare(_load(spec.dataset, spec.rounds), terms, known, MEASURED)
    found = play(trial, progress, n_jobs).measured
    if progress is not None:
        progress(spec.n_rounds - trial.n_rounds)  # two bounds may prescribe the same step
    return tuple(map(_row, found))


@lru_cache(maxsize=1)
def _load(name: str, rounds: int) -> Dataset:
    """Load a data set, with no more rows than there are rounds."""
    return load(name, n_samples=rounds) if is_drawn(name) else load(name)


@lru_cache(maxsize=1)
def _known_comparators(name: str, rounds: int) -> Sequence[Comparator]:
    """Return the comparators, cached: the search takes seconds, and they are the same at every delay."""
    terms = TrialTerms(delay=1, rounds=rounds, runs=1)
    return prepare(_load(name, rounds), terms, None, MEASURED).comparators


def _row(one: Measured) -> TheoryRow:
    def number(value: float) -> Number:
        return value if isfinite(value) else repr(value)

    def pair(mean: Mean) -> tuple[Number, Number]:
        return number(mean.value), number(mean.margin)

    return TheoryRow(
        statement=one.statement.name,
        learner=one.statement.learner,
        bounded=one.statement.loss,
        bound=number(float(one.bound[-1])),
        measured=pair(one.at_end),
        stated=None if one.stated_at_end is None else pair(one.stated_at_end),
        norm=number(one.comparator.norm),
        loss=number(one.comparator.loss),
    )
