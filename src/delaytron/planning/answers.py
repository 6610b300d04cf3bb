"""A plan as questions with their answers, in words, and as plain values: every number with its kind."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan
from typing import Any, NamedTuple

from delaytron.formats import versions, with_margin
from delaytron.learners.base import GAMMAS
from delaytron.planning import Forecast, Plan, exploring
from delaytron.planning.bounds import Bound
from delaytron.planning.simulation import Reached, Simulated, errors_by_gamma
from delaytron.simulation.results import Mean, Result, mean_of

EXACT, BOUND, SIMULATION = "exact", "bound", "simulation"
APART = 2  # times the error of the best run, beyond which some runs are stuck


class Answer(NamedTuple):
    """A line of the table: a question, of which kind the numbers are, and the answer at each delay."""

    section: str
    question: str
    kind: str
    cells: tuple[str, ...]


def answers(plan: Plan) -> Iterator[Answer]:
    """Iterate over all that the plan tells."""
    yield from _of_simulation(plan, 0)
    yield from _of_bounds(plan)
    yield from _of_simulation(plan, 1)


def _of_simulation(plan: Plan, place: int) -> Iterator[Answer]:
    found = [forecast.learners[place] for forecast in plan.forecasts]
    reached = [one.reached(plan.target) for one in found]
    rounds = plan.setup.terms.rounds

    def line(question: str, cells: Iterable[str], kind: str = SIMULATION) -> Answer:
        return Answer(f"{found[0].learner}, simulated", question, kind, tuple(cells))

    yield line("gamma", (_gamma(one.gamma) for one in found))
    yield line("error", (_error(one.result) for one in found))
    if place == 0:
        yield line("wrong decisions", (_wrong(one.result) for one in found))
        yield line("  by exploring", (_explored(plan, one.gamma, rounds) for one in found), EXACT)
    if place == 0 and rounds < plan.rounds:
        question = f"  in all {plan.rounds:,}"
        yield line(question, (_explored(plan, one.gamma, plan.rounds) for one in found), EXACT)
    yield line(f"rounds to error {plan.target:g}", (_mean(one, rounds) for one in reached))
    if any(one.rounds for one in reached):
        yield line("  lowest and highest run", map(_span, reached))


def _of_bounds(plan: Plan) -> Iterator[Answer]:
    def line(question: str, tell: Callable[[Forecast, Bound], str], kind: str = BOUND) -> Answer:
        cells = ("says nothing" if one.bound is None else tell(one, one.bound) for one in plan.forecasts)
        return Answer("delaytron, proved", question, kind, tuple(cells))

    if all(forecast.bound is None for forecast in plan.forecasts):
        yield line("any gamma", lambda *_: "")
        return
    yield line("gamma", lambda _, bound: f"{bound.gamma:.3g}")
    yield line("error at most", lambda _, bound: f"{bound.wrong / plan.rounds:.4f}")
    yield line("wrong decisions at most", lambda _, bound: _count(bound.wrong))
    yield line("  by exploring", lambda _, bound: _explored(plan, bound.gamma, plan.rounds), EXACT)
    yield line(f"rounds to error {plan.target:g}", lambda _, bound: _until(bound.until, plan.rounds))
    yield line("error with this gamma", lambda forecast, _: _error(forecast.at_bound), SIMULATION)


def _explored(plan: Plan, gamma: float, rounds: int) -> str:
    return _count(exploring(plan.n_classes, gamma, rounds))


def _gamma(gamma: float) -> str:
    edge = {min(GAMMAS): " or less", max(GAMMAS): " or more"}.get(gamma, "")
    return f"{gamma:.3g}{edge}"


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _error(result: Result | None) -> str:
    if result is None:
        return ""
    error = mean_of(result.final_error)
    return with_margin(error.value, error.known_margin)


def _wrong(result: Result) -> str:
    wrong = mean_of(result.final_error * result.rounds[-1])
    return _count(wrong.value) + ("" if isnan(wrong.margin) else f" ± {_count(wrong.margin)}")


def _mean(reached: Reached, rounds: int) -> str:
    if reached.mean is None:
        return _until(None, rounds)
    n, of = len(reached.rounds), len(reached.each)
    return _count(reached.mean) + (f" in {n} of {of}" if n < of else "")


def _until(reached: int | None, rounds: int) -> str:
    return f"never in {rounds:,}" if reached is None else f"{reached:,}"


def _span(reached: Reached) -> str:
    if not reached.rounds:
        return ""
    highest = "never" if None in reached.each else f"{max(reached.rounds):,}"
    return f"{min(reached.rounds):,} to {highest}"


def change(plan: Plan) -> Mean:
    """Return by how much the error of Delaytron moves when the delay doubles: runs of a number share rows and draws."""
    before, after = (forecast.learners[0].result.final_error for forecast in plan.forecasts)
    return mean_of(after - before)


def summary(plan: Plan) -> list[str]:
    """Return the answer in a few sentences: what the simulations say, and what to make of them."""
    first, other = plan.forecasts[0].learners
    errors, others = first.result.final_error, other.result.final_error
    explored, gain = exploring(plan.n_classes, first.gamma, 1), mean_of(errors - others)
    share = f"{errors.mean():.3f}, {explored:.3f} of it by exploring"
    told = [f"{first.learner}: gamma {_gamma(first.gamma)}, error {share}; {_when(first, plan)}."]
    if errors.max() > APART * errors.min():
        span = f"from {errors.min():.3f} to {errors.max():.3f}"
        told.append(f"Its runs lie far apart, at errors {span}: a larger gamma is safer.")
    told.append(_moved(change(plan)))
    if gain.value > 0 and not gain.value <= gain.margin:
        share = f"gamma {_gamma(other.gamma)}, error {others.mean():.3f}"
        told.append(f"{other.learner} does better: {share}; {_when(other, plan)}.")
    return [*told, *_warnings(plan)]


def _warnings(plan: Plan) -> Iterator[str]:
    rounds = plan.setup.terms.rounds
    if rounds < plan.rounds:
        yield f"Only {rounds:,} of {plan.rounds:,} rounds are simulated; for all of them less gamma may do."
    if any(forecast.contradicts for forecast in plan.forecasts):
        yield "The simulation is worse than the bound: the data have no weights of the norm and loss given for it."


def _moved(moved: Mean) -> str:
    if isnan(moved.margin):
        return f"Twice the delay: error {moved.value:+.4f}, in a single run."
    clear = "" if abs(moved.value) > moved.margin else ", no clear change"
    return f"Twice the delay: error {moved.value:+.4f} ± {moved.margin:.4f}{clear}."


def _when(one: Simulated, plan: Plan) -> str:
    reached = one.reached(plan.target)
    if reached.mean is None:
        return f"{plan.target:g} is not reached"
    n, of = len(reached.rounds), len(reached.each)
    return f"{plan.target:g} takes {reached.mean:,.0f} rounds" + (f" in {n} of {of} runs" if n < of else "")


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values; whatever has numbers says of which kind they are."""
    data, terms, moved = plan.setup.data, plan.setup.terms, change(plan)
    return {
        "classes": plan.n_classes,
        "rounds": plan.rounds,
        "delay": plan.delay,
        "target": plan.target,
        "data": {"name": data.name, "rows": data.n_rows, "features": data.n_features, "best_linear_error": plan.best},
        "radius": plan.problem.radius,
        "simulated_rounds": terms.rounds,
        "runs": terms.runs,
        "tuning_runs": terms.tuning_runs,
        "seed": terms.seed,
        "tuning_seed": terms.tuning_seed,
        "summary": summary(plan),
        "change_when_doubled": {"kind": SIMULATION, "error": moved.value, "error_margin": moved.known_margin},
        "forecasts": [_forecast(plan, forecast, factor) for factor, forecast in enumerate(plan.forecasts, start=1)],
        "versions": versions(),
    }


