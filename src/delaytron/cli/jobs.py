"""What `delaytron run` plays: learners x delays, each with lists of parameter values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from time import perf_counter
from typing import Any

from delaytron import datasets, delays
from delaytron.checks import check_choice, check_integer
from delaytron.cli import tables
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS
from delaytron.learners.options import own_parameters
from delaytron.simulation.batches import Progress
from delaytron.simulation.simulate import check_rounds, check_runs, learner_class, simulate

GAMMA = 0.01  # of learners that take one, where none is given
ROUNDS = 100_000
MOST_NAMED = 4  # learners in an error message
SAMPLING = ("replacement", "epochs")

Data = datasets.Dataset | datasets.FileStream
Grid = dict[str, list[Any]]  # parameters of a learner, each with all the values to try


@dataclass(frozen=True)
class RunTerms:
    """What all simulations of a command share."""

    rounds: int | None
    runs: int
    seed: int
    sampling: str

    def __post_init__(self) -> None:
        check_rounds(1 if self.rounds is None else self.rounds)
        check_runs("runs", self.runs)
        check_integer("seed", self.seed, at_least=0)
        check_choice("sampling", self.sampling, SAMPLING)

    def rounds_on(self, data: Data) -> int:
        """Return the rounds of a run: by default as many as there are rows."""
        return data.n_rows if self.rounds is None else self.rounds


@dataclass(frozen=True)
class RunJob:
    """One call of `simulate`: a learner, a delay, and lists of parameter values."""

    learner: str
    delay: str
    grid: Grid

    @property
    def n_settings(self) -> int:
        """How many combinations of values there are."""
        return prod(map(len, self.grid.values()))

    def check(self, data: Data) -> None:
        """Raise if a value is bad, before anything is played."""
        delays.parse(self.delay)
        for values in product(*self.grid.values()):
            cls: Any = LEARNERS[self.learner]
            cls(data.n_classes, data.n_features, seed=0, **dict(zip(self.grid, values, strict=True)))

    def play(self, data: Data, terms: RunTerms, n_jobs: int | None, progress: Progress | None) -> tables.TimedResult:
        """Play all settings; the compiler's time does not count."""
        parameters: Any = self.grid
        simulate(self.learner, data, rounds=1, **parameters)
        start = perf_counter()
        result = simulate(
            self.learner,
            data,
            delay=self.delay,
            rounds=terms.rounds_on(data),
            runs=terms.runs,
            seed=terms.seed,
            sampling=terms.sampling,
            n_jobs=n_jobs,
            progress=progress,
            **parameters,
        )
        return tables.TimedResult(result, self.delay, perf_counter() - start)


def plan_jobs(names: Sequence[str], delay_texts: Sequence[str], asked: Grid, common: Grid) -> list[RunJob]:
    """Return what is to be played; raise if a parameter was given that no learner takes."""
    takes = {name: list(own_parameters(learner_class(name))) for name in names}
    for parameter in asked:
        _check_taken(parameter, takes)
    parameters: Grid = {"gamma": [GAMMA], **asked}
    return [
        RunJob(name, delay, {p: values for p, values in parameters.items() if p in own} | common)
        for name, own in takes.items()
        for delay in delay_texts
    ]


def _check_taken(parameter: str, takes: Mapping[str, Sequence[str]]) -> None:
    """Raise if no learner takes a parameter."""
    known = dict.fromkeys(chain(*takes.values()))
    names = ", ".join(takes)
    if not known:
        raise InvalidInput(f"no parameter can be set of {names}; got {parameter!r}: leave it out")
    if parameter not in known and (others := _who_takes(parameter)):
        own = f"{names} ({', '.join(known)})"
        raise InvalidInput(f"{parameter} is no parameter of {own}; name a learner that takes it: {others}")
    check_choice(f"a parameter of {names}", parameter, known)


def _who_takes(parameter: str) -> str:
    """Name some learners of the registry that take a parameter."""
    names = [name for name, cls in LEARNERS.items() if parameter in own_parameters(cls)]
    return ", ".join(names[:MOST_NAMED]) + ", ..." * (len(names) > MOST_NAMED)


def notes(jobs: Sequence[RunJob], asked: Iterable[str]) -> Iterator[str]:
    """Iterate over what is to be said of parameters that were given and that some learners do not take."""
    for parameter in asked:
        others = dict.fromkeys(job.learner for job in jobs if parameter not in job.grid)
        if others:
            yield f"{', '.join(others)} {'does' if len(others) == 1 else 'do'} not take {parameter}"
