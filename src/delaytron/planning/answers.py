"""A plan as questions with their answers: every number with its kind."""

from collections.abc import Callable, Iterable, Iterator
from math import isnan
from typing import Final, NamedTuple

from delaytron.formats import with_margin
from delaytron.learners.options import GAMMAS
from delaytron.planning import PAPERS, Forecast, Plan, exploring
from delaytron.planning.bounds import Bound
from delaytron.planning.simulation import Reached, Simulated
from delaytron.simulation.results import MAJORITY, Mean, Result, mean_of

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
    yield from _of_simulation(plan, 1)
    yield from _of_bounds(plan)
    majority = f"{plan.setup.data.majority_error:.4f}"
    yield Answer(MAJORITY, "error", EXACT, tuple(majority for _ in plan.forecasts))


def _of_simulation(plan: Plan, place: int) -> Iterator[Answer]:
    found = [forecast.learners[place] for forecast in plan.forecasts]
    reached = [one.reached(plan.target) for one in found]
    rounds = plan.setup.terms.rounds

    def line(question: str, cells: Iterable[str], kind: str = SIMULATION) -> Answer:
        return Answer(f"{found[0].learner}, simulated", question, kind, tuple(cells))

    gammas = [one.gamma for one in found if one.gamma is not None]
    if gammas:
        yield line("gamma", map(_gamma, gammas))
    yield line("error", (_error(one.result) for one in found))
    yield line("wrong decisions", (_wrong(one.result) for one in found))
    if not gammas:
        yield line("  more than greedy", (_beyond_greedy(one.result) for one in found))
    if gammas:
        yield line("  by exploring", (_explored(plan, gamma, rounds) for gamma in gammas), EXACT)
    if gammas and rounds < plan.rounds:
        yield line(f"  in all {plan.rounds:,}", (_explored(plan, gamma, plan.rounds) for gamma in gammas), EXACT)
    yield line(f"rounds to error {plan.target:g}", (_mean(one, rounds) for one in reached))
    if any(one.rounds for one in reached):
        yield line("  lowest and highest run", map(_span, reached))


def _of_bounds(plan: Plan) -> Iterator[Answer]:
    def line(question: str, cell: Callable[[Forecast, Bound], str], kind: str = BOUND) -> Answer:
        cells = ("says nothing" if one.bound is None else cell(one, one.bound) for one in plan.forecasts)
        return Answer(f"{PAPERS}, proved", question, kind, tuple(cells))

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
    return f"{round(number):,}"


def _error(result: Result | None) -> str:
    if result is None:
        return ""
    error = mean_of(result.final_error)
    return with_margin(error.value, error.known_margin)


def _wrong(result: Result) -> str:
    return _counted(mean_of(result.final_error * result.rounds[-1]))


def _beyond_greedy(result: Result) -> str:
    """Return how many more played labels than greedy ones were wrong."""
    return _counted(mean_of((result.final_error - result.greedy_error) * result.rounds[-1]))


def _counted(wrong: Mean) -> str:
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
    """Return by how much the error of the default learner moves when the delay doubles: runs share rows and draws."""
    before, after = (forecast.learners[0].result.final_error for forecast in plan.forecasts)
    return mean_of(after - before)


def summary(plan: Plan) -> list[str]:
    """Return the answer in a few sentences: what the simulations say, and what to make of them."""
    first, papers = plan.forecasts[0].learners
    gain = mean_of(first.result.final_error - papers.result.final_error)
    better = gain.value > 0 and not gain.value <= gain.margin
    return [
        *_described(first, f"{first.learner}, as it is", plan),
        _moved(change(plan)),
        *_described(papers, f"{papers.learner} does better" if better else f"{papers.learner}, the paper's", plan),
        f"What is proved is proved of {papers.learner}: no bound here is about {first.learner}.",
        *_warnings(plan),
    ]


def _described(one: Simulated, title: str, plan: Plan) -> Iterator[str]:
    """Say what a learner does, and whether some of its runs are stuck."""
    errors = one.result.final_error
    error = f"error {_error(one.result)}"
    if one.gamma is not None:
        explored = exploring(plan.n_classes, one.gamma, 1)
        error = f"gamma {_gamma(one.gamma)}, {error}, {explored:.3f} of it by exploring"
    yield f"{title}: {error}; {_when(one, plan)}."
    if errors.max() > STUCK_RATIO * errors.min():
        safer = "plan with more --runs" if one.gamma is None else "a larger gamma is safer"
        yield f"Its runs lie far apart, at errors from {errors.min():.3f} to {errors.max():.3f}: {safer}."


def _warnings(plan: Plan) -> Iterator[str]:
    rounds = plan.setup.terms.rounds
    if rounds < plan.rounds:
        yield f"Only {rounds:,} of {plan.rounds:,} rounds are simulated; for all of them a smaller gamma may do."
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
