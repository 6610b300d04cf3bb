"""Before anything is deployed: what gamma to take, what it costs, and when an error target is reached.

Every number is one of three kinds. A bound is proved: the mean over all that chance may do is no worse. A simulation is
what happened on these data in some runs. What is exact is a formula for a mean, without either.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack

import numpy as np

from delaytron.checks import check_integer, check_integers, check_number, shown
from delaytron.comparison.tuning import Terms
from delaytron.datasets import as_dataset
from delaytron.delays import NEVER, Delay, as_delay
from delaytron.errors import InvalidInput
from delaytron.learners import DEFAULT_LEARNER
from delaytron.learners.options import GAMMAS
from delaytron.planning.bounds import Bound, Problem, best_bound, describe, exploring
from delaytron.planning.simulation import BEST, FEATURES, Setup, Simulated, given_setup, synthetic_setup, takes_gamma
from delaytron.records import Ints
from delaytron.simulation.batches import Progress
from delaytron.simulation.results import Result, mean_of
from delaytron.simulation.scenarios import draw_delays
from delaytron.theory import outstanding

__all__ = ["BEST", "FEATURES", "Doubled", "Forecast", "Plan", "draft", "exploring", "plan"]

PAPERS = "delaytron"  # the bounds are about it, and about no other learner of a plan
LEARNERS = (DEFAULT_LEARNER, PAPERS)
MOST_ROUNDS = 10_000_000  # of a plan: the bounds need a delay for each
HARDEST = 0.4  # error of the best linear rule on made-up data


@dataclass(frozen=True)
class Doubled:
    """Another delay model with every delay twice as long; what never comes still does not.

    Examples
    --------
    >>> Doubled(as_delay([3, -1, 1])).sample(3, np.random.default_rng(0)).tolist() == [6, NEVER, 2]
    True
    """

    model: Delay

    def sample(self, n_rounds: int, rng: np.random.Generator) -> Ints:
        """Return twice the delays that the model draws."""
        drawn = check_integers(f"the delays of {self.model!r}", self.model.sample(n_rounds, rng), n_rounds, low=1)
        half = NEVER // 2
        return np.where(drawn > half, NEVER, 2 * np.minimum(drawn, half))


@dataclass(frozen=True)
class Forecast:
    """What is to be expected at one delay.

    Parameters
    ----------
    waited, most : int
        The sum over all rounds, and the most, of earlier rounds that wait; of the delays drawn for the bound.
    bound : Bound, optional
        Of Delaytron; None where no bound is better than guessing. Nothing is proved here of the default learner.
    learners : tuple of Simulated
        The default learner, and Delaytron; empty in a draft.
    at_bound : Result, optional
        What Delaytron does in simulation with the gamma of the bound.
    """

    model: Delay
    waited: int
    most: int
    bound: Bound | None
    learners: tuple[Simulated, ...] = ()
    at_bound: Result | None = None

    def simulated(self, setup: Setup, n_jobs: int | None = None, progress: Progress | None = None) -> "Forecast":
        """Return the forecast with its simulations."""
        learners = tuple(setup.simulate(name, self.model, n_jobs, progress) for name in LEARNERS)
        if self.bound is None:
            return replace(self, learners=learners)
        played = setup.play(PAPERS, self.model, {"gamma": self.bound.gamma}, n_jobs, progress)
        return replace(self, learners=learners, at_bound=played)

    @property
    def contradicts(self) -> bool:
        """Whether the simulation is clearly worse than the bound: then the data lack the weights that it needs."""
        if self.bound is None or self.at_bound is None:
            return False
        error = mean_of(self.at_bound.final_error)
        return error.value - error.margin > self.bound.early


@dataclass(frozen=True)
class Plan:
    """The answer: a forecast for the delay as it is, and one for twice the delay.

    Parameters
    ----------
    best : float, optional
        The error of the best linear rule, where the data are made up.
    """

    delay: str
    rounds: int
    target: float
    best: float | None
    setup: Setup
    problem: Problem
    forecasts: tuple[Forecast, ...]

    @property
    def n_classes(self) -> int:
        """K."""
        return self.problem.n_classes

    @property
    def n_rounds(self) -> int:
        """How many rounds a draft has yet to simulate, of all runs together."""
        reported = sum(len(LEARNERS) + (forecast.bound is not None) for forecast in self.forecasts)
        tuned = sum(map(takes_gamma, LEARNERS)) * len(self.forecasts)
        return tuned * self.setup.tuning_rounds + reported * self.setup.reported_rounds

    def simulated(self, n_jobs: int | None = None, progress: Progress | None = None) -> "Plan":
        """Return the plan with its simulations."""
        done = (forecast.simulated(self.setup, n_jobs, progress) for forecast in self.forecasts)
        return replace(self, forecasts=tuple(done))

    def plot(self, path: str | Path) -> None:
        """Save a figure: error against rounds, and against gamma."""
        from delaytron.planning.plots import plot_plan  # noqa: PLC0415 - needs matplotlib

        plot_plan(self, path)


class Question(TypedDict, total=False):
    """What a plan is for: the parameters of `draft`."""

    rounds: Required[int]
    delay: Required[Any]
    target: Required[float]
    classes: int | None
    data: Any
    tuning_data: Any
    features: int | None
    best: float | None
    norm: float | None
    loss: float | None
    radius: float | None
    runs: int
    tuning_runs: int
    limit: int | None
    seed: int


def plan(*, n_jobs: int | None = None, progress: Progress | None = None, **question: Unpack[Question]) -> Plan:
    """Simulate the default learner, and Delaytron with the best gamma, at the delay and at twice; bound Delaytron.

    Parameters
    ----------
    **question
        See `draft`.

    Examples
    --------
    >>> found = plan(classes=3, rounds=2000, delay=10, target=0.2, features=4, runs=2, tuning_runs=1)
    >>> [simulated.learner for simulated in found.forecasts[0].learners], found.forecasts[1].model
    (['bandit_logit', 'delaytron'], Doubled(model=Uniform(D=10)))
    """
    return draft(**question).simulated(n_jobs, progress)


def draft(
    *,
    rounds: int,
    delay: Any,
    target: float,
    classes: int | None = None,
    data: Any = None,
    tuning_data: Any = None,
    features: int | None = None,
    best: float | None = None,
    norm: float | None = None,
    loss: float | None = None,
    radius: float | None = None,
    runs: int = 10,
    tuning_runs: int = 4,
    limit: int | None = None,
    seed: int = 0,
) -> Plan:
    """Check everything, and return the plan without its simulations.

    Parameters
    ----------
    rounds : int
        How many decisions are to be made.
    delay : delay model, int or str
        See `delaytron.delays`.
    target : float
        The error to be reached: wrong decisions of all so far, those of exploration among them.
    classes : int, optional
        How many labels there are; of `data` it is known.
    data, tuning_data : Dataset or (X, y), optional
        To simulate on, and to choose gamma on; by default made up, both. Of `data` alone both are done on it.
    features, best : optional
        Of made-up data: numbers in a row (32), and the error of the best linear rule (0.02).
    norm, loss, radius : float, optional
        For the bounds: the norm of some weights, their hinge loss per round (0), and the length of the longest row.
        By default they are found in the data.
    limit : int, optional
        The most rounds that a run is simulated; by default 100,000, and fewer where rows are long.
    """
    error = _between("target", target, 0, 1)
    asked = check_integer("rounds", rounds, at_least=1)
    if asked > MOST_ROUNDS:
        raise InvalidInput(f"rounds must be at most {MOST_ROUNDS}, got {shown(rounds)}: plan for a part of them")
    model = as_delay(delay)
    terms = Terms(asked, runs, tuning_runs, len(GAMMAS), seed)
    if data is None:
        setup = synthetic_setup(classes, features, _share(best), limit, terms)
    elif features is not None or best is not None:
        raise InvalidInput("features and best are for made-up data; leave them out, or leave data out")
    else:
        setup = given_setup(as_dataset(data), tuning_data, classes, limit, terms)
    problem = describe(setup.data, norm, loss, radius, seed)
    forecasts = tuple(_bounded(one, problem, asked, error, setup.terms) for one in (model, Doubled(model)))
    share = _share(best) if data is None else None
    return Plan(_text(delay), asked, error, share, setup, problem, forecasts)


def _between(name: str, value: Any, low: float, high: float) -> float:
    if not low < check_number(name, value) < high:
        raise InvalidInput(f"{name} must be between {low} and {high}, both excluded; got {shown(value)}")
    return float(value)


def _share(best: float | None) -> float:
    if best is not None and not 0 <= check_number("best", best) <= HARDEST:
        raise InvalidInput(f"best must be in [0, {HARDEST}], got {shown(best)}")
    return BEST if best is None else float(best)


def _text(delay: Any) -> str:
    return delay.strip() if isinstance(delay, str) else str(as_delay(delay))


def _bounded(model: Delay, problem: Problem, rounds: int, target: float, terms: Terms) -> Forecast:
    waits = outstanding(draw_delays(model, rounds, terms.seed))
    return Forecast(model, int(waits.sum()), int(waits.max()), best_bound(problem, waits, target, terms.rounds))
