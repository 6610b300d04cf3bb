"""A plan as JSON has it: the keys and their types; whatever has numbers says of which kind they are."""

from collections.abc import Sequence
from typing import Literal, NotRequired, TypedDict

from delaytron.formats import versions
from delaytron.planning import PAPERS, Forecast, Plan, exploring
from delaytron.planning.answers import BOUND, EXACT, SIMULATION, change, summary
from delaytron.planning.bounds import Bound
from delaytron.planning.simulation import Simulated
from delaytron.simulation.results import Errors, Setting

Exact = Literal["exact"]
Proved = Literal["bound"]
Played = Literal["simulation"]


class WrongDecisions(TypedDict):
    """How many decisions of so many rounds are wrong."""

    rounds: int
    wrong: float


class Exploring(TypedDict):
    """What exploring costs, on average."""

    kind: Exact
    error: float
    decisions: list[WrongDecisions]


class Waiting(TypedDict):
    """Earlier rounds that wait for their answers when a round predicts: the sum over all rounds, and the most."""

    kind: Exact
    outstanding: float
    max_outstanding: float


class PlayedBound(Errors):
    """What Delaytron does in simulation with the gamma of a bound."""

    kind: Played
    worse_than_bound: bool


class BoundForecast(TypedDict):
    """What is proved of a learner, with the gamma for which that is most; it is not about the other learners."""

    kind: Proved
    learner: str
    statement: str
    norm: float
    loss_per_round: float
    gamma: float
    error: float
    wrong: float
    rounds_to_target: int | None
    error_after_simulated_rounds: float
    exploring: Exploring
    with_this_gamma: PlayedBound | None


class TriedGamma(TypedDict):
    """A gamma that was tried on other seeds."""

    gamma: float
    final_errors: list[float]


class SimulationForecast(Errors):
    """What a learner does in simulation, with the gamma that was best on other seeds.

    A learner that takes no gamma has no key for it, tries none, and has no exact cost of exploring.
    """

    kind: Played
    learner: str
    parameters: Setting
    gamma: NotRequired[float]
    wrong: float
    final_errors: list[float]
    mean_rounds_to_target: float | None
    runs_at_target: int
    rounds_to_target_by_run: list[int | None]
    tried: list[TriedGamma]
    exploring: NotRequired[Exploring]


class ForecastDocument(TypedDict):
    """What is to be expected at a multiple of the delay."""

    delay_factor: int
    waiting: Waiting
    best_bound: BoundForecast | None
    simulations: list[SimulationForecast]


class ErrorChange(TypedDict):
    """By how much the error moves."""

    kind: Played
    error_change: float
    error_change_margin: float | None


class PlanDocument(TypedDict):
    """A plan."""

    dataset: str
    rows: int
    features: int
    classes: int
    best_linear_error: float | None
    majority_error: float | None
    radius: float
    delay: str
    rounds: int
    target: float
    simulated_rounds: int
    runs: int
    tuning_runs: int
    seed: int
    tuning_seed: int
    summary: list[str]
    change_when_doubled: ErrorChange
    forecasts: list[ForecastDocument]
    versions: dict[str, str]


def plan_document(plan: Plan) -> PlanDocument:
    """Return a plan as plain values."""
    data = plan.setup.data
    terms = plan.setup.terms
    moved = change(plan)
    return {
        "dataset": data.name,
        "rows": data.n_rows,
        "features": data.n_features,
        "classes": plan.n_classes,
        "best_linear_error": plan.best,
        "majority_error": data.majority_error,
        "radius": plan.problem.radius,
        "delay": plan.delay,
        "rounds": plan.rounds,
        "target": plan.target,
        "simulated_rounds": terms.rounds,
        "runs": terms.runs,
        "tuning_runs": terms.tuning_runs,
        "seed": terms.seed,
        "tuning_seed": terms.tuning_seed,
        "summary": summary(plan),
        "change_when_doubled": {
            "kind": SIMULATION,
            "error_change": moved.value,
            "error_change_margin": moved.known_margin,
        },
        "forecasts": [_forecast(plan, forecast, factor) for factor, forecast in enumerate(plan.forecasts, start=1)],
        "versions": versions(),
    }


def _forecast(plan: Plan, forecast: Forecast, factor: int) -> ForecastDocument:
    return {
        "delay_factor": factor,
        "waiting": {"kind": EXACT, "outstanding": forecast.waited, "max_outstanding": forecast.most},
        "best_bound": None if forecast.bound is None else _bound(plan, forecast, forecast.bound),
        "simulations": [_simulation(plan, one) for one in forecast.learners],
    }


def _bound(plan: Plan, forecast: Forecast, bound: Bound) -> BoundForecast:
    return {
        "kind": BOUND,
        "learner": PAPERS,
        "statement": bound.statement,
        "norm": bound.norm,
        "loss_per_round": bound.loss,
        "gamma": bound.gamma,
        "error": bound.wrong / plan.rounds,
        "wrong": bound.wrong,
        "rounds_to_target": bound.until,
        "error_after_simulated_rounds": bound.early,
        "exploring": _exploring(plan, bound.gamma, [plan.rounds]),
        "with_this_gamma": _played_bound(forecast),
    }


def _played_bound(forecast: Forecast) -> PlayedBound | None:
    if forecast.at_bound is None:
        return None
    return {"kind": SIMULATION, **forecast.at_bound.errors(), "worse_than_bound": forecast.contradicts}


def _exploring(plan: Plan, gamma: float, rounds: Sequence[int]) -> Exploring:
    return {
        "kind": EXACT,
        "error": exploring(plan.n_classes, gamma, 1),
        "decisions": [{"rounds": n, "wrong": exploring(plan.n_classes, gamma, n)} for n in dict.fromkeys(rounds)],
    }


def _simulation(plan: Plan, one: Simulated) -> SimulationForecast:
    reached = one.reached(plan.target)
    rounds = plan.setup.terms.rounds
    errors = one.result.errors()
    document: SimulationForecast = {
        "kind": SIMULATION,
        "learner": one.learner,
        "parameters": one.result.parameters[0],
        "error": errors["error"],
        "error_margin": errors["error_margin"],
        "greedy_error": errors["greedy_error"],
        "greedy_error_margin": errors["greedy_error_margin"],
        "wrong": float(one.result.final_error.mean() * rounds),
        "final_errors": one.result.final_error.tolist(),
        "mean_rounds_to_target": reached.mean,
        "runs_at_target": len(reached.rounds),
        "rounds_to_target_by_run": list(reached.each),
        "tried": [{"gamma": gamma, "final_errors": errors.tolist()} for gamma, errors in one.gammas],
    }
    if one.gamma is not None:
        document["gamma"] = one.gamma
        document["exploring"] = _exploring(plan, one.gamma, [rounds, plan.rounds])
    return document
