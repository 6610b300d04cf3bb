"""`delaytron run`: simulations of learners with given parameters; `delaytron learners`: the registry."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import getdoc
from itertools import chain, product
from math import prod
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from delaytron import datasets, delays
from delaytron.checks import check_choice, check_integer
from delaytron.cli import options
from delaytron.cli.documents import LearnerRow, RunRow
from delaytron.cli.options import AS_IT_IS, DataOptions, Json, with_data_options
from delaytron.cli.outputs import (
    LONG,
    MAJORITY_LINES,
    busy,
    exact,
    log,
    majority_cell,
    new_table,
    progress_bar,
    short,
    show,
    targets,
    write,
)
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.formats import compact, versions, with_margin
from delaytron.learners import DEFAULT_LEARNER, LEARNERS
from delaytron.learners.arguments import own_parameters
from delaytron.simulation.results import Result, plot_curves
from delaytron.simulation.scenarios import SAMPLINGS
from delaytron.simulation.simulate import (
    Progress,
    check_rounds,
    check_runs,
    labels_for,
    learner_class,
    make_learner,
    simulate,
)

if TYPE_CHECKING:
    import pyarrow as pa

GAMMA = 0.01  # default exploration rate of learners that take one
DELAY = "1000"
ROUNDS = 100_000
MOST_NAMED = 4  # learners in an error message
LAST_COLUMNS = ("run", "round", "error_rate", "greedy_error_rate", "majority_error")

Data = datasets.Dataset | datasets.FileStream
Grid = dict[str, list[Any]]  # parameters of a learner, each with all the values to try


@dataclass(frozen=True)
class TimedResult:
    """One simulation with the delay as the user wrote it, and the seconds it took."""

    result: Result
    delay: str
    seconds: float


@dataclass(frozen=True)
class RunReport:
    """The simulations of one command, with the seed and the sampling of all."""

    played: Sequence[TimedResult]
    seed: int
    sampling: str
    drawn: str = ""  # a note on how often each row is played

    @cached_property
    def rows(self) -> list[RunRow]:
        """One row per learner, delay and setting; plain values that go into JSON as they are."""
        return [row for played in self.played for row in self.rows_of(played)]

    def rows_of(self, played: TimedResult) -> Iterator[RunRow]:
        """Iterate over the rows of one simulation, one per setting."""
        result = played.result
        best = result.best().parameters[0]
        for setting, part in result.groups():
            yield RunRow(
                learner=result.learner,
                dataset=result.dataset,
                form=result.form,
                delay=result.delay,
                parameters=setting,
                rounds=int(result.rounds[-1]),
                runs=len(part.run),
                **part.errors(),
                majority_error=result.majority_error,
                best=setting == best,
                final_errors=part.final_error.tolist(),
                final_greedy_errors=part.greedy_error.tolist(),
                rounds_per_second=float(result.rounds[-1] * len(result.run) / played.seconds),
                seed=self.seed,
                sampling=self.sampling,
                versions=versions(),
            )

    def to_table(self) -> "pa.Table":
        """Return one row per run and checkpoint; a parameter that a learner does not take is empty."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        table = pa.concat_tables([played.result.to_table() for played in self.played], promote_options="permissive")
        first = [name for name in table.column_names if name not in LAST_COLUMNS]
        return table.select([*first, *LAST_COLUMNS])

    def plot(self, path: str | Path) -> None:
        """Save the error curves as a figure."""
        plot_curves([played.result for played in self.played], path)


@dataclass(frozen=True)
class RunTerms:
    """Rounds, runs, seed and sampling, the same for all simulations of a command; None: as many rounds as rows."""

    rounds: int | None
    runs: int
    seed: int
    sampling: str

    def __post_init__(self) -> None:
        check_rounds(1 if self.rounds is None else self.rounds)
        check_runs("runs", self.runs)
        check_integer("seed", self.seed, at_least=0)
        check_choice("sampling", self.sampling, SAMPLINGS)

    def rounds_on(self, data: Data) -> int:
        """Return the rounds of a run on these data."""
        return data.n_rows if self.rounds is None else self.rounds