def _forecast(plan: Plan, forecast: Forecast, factor: int) -> dict[str, Any]:
    return {
        "times_the_delay": factor,
        "model": str(forecast.model),
        "waiting": {"kind": EXACT, "sum": forecast.waited, "most": forecast.most},
        "bound": None if forecast.bound is None else _bound(plan, forecast, forecast.bound),
        "simulations": [_simulation(plan, one) for one in forecast.learners],
    }


def _bound(plan: Plan, forecast: Forecast, bound: Bound) -> dict[str, Any]:
    simulated = {} if forecast.at_bound is None else forecast.at_bound.errors()
    return {
        "kind": BOUND,
        "statement": bound.statement,
        "norm": bound.norm,
        "loss": bound.loss,
        "gamma": bound.gamma,
        "error": bound.wrong / plan.rounds,
        "wrong": bound.wrong,
        "rounds_to_target": bound.until,
        "error_after_simulated_rounds": bound.early,
        "exploring": _exploring(plan, bound.gamma, [plan.rounds]),
        "with_this_gamma": {"kind": SIMULATION, **simulated, "worse_than_bound": forecast.contradicts},
    }


def _exploring(plan: Plan, gamma: float, rounds: Sequence[int]) -> dict[str, Any]:
    wrong = [{"rounds": n, "wrong": exploring(plan.n_classes, gamma, n)} for n in dict.fromkeys(rounds)]
    return {"kind": EXACT, "error": exploring(plan.n_classes, gamma, 1), "decisions": wrong}


def _simulation(plan: Plan, one: Simulated) -> dict[str, Any]:
    reached, rounds = one.reached(plan.target), plan.setup.terms.rounds
    return {
        "kind": SIMULATION,
        "learner": one.learner,
        "gamma": one.gamma,
        **one.result.errors(),
        "wrong": float(one.result.final_error.mean() * rounds),
        "final_errors": one.result.final_error.tolist(),
        "rounds_to_target": {"mean": reached.mean, "reached": len(reached.rounds), "each": list(reached.each)},
        "tried": [{"gamma": gamma, "errors": errors.tolist()} for gamma, errors in errors_by_gamma(one.tried)],
        "exploring": _exploring(plan, one.gamma, [rounds, plan.rounds]),
    }
