"""A plan as questions with their answers: every number with its kind."""

from collections.abc import Callable, Iterable, Iterator
from math import isnan
from typing import Final, NamedTuple

from delaytron.formats import with_margin
from delaytron.learners.base import GAMMAS
from delaytron.planning import Forecast, Plan, exploring
from delaytron.planning.bounds import Bound
from delaytron.planning.simulation import Reached, Simulated
from delaytron.simulation.results import Mean, Result, mean_of

EXACT: Final = "exact"
BOUND: Final = "bound"
SIMULATION: Final = "simulation"
STUCK_RATIO = 2  # times the error of the best run, beyond which some runs are stuck


class Answer(NamedTuple):
    """A line of the table: a question, of which kind the numbers are, and the answer at each delay."""

    section: str
    question: str
    kind: str
    cells: tuple[str, ...]


def answers(plan: Plan) -> Iterator[Answer]:
    """Iterate over all lines of the table."""
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
    def line(question: str, cell: Callable[[Forecast, Bound], str], kind: str = BOUND) -> Answer:
        cells = ("says nothing" if one.bound is None else cell(one, one.bound) for one in plan.forecasts)
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
    some = f" in {len(reached.rounds)} of {len(reached.each)}"
    return _count(reached.mean) + some * (None in reached.each)


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
    errors = first.result.final_error
    others = other.result.final_error
    explored = exploring(plan.n_classes, first.gamma, 1)
    share = f"{errors.mean():.3f}, {explored:.3f} of it by exploring"
    lines = [f"{first.learner}: gamma {_gamma(first.gamma)}, error {share}; {_when(first, plan)}."]
    if errors.max() > STUCK_RATIO * errors.min():
        span = f"from {errors.min():.3f} to {errors.max():.3f}"
        lines.append(f"Its runs lie far apart, at errors {span}: a larger gamma is safer.")
    lines.append(_moved(change(plan)))
    gain = mean_of(errors - others)
    if gain.value > 0 and not gain.value <= gain.margin:
        share = f"gamma {_gamma(other.gamma)}, error {others.mean():.3f}"
        lines.append(f"{other.learner} does better: {share}; {_when(other, plan)}.")
    return [*lines, *_warnings(plan)]


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
    some = f" in {len(reached.rounds)} of {len(reached.each)} runs"
    return f"{plan.target:g} takes {reached.mean:,.0f} rounds" + some * (None in reached.each)