@dataclass(frozen=True)
class RunJob:
    """One call of `simulate`: a learner, a delay, and lists of parameter values."""

    learner: str
    delay: str
    grid: Grid

    @property
    def n_settings(self) -> int:
        """The number of combinations of values."""
        return prod(map(len, self.grid.values()))

    def check(self, data: Data, n_rounds: int) -> None:
        """Raise InvalidInput if a value is not allowed, before anything is played."""
        labels_for(delays.parse(self.delay), data, n_rounds)
        for values in product(*self.grid.values()):
            setting = dict(zip(self.grid, values, strict=True))
            make_learner(LEARNERS[self.learner], data.n_classes, data.n_features, setting)

    def play(self, data: Data, terms: RunTerms, n_jobs: int | None, progress: Progress | None) -> TimedResult:
        """Play all settings and return the result with the time it took."""
        parameters: Any = self.grid
        simulate(self.learner, data, rounds=1, **parameters)  # compiles, so that this is not part of the time
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
        return TimedResult(result, self.delay, perf_counter() - start)


def plan_jobs(names: Sequence[str], delay_texts: Sequence[str], asked: Grid, common: Grid) -> list[RunJob]:
    """Return a job per learner and delay; raise InvalidInput if a parameter was given that no learner takes."""
    takes = {name: list(own_parameters(learner_class(name))) for name in names}
    listed = ", ".join(takes)
    known = dict.fromkeys(chain(*takes.values()))
    for parameter in asked:
        if not known:
            raise InvalidInput(f"{listed} takes no parameters, got {parameter!r}", "leave it out")
        others = [name for name, cls in LEARNERS.items() if parameter in own_parameters(cls)]
        if parameter not in known and others:
            some = ", ".join(others[:MOST_NAMED]) + ", ..." * (len(others) > MOST_NAMED)
            problem = f"{parameter} is not a parameter of {listed} ({', '.join(known)})"
            raise InvalidInput(problem, f"name a learner that takes it: {some}")
        check_choice(f"a parameter of {listed}", parameter, known)
    parameters: Grid = {"gamma": [GAMMA], **asked}
    return [
        RunJob(name, delay, {p: values for p, values in parameters.items() if p in own} | common)
        for name, own in takes.items()
        for delay in delay_texts
    ]


def notes(jobs: Sequence[RunJob], asked: Iterable[str]) -> Iterator[str]:
    """Iterate over notes on parameters that were given and that some learners do not take."""
    for parameter in asked:
        others = dict.fromkeys(job.learner for job in jobs if parameter not in job.grid)
        if others:
            yield f"{', '.join(others)} {'does' if len(others) == 1 else 'do'} not take {parameter}"


def results_table(report: RunReport) -> Table:
    """Return the table of errors: a line per learner, delay and setting, and one of the most frequent class."""
    names = list(dict.fromkeys(name for row in report.rows for name in row.parameters))
    compared = any(not row.best for row in report.rows)
    first = report.rows[0]
    runs = f"{first.runs} runs" if first.runs > 1 else "a single run, so no interval,"
    caption = [
        f"{runs} of {exact(first.rounds)} rounds; greedy: the labels with the highest scores",
        *[report.drawn] * bool(report.drawn),
        *["* lowest mean error of its learner and delay"] * compared,
    ]
    numbers = ("error ± 95 %", "greedy ± 95 %", "per s")
    table = new_table("learner", "delay", *names, numbers=numbers, caption="\n".join(caption))
    table.columns[0].no_wrap = True
    for played in report.played:
        rows = list(report.rows_of(played))
        for row in rows:
            best = row.best and len(rows) > 1
            cells = (row.learner, played.delay, *(short(row.parameters.get(name, "")) for name in names))
            measured = [
                with_margin(row.error, row.error_margin) + ("*" if best else " " * compared),
                with_margin(row.greedy_error, row.greedy_error_margin),
                compact(row.rounds_per_second),
            ]
            table.add_row(*map(escape, cells), *measured, style="bold" if best else None)
        if compared:
            table.add_section()
    majority = majority_cell(report.rows[0].majority_error) + " " * compared
    table.add_row(MAJORITY_LINES, "any", *("" for _ in names), majority)
    return table


