"""`delaytron plan`: when a target is reached, what exploring costs, and what twice the delay changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from delaytron import delays
from delaytron.cli import options
from delaytron.cli.data_options import AS_IT_IS, DataOptions, with_data_options
from delaytron.cli.outputs import busy, progress_bar, show, targets, write_figure
from delaytron.cli.tables import MAJORITY_LINES, new_table
from delaytron.errors import InvalidInput
from delaytron.learners import DEFAULT_LEARNER
from delaytron.planning import BEST, FEATURES, PAPERS, Plan, draft
from delaytron.planning.answers import answers, summary
from delaytron.planning.documents import plan_document
from delaytron.simulation.results import MAJORITY

EXAMPLES = """
Examples

delaytron plan --classes 10 --rounds 100000 --delay 1000 --target 0.2
delaytron plan --classes 3 --rounds 20000 --delay 100+missing:0.2 --target 0.1
delaytron plan --data digits --rounds 50000 --delay trace:log.csv --target 0.4
delaytron plan --classes 2 --rounds 500000 --delay 9 --target 0.2 --plot p.png
delaytron plan --classes 2 --rounds 50000 --delay 9 --target 0.1 --json
"""

Rounds = Annotated[int, typer.Option(help="Decisions that are to be made.")]
DelayText = Annotated[str, typer.Option(metavar="DELAY", help=f"{delays.ALLOWED}.")]
Target = Annotated[float, typer.Option(metavar="ERROR", help="Share of wrong decisions that is to be reached.")]
Classes = Annotated[int | None, typer.Option(help="Labels to choose from.", show_default="those of the data")]
DataName = Annotated[
    str | None, typer.Option(metavar="NAME_OR_FILE", help=options.DATA_HELP, show_default="made-up data")
]
Features = Annotated[int | None, typer.Option(help="Of made-up data: numbers in a row.", show_default=str(FEATURES))]
Best = Annotated[
    float | None,
    typer.Option(metavar="ERROR", help="Of made-up data: error of the best linear rule.", show_default=str(BEST)),
]
Norm = Annotated[
    float | None, typer.Option(help="For the bound: norm of weights that do well.", show_default="found in the data")
]
Loss = Annotated[float | None, typer.Option(help="For the bound: their hinge loss per round.", show_default="0")]
Radius = Annotated[
    float | None, typer.Option(help="For the bound: length of the longest row.", show_default="found in the data")
]
Runs = Annotated[int, typer.Option(help="Reported runs of every learner at every delay.")]
TuningRuns = Annotated[int, typer.Option(help="Runs of every gamma that is tried.")]
Limit = Annotated[
    int | None,
    typer.Option(metavar="ROUNDS", help="Simulate at most so many.", show_default="100000, fewer for long rows"),
]
Seed = Annotated[int, typer.Option(help="Of made-up data and the reported runs; the choice of gamma adds 1000003.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw errors: .png, .pdf or .svg.")]


@with_data_options("samples", "input", "part")
def plan(
    rounds: Rounds,
    delay: DelayText,
    target: Target,
    classes: Classes = None,
    data: DataName = None,
    how_to_load: DataOptions = AS_IT_IS,
    features: Features = None,
    best: Best = None,
    norm: Norm = None,
    loss: Loss = None,
    radius: Radius = None,
    runs: Runs = 10,
    tuning_runs: TuningRuns = 4,
    limit: Limit = None,
    seed: Seed = 0,
    workers: options.Workers = None,
    plot: Plot = None,
    json: options.Json = False,
) -> None:
    """Plan a deployment: when an error target is reached, what exploring costs, and what is proved.

    Every number is marked as a bound (proved, for the mean, of Delaytron), a
    simulation (of the default learner, which needs no gamma, and of Delaytron)
    or exact. All is answered for the delay and for twice the delay.
    """
    files = targets(plot)
    n_jobs = options.check_workers(workers)
    if data is None and how_to_load.given:
        raise InvalidInput(f"{', '.join(how_to_load.flags)} must come with --data, which is not given")
    options.read_delays([delay])
    with busy("preparing"):
        drafted = draft(
            rounds=rounds,
            delay=delay,
            target=target,
            classes=classes,
            data=None if data is None else how_to_load.load(data, seed),
            tuning_data=None if data is None else how_to_load.load_for_tuning(data, seed),
            features=features,
            best=best,
            norm=norm,
            loss=loss,
            radius=radius,
            runs=runs,
            tuning_runs=tuning_runs,
            limit=limit,
            seed=seed,
        )
    with progress_bar(drafted.n_rounds) as advance:
        found = drafted.simulated(n_jobs, advance)
    show(plan_document(found), Group(*plan_lines(found)), json)
    for file in files:
        write_figure(file.path, found.plot, json)


def plan_lines(plan: Plan) -> Iterator[RenderableType]:
    """Iterate over what the screen shows of a plan."""
    yield Text(f"{plan.n_classes} classes, {plan.rounds:,} rounds, delay {plan.delay}, target {plan.target:g}")
    yield Text(f"{_data(plan)}\n")
    yield from map(Text, summary(plan))
    yield Text("")
    yield _answer_table(plan)


def _data(plan: Plan) -> str:
    data = plan.setup.data
    if plan.best is None:
        shown = "" if plan.setup.terms.rounds > data.n_rows else ", in file order in every run"
        return f"data: {data.name}, {data.n_rows:,} rows{shown}"
    return f"data: made up, {data.n_features} features, best linear rule {plan.best:.3g} wrong; or give --data"


def _answer_table(plan: Plan) -> Table:
    table = new_table("", "kind", "this delay", "twice the delay", caption=escape(_caption(plan)))
    for column in table.columns[2:]:
        column.justify = "right"
    section = ""
    for answer in answers(plan):
        if answer.section != section:
            table.add_section()
            table.add_row(answer.section.replace(MAJORITY, MAJORITY_LINES), style="bold")
            section = answer.section
        table.add_row(answer.question, answer.kind, *answer.cells)
    return table


def _caption(plan: Plan) -> str:
    """Say what the kinds mean, in lines that are no longer than the table is wide."""
    terms = plan.setup.terms
    runs = "a single run" if terms.runs == 1 else f"mean ± 95 % of {terms.runs} runs"
    lines = [
        "error: wrong decisions so far of all so far, exploring included",
        f"simulation: {runs} of {terms.rounds:,} rounds",
        f"gamma: the best of {terms.budget} on other seeds, {terms.tuning_runs} runs each",
        "exact: the mean, gamma (K - 1) / K of the rounds; or counted in the data",
        f"bounds are about {PAPERS} alone: nothing is proved here of {DEFAULT_LEARNER}",
    ]
    bound = next((forecast.bound for forecast in plan.forecasts if forecast.bound is not None), None)
    if bound is None:
        return "\n".join([*lines, f"bound: for {plan.rounds:,} rounds no better than guessing"])
    weights = f"with norm {bound.norm:.3g}, hinge loss {bound.loss:.3g}"
    return "\n".join([*lines, f"bound: on the mean, {bound.statement} {weights}"])