EXAMPLES = """
Examples

delaytron run
delaytron run bandit_logit ova_logistic delaytron --data digits
delaytron run banditron delaytron adaptive_delaytron --delay 1,100,1000
delaytron run delaytron --gamma 0.005,0.01,0.02 --runs 20 --plot curves.png
delaytron run --data digits --delay lognormal:100,1.5+missing:0.2 --json
delaytron run --data iris.csv --label species --scale standard --bias
delaytron run --data iris.csv --label species --missing impute --shuffle
delaytron run ova_logistic --data digits --standardize
delaytron run --data log.csv --label team --decided asked --answered known
delaytron run --delay right=10/wrong=lognormal:500,1
delaytron run --data clicks.svm.gz --stream --delay 5000
delaytron run adaptive_delaytron --set tracker=cumulative,instant --output out
"""

Names = Annotated[list[str], typer.Argument(metavar="LEARNERS", help="Names from `delaytron learners`.")]
DataName = Annotated[str, typer.Option(metavar="NAME_OR_FILE", help=options.DATA_HELP)]
Stream = Annotated[
    bool, typer.Option("--stream", help="Read a file in blocks, each row once: it may be larger than memory.")
]
Delays = Annotated[
    list[str],
    typer.Option(metavar="DELAY", help=options.DELAY_HELP, show_default=f"1000{options.WHERE_RECORDED}"),
]
Rounds = Annotated[
    int | None,
    typer.Option(help="Rounds of every run.", show_default="all rows of a file or with own delays; else 100000"),
]
Gammas = Annotated[
    list[str],
    typer.Option(
        metavar="GAMMA",
        help="Exploration rate in (0, 1] of learners that take one; A,B tries both.",
        show_default=str(GAMMA),
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed of rows, delays and draws; the data set stays the same.")]
Sampling = Annotated[
    str, typer.Option(help="How rows are drawn when rounds exceed them: replacement or epochs; always: drawn.")
]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter; A,B tries both. Repeatable.")
]
Standardize = Annotated[
    bool, typer.Option("--standardize", help="Standardise every row by those before it, with a constant appended.")
]
ExpireAfter = Annotated[
    list[int],
    typer.Option(metavar="ROUNDS", help="Rounds after which a decision expires. Repeatable.", show_default="never"),
]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the error curves: .png, .pdf or .svg.")]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the errors of every run at every checkpoint.")]
Output = Annotated[Path | None, typer.Option(metavar="DIR", help="Write results.csv, results.json and curves.png.")]


@with_data_options()
def run(
    learners: Names = [DEFAULT_LEARNER],  # noqa: B006 - typer copies it
    data: DataName = "synsep",
    how_to_load: DataOptions = AS_IT_IS,
    stream: Stream = False,
    delay: Delays = [],  # noqa: B006
    gamma: Gammas = [],  # noqa: B006
    runs: options.Runs = 5,
    rounds: Rounds = None,
    seed: Seed = 0,
    sampling: Sampling = "replacement",
    workers: options.Workers = None,
    settings: Settings = [],  # noqa: B006
    standardize: Standardize = False,
    noise: options.Noise = None,
    expire_after: ExpireAfter = [],  # noqa: B006
    on_expiry: options.OnExpiry = "drop",
    correct_within: options.CorrectWithin = None,
    plot: Plot = None,
    csv: Csv = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """Play learners on a data set with late feedback and compare their errors.

    The default learner needs no tuning and takes features as they are. The last
    line is the error of always playing the most frequent class.
    """
    asked = options.read_assignments([*(f"gamma={text}" for text in gamma), *settings])
    common: Grid = {}  # what every setting has, with only what was asked for
    if expire_after or on_expiry != "drop":
        common["on_expiry"] = [on_expiry]
    if expire_after:
        common["expire_after"] = expire_after
    if correct_within is not None:
        common["correct_within"] = [correct_within]
    if noise is not None:
        common["noise"] = [options.read_noise(noise)]
    if standardize:
        common["standardize"] = [True]
    usual = options.usual_delays(data, how_to_load, [DELAY])
    jobs = plan_jobs(learners, options.read_delays(delay or usual), asked, common)
    drawn_rows = data in datasets.DATASETS and usual == [DELAY]
    default = ROUNDS if drawn_rows else None  # None: all rows
    terms = RunTerms(default if rounds is None else rounds, runs, seed, sampling)
    files = targets(plot, csv, output, "results", "curves")
    n_jobs = options.check_workers(workers)
    dataset = _open_stream(data, how_to_load) if stream else how_to_load.load(data, seed)
    for job in jobs:
        job.check(dataset, terms.rounds_on(dataset))
    options.print_notes([*notes(jobs, asked), *options.rows_note(data, dataset, terms.rounds_on(dataset), sampling)])
    drawn = options.drawn_note(data, dataset, terms.rounds_on(dataset), sampling)
    report = replace(_play(jobs, dataset, terms, n_jobs), drawn=drawn)
    show(report.rows, results_table(report), json)
    write(files, report, report.rows, json)


def _open_stream(path: str, how_to_load: DataOptions) -> datasets.FileStream:
    """Return a file to be read in blocks; raise InvalidInput if an option needs all rows or a named data set."""
    if path in datasets.DATASETS:
        raise InvalidInput(f"--stream reads files, and {path} is a named data set", "leave --stream out")
    given: Any = how_to_load.given
    if given.keys() & {"n_samples", "features", "part", "groups"}:
        raise InvalidInput(
            "--samples, --input, --part and --groups are for named data sets, --stream is for files", "leave one out"
        )
    if "decided" in given or "answered" in given:
        raise InvalidInput("--decided needs all rows in memory, to sort them", "leave --stream out")
    if "shuffle" in given:
        raise InvalidInput("--shuffle needs all rows in memory, and a stream is played in file order", "leave one out")
    with busy(f"checking {path}"):
        opened = datasets.stream(path, **given)
    options.print_notes(opened.notes)
    return opened


def _play(jobs: Sequence[RunJob], data: Data, terms: RunTerms, n_jobs: int | None) -> RunReport:
    n_rounds = terms.rounds_on(data) * terms.runs * sum(job.n_settings for job in jobs)
    played = []
    with progress_bar(n_rounds, tenths=len(jobs) == 1) as advance:
        for job in jobs:
            played.append(job.play(data, terms, n_jobs, advance))
            if n_rounds >= LONG and len(jobs) > 1:
                error = played[-1].result.best().final_error.mean()
                log(f"{job.learner}, delay {job.delay}: error {error:.4f} ({len(played)} of {len(jobs)})")
    return RunReport(played, terms.seed, terms.sampling)


def learners(json: Json = False) -> None:
    """List the learners with their parameters, and the feedback that they learn from."""
    rows = [
        LearnerRow(
            learner=name,
            class_name=cls.__name__,
            parameters=own_parameters(cls),
            feedback_type=cls.feedback_type,
            description=(getdoc(cls) or "").partition("\n")[0],
        )
        for name, cls in LEARNERS.items()
    ]
    table = new_table("learner", "parameters", "feedback", "description")
    for row in rows:
        name = f"{row.learner}\n{row.class_name}"
        parameters = "\n".join(f"{parameter}={value}" for parameter, value in row.parameters.items())
        table.add_row(*map(escape, (name, parameters or "-", row.feedback_type, row.description)))
        table.add_section()
    show(rows, table, json)
